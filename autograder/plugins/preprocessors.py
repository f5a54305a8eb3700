"""Define nbgrader preprocessors that prepare a release, and that give plain nbgrader a submission in a trusted form.

`InjectSolutions`, `StubPredictions`, `SayWhatToInstall` and `LeadOn` are in `GenerateAssignment.preprocessors`, `Rebuild` is the
first in `Autograde.sanitize_preprocessors`, and `CurrentGrades` is in `GenerateFeedback.preprocessors`. `attn grade` needs none
of them: see `mark_submission` and `gradebook` in `autograder.grading`.
"""

from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook
from nbgrader.preprocessors import GetGrades, NbGraderPreprocessor

from autograder.authoring.course import CourseError, find_lesson, lessons, settings
from autograder.authoring.reference_source import injected
from autograder.grading.grades import Grades
from autograder.judging.exercise import Prediction
from autograder.notebooks import lesson_names
from autograder.notebooks.rebuild_submission import cell_of, rebuild
from autograder.notebooks.roles import INSTALL, NEXT, is_answer


class InjectSolutions(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader ships no types
    """Replace `from solutions.x import f` in answer cells by `f`'s source, ready for ClearSolutions."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        cell.source = injected(cell)
        return cell, resources


class StubPredictions(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader ships no types
    """Replace a prediction's stub, after ClearSolutions, by `name = None`: a NotImplementedError would leave a traceback."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        exercises = find_lesson(resources["nbgrader"]["notebook"]).exercises()
        choices = {exercise.id: exercise.choices for exercise in exercises if isinstance(exercise, Prediction)}
        for cell in nb.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            if is_answer(cell) and name in choices:
                options = " or ".join(f'"{key}"' for key in choices[name])
                cell.source = f"{name} = None  # your prediction: {options}"
        return nb, resources


_MISSING = """# @title Where the course's package is missing, this cell says what to do
try:
    import autograder
except ImportError:

    class Missing(ImportError):
        def _render_traceback_(self):
            return [str(self)]

    {next}
    raise Missing(
        "This notebook needs the course's package, and this kernel has none. On your "
        f"own machine, choose the kernel that has it (.venv).\\n{{what}}"
    ) from None"""
_PUBLISHED = """what = "Elsewhere, run  %pip install {package}  and then all cells.\""""
_WHEEL = """from glob import glob
    from os.path import abspath

    wheel = "{wheel}"
    found = glob(wheel) + glob(f"/kaggle/input/**/{{wheel}}", recursive=True)
    what = "Elsewhere, upload the course's wheel (README: how to make it) beside this "
    what += "notebook, and run this cell again: it says how to go on."
    if found:
        here = abspath(found[-1])
        what = f"Run  %pip install {{here}}{extra}  and then all cells.\""""


class SayWhatToInstall(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader ships no types
    """Insert a folded cell before the first code cell, which says what to install in a kernel without the course (Colab, Kaggle).

    A course sets `install` in course.toml to a name for pip. If the course is not published, `install` is the file name of its
    wheel, and the cell looks for that file beside the notebook. Without `install` no cell is added.
    """

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        package = settings().install
        first = next((i for i, cell in enumerate(nb.cells) if cell.cell_type == "code"), None)
        if package and first is not None:
            wheel, is_wheel, extra = package.partition(".whl")
            how = _WHEEL.format(wheel=f"{wheel}.whl", extra=extra) if is_wheel else _PUBLISHED.format(package=package)
            cell = nbformat.v4.new_code_cell(_MISSING.format(next=how), id=INSTALL)
            folded = {"jupyter": {"source_hidden": True}, "cellView": "form"}  # for JupyterLab, and for Colab
            cell.metadata.update({**folded, "tags": [INSTALL], "deletable": False, "editable": False})
            nb.cells.insert(first, cell)
        return nb, resources


class LeadOn(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader ships no types
    """Add a cell at the end with a link to the next core notebook, and links to the chapter's workshops.

    The links work in a workspace and in the repository; the website has its own.
    """

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        every = {lesson.name: lesson for lesson in lessons()}
        name = resources["nbgrader"]["notebook"]
        if name in every:
            later = lesson_names.next_core(list(every), name)
            links = {other: f"[{lesson.label} {lesson.title}](../{other}/{other}.ipynb)" for other, lesson in every.items()}
            text = f"**Next:** {links[later]}." if later else "**That was the last lesson.**"
            if beside := lesson_names.workshops_beside(list(every), name):
                which = "Other workshops" if every[name].workshop else "Workshops"
                text += f" {which} of this chapter, if you like: {', '.join(links[other] for other in beside)}."
            text += " In a cell of your own, `check()` says what is still open here."
            cell = nbformat.v4.new_markdown_cell(text, id=NEXT)
            cell.metadata.update({"tags": [NEXT]})
            nb.cells.append(cell)
        return nb, resources


class Rebuild(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader ships no types
    """Replace a submission by the release with the learner's answers. Deleted, doubled, moved or forged cells have no effect."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        assignment, notebook = resources["nbgrader"]["assignment"], resources["nbgrader"]["notebook"]
        coursedir = self.parent.parent.coursedir  # from the converter, whose exporter owns this preprocessor
        path = Path(coursedir.format_path(coursedir.release_directory, ".", assignment)) / f"{notebook}.ipynb"
        if not path.exists():
            raise CourseError(f"expected the released notebook at {path}, found none. Run `attn build`.")
        rebuilt = rebuild(nbformat.read(path, as_version=4), [cell_of(cell) for cell in nb.cells])
        for flag in rebuilt.flags:
            self.log.warning("%s: %s", resources["nbgrader"]["student"], flag)
        return rebuilt.notebook, resources


class CurrentGrades(GetGrades):  # type: ignore[misc]  # nbgrader ships no types
    """Make `nbgrader generate_feedback` show the penalty as it is today, not as it was on the day of grading."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        with Gradebook(resources["nbgrader"]["db_url"]) as book:
            Grades.within(book, self.parent.parent).settle(resources["nbgrader"]["assignment"], resources["nbgrader"]["student"])
            book.db.commit()
        graded: tuple[Any, Any] = super().preprocess(nb, resources)
        return graded
