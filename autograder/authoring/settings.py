"""Read and check a course's settings in `course.toml`."""

import json
import tomllib
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from autograder.authoring.course import CourseError, did_you_mean

Text = Annotated[str, Meta(min_length=1)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z_]\w*$")]


class Style(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[style]`: what `attn style` looks for."""

    enforced: Annotated[bool, Meta(description="whether `attn build --check` fails on what `attn style` finds")] = False
    drawing: Annotated[
        tuple[Text, ...], Meta(description="calls that draw: a cell with one of them says what is seen (`alt=…`)")
    ] = ("figure", "subplots", "Drawing")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings. `attn init` writes each with its description."""

    title: Annotated[Text, Meta(description="the course's title: on the site of `attn book`, on pages")]
    references: Annotated[
        Name, Meta(description="the package with the answers, beside the course folder: a module for each lesson, by its slug")
    ] = "solutions"
    given: Annotated[
        tuple[Text, ...],
        Meta(description="folders of packages that lessons are given: all of the course that the sandbox may read and import"),
    ] = ()
    requires: Annotated[
        tuple[Text, ...],
        Meta(description="other packages that learners' code may need: nobody is graded where the sandbox lacks one"),
    ] = ()
    language: Annotated[
        str, Meta(description="the language of the lessons, as in HTML: en, de, fr, …", pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]+)*$")
    ] = "en"
    install: Annotated[
        str,
        Meta(
            description="what `pip install` is told to bring this course, if it is a package: a name, or name-*.whl[extra] where "
            "it is published nowhere; released notebooks tell it to those who lack it"
        ),
    ] = ""
    demo: Annotated[str, Meta(description="the lesson of `attn demo`'s class; the first with exercises if empty")] = ""
    capstone: Annotated[
        str,
        Meta(
            description="the module of a given package that scores what `attn capstone` is handed (see "
            "autograder/workspace/capstone.py); none if empty",
            pattern=r"^([A-Za-z_][\w.]*)?$",
        ),
    ] = ""
    operators: Annotated[
        str,
        Meta(
            description="the module of a given package with slips that only this course's subject knows (see "
            "autograder/mutants/course_operators.py); none if empty",
            pattern=r"^([A-Za-z_][\w.]*)?$",
        ),
    ] = ""
    contact: Annotated[
        str,
        Meta(
            description="the address that students write to where a mark looks wrong; each feedback page then has a letter begun",
            pattern=r"^([^\s@<>?&\"]+@[^\s@<>?&\"]+)?$",
        ),
    ] = ""
    follow_through: Annotated[
        Literal["full", "half", "none"],
        Meta(description="full, half or none of the points for an answer that is right once an earlier wrong one is replaced"),
    ] = "full"
    mend: Annotated[
        bool,
        Meta(
            description="whether `check`, where no known mistake explains a wrong answer, looks for one in the code itself: it "
            "watches what that computes and tries small changes of it, for up to three seconds"
        ),
    ] = True
    style: Annotated[Style, Meta(description="what `attn style` looks for")] = Style()
    points: Annotated[
        dict[str, Annotated[float, Meta(gt=0)]],
        Meta(description='points of exercises where yours differ from the lesson\'s: "03.exercise" = 3'),
    ] = {}
    keeps: Annotated[
        dict[str, Annotated[float, Meta(ge=0, le=1)]],
        Meta(
            description='share of the points that a wrong answer keeps: "03.exercise.mistake" = 0.5, "03.exercise[0]" = 0.5 for '
            "a right output, as_list = 0.75 for a slip in every exercise"
        ),
    ] = {}


def read(path: Path) -> Settings:
    """Return the settings in the file at `path`. Raises CourseError naming the field."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CourseError(f"{path}: expected settings in TOML, but {error}.") from None
    style = data.get("style", {})
    for name in [*data, *(f"style.{name}" for name in (style if isinstance(style, dict) else ()))]:
        if name not in (known := list(described())):
            raise CourseError(f"{path}: expected a known setting, got {name!r}.{did_you_mean(name, known)}")
    if isinstance(data.get("given"), str):
        data["given"] = [data["given"]]
    try:
        return msgspec.convert(data, Settings)
    except msgspec.ValidationError as error:
        raise CourseError(f"{path}: {_said(error)}") from None


def _said(error: msgspec.ValidationError) -> str:
    text, _, where = str(error).partition(" - at `$")
    name = where.strip("`.").split("[")[0]
    if text.startswith("Object missing required field"):
        name = text.split("`")[1]
        text = "Expected a value, got none"
    return f"{name}: {text}. {described().get(name, '')}".strip()


def described() -> dict[str, str]:
    """Return the meaning of each setting, by name."""
    structs = msgspec.json.schema(Settings)["$defs"]
    tables = {"": structs["Settings"], "style.": structs["Style"]}
    return {
        prefix + name: about["description"] for prefix, table in tables.items() for name, about in table["properties"].items()
    }


def example(title: str, **values: str) -> str:
    """Return a course.toml with every setting and its meaning. `values` are TOML; settings without a value are commented out."""
    known = described()
    lines = ["# What this course is. `attn` reads it; a setting that is commented out has its default.", ""]
    for field in msgspec.structs.fields(Settings):
        if field.name in ("style", "points", "keeps"):
            continue
        given = {"title": f'"{title}"', **values}.get(field.name)
        lines.append(f"# {known[field.name]}")
        lines.append(f"{field.name} = {given}" if given is not None else f"# {field.name} = {json.dumps(field.default)}")
    lines += ["", "[style]"]
    for field in msgspec.structs.fields(Style):
        lines += [f"# {known[f'style.{field.name}']}", f"# {field.name} = {json.dumps(field.default)}"]
    for table in ("points", "keeps"):
        lines += ["", f"# {known[table]}", f"[{table}]"]
    return "\n".join(lines) + "\n"
