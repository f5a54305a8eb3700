"""Look up places, texts and names in a released notebook while a submission is read, and decide which texts count as the same."""

import re
from functools import cached_property
from typing import Any

from autograder.notebooks.roles import CHECK, grade_id, is_answer, is_grade
from autograder.notebooks.scopes import Statement, statements, texts_of

_STUB = re.compile(
    r"\n[ \t]*# YOUR CODE HERE\n[ \t]*raise NotImplementedError\([^\n]*\)\Z|\AYOUR ANSWER HERE\Z"
    r"|\A✎ \*Your answer: click this cell, press Enter, write in place of this line, then press Shift\+Enter\.\*\Z"
    r"|\A✎ \*Your answer: double-click here, and write in place of this line\.\*\Z"  # releases up to 0.2.0
)
_APART = re.compile(r"\"\"\"(?:.|\n)*?\"\"\"|\'\'\'(?:.|\n)*?\'\'\'|#[^\n]*")  # docstrings and comments
_RETURNS = re.compile(r"\b(?:return|yield|lambda)\b")


def plain(source: str) -> str:
    """Return `source` without what editors change by themselves: line ends, and spaces before them."""
    return "\n".join(line.rstrip() for line in source.replace("\r\n", "\n").replace("\r", "\n").strip().split("\n"))


def is_stub(source: str) -> bool:
    """Return whether an answer cell still holds the stub of this or an earlier release (except for predictions).

    A function that already returns is an answer even if the stub's lines are left at its end, and so is text inside the stub's
    marks.

    >>> stub = "\\n    # YOUR CODE HERE\\n    raise NotImplementedError()"
    >>> is_stub(f"def f(x):{stub}"), is_stub(f"def f(x):\\n    return x{stub}"), is_stub("✎ *Your answer: no, since 2 > 1.*")
    (True, False, False)
    """
    return _STUB.search(plain(source)) is not None and _RETURNS.search(_APART.sub("", source)) is None


class Release:
    """The lookups in a released notebook."""

    def __init__(self, released: Any):
        self.place = {grade_id(cell) or cell.id: number for number, cell in enumerate(released.cells)}
        self.cells = {grade_id(cell) or cell.id: cell for cell in released.cells}
        self.code = [name for name, cell in self.cells.items() if is_answer(cell) and cell.cell_type == "code"]
        self.written = [name for name, cell in self.cells.items() if is_answer(cell) and cell.cell_type != "code"]
        self.locked = {name for name, cell in self.cells.items() if grade_id(cell) and not is_answer(cell)}
        self.by_source: dict[str, list[str]] = {}
        for name, cell in self.cells.items():
            self.by_source.setdefault(plain(cell.source), []).append(name)
        self.checks = {
            match[1]: name for name, cell in self.cells.items() if is_grade(cell) and (match := CHECK.match(cell.source))
        }

    def untouched(self, name: str, source: str) -> bool:
        """Return whether `source` is the text of this release at `name`, or a stub of an earlier release."""
        return plain(source) == plain(self.cells[name].source) or (is_answer(self.cells[name]) and is_stub(source))

    def is_older(self, cell: Any) -> bool:
        """Return whether a cell that is not in this release has an id like the lesson's cells, so it was in an earlier one."""
        prefix, dash, number = (cell.cell_id or "").rpartition("-")
        return bool(dash) and number.isdigit() and any(name.startswith(f"{prefix}-") for name in self.place)

    @cached_property
    def given_names(self) -> set[str]:
        """Return the names that the locked cells bind. No other cell may bind them."""
        code = [cell.source for name, cell in self.cells.items() if name in self.locked and cell.cell_type == "code"]
        return {name for source in code for each in statements_of(source) for name in each.names}

    @cached_property
    def own(self) -> set[str]:
        """Return the text of each statement in the release."""
        code = [cell.source for cell in self.cells.values() if cell.cell_type == "code"]
        return {plain(text) for source in code for text in texts_of(source, statements_of(source))}


def statements_of(source: str) -> list[Statement]:
    """Return the statements of a cell; none if it is not plain Python."""
    try:
        return statements(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
