"""Show progress and the next step: for `check()` without a name, after a passed exercise, and for all lessons."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.authoring.course import CourseError
from autograder.diagnosis import panel
from autograder.diagnosis.explain import LessonRow
from autograder.diagnosis.finding import Fact, fact
from autograder.diagnosis.phrase import say
from autograder.notebooks import lesson_names
from autograder.notebooks.lesson_names import label_of
from autograder.workspace import folder as workspace
from autograder.workspace import learner_status, progress
from autograder.workspace.in_cells.shown import Shown

Linked = tuple[str, str]  # what to do, and a link to it ("" if there is none)


def overview(folder: Path) -> Shown:
    """Return the progress of the lesson in `folder`. Raises CourseError if that is not a lesson in a workspace."""
    if not workspace.is_lesson(folder):
        raise CourseError(
            f"check(): progress is kept in a workspace, and {folder} is not a lesson of one. `attn lab` makes one and opens it; "
            'check("name") works everywhere.'
        )
    return of_lessons(learner_status.status(folder.parent, only=(folder.name,)))


def of_lessons(rows: Sequence[LessonRow]) -> Shown:
    """Return the progress of some lessons, as panels in a notebook."""
    return Shown("\n\n".join(map(panel.overview_text, rows)), "".join(map(panel.overview_html, rows)))


@dataclass(frozen=True)
class Contents:
    """The rows of `learner_status.status`, shown in a notebook as a table of all lessons with links, and elsewhere as text."""

    rows: list[LessonRow]
    following: Linked
    beside: tuple[Linked, ...] = ()  # the workshops offered alongside

    def __repr__(self) -> str:
        lines = [f"{say(fact('overview.next'))} {panel.plain(self.following[0])}"]
        if self.beside:
            lines.append(say(fact("overview.workshops.text", titles=tuple(text for text, _ in self.beside))))
        return "\n".join([*lines, "", *map(self._line, self.rows)])

    def _repr_markdown_(self) -> str:
        text, link = self.following
        first = f"**{say(fact('overview.next'))}** [{text}]({link})" if link else f"**{text}**"
        if self.beside:
            links = tuple(f"[{title}]({to})" for title, to in self.beside)
            first += f" {say(fact('overview.workshops', links=links))}"
        lines = [first, ""]
        if any(row.workshop for row in self.rows):
            lines += [say(fact("overview.core_path")), ""]
        lines += [say(fact("overview.columns")), "|:--|:--|:--|:--|:--|"]
        for row in self.rows:
            name = self._name(row)
            passed = say(fact("overview.share", part=self._done(row), whole=len(row.exercises)))
            points = say(fact("overview.share", part=f"{row.score:g}", whole=f"{row.points:g}"))
            answered = sum(question.answered for question in row.questions)
            words = say(fact("overview.share", part=answered, whole=len(row.questions))) if row.questions else ""
            lines.append(f"| {name} | {self._state(row)} | {passed} | {words} | {points} |")
        return "\n".join(lines)

    def _name(self, row: LessonRow) -> str:
        """Return a lesson's title as a link. If there are workshops, core lessons are bold and workshops are indented."""
        name = f"[{label_of(row.lesson)} {row.title}]({row.lesson}/{row.lesson}.ipynb)"
        needs = f" · {say(fact('overview.needs', labels=row.needs))}" if row.needs else ""
        takes = f" · {say(fact('overview.minutes', count=row.minutes))}" if row.minutes else ""
        asks = f"<br>{_in_cell(row.question)}" if row.question else ""
        if row.workshop:
            return f"&emsp;{name}{takes}{needs}{asks.replace('<br>', '<br>&emsp;')}"
        return (f"**{name}**" if any(other.workshop for other in self.rows) else name) + takes + needs + asks

    def _line(self, row: LessonRow) -> str:
        done = say(fact("overview.exercises", passed=self._done(row), of=len(row.exercises)))
        line = ("  " if row.workshop else "") + f"{label_of(row.lesson)} {row.title}: {done}"
        needs = say(fact("overview.needs", labels=row.needs)) if row.needs else ""
        if remarks := " · ".join(filter(None, [say(fact("overview.workshop")) if row.workshop else "", needs])):
            line += f" ({remarks})"
        words = panel.open_words(row.questions) if learner_status.begun(row) else ""
        return f"{line} {self._state(row)}".rstrip() + (f"; {words}" if words else "")

    @staticmethod
    def _done(row: LessonRow) -> int:
        return sum(exercise.status == "pass" for exercise in row.exercises)

    def _state(self, row: LessonRow) -> str:
        if row.done:
            return f"{panel.SYMBOL['pass']} {say(fact('overview.state.done'))}"
        return f"{panel.SYMBOL['part']} {say(fact('overview.state.begun'))}" if learner_status.begun(row) else ""


