"""`python -m tests.ablation [--each N] [--stage NAME …] [--found] [--save FILE]` measures what each stage of the diagnosis earns.

In: the labelled answers (`tests.labelled_answers`). Out: a table of what `check` says of them with all stages, and then with one
stage switched off at a time. A stage that found nothing in an answer has no part in what is said of it, so without that stage
only the answers are checked again in which it found something.
"""

import argparse
import contextlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

from autograder.diagnosis import attempt, diagnose, explain
from autograder.diagnosis.repair import first_wrong_step, search
from autograder.grading.trials.unseen_answers import OUTCOMES
from tests.labelled_answers import Answer, answers, checked

ALL = ""  # stands for no stage: nothing is switched off
PASSED, NAMED, *HELPED = OUTCOMES
UNTRUE = "untrue or not read"  # among the outcomes: something is named for certain that nobody has found true


@dataclass(frozen=True)
class Stage:
    """One function of the diagnosis, as another module knows it; `given` are arguments with which it counts as this stage."""

    name: str
    module: ModuleType
    function: str
    given: tuple[tuple[str, object], ...] = ()
    nothing: Callable[..., Any] = lambda *args, **kwargs: None

    def switched(self, found: set[str], *, off: bool) -> Any:
        """The module with the function switched off, or noting in `found` where it finds something."""
        original = getattr(self.module, self.function)

        def call(*args: Any, **kwargs: Any) -> Any:
            if not self.given or self.given == tuple(kwargs.items()):
                return self.nothing(*args, **kwargs) if off else self._noted(original(*args, **kwargs), found)
            return original(*args, **kwargs)

        return patch.object(self.module, self.function, call)

    def _noted(self, result: Any, found: set[str]) -> Any:
        if isinstance(result, Iterator):
            return self._each_noted(result, found)
        if result and result != (None, []):
            found.add(self.name)
        return result

    def _each_noted(self, results: Iterator[Any], found: set[str]) -> Iterator[Any]:
        for result in results:
            found.add(self.name)
            yield result


def _none(*args: Any, **kwargs: Any) -> Iterator[Any]:
    return iter(())


def _only_operators(source: Any, inputs: Any) -> list[Any]:
    """The changes without those that put something in."""
    from autograder.mutants.operators import edits

    return sorted(edits(source), key=lambda edit: edit.rank)


STAGES = (
    Stage("one known mistake", diagnose, "match_listed"),
    Stage("a slip near a right program", diagnose, "match_unlisted", (("single", True),)),
    Stage("two known mistakes", diagnose, "match_composed"),
    Stage("one mistake here, one there", diagnose, "match_here_and_there"),
    Stage("two slips near a right program", diagnose, "match_unlisted", (("single", False),)),
    Stage("a mistake for each output", diagnose, "by_output"),
    Stage("most of what fails", diagnose, "match_most"),
    Stage("what is said beside a name", diagnose, "partial_findings", nothing=_none),
    Stage("what the checks prove", diagnose, "diagnose_from_checks"),
    Stage("a wrong wrapping", diagnose, "diagnose_unwrapped"),
    Stage("names that the learner cannot see", attempt, "_quotes_unseen_code"),
    Stage("one change for two slips", attempt, "_names_an_unlisted_pair"),
    Stage("repair", attempt, "find_repair"),
    Stage("repair: what puts something in", search, "changes", nothing=_only_operators),
    Stage("repair: a mistake that is left", search, "_remaining_mistake"),
    Stage("a part that says so for itself", attempt, "diagnose_proven_part"),
    Stage("the first wrong line", attempt, "diagnose_first_wrong_steps"),
    Stage("an error inside a given function", attempt, "stopped_inside"),
    Stage("facts about any wrong answer", explain, "diagnose_from_facts"),
    Stage("how far off a number is", explain, "diagnose_number"),
)


NAMES = tuple(stage.name for stage in STAGES)


@dataclass(frozen=True)
class Row:
    """What was said of one answer while the stage `without` was switched off, and in which stages something was found."""

    id: str
    right: bool
    without: str
    outcome: str
    names: tuple[str, ...]
    seconds: float
    found: tuple[str, ...]


