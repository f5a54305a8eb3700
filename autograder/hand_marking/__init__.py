"""Mark written answers in the browser, question by question (`attn mark`).

`questions` reads the questions, model answers and schemes from the course. `rubric` divides a scheme into items, one per
button. `answers` reads what was handed in and groups similar answers. `store` alone reads and writes marks, in nbgrader's
gradebook, with a trail of who changed what. `marking_session` combines these for the `server`, which Tornado runs on this
machine only.
"""

import contextlib
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from autograder.authoring.course import CourseError
from autograder.authoring.make_release import nbgrader_api
from autograder.notebooks import private_link


def run(
    root: Path,
    assignment: str,
    markers: Sequence[str],
    ready: Callable[[dict[str, str]], None],
    *,
    port: int = 0,
    names: bool = False,
    everybody: bool = False,
) -> None:
    """Serve the page for `markers` until interrupted, and pass their addresses to `ready`.

    Raises CourseError if a marker's name cannot be used, or nobody is graded.
    """
    from autograder.hand_marking.marking_session import Desk
    from autograder.hand_marking.server import serve
    from autograder.hand_marking.store import Store

    if wrong := [name for name in markers if not name.strip() or len(name) > 64 or not name.isprintable()]:
        raise CourseError(f"expected a marker's name of 1 to 64 printable characters, got {wrong[0]!r}.")
    api = nbgrader_api(root)
    with Store(api, assignment) as store:
        desk = Desk(root, store, names=names, everybody=everybody)
        if not any(row.question in desk.questions for row in store.rows()):
            raise CourseError(f"expected graded submissions of {assignment}, found none. Run `attn grade {assignment}` first.")
        serve(desk, list(markers), port=port, ready=ready)


@contextlib.contextmanager
def opened(address: str) -> Iterator[None]:
    """Open the secret `address` in the browser through a file that only its owner can read, and remove the file at the end."""
    path = private_link.write(address, "attn-mark")
    try:
        webbrowser.open(path.as_uri())
        yield
    finally:
        path.unlink(missing_ok=True)


def trail(root: Path, assignment: str) -> str:
    """Return who changed which mark of `assignment`, when, from what to what, as CSV."""
    from autograder.grading.reports.class_table import as_csv
    from autograder.hand_marking.store import Store

    rows = [["time", "marker", "question", "student", "before", "after", "comment_before", "comment_after"]]
    with Store(nbgrader_api(root), assignment) as store:
        for change in store.trail():
            marks = [change.before["score"], change.after["score"], change.before["comment"], change.after["comment"]]
            rows.append([change.time, change.marker, change.question, change.student, *marks])
    return as_csv(rows)
