"""Print tables with rich: coloured on a terminal, plain elsewhere, with symbols that say the same as the colours."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from autograder.cli.learner_output import console_for
from autograder.diagnosis.panel import SYMBOL

if TYPE_CHECKING:
    from autograder.authoring.make_release import BuildStep
    from autograder.authoring.verify import Verdict
    from autograder.grading.ledger import ClassReport, StudentRow
    from autograder.grading.trials.unseen_answers import Told


SAID = {
    "none": "[bold]Graded WITHOUT isolation (--unsafe): student code ran with your rights.[/]",
    "landlock (shared)": "[bold]Graded without bubblewrap[/] (Landlock): submissions share one user and one disk, so one "
    "that starts many processes or fills the disk can slow or fail others graded at that time. Install it: apt install "
    "bubblewrap; then `attn grade --again`.",
    "landlock": "[bold]Graded without bubblewrap[/] (Landlock, with a user and a disk for each worker): SECURITY.md says what "
    "is promised then. Install it for the whole of it: apt install bubblewrap.",
}


STEPS = {
    "pack": "making its pack", "execute": "executing its cells", "renew": "renewing its text", "release": "releasing it",
    "shrunken": "{detail}", "written": "wrote {detail}", "unchanged": "nothing has changed",
}  # fmt: skip


def print_step(step: "BuildStep") -> None:
    """Print at once what a build begins to do with a lesson, or how it ended."""
    print(f"{step.lesson}: {STEPS[step.kind].format(detail=step.detail)}", flush=True)


def print_verdicts(verdicts: "Sequence[Verdict]", total: Mapping[str, Any]) -> None:
    """Print the mutation score per exercise and in total, then every problem in full."""
    table = Table("lesson", "exercise", "misconceptions caught", "variants full", "blank = 0", title="attn verify")
    for v in verdicts:
        caught, full = f"{v.caught} / {v.misconceptions}", f"{v.variants_full} / {v.variants}"
        table.add_row(v.lesson, v.exercise, caught, full, "✓" if v.blank_zero else "✗")
    console = console_for(140)
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
    """Print a graded class: a row for each student, then the remarks that a person should look at."""
    columns = ["student", "score", "of", "right", "what went wrong", "remarks", "seconds"]
    if expected is not None:
        columns.insert(3, "deserved")
    table = Table(*columns, title=f"{graded.assignment} · sandbox: {graded.tier}", show_lines=True)
    for row in graded.rows:
        cells = [escape(row.student), f"{row.score:g}", f"{row.points:g}"]
        if expected is not None:
            cells.append(f"{expected[row.student]:g} {'✓' if expected[row.student] == row.score else '✗'}")
        states = Counter(state.status for state in row.exercises.values())
        wrong = [
            f"{SYMBOL[state.status]} {name}: {escape(' + '.join(state.named()) or state.headline)}"
            for name, state in row.exercises.items()
            if state.status in ("fail", "part")
        ]
        if states["todo"]:
            wrong.append(f"· {states['todo']} not started")
        remarks = [shorten(text, 160, placeholder=" …") for text in row.remarks[:3]]
        if more := len(row.remarks[3:]):
            remarks.append(f"and {more} more")
        right, said = f"{states['pass']} / {len(row.exercises)}", escape("; ".join(remarks))
        table.add_row(*cells, right, "\n".join(wrong), said, f"{row.seconds:.1f}")
    console = console_for(140)
    for tier, text in SAID.items():
        if tier in graded.tier.split(", "):
            console.print(text, soft_wrap=True)
    console.print(table)
    for line in change_lines(graded):
        console.print(escape(line), soft_wrap=True)
    step = "grade the written answers: attn mark" if graded.written else "look at the class: attn report"
    then = "Nothing was written." if graded.dry else f"Next, {step} {graded.assignment}"
    console.print(f"{graded.graded_now} of {len(graded.rows)} submissions graded in this run, in {graded.seconds:.1f} s. {then}")


def change_lines(graded: "ClassReport") -> list[str]:
    """Return a heading and a line for each student whose marks changed since the previous run; empty if nobody's did.

    After a dry run without changes, the only line says so.
    """
    lines = []
    for row in graded.rows:
        own = [change for change in graded.changed if change.student == row.student]
        if own:
            total = row.score - sum(change.after - change.before for change in own)
            changes = ", ".join(f"{change.exercise} {change.before:g} → {change.after:g}" for change in own)
            lines.append(f"  {row.student}: {total:g} → {row.score:g} ({changes})")
    if not lines:
        return ["No marks change."] if graded.dry else []
    return [f"Marks of {counted(len(lines), 'student')} {'would change' if graded.dry else 'changed'}:", *lines]


def counted(number: int, noun: str) -> str:
    """Return the number with its noun.

    >>> counted(1, "page"), counted(2, "page")
    ('1 page', '2 pages')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def grading_bench_lines(report: Mapping[str, Any]) -> list[str]:
    """Return lines that compare both graders, with the ratios."""
    lines = [f"{report['students']} submissions of {report['lesson']}:  wall s   CPU s   a minute"]
    for name, label in (("plain", "nbgrader autograde"), ("ours", f"attn grade --workers {report['workers']}")):
        row = report[name]
        lines.append(f"  {label:<32}{row['wall_s']:8.1f}{row['cpu_s']:8.1f}{row['per_minute']:8.0f}")
    agree = "scores equal" if report["scores_equal"] else f"scores DIFFER for {', '.join(report['differing'])}"
    return [
        *lines,
        f"{report['wall_ratio']:.1f}x the submissions a minute and {report['cpu_ratio']:.1f}x fewer CPU seconds, start-up "
        "included",
        f"first grade after {report['ours']['first_grade_s']:.1f} s; {report['worker_memory_mib']:.0f} MiB for a worker; {agree}",
    ]


