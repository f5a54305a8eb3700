"""Load this folder's templates. Inserted values are escaped unless this file declares them to be HTML."""

import functools
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from autograder.diagnosis.panel import inline


@functools.cache
def _environment() -> Environment:
    places = FileSystemLoader(Path(__file__).parent)
    made = Environment(loader=places, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    made.filters["inline"] = lambda text: Markup(inline(text))  # escapes first, then marks up `code` and *emphasis*
    return made


def template(name: str) -> Template:
    """Return the template in the file `name`."""
    return _environment().get_template(name)
