"""`attn bench`: measure how fast a class is graded on this machine, and how much faster than with plain nbgrader."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autograder.cli.common import Add


def register(add: Add) -> None:
    """Add these commands to the parser."""
    bench = add("bench", lambda arguments: 2, "Measure speed on this machine.")
    kinds = bench.add_subparsers(title="what to measure", required=True, metavar="KIND")
    text = "A class graded by plain `nbgrader autograde` and by `attn grade`: ratios, equal scores."
    grading = kinds.add_parser("grading", help=text, description=text)
    grading.set_defaults(run=_grading)
    grading.add_argument("--json", nargs="?", const="-", metavar="FILE", help="write JSON to FILE, or instead of the table")
    grading.add_argument("--lesson", default="03", help="lesson to grade (default: 03)")
    grading.add_argument("--students", type=int, default=40, help="size of the class (default: 40)")
    grading.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="for attn grade (default: one for each core)")
    grading.add_argument("--no-feedback", action="store_true", help="marks only, without feedback pages, for both")
    grading.add_argument("--sizes", type=int, nargs="+", help="instead: how attn grade's cost grows over classes of these sizes")


def _grading(arguments: argparse.Namespace) -> int:
    from autograder.authoring.course import find_lesson
    from autograder.cli import instructor_output
    from autograder.grading.trials import bench

    lesson, feedback = find_lesson(arguments.lesson), not arguments.no_feedback
    if arguments.sizes:
        rows = bench.growth(lesson, arguments.sizes, workers=arguments.workers)
        _write(arguments, rows, instructor_output.growth_lines)
        return 0
    report = bench.run(lesson, arguments.students, workers=arguments.workers, feedback=feedback)
    _write(arguments, report, instructor_output.grading_bench_lines)
    return 0 if report["scores_equal"] else 1


def _write(arguments: argparse.Namespace, report: Any, lines: Callable[[Any], list[str]]) -> None:
    if arguments.json == "-":
        print(json.dumps(report, indent=1))
        return
    print("\n".join(lines(report)))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(report, indent=1), encoding="utf-8")
        print(f"wrote {arguments.json}", file=sys.stderr)