def _in_cell(text: str) -> str:
    """Return the text escaped for a cell of a Markdown table."""
    return html.escape(text, quote=False).replace("|", "\\|")


def contents(home: Path) -> Contents:
    """Return all lessons of the workspace `home` with the next step and the workshops that may be done instead."""
    rows = learner_status.status(home)
    following = _following(home, rows)
    offered = [row for row in learner_status.offered_workshops(rows) if not following[1].startswith(f"{row.lesson}/")]
    beside = tuple((f"{label_of(row.lesson)} {row.title}", f"{row.lesson}/{row.lesson}.ipynb") for row in offered)
    return Contents(rows, following, beside)


def _following(home: Path, rows: Sequence[LessonRow]) -> Linked:
    """Return the next step: the first open exercise or question, in core notebooks before workshops."""
    for row in learner_status.core_path_first(rows):
        for exercise in row.exercises:
            if exercise.status != "pass":
                lesson = row.lesson
                link = f"{lesson}/{learner_status.link(home, lesson, exercise.id)}"
                if row.exercises[0] == exercise:  # a lesson that isn't begun is read from its top
                    return f"{label_of(lesson)} {row.title}", f"{lesson}/{lesson}.ipynb"
                return f"{label_of(lesson)} {row.title}: {exercise.title}", link
        for question in row.questions:
            if not question.answered:
                link = f"{row.lesson}/{question.link}"
                asked = say(fact("overview.asked", title=question.title))
                return f"{label_of(row.lesson)} {row.title}: {asked}", link
    return say(fact("overview.done")), ""


def ahead(folder: Path, exercise: str) -> str:
    """Return `next_step` as a line for a terminal: how much is done, and the next exercise or lesson."""
    wanted = ("step.done", "step.exercise", "step.lesson", "step.last", "step.workshop")
    return panel.plain(" · ".join(say(step.what) for step in _steps(folder, exercise) if step.what.key in wanted))


@dataclass(frozen=True)
class Step:
    """How much of the lesson is done, or what to do next. `what` becomes the words, and `link` is empty if nothing is to open."""

    what: Fact
    link: str = ""


def next_step(folder: Path, exercise: str) -> tuple[Linked, ...]:
    """Return how much of the lesson is done ("5 of 10"), and what to do next.

    The next step is the first open exercise after `exercise`, continuing from the top. If all are done, the next steps are
    the open written questions, the next core notebook, and this chapter's open workshops. `folder` is a lesson's folder in a
    workspace; the result is empty elsewhere.
    """
    return tuple((say(step.what), step.link) for step in _steps(folder, exercise))


def _steps(folder: Path, exercise: str) -> tuple[Step, ...]:
    home, lesson = folder.parent, folder.name
    if not (home / progress.MARKER).is_dir():
        return ()
    try:
        row = learner_status.status(home, only=(lesson,))[0]
        exercises = row.exercises
        done = [each.status == "pass" for each in exercises]
        ids = [each.id for each in exercises]
        steps = [Step(fact("step.done", passed=sum(done), of=len(done)))]
        at = ids.index(exercise) + 1
        left = [name for name, passed in zip(ids[at:] + ids[:at], done[at:] + done[:at], strict=True) if not passed]
        if left:
            return (*steps, Step(fact("step.exercise", name=left[0]), learner_status.link(home, lesson, left[0])))
        if unanswered := panel.open_words(row.questions):
            steps += [
                Step(fact("step.words", open=unanswered)),
                *(Step(fact("step.asked", title=each.title), each.link) for each in row.questions if not each.answered),
            ]
        every = [Step(fact("step.index"), "../index.ipynb")] if (home / "index.ipynb").exists() else []
        names = workspace.names(home)
        beside = learner_status.status(home, only=lesson_names.workshops_beside(names, lesson))
        workshops = [_lesson_step("step.workshop", each.lesson, each.title) for each in beside if not each.done]
        if later := lesson_names.next_core(names, lesson):
            following = _lesson_step("step.lesson", later, workspace.load_pack(home, later).title)
            return (*steps, following, *workshops, *every)
        return (*steps, Step(fact("step.last")), *workshops, *every)
    except (CourseError, OSError, ValueError, IndexError):
        return ()  # a damaged workspace must not cost the check


def _lesson_step(key: str, lesson: str, title: str) -> Step:
    return Step(fact(key, label=label_of(lesson), title=title), f"../{lesson}/{lesson}.ipynb")
