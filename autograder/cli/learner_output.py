"""Print for learners: coloured on a terminal, plain elsewhere, with symbols and words that say the same as the colours."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from autograder.diagnosis.panel import SYMBOL, hint_name, open_words, plain
from autograder.notebooks.lesson_names import label_of
from autograder.workspace.learner_status import begun, core_path_first

if TYPE_CHECKING:
    from autograder.diagnosis.explain import ExerciseRow, LessonRow, QuestionRow
    from autograder.workspace.doctor import Finding
    from autograder.workspace.in_cells.choose_hint import Hint
    from autograder.workspace.rerun import Checked
    from autograder.workspace.submit import HandIn
    from autograder.workspace.update import Carried

COLOUR = {"pass": "green", "part": "yellow", "fail": "red", "todo": "bright_black"}  # readable on any background
STATE = {"pass": "✓", "part": "!", "fail": "✗"}
BAR = 24


def console_for(width: int = 100) -> Console:
    """Return standard output, as wide as the terminal, or `width` columns if it is not a terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(width=width, highlight=False)


def print_status(rows: Sequence["LessonRow"], *, every: bool = False) -> None:
    """Print the progress: a bar overall and for each lesson, and the exercises of lessons that are begun (or of `every` one)."""
    console = console_for()
    score, points = sum(row.score for row in rows), sum(row.points for row in rows)
    console.print(Text.assemble(_bar(score, points, BAR), f"  {score:g} / {points:g} points by checks in {len(rows)} lessons"))
    core = [row for row in rows if not row.workshop]
    if len(core) < len(rows):
        said = f"{sum(row.done for row in core)} of {len(core)} lessons of the core path done"
        console.print(f"{said}; the workshops, indented, are yours to choose")
    console.print()
    width = max((len(row.title) + (3 if row.workshop else 0) for row in rows), default=0)
    for row in rows:
        status = _lesson_status(row)
        indent, columns, style = ("  ", width - 3, "") if row.workshop else ("", width, "bold")
        title = f"{row.title:<{columns}}"
        head = Text.assemble(indent, (SYMBOL[status], COLOUR[status]), f" {label_of(row.lesson)} ", (title, style), " ")
        needs = f" · needs {', '.join(row.needs)}" if row.needs else ""
        console.print(head, _bar(row.score, row.points, BAR // 2), f" {row.score:g} / {row.points:g}{needs}")
        if every or status == "part":
            for line in [*map(_exercise, row.exercises), *map(_question, row.questions)]:
                console.print(Padding.indent(line, 5))
            if status == "part" and (said := open_words(row.questions)):
                console.print(f"     {said}.")
    _next(console, rows)


def print_lesson(row: "LessonRow", *, later: str | None = None) -> None:
    """Print one lesson: each exercise with title, points and number of checks, and each written question.

    `later` is the next core notebook, which is suggested once this one is done.
    """
    console = console_for()
    status = _lesson_status(row)
    head = Text.assemble((SYMBOL[status], COLOUR[status]), f" {label_of(row.lesson)} ", (row.title, "bold"))
    console.print(head, _bar(row.score, row.points, BAR // 2), f" {row.score:g} / {row.points:g}")
    for exercise in row.exercises:
        tried = exercise.attempts
        checked = f", checked {tried} time{'' if tried == 1 else 's'}" if tried else ""
        console.print(Padding.indent(_exercise(exercise), 5))
        said = f"       {exercise.title}: {exercise.score:g} / {exercise.points:g}{checked}"
        console.print(Text(said), soft_wrap=True)
    for question in row.questions:
        console.print(Padding.indent(_question(question), 5))
    if said := open_words(row.questions):
        console.print(f"{said[:1].upper()}{said[1:]}.")
    then = f". Next: lesson {label_of(later)} (`attn lab {label_of(later)}`)." if later else ", the last one."
    _next(console, [row], f"This lesson is done{then}")


def _lesson_status(row: "LessonRow") -> str:
    if row.done:
        return "pass"
    return "part" if begun(row) else "todo"


def _bar(score: float, points: float, width: int) -> Text:
    full = int(width * score / points) if points else 0
    return Text.assemble(("█" * full, "green"), ("░" * (width - full), "bright_black"))


def _exercise(exercise: "ExerciseRow") -> Text:
    status = exercise.status
    mistake = f" · you {plain(exercise.mistake)}" if exercise.mistake and status in ("part", "fail") else ""
    return Text.assemble((f"{SYMBOL[status]} {exercise.id}", COLOUR[status]), mistake)


def _question(question: "QuestionRow") -> Text:
    symbol, colour, word = ("noted", "pass", "answered") if question.answered else ("todo", "todo", "open")
    return Text.assemble((f"{SYMBOL[symbol]} {question.id}", COLOUR[colour]), f" · in words, {word} · {question.title}")


def _next(console: Console, rows: Sequence["LessonRow"], done: str = "All done.") -> None:
    console.print("\n✓ passed   ◐ partly right   ✗ not yet   · not started   • answered in words")
    for row in core_path_first(rows):
        left = [exercise.id for exercise in row.exercises if exercise.status != "pass"]
        left += [f"the question in words {question.id}" for question in row.questions if not question.answered]
        if left:
            console.print(f"Next: {left[0]} in lesson {label_of(row.lesson)} (`attn lab`).")
            return
    console.print(done)


def print_checked(
    checked: Sequence["Checked"], words: "Sequence[tuple[str, QuestionRow]]" = (), steps: Sequence[str] = ()
) -> None:
    """Print each check's panel with its first line in colour, a line for all, what is next, and the open questions in `words`."""
    console = console_for()
    for check in checked:
        first, _, rest = check.text.partition("\n")
        console.print(Text(first, style=f"bold {COLOUR[check.status]}"), soft_wrap=True)
        if check.stopped:
            console.print(Text(f"  Your cell stops with {check.stopped}"), soft_wrap=True)
        if rest and (check.status != "todo" or len(checked) == 1):  # advice on how to begin isn't repeated for each exercise
            console.print(Text(f"{rest}\n"), soft_wrap=True)
        elif check.status == "todo" and check.unread:
            console.print(Text(f"  {check.headline}\n"), soft_wrap=True)
    if len(checked) > 1:
        passed = sum(check.status == "pass" for check in checked)
        score, points = sum(check.score for check in checked), sum(check.points for check in checked)
        console.print(f"{passed} of {len(checked)} checks pass · {score:g} / {points:g} points")
    for step in filter(None, steps):
        console.print(step, soft_wrap=True)
    if said := open_words(question for _, question in words):
        where = "; ".join(f"{label_of(lesson)}.{question.id}" for lesson, question in words if not question.answered)
        console.print(f"{said}: {where}", soft_wrap=True)


def print_finding(finding: "Finding") -> None:
    """Print one line of the doctor's report, and below it how to fix the problem."""
    console = console_for()
    line = Text.assemble((f"{STATE[finding.status]} {finding.name:<9}", COLOUR[finding.status]), f" {finding.said}")
    console.print(line, soft_wrap=True)
    if finding.fix:
        console.print(Text.assemble("            -> ", (finding.fix, "bold")), soft_wrap=True)


def print_hint(hint: "Hint", *, answers: bool) -> None:
    """Print one hint and how to get the next one; after the last, how to get our answer if this machine has the `answers`."""
    console = console_for()
    name = f"{label_of(hint.lesson)}.{hint.exercise}"
    if not hint.total:
        console.print(f"{name} has no hints: nothing but committing to an answer is asked.")
        return
    console.print(Text(f"{name} · hint {hint.level} of {hint.total} · {hint_name(hint.level)}", style="bold"))
    console.print(Padding.indent(Text(plain(hint.text)), 2))
    if hint.level < hint.total:
        console.print(f"`attn hint {name}` shows the next one.")
    else:
        last = "That is the last one." if hint.fresh else "There are no more hints."
        more = f" `attn solution {name} --sure` shows our answer, and notes that it did." if answers else ""
        console.print(f"{last}{more}", soft_wrap=True)


def print_solution(name: str, text: str) -> None:
    """Print our answer to an exercise or a written question."""
    console = console_for()
    console.print(Text(f"{name} · our answer", style="bold"))
    console.print(Padding.indent(Text(text), 2), soft_wrap=True)


def print_handin(handin: "HandIn") -> None:
    """Print where the archive is, and what to know before uploading it."""
    console = console_for()
    for remark in handin.remarks:
        console.print(Text.assemble(("! ", COLOUR["part"]), remark))
    if not handin.remarks:
        console.print(Text("✓ Every answer is in its place.", style=COLOUR["pass"]))
    console.print(f"\nPacked for {handin.student}, as saved on {handin.saved:%Y-%m-%d at %H:%M}. Upload:")
    console.print(str(handin.archive), soft_wrap=True)


def print_carried(carried: Sequence["Carried"], workspace: Path) -> None:
    """Print what an update did to each lesson."""
    console = console_for()
    if not carried:
        console.print("Nothing to update: your lessons are the course's.")
    for change in carried:
        if change.problem:
            console.print(Text.assemble(("✗ ", COLOUR["fail"]), (change.lesson, "bold"), f": left as it is. {change.problem}"))
            continue
        said = f": {len(change.kept)} answers and {change.own} cells of your own carried over"
        console.print(Text.assemble(("✓ ", COLOUR["pass"]), (change.lesson, "bold"), said))
        for name, home in change.moved.items():
            console.print(Padding.indent(f"`{name}` is asked in {home} now; your answer is there", 4))
        for note in change.notes:
            console.print(Padding.indent(Text.assemble(("! ", COLOUR["part"]), note), 4))
        if change.backup:
            console.print(Padding.indent(f"before: {change.backup.relative_to(workspace)}", 4), soft_wrap=True)
    if carried:
        console.print("Open notebooks: File > Reload Notebook from Disk. Then `attn check` tells what still passes.")


def ask(question: str) -> bool | None:
    """Ask a yes-no question and return the answer, or None if there is no terminal."""
    if not sys.stdin.isatty():
        return None
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
