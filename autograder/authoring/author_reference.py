"""Generate the reference in `docs/authors.md`: what a course imports from `autograder`, by signature and docstring."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import autograder

GROUPS = {
    "Exercises and their cases": ("Exercise", "Case", "Draw", "Tolerance", "Property", "Variant", "Prediction"),
    "Mistakes": ("Misconception", "Instead", "Of", "Made", "Before", "After"),
    "Exercises that ask for a class": ("Script", "Call", "Read", "Construct", "Keeps", "Code"),
    "What a cell calls": ("check", "hint", "solution", "status", "bring", "Score"),
}
_MODULE = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Za-z_])")


def reference() -> str:
    """Return the reference as Markdown, with every public name in its group."""
    lines: list[str] = []
    for title, names in GROUPS.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += _entry(name, getattr(autograder, name))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _entry(name: str, thing: Any) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    yield "```python"
    yield from _call(name, thing)
    yield "```"
    yield ""
    yield from _text(thing)
    for name, function in vars(thing).items() if thing is autograder.Draw else ():  # its methods, which a case's `make` calls
        if inspect.isfunction(function) and not name.startswith("_"):
            _self, *shown = inspect.signature(function).parameters.values()
            text = re.split(r"\n\s*\n|>>>", inspect.getdoc(function) or "")[0]
            yield f"- `{name}({', '.join(map(_parameter, shown))})`. {' '.join(text.split())}"
    yield ""


def _call(name: str, thing: Any) -> Iterator[str]:
    shown = [_parameter(parameter) for parameter in inspect.signature(thing).parameters.values()]
    line = f"{name}({', '.join(shown)})"
    yield from [line] if len(line) <= 88 else [f"{name}(", *(f"    {parameter}," for parameter in shown), ")"]


def _parameter(parameter: inspect.Parameter) -> str:
    """Return a parameter's name, type and default, without the types' modules."""
    return _MODULE.sub("", str(parameter)).replace("<factory>", "...")


def _text(thing: Any) -> Iterator[str]:
    """Yield the docstring as Markdown lines, with examples in code fences."""
    example = False
    for line in (inspect.getdoc(thing) or "").splitlines():
        starts = line.startswith(">>>")
        if starts and not example:
            yield "```python"
        elif example and not line.strip():
            yield "```"
        example = starts or (example and bool(line.strip()))
        yield line
    if example:
        yield "```"
    yield ""
