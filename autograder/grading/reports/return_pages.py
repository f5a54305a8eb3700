"""Pack the feedback pages into a zip that a learning platform takes back, each under a name that identifies the student.

In: the pages in `feedback/`, and the download from which the submissions were collected. Out: a zip, and the students left
out. Moodle (*Upload multiple feedback files in a zip*) looks for `Ann Smith_4711_assignsubmission_file_...`, and Canvas
(*Re-upload submissions*) for the numbers of the student and of the file in `smithann_4711_815_...`. If the download has a
folder for each student, so does the zip. No name in the zip is a student's own text.
"""

import zipfile
from dataclasses import dataclass
from pathlib import Path

from autograder.authoring.course import CourseError
from autograder.authoring.make_release import nbgrader_api
from autograder.grading.collect import CANVAS, MOODLE, Hit, survey
from autograder.grading.gradebook import known_students
from autograder.grading.ledger import FOLDER
from autograder.grading.roster import read as roster_of
from autograder.grading.write_results import place


@dataclass(frozen=True)
class Packed:
    """The zip that was written, its number of pages, and the students left out."""

    path: Path
    pages: int
    left_out: tuple[str, ...]


def pack(root: Path, assignment: str, source: Path, students: list[str]) -> Packed:
    """Pack the pages of `students` into `reports/<assignment>_feedback.zip`, under the names in the download `source`.

    Raises CourseError if `source` does not exist or holds none of their work.
    """
    if not source.exists():
        raise CourseError(f"expected the download that you collected at {source}, found none.")
    api, roster = nbgrader_api(root), roster_of(root)
    intake = survey(source, assignment, known_students(api.coursedir.db_url, roster), roster.by_name())
    hits = {student: beside[0] for student, beside in intake.beside.items()} | intake.taken
    out, left_out = root / FOLDER / f"{assignment}_feedback.zip", []
    out.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for student in students:
            name = name_for(hits[student], assignment) if student in hits else None
            page = place(api.coursedir, "feedback", student, assignment)
            if name is None or not page.is_file():
                left_out.append(student)
            else:
                archive.write(page, name)
    if len(left_out) == len(students):
        raise CourseError(
            f"expected the work of the graded students in {source}, found none. Is it the download of {assignment}?"
        )
    return Packed(out, len(students) - len(left_out), tuple(left_out))


def name_for(hit: Hit, assignment: str) -> str | None:
    """Return the name by which the platform identifies the student, or None if it cannot."""
    top = hit.file.path.partition("/")[0]
    if match := MOODLE.fullmatch(top):
        return f"{match['name']}_{match['id']}_assignsubmission_file_{assignment}.html"
    if match := CANVAS.fullmatch(top):
        return f"{match['name']}_{match['id']}_{match['attempt']}_{assignment}.html" if match["attempt"] else None
    return f"{hit.student}/{assignment}.html"
