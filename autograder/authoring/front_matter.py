"""Read a lesson's front matter: the part of its text between the first two lines `---`.

    kind: workshop                            core or workshop
    question: Why W_Q and W_K?                the question that the notebook answers
    needs: [03, 02b]                          the notebooks that a learner should have done before
    part: attention                           the part of the map that is highlighted

The limits of `attn style` don't apply to a lesson without `kind`.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from autograder.authoring.course import CourseError

Label = Annotated[str, Meta(pattern=r"^\d\d[a-z]?$")]


class FrontMatter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a lesson states about itself. What it doesn't state is empty."""

    kind: Literal["core", "workshop"] | None = None
    question: str = ""
    needs: tuple[Label, ...] = ()
    part: str = ""


_OWN = FrontMatter.__struct_fields__


def read(path: Path) -> FrontMatter:
    """Return the front matter of the lesson at `path`. Raises CourseError naming the field."""
    stated, _ = _split(path)
    if not any(line.startswith(f"{name}:") for line in stated for name in _OWN):
        return FrontMatter()  # true for most lessons of other courses, and saves reading YAML
    import yaml  # type: ignore[import-untyped]  # comes with jupytext

    try:
        data: dict[str, Any] = yaml.load("\n".join(stated), Loader=yaml.BaseLoader)  # everything stays text, so 03 stays 03
        return msgspec.convert({name: data[name] for name in _OWN if name in data}, FrontMatter, strict=False)
    except (yaml.YAMLError, msgspec.ValidationError, TypeError) as error:
        wanted = "front matter such as `kind: core` and `needs: [03, 02b]`"
        raise CourseError(f"{path}: expected {wanted}, got: {error}.") from None


def text_below(path: Path) -> str:
    """Return the text of the lesson at `path` without its front matter. Raises CourseError if that has no end."""
    return "\n".join(_split(path)[1])


def _split(path: Path) -> tuple[list[str], list[str]]:
    """Return the lines of the front matter, if any, and those of the text below it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines or lines[0] != "---":
        return [], lines
    try:
        end = lines.index("---", 1)
    except ValueError:
        raise CourseError(f"{path}: expected a second line `---` after the front matter, found none.") from None
    return lines[1:end], lines[end + 1 :]
