"""What is looked up of a released notebook when a submission is read: places, texts, names; and what counts as the same text."""

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
    """`source` without what editors change by themselves: ends of lines, and spaces there."""
    return "\n".join(line.rstrip() for line in source.replace("\r\n", "\n").replace("\r", "\n").strip().split("\n"))


def is_stub(source: str) -> bool:
    """Whether an answer cell holds what this release or an earlier one puts there to be written over (predictions apart).

    Whose function returns before may have left the last lines behind, and words between the marks of the place are an answer.

    >>> stub = "\\n    # YOUR CODE HERE\\n    raise NotImplementedError()"
    >>> is_stub(f"def f(x):{stub}"), is_stub(f"def f(x):\\n    return x{stub}"), is_stub("✎ *Your answer: no, since 2 > 1.*")
    (True, False, False)
    """
    return _STUB.search(plain(source)) is not None and _RETURNS.search(_APART.sub("", source)) is None


class Release:
    """What is looked up of a released notebook."""

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
        """Whether `source` is what the release has at `name`, or an earlier release had."""
        return plain(source) == plain(self.cells[name].source) or (is_answer(self.cells[name]) and is_stub(source))

    def is_older(self, cell: Any) -> bool:
        """Whether a cell that is not in the release was in an earlier one: its id is such as the lesson's cells have."""
        prefix, dash, number = (cell.cell_id or "").rpartition("-")
        return bool(dash) and number.isdigit() and any(name.startswith(f"{prefix}-") for name in self.place)

    @cached_property
    def given_names(self) -> set[str]:
        """What the locked cells bind: nobody else may."""
        code = [cell.source for name, cell in self.cells.items() if name in self.locked and cell.cell_type == "code"]
        return {name for source in code for each in statements_of(source) for name in each.names}

    @cached_property
    def own(self) -> set[str]:
        """The text of each statement of the release."""
        code = [cell.source for cell in self.cells.values() if cell.cell_type == "code"]
        return {plain(text) for source in code for text in texts_of(source, statements_of(source))}


def statements_of(source: str) -> list[Statement]:
    """The statements of a cell; none where it is no plain Python."""
    try:
        return statements(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
