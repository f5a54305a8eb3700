"""`attn`: one command for learners, authors and instructors. This module parses and prints; the work is done elsewhere."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from autograder import __version__
from autograder.registry import CourseError
from autograder.sandbox.host import SandboxUnavailable

Command = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run `attn`; returns the exit status (0 well, 1 something to mend, 2 wrong use)."""
    arguments = _parser().parse_args(argv)
    try:
        command: Command = arguments.run
        return command(arguments)
    except (CourseError, SandboxUnavailable) as error:
        print(f"attn: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nattn: stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="attn", description="Attention, graded: learn, author and grade the course.")
    parser.add_argument("--version", action="version", version=f"attn {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, run: Command, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

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

    build = add("build", _build, "Make source notebooks and releases from the lessons.")
    build.add_argument("lessons", nargs="*", help="lessons (default: all)")
    build.add_argument("--check", action="store_true", help="change nothing; say what differs from its source")

    build.add_argument("--again", action="store_true", help="execute lessons again even where their sources did not change")

    verify = add("verify", _verify, "Examine the grader: references, blanks, misconceptions, variants.")
    verify.add_argument("lessons", nargs="*", help="lessons (default: all)")
    verify.add_argument("--json", action="store_true", help="print JSON")

    book = add("book", _book, "Make a site of the executed lessons, solutions folded, readable without a network.")
    book.add_argument("--to", type=Path, default=None, help="folder to write (default: course/book)")

    new = add("new-lesson", _new_lesson, "Write the files of a new lesson, ready to build.")
    new.add_argument("name", help="NN_slug, for example 12_linear_attention")

    grade = add("grade", _grade, "Grade all submissions of an assignment, in a sandbox.")
    grade.add_argument("assignment", help="lesson, for example 03_scaled_dot_product")
    grade.add_argument("--student", action="append", help="grade this student only (may be repeated)")
    grade.add_argument("--feedback", action="store_true", help="write nbgrader's HTML feedback too")
    _sandboxed(grade)

    demo = add("demo", _demo, "Make a small class of good, bad and hostile submissions, and grade it.")
    demo.add_argument("--folder", type=Path, default=None, help="where to put it (default: a temporary folder)")
    _sandboxed(demo)
    return parser


def _workspace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workspace", type=Path, default=None, help="your copy of the lessons (default: ./work)")


def _sandboxed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--unsafe", action="store_true", help="grade without isolation where there is none; every report says so")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _chosen(words: Sequence[str]) -> list[Any]:
    from autograder.registry import find_lesson, lessons

    return [find_lesson(word) for word in words] if words else list(lessons())


def _build(arguments: argparse.Namespace) -> int:
    from autograder import build, summary

    chosen = _chosen(arguments.lessons)
    if arguments.check:
        problems = build.check(chosen)
        stale = [] if arguments.lessons else summary.refresh(chosen, write=False)
        problems += [f"{path}: its generated tables are out of date: run `attn build`" for path in stale]
        print("\n".join(problems) if problems else f"{len(chosen)} lessons: everything generated agrees with its source.")
        return 1 if problems else 0
    for line in build.build(chosen, again=arguments.again):
        print(line, flush=True)
    if not arguments.lessons:
        summary.refresh(chosen, write=True)
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from autograder.verify import Verdict, verify_lesson

    verdicts: list[Verdict] = []
    for lesson in _chosen(arguments.lessons):
        verdicts += verify_lesson(lesson)
    total = {
        "exercises": len(verdicts),
        "misconceptions": sum(v.misconceptions for v in verdicts),
        "caught": sum(v.caught for v in verdicts),
        "variants": sum(v.variants for v in verdicts),
        "variants_full": sum(v.variants_full for v in verdicts),
        "blank_zero": all(v.blank_zero for v in verdicts),
    }
    if arguments.json:
        print(json.dumps(total))
    else:
        from autograder.tables import print_verdicts

        print_verdicts(verdicts, total)
    return 1 if any(v.problems for v in verdicts) else 0


def _book(arguments: argparse.Namespace) -> int:
    from autograder import book
    from autograder.registry import course_root, lessons

    written = book.build(lessons(), arguments.to or course_root() / "book")
    print(f"wrote {len(written)} pages; open {written[-1]}")
    return 0


def _new_lesson(arguments: argparse.Namespace) -> int:
    from autograder.scaffold import new_lesson

    for path in new_lesson(arguments.name):
        print(f"wrote {path}")
    print(f"next: edit them, then `attn build {arguments.name}` and `attn verify {arguments.name}`")
    return 0


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


def _grade(arguments: argparse.Namespace) -> int:
    from autograder import grade
    from autograder.registry import course_root, find_lesson
    from autograder.tables import print_class

    name = find_lesson(arguments.assignment).name
    graded = grade.grade_assignment(
        course_root(), name, students=arguments.student, unsafe=arguments.unsafe, feedback=arguments.feedback
    )
    if arguments.json:
        print(json.dumps(grade.to_json(graded)))
    else:
        print_class(graded)
    return 1 if any(row.problem for row in graded.rows) else 0


def _demo(arguments: argparse.Namespace) -> int:
    from autograder import demo, grade
    from autograder.tables import print_class

    graded, expected = demo.run(arguments.folder, unsafe=arguments.unsafe)
    if arguments.json:
        print(json.dumps({**grade.to_json(graded), "expected": expected}))
    else:
        print_class(graded, expected=expected)
    return 0 if demo.as_deserved(graded, expected) else 1


if __name__ == "__main__":
    sys.exit(main())
