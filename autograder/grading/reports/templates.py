"""Load page templates. Inserted values are escaped unless they are declared to be HTML."""

import functools
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from autograder.diagnosis.panel import inline


@functools.cache
def _environment(folder: Path) -> Environment:
    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["inline"] = lambda text: Markup(inline(text))  # escapes first, then marks up `code` and *emphasis*
    environment.filters["points"] = lambda value: "–" if value is None else f"{value:g}"
    return environment


def template(name: str, folder: Path = Path(__file__).parent) -> Template:
    """Return the template in the file `name` of `folder` (default: the folder of this module)."""
    return _environment(folder).get_template(name)
