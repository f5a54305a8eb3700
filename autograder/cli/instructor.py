"""Define the commands for instructors: collect, grade, mark, feedback, report, demo, bench."""

import argparse
import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autograder.authoring import course
from autograder.cli.common import Add
from autograder.notebooks.atomic_write import write_whole


def register(add: Add) -> None:
    """Add these commands to the parser."""
    collect = add("collect", _collect, "Take submissions out of what a learning platform lets you download.")
    collect.add_argument("source", type=Path, help="a zip from Moodle or Canvas, or a folder of students' folders and zips")
    collect.add_argument("--assignment", required=True, help="lesson, for example 03_scaled_dot_product")
    collect.add_argument("--force", action="store_true", help="replace submissions that are there already")
    collect.add_argument("--times", metavar="ZONE", help="file times are submission times in this zone, such as Europe/Berlin")
    collect.add_argument("--json", action="store_true", help="print JSON")

    grade = add("grade", _grade, "Grade the new submissions of an assignment, each in a sandbox.")
    grade.add_argument("assignment", help="lesson, for example 03_scaled_dot_product")
    grade.add_argument("--student", action="append", help="grade this student only (may be repeated)")
    grade.add_argument("--feedback", action="store_true", help="write a feedback page for each student too")
    grade.add_argument("--again", action="store_true", help="grade again what is graded already, and say whose marks change")
    grade.add_argument("--dry-run", action="store_true", help="say whose marks would change, and write nothing")
    grade.add_argument("--workers", type=int, default=None, help="submissions to mark at once (default: one for each core)")
    grade.add_argument("--scheduler", help="mark on the Dask cluster at this address, for example tcp://login1:8786")
    _limits(grade)
    _sandboxed(grade)

    mark = add("mark", _mark, "Grade the written answers, question by question, on a page in the browser.")
    mark.add_argument("assignment", help="lesson, for example 03_scaled_dot_product")
    mark.add_argument("--as", action="append", dest="markers", metavar="NAME", help="who marks (may be repeated; default: you)")
    mark.add_argument("--names", action="store_true", help="show whose answer it is (default: hidden)")
    mark.add_argument("--everybody", action="store_true", help="show all answers, also where the class list shares them out")
    mark.add_argument("--port", type=int, default=0, help="where to listen, on this machine alone (default: any free port)")
    mark.add_argument("--no-browser", action="store_true", help="print the addresses alone")
    mark.add_argument("--trail", action="store_true", help="print the history of the marks as CSV, and open nothing")

    feedback = add("feedback", _feedback, "Write the feedback pages again, with the marks that you gave by hand.")
    feedback.add_argument("assignment", help="lesson, for example 03_scaled_dot_product")
    feedback.add_argument(
        "--zip",
        type=Path,
        default=None,
        metavar="DOWNLOAD",
        help="pack the pages too, under names by which the platform that DOWNLOAD is from finds each student",
    )

    report = add("report", _report, "Write one page about the class: which submissions to look at, and what was misunderstood.")
    report.add_argument("assignment", help="lesson, for example 03_scaled_dot_product")
    report.add_argument("--out", type=Path, default=None, help="file to write (default: course/reports/<assignment>.html)")
    report.add_argument(
        "--formgrader", default="http://localhost:8888/formgrader", help="where its links lead (default: %(default)s)"
    )
    report.add_argument("--csv", action="store_true", help="write a table for a spreadsheet instead of a page")
    report.add_argument(
        "--earlier", type=Path, action="append", default=[], metavar="COURSE", help="course folder of an earlier term, to compare"
    )
    report.add_argument("--json", action="store_true", help="print JSON instead of writing a page")

    demo = add("demo", _demo, "Make a small class of good, bad and hostile submissions, and grade it.")
    demo.add_argument("--folder", type=Path, default=None, help="where to put it (default: a temporary folder)")
    _sandboxed(demo)

    bench = add("bench", lambda arguments: 2, "Measure speed on this machine.")
    kinds = bench.add_subparsers(title="what to measure", required=True, metavar="KIND")
    text = "A class graded by plain `nbgrader autograde` and by `attn grade`: ratios, equal scores."
    grading = kinds.add_parser("grading", help=text, description=text)
    grading.set_defaults(run=_bench)
    grading.add_argument("--json", nargs="?", const="-", metavar="FILE", help="write JSON to FILE, or instead of the table")
    grading.add_argument("--lesson", default="03", help="lesson to grade (default: 03)")
    grading.add_argument("--students", type=int, default=40, help="size of the class (default: 40)")
    grading.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="for attn grade (default: one for each core)")
    grading.add_argument("--no-feedback", action="store_true", help="marks only, without feedback pages, for both")
    grading.add_argument("--sizes", type=int, nargs="+", help="instead: how attn grade's cost grows over classes of these sizes")


