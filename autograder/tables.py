"""Terminal tables, by rich: coloured on a terminal, plain off it, with symbols that say the same as the colours."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from autograder.panel import SYMBOL

if TYPE_CHECKING:
    from autograder.grade import ClassReport, ExerciseRow
    from autograder.verify import Verdict


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=140)


def print_verdicts(verdicts: "Sequence[Verdict]", total: Mapping[str, Any]) -> None:
    """The mutation score per exercise and in total, then every problem in full."""
    table = Table("lesson", "exercise", "misconceptions caught", "variants full", "blank = 0", title="attn verify")
    for v in verdicts:
        table.add_row(
            v.lesson,
            v.exercise,
            f"{v.caught} / {v.misconceptions}",
            f"{v.variants_full} / {v.variants}",
            "✓" if v.blank_zero else "✗",
        )
    console = _console()
    console.print(table)
    share = 100 * total["caught"] / total["misconceptions"] if total["misconceptions"] else 100.0
    console.print(
        f"mutation score {share:.1f}% ({total['caught']} of {total['misconceptions']} misconceptions under their own names), "
        f"variants {total['variants_full']} of {total['variants']} at full marks, {total['exercises']} exercises"
    )
    for v in verdicts:
        for problem in v.problems:
            console.print(f"✗ {v.lesson}.{v.exercise}: {escape(problem)}", soft_wrap=True)


def print_class(graded: "ClassReport", *, expected: Mapping[str, float] | None = None) -> None:
    """The class: a row for each student, then what a person should look at."""
    columns = ["student", "score", "of", "right", "what went wrong", "remarks", "seconds"]
    if expected is not None:
        columns.insert(3, "deserved")
    table = Table(*columns, title=f"{graded.assignment} · sandbox: {graded.tier}", show_lines=True)
    for row in graded.rows:
        cells = [escape(row.student), f"{row.score:g}", f"{row.points:g}"]
        if expected is not None:
            cells.append(f"{expected[row.student]:g} {'✓' if expected[row.student] == row.score else '✗'}")
        right = sum(state.status == "pass" for state in row.exercises.values())
        wrong = [_what(name, state) for name, state in row.exercises.items() if state.status in ("fail", "part")]
        idle = sum(state.status == "todo" for state in row.exercises.values())
        if idle:
            wrong.append(f"· {idle} not started")
        remarks = escape("; ".join([*row.flags, *([row.problem] if row.problem else [])]))
        table.add_row(*cells, f"{right} / {len(row.exercises)}", "\n".join(wrong), remarks, f"{row.seconds:.1f}")
    console = _console()
    console.print(table)
    console.print(
        f"{len(graded.rows)} submissions in {graded.seconds:.1f} s. Written answers wait for a person: `nbgrader formgrader`."
    )
    if graded.tier == "none":
        console.print("[bold]Graded WITHOUT isolation (--unsafe): student code ran with your rights.[/]")


def _what(name: str, state: "ExerciseRow") -> str:
    return f"{SYMBOL[state.status]} {name}: {escape(state.misconception or state.headline)}"
