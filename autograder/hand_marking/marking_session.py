"""Present the marking of one assignment: its questions, groups of answers and marks, and who is looking at what.

A marker sees a number instead of a name, unless names are wanted. A group that a marker looks at is not offered to others for
`LEASE_S` seconds, so two markers seldom mark the same answer; if they do, the store refuses the second mark.
"""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autograder.hand_marking import answers, questions
from autograder.hand_marking.answers import Group
from autograder.hand_marking.questions import Question
from autograder.hand_marking.store import Change, Row, Store, Verdict

LEASE_S = 90.0
MAX_COMMENT = 4000
MAX_COMMENTS = 12  # most frequent comments offered for reuse


class RequestError(Exception):
    """A request asked for something that does not exist or makes no sense. The message says what was expected."""


class Desk:
    """The questions of the store's assignment in the course at `root`, and their answers."""

    def __init__(self, root: Path, store: Store, *, names: bool = False, everybody: bool = False):
        self.assignment, self.store, self.names = store.assignment, store, names
        self.questions = questions.read(root, store.assignment)
        self._everybody = everybody
        self._leases: dict[tuple[str, str], tuple[str, float]] = {}
        self._groups: dict[tuple[str, frozenset[tuple[str, str]]], list[Group]] = {}

    def question(self, name: str) -> Question:
        """Return the question `name`. Raises RequestError if there is none."""
        if name not in self.questions:
            raise RequestError(f"expected a question of {self.assignment}, got {name[:60]!r}")
        return self.questions[name]

    def overview(self, marker: str) -> list[dict[str, Any]]:
        """Return each question with its number of answers, how many wait, and their mean once a person has given a mark."""
        rows = self._rows(marker)
        table = []
        for question in self.questions.values():
            own = [row for row in rows if row.question == question.name]
            marks = [mark for row in own if (mark := row.score if row.score is not None else row.automatic) is not None]
            waiting = sum(row.waiting for row in own)
            by_hand = any(row.score is not None for row in own)  # before that, only blank answers have a mark
            mean = sum(marks) / len(marks) if by_hand else None
            table.append({"question": question, "answers": len(own), "waiting": waiting, "mean": mean})
        return table

    def state(self, marker: str, name: str) -> dict[str, Any]:
        """Return the question's groups with their marks, who else is looking at them, and the comments given so far."""
        rows = self._rows(marker, name)
        groups, numbers = self._grouped(name, rows), _numbers(rows)
        by_id, last = {row.id: row for row in rows}, {change.grade: change for change in self.store.trail(name)}
        shown = [
            {
                "id": group.id, "blank": group.blank, "like": list(group.like), "busy": self._busy(marker, name, group.id),
                "members": [self._member(by_id[member], numbers[member], last.get(member)) for member in group.members],
            }
            for group in groups
        ]  # fmt: skip
        comments = Counter(row.comment for row in rows if row.comment)
        return {"groups": shown, "comments": [text for text, _ in comments.most_common(MAX_COMMENTS)]}

    def take(self, marker: str, name: str, after: str) -> str | None:
        """Return the id of the next waiting group after `after` that nobody else is looking at, and reserve it.

        If there is no other, return `after` if it still waits and nobody else is looking at it, otherwise None.
        """
        rows = self._rows(marker, name)
        groups, waiting = self._grouped(name, rows), {row.id for row in rows if row.waiting}
        start = next((at + 1 for at, group in enumerate(groups) if group.id == after), 0)
        for group in [*groups[start:], *groups[:start]]:
            if group.id != after and waiting.intersection(group.members) and not self._busy(marker, name, group.id):
                self.look(marker, name, group.id)
                return group.id
        free = (candidate for candidate in groups if candidate.id == after and not self._busy(marker, name, after))
        return after if any(waiting.intersection(candidate.members) for candidate in free) else None

    def look(self, marker: str, name: str, group: str) -> None:
        """Record that `marker` is looking at `group`, and at no other group."""
        if not self._busy(marker, name, group):
            self._leases = {key: held for key, held in self._leases.items() if held[0] != marker}
            self._leases[name, group] = marker, time.monotonic()

    def group(self, marker: str, name: str, group: str) -> Group:
        """Return the group with the id `group`. Raises RequestError if there is none."""
        rows = self._rows(marker, name)
        found = next((candidate for candidate in self._grouped(name, rows) if candidate.id == group), None)
        if found is None:
            raise RequestError(f"expected an answer, got {group[:60]!r}: was it graded again? Load the page anew")
        return found

    def mark(self, marker: str, name: str, versions: Mapping[str, str], verdict: Verdict) -> list[Row]:
        """Give `verdict` to the answers in `versions` ({id: version}) and return their rows.

        Raises RequestError if the request makes no sense, and ConflictError if an answer or its mark has changed.
        """
        question = self.question(name)
        known = {row.id for row in self._rows(marker, name)}
        if not versions or not set(versions) <= known:
            raise RequestError("expected answers to this question, got others: was it graded again? Load the page anew")
        if verdict.score is not None and not (math.isfinite(verdict.score) and 0 <= verdict.score <= question.points):
            raise RequestError(f"expected 0 to {question.points:g} points, got {verdict.score:g}")
        if len(verdict.comment) > MAX_COMMENT:
            raise RequestError(f"expected a comment of at most {MAX_COMMENT:,} characters, got {len(verdict.comment):,}")
        if verdict.given and (len(verdict.given) != len(question.rubric) or not set(verdict.given) <= {0, 0.5, 1}):
            raise RequestError("expected none, half or all for each item of the scheme")
        return self.store.write(marker, name, versions, verdict)

    def trail(self, marker: str, name: str) -> list[tuple[str, Change]]:
        """Return the changes, latest first, each with the answer's number, or the student if names are shown."""
        rows = self._rows(marker, name)
        numbers = _numbers(rows)
        return [
            (change.student if self.names else f"answer {numbers[change.grade]}", change)
            for change in reversed(self.store.trail(name))
            if change.grade in numbers
        ]

    def _rows(self, marker: str, name: str | None = None) -> list[Row]:
        """Return the answers of students assigned to `marker` or to nobody, only those to the question `name` if given.

        If no students are assigned to `marker`, returns everybody's. Raises RequestError if there is no such question.
        """
        rows = self.store.rows(None if name is None else self.question(name).name)
        roster = self.store.roster
        own = any(listed.marker == marker for listed in roster.students.values())
        known = [row for row in rows if row.question in self.questions]
        return known if self._everybody or not own else [row for row in known if roster.of(row.student).marker in (marker, "")]

    def _grouped(self, name: str, rows: Sequence[Row]) -> list[Group]:
        by_row = {row.id: row.answer for row in rows}
        key = name, frozenset((one, answers.same(answer)) for one, answer in by_row.items())
        if key not in self._groups:
            self._groups = {old: groups for old, groups in self._groups.items() if old[0] != name}
            self._groups[key] = answers.grouped(by_row, self.questions[name].stub)
        return self._groups[key]

    def _busy(self, marker: str, name: str, group: str) -> str:
        """Return who else is looking at `group`, or ""."""
        who, since = self._leases.get((name, group), ("", 0.0))
        return who if who != marker and time.monotonic() - since < LEASE_S else ""

    def _member(self, row: Row, number: int, last: Change | None) -> dict[str, Any]:
        own = last if last and (last.after["score"], last.after["comment"]) == (row.score, row.comment) else None
        by = own.marker if own else ("" if row.score is None else "formgrader")
        return {
            "id": row.id, "number": number, "score": row.score, "automatic": row.automatic, "waiting": row.waiting,
            "comment": row.comment, "version": row.version, "by": by, "given": list(own.after["given"]) if own else [],
            "student": row.student if self.names else "",
        }  # fmt: skip


def _numbers(rows: Sequence[Row]) -> dict[str, int]:
    """Return a number for each answer, by id. The ids are random, so a number doesn't reveal the student."""
    return {row.id: number for number, row in enumerate(sorted(rows, key=lambda row: row.id), 1)}