_MIB = 1 << 20
# option, field of `Limits`, unit of the option, that unit's size in the field's unit, help
_LIMITS = (
    ("--budget", "budget_s", "S", 1, "seconds for a submission: cells, exercises and second attempts together"),
    ("--wall", "wall_s", "S", 1, "seconds for all cells of a submission together"),
    ("--cell", "cell_s", "S", 1, "seconds for one cell"),
    ("--cpu", "cpu_s", "S", 1, "processor seconds of a submission"),
    ("--memory", "memory_bytes", "MIB", _MIB, "memory of a process"),
    ("--tree-memory", "tree_bytes", "MIB", _MIB, "memory of all processes together, where a control group can be made"),
    ("--processes", "processes", "N", 1, "processes and threads of a submission"),
    ("--file-size", "file_bytes", "MIB", _MIB, "size of a file that is written"),
    ("--output", "output_bytes", "MIB", _MIB, "text and figures that are kept of a submission"),
)


def _limits(parser: argparse.ArgumentParser) -> None:
    from autograder.sandbox.submission_limits import Limits

    group = parser.add_argument_group("limits of a submission")
    for option, name, unit, size, text in _LIMITS:
        standard = getattr(Limits(), name) / size
        group.add_argument(
            option, type=float, default=standard, metavar=unit, dest=name, help=f"{text}, in {unit} (default: {standard:g})"
        )


def _chosen_limits(arguments: argparse.Namespace) -> Any:
    from autograder.sandbox.submission_limits import Limits

    chosen = {}
    for option, name, _, size, _ in _LIMITS:
        value = getattr(arguments, name)
        if value <= 0:
            raise course.CourseError(f"expected {option} to be above 0, got {value:g}.")
        chosen[name] = type(getattr(Limits(), name))(value * size)
    return dataclasses.replace(Limits(), **chosen)


def _sandboxed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--unsafe", action="store_true", help="grade without isolation where there is none; every report says so")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _collect(arguments: argparse.Namespace) -> int:
    from autograder.grading import collect

    name = course.find_lesson(arguments.assignment).name
    collected = collect.collect(course.course_root(), name, arguments.source, force=arguments.force, zone=arguments.times)
    refused = {refusal.path: refusal.reason for refusal in collected.refused}
    if arguments.json:
        taken = {"taken": sorted(collected.taken), "scripts": sorted(collected.scripts), "unchanged": sorted(collected.unchanged)}
        print(json.dumps({**taken, "remarks": [str(remark) for remark in collected.remarks], "refused": refused}))
    else:
        print("\n".join([*collect.told(collected), f"{name}: {collect.summary(collected)}"]))
    return 0 if (collected.taken or collected.scripts or collected.unchanged) and not refused else 1


def _grade(arguments: argparse.Namespace) -> int:
    from autograder.cli.instructor_output import print_class, progress_bar
    from autograder.grading import grade

    name = course.find_lesson(arguments.assignment).name
    if arguments.workers is not None and arguments.workers < 1:
        raise course.CourseError(f"expected --workers to be at least 1, got {arguments.workers}.")
    if arguments.dry_run and arguments.feedback:
        raise course.CourseError("expected --dry-run or --feedback, got both. A dry run writes no pages: leave one out.")
    with progress_bar(f"grading {name}") as progress:
        graded = grade.grade_assignment(
            course.course_root(),
            name,
            students=arguments.student,
            progress=progress,
            unsafe=arguments.unsafe,
            feedback=arguments.feedback,
            again=arguments.again,
            workers=arguments.workers,
            scheduler=arguments.scheduler,
            limits=_chosen_limits(arguments),
            dry_run=arguments.dry_run,
        )
    if arguments.json:
        print(json.dumps(dataclasses.asdict(graded)))
    else:
        print_class(graded)
    return 1 if any(row.problem for row in graded.rows) else 0