def measure(answer: Answer, without: str = ALL, *, watch: bool = True) -> Row:
    """Check one answer, with one stage switched off or, for `ALL`, with all stages watched."""
    found = set[str]()
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.object(search, "PATIENCE", math.inf))  # other work on the machine stretches the clock's time
        stack.enter_context(patch.object(search, "LONGEST", 10 * search.LONGEST))
        stack.enter_context(patch.object(first_wrong_step, "WATCHED", 10 * first_wrong_step.WATCHED))
        for stage in STAGES:
            if stage.name == without or (without == ALL and watch):
                stack.enter_context(stage.switched(found, off=stage.name == without))
        seen = checked(answer.labelled)
    outcome = UNTRUE if not set(seen.names) <= answer.true else seen.outcome
    return Row(answer.id, answer.labelled.right, without, outcome, seen.names, seen.seconds, tuple(sorted(found)))


def rows(chosen: Sequence[Answer], stages: Sequence[str], save: Path | None = None) -> list[Row]:
    """What is said with all stages, and of the answers in question without each of `stages`; `save` keeps what was measured."""
    kept = {(row.without, row.id): row for row in _read(save)}

    def measured(answer: Answer, without: str) -> Row:
        if (row := kept.get((without, answer.id))) is None:
            row = kept[without, answer.id] = measure(answer, without)
            if save is not None:
                with save.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
        return row

    base = [measured(answer, ALL) for answer in chosen]
    again = [
        measured(answer, stage)
        for stage in stages
        for answer, row in zip(chosen, base, strict=True)
        if not answer.labelled.right and stage in row.found
    ]
    return [*base, *again]


def _read(save: Path | None) -> Iterator[Row]:
    if save is not None and save.exists():
        for line in save.read_text(encoding="utf-8").splitlines():
            stored = json.loads(line)
            yield Row(**{**stored, "names": tuple(stored["names"]), "found": tuple(stored["found"])})


def table(measured: Iterable[Row], stages: Sequence[str]) -> str:
    """The outcomes of the wrong answers with all stages, and how they change without each one, as Markdown.

    The first two numbers of a stage bound what it wins: the answers in which it found something, and those of them that are
    named for certain. The others are the changes of the shares in points, empty where they were not measured.
    """
    measured = list(measured)
    base = {row.id: row for row in measured if row.without == ALL}
    wrong = [row for row in base.values() if not row.right]
    refused = sum(row.outcome != PASSED for row in base.values() if row.right)
    columns = (NAMED, *HELPED, UNTRUE, PASSED)
    lines = [
        f"| stage switched off | found something | named there | {' | '.join(columns)} |",
        f"|---|---:|---:|{'---:|' * len(columns)}",
        f"| none: all {len(wrong)} wrong answers | | | {' | '.join(_shares(wrong, columns))} |",
    ]
    for stage in stages:
        found = [row for row in wrong if stage in row.found]
        changed = [(base[row.id], row) for row in measured if row.without == stage]
        cells = [_points(changed, column, len(wrong)) if len(changed) == len(found) else "" for column in columns]
        lines.append(f"| {stage} | {len(found)} | {sum(row.outcome == NAMED for row in found)} | {' | '.join(cells)} |")
    seconds = [row.seconds for row in base.values()]
    middle, most = np.percentile(seconds, [50, 90])
    took = f"{middle:.2f} s of the processor in the median, {most:.2f} s at the 90th percentile, and {max(seconds):.2f} s at most"
    lines += ["", f"Of {len(base) - len(wrong)} right answers {refused} are refused. A check takes {took}."]
    return "\n".join(lines)


def _shares(wrong: Sequence[Row], columns: Sequence[str]) -> list[str]:
    return [f"{100 * sum(row.outcome == column for row in wrong) / len(wrong):.1f} %" for column in columns]


def _points(changed: Sequence[tuple[Row, Row]], column: str, of: int) -> str:
    """The change of a share, in points."""
    more = sum((after.outcome == column) - (before.outcome == column) for before, after in changed)
    return f"{100 * more / of:+.1f}" if more else "0"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=1, help="check every Nth answer only")
    parser.add_argument("--stage", action="append", choices=NAMES, help="switch off this one; default: each in turn")
    parser.add_argument("--found", action="store_true", help="switch off none, and say only what each stage finds")
    parser.add_argument("--save", type=Path, help="keep what was measured in this file, and go on from it")
    options = parser.parse_args(arguments)
    stages = options.stage or NAMES
    print(table(rows(list(answers())[:: options.each], [] if options.found else stages, options.save), stages))


if __name__ == "__main__":
    main()
