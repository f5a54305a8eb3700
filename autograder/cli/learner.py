"""`attn` for learners: lab, status, check, export-answers."""

import argparse
import json
from pathlib import Path

from autograder.cli.common import Add


def register(add: Add) -> None:
    """Add these commands to the parser."""
    lab = add("lab", _lab, "Open JupyterLab in your own copy of the lessons, at the next unsolved one.")
    lab.add_argument("lesson", nargs="?", help="number, slug or name of a lesson")
    _workspace(lab)
    lab.add_argument("--no-browser", action="store_true", help="print the address instead of opening a browser")
    lab.add_argument("--port", type=int, default=8888, help="port to try first (default: 8888)")

    status = add("status", _status, "Show your progress.")
    _workspace(status)
    status.add_argument("--json", action="store_true", help="print JSON")

    check = add("check", _check, "Check your notebook of a lesson without opening it.")
    check.add_argument("target", help="LESSON or LESSON.EXERCISE, for example 03 or soft_lookup.normalize")
    _workspace(check)

    export = add("export-answers", _export_answers, "Write your answers to work/answers/, to be imported (lesson 11 does).")
    _workspace(export)


def _workspace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workspace", type=Path, default=None, help="your copy of the lessons (default: ./work)")


def _lab(arguments: argparse.Namespace) -> int:
    from autograder import workspace

    folder = workspace.prepare(arguments.workspace)
    target = workspace.next_notebook(folder, arguments.lesson)
    print(f"Your copy of the lessons: {folder}\nOpening {target}", flush=True)
    return workspace.open_lab(folder, target, port=arguments.port, browser=not arguments.no_browser)


def _status(arguments: argparse.Namespace) -> int:
    from autograder import workspace

    rows = workspace.status(workspace.locate(arguments.workspace))
    if arguments.json:
        print(json.dumps(rows))
    else:
        from autograder.tables import print_status

        print_status(rows)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from autograder import workspace

    panels = workspace.check(workspace.locate(arguments.workspace), arguments.target)
    print("\n\n".join(panels))
    return 0 if all(panel.startswith("✓") for panel in panels) else 1


def _export_answers(arguments: argparse.Namespace) -> int:
    from autograder import answers, workspace

    folder = workspace.locate(arguments.workspace)
    exported = answers.export(folder)
    written = [answer for answer in exported if not answer.problem]
    todo = [answer for answer in exported if answer.problem == answers.UNWRITTEN]
    broken = [answer for answer in exported if answer.problem and answer not in todo]
    lessons = len({answer.lesson for answer in written})
    print(f"{len(written)} answers of {lessons} lessons are in {folder / answers.FOLDER}; {len(todo)} are not written yet.")
    for answer in broken:
        print(f"{answer.lesson}.{answer.exercise}: {answer.problem}")
    return 1 if broken else 0
