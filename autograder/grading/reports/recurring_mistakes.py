"""Find the mistakes that come back, lesson after lesson and term after term.

In: the ledgers of every graded assignment in a course folder and in the folders of earlier terms. Out: an `Across` for each
mistake that is named in more than one lesson or term, starting with those that the same students repeat. A mistake is
identified by its id, which lessons share if the mistake is the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.grading import ledger


@dataclass(frozen=True)
class Across:
    """A recurring mistake: how many students made it in each place (`term/lesson` or this term's lesson), who repeated it."""

    id: str
    places: dict[str, int]
    again: list[str]  # this term's students who made it in more than one lesson


def across(root: Path, earlier: Sequence[Path] = ()) -> list[Across]:
    """Return the mistakes that come back in the course at `root` or in the course folders of `earlier` terms."""
    who: dict[str, dict[str, set[str]]] = {}
    for term in (root, *earlier):
        label = "" if term == root else f"{term.resolve().parent.name if term.name == 'course' else term.resolve().name}/"
        for folder in sorted((term / ledger.FOLDER).glob("*/")):
            for entry in ledger.entries(term, folder.name):
                for state in entry.row.exercises.values():
                    if not state.carried and state.status in ("fail", "part"):
                        for mistake in state.named():
                            who.setdefault(mistake, {}).setdefault(f"{label}{folder.name}", set()).add(entry.row.student)
    recurring = []
    for mistake, places in who.items():
        if len(places) > 1:
            here = [students for place, students in places.items() if "/" not in place]
            again = sorted({student for students in here for student in students if sum(student in place for place in here) > 1})
            recurring.append(Across(mistake, {place: len(students) for place, students in sorted(places.items())}, again))
    return sorted(recurring, key=lambda each: (-len(each.again), -sum(each.places.values()), each.id))