def growth_lines(rows: Sequence[Mapping[str, float]]) -> list[str]:
    """Return a table of what `attn grade --feedback` costs by size of the class, as lines."""
    lines = ["submissions  wall s   CPU s  CPU s each  gradebook MB"]
    for row in rows:
        cells = (row["students"], row["wall_s"], row["cpu_s"], row["cpu_s_each"], row["gradebook_bytes"] / 1e6)
        lines.append("{:11g}{:8.1f}{:8.1f}{:12.2f}{:14.1f}".format(*cells))
    return lines


class Steps:
    """A progress bar with a line above it for each finished step. Appears only on a terminal, on stderr."""

    def __init__(self, bar: Any, task: Any):
        self._bar, self._task, self._started = bar, task, time.perf_counter()

    def done(self, line: str, done: int, total: int) -> None:
        """Print `line` about a finished step, and move the bar to `done` of `total`."""
        if not self._bar.disable:
            self._bar.console.print(line, markup=False, highlight=False)
        self.count(done, total)

    def count(self, done: int, total: int) -> None:
        """Move the bar to `done` of `total`."""
        a_minute = 60 * done / max(time.perf_counter() - self._started, 1e-9)
        self._bar.update(self._task, completed=done, total=total, rate=f"{a_minute:.0f} a minute")


@contextmanager
def steps_bar(title: str, total: int | None = None) -> Iterator[Steps]:
    """Show a bar called `title` on stderr at once, with count, rate and elapsed time; nothing if stderr is not a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    rate = TextColumn("{task.fields[rate]}")
    columns = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), rate, TimeElapsedColumn()]
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        yield Steps(bar, bar.add_task(title, total=total, rate=""))


@contextmanager
def progress_bar(title: str) -> "Iterator[Callable[[StudentRow, int, int], None]]":
    """Yield a callback that moves a bar for a class being graded, with a line for each student."""
    with steps_bar(title) as steps:

        def move(row: "StudentRow", done: int, total: int) -> None:
            remarks = f", {counted(len(row.flags), 'remark')}" if row.flags else ""
            steps.done(f"{row.student}: {row.problem or f'{row.score:g} of {row.points:g}{remarks}'}", done, total)

        yield move


def print_blind(verdicts: "Sequence[Told]") -> None:
    """Print each answer with what was said about it, then the counts."""
    from autograder.grading.trials.unseen_answers import OUTCOMES, tally

    console = Console()
    for verdict in verdicts:
        answer = verdict.answer
        label = "right" if answer.right else " ".join(("wrong", *answer.tags))
        console.print(f"[bold]{answer.lesson}.{answer.exercise}[/] {escape(label)}: {escape(answer.truth)}")
        console.print(f"  {verdict.outcome} ({verdict.score:g}): {escape(verdict.headline)}", highlight=False)
    table = Table("answers", "number", *OUTCOMES, title="attn verify --blind")
    for group, counts in tally(verdicts).items():
        total = counts.total()
        if total:
            table.add_row(group, str(total), *(f"{counts[name]} ({counts[name] / total:.0%})" for name in OUTCOMES))
    console.print(table)