def _mark(arguments: argparse.Namespace) -> int:
    import getpass

    from autograder import hand_marking
    from autograder.grading.gradebook import tables_unwarned

    def ready(addresses: dict[str, str]) -> None:
        for marker, address in addresses.items():
            print(f"{marker}: {address}", flush=True)
        print("Each address is a key: give it to its marker alone. Ctrl-C ends the page; what was saved stays.", flush=True)
        if not arguments.no_browser:
            stack.enter_context(hand_marking.opened(next(iter(addresses.values()))))

    name, options = course.find_lesson(arguments.assignment).name, {"names": arguments.names, "everybody": arguments.everybody}
    with tables_unwarned(), contextlib.ExitStack() as stack:
        if arguments.trail:
            print(hand_marking.trail(course.course_root(), name), end="")
            return 0
        hand_marking.run(
            course.course_root(), name, arguments.markers or [getpass.getuser()], ready, port=arguments.port, **options
        )
    return 0


def _feedback(arguments: argparse.Namespace) -> int:
    from autograder.cli.instructor_output import counted, steps_bar
    from autograder.grading import grade

    name = course.find_lesson(arguments.assignment).name
    with steps_bar(f"writing the pages of {name}") as steps:
        written = grade.write_feedback(course.course_root(), name, steps.done)
    print(f"wrote {counted(len(written), 'page')} below {course.course_root() / 'feedback'}")
    if arguments.zip is not None:
        from autograder.grading.reports import return_pages

        packed = return_pages.pack(course.course_root(), name, arguments.zip, [path.parts[-3] for path in written])
        print(f"packed {counted(packed.pages, 'page')} into {packed.path}")
        if packed.left_out:
            print(f"not in it, because the download doesn't have their work: {', '.join(packed.left_out)}")
    return 0


def _report(arguments: argparse.Namespace) -> int:
    from autograder.cli.instructor_output import counted
    from autograder.grading import ledger
    from autograder.grading.reports import class_report, class_report_page, class_table

    root, lesson = course.course_root(), course.find_lesson(arguments.assignment)
    shown = class_report.class_view(root, lesson, arguments.earlier)
    if arguments.json:
        print(json.dumps(dataclasses.asdict(shown)))
        return 0
    out = arguments.out or root / ledger.FOLDER / f"{lesson.name}.{'csv' if arguments.csv else 'html'}"
    write_whole(out, class_table.table(shown) if arguments.csv else class_report_page.render(shown, arguments.formgrader))
    silent = f", {len(shown.silent)} without a submission" if shown.silent else ""
    submissions, mistakes = counted(len(shown.rows), "submission"), counted(len(shown.held), "known mistake")
    print(f"wrote {out}: {submissions}, {len(shown.needy)} to look at, {mistakes}{silent}")
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    from autograder.cli.instructor_output import print_class
    from autograder.grading.trials import demo

    graded, expected = demo.run(arguments.folder, unsafe=arguments.unsafe)
    if arguments.json:
        print(json.dumps({**dataclasses.asdict(graded), "expected": expected}))
    else:
        print_class(graded, expected=expected)
    return 0 if demo.as_deserved(graded, expected) else 1


def _bench(arguments: argparse.Namespace) -> int:
    from autograder.cli import instructor_output
    from autograder.grading.trials import bench

    lesson, feedback = course.find_lesson(arguments.lesson), not arguments.no_feedback
    if arguments.sizes:
        rows = bench.growth(lesson, arguments.sizes, workers=arguments.workers)
        _write_bench(arguments, rows, instructor_output.growth_lines)
        return 0
    report = bench.run(lesson, arguments.students, workers=arguments.workers, feedback=feedback)
    _write_bench(arguments, report, instructor_output.grading_bench_lines)
    return 0 if report["scores_equal"] else 1


def _write_bench(arguments: argparse.Namespace, report: Any, lines: Callable[[Any], list[str]]) -> None:
    if arguments.json == "-":
        print(json.dumps(report, indent=1))
        return
    print("\n".join(lines(report)))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(report, indent=1), encoding="utf-8")
        print(f"wrote {arguments.json}", file=sys.stderr)
