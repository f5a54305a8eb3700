"""`attn bench`: measure the project on this machine."""

import argparse
import json
import os

from autograder.cli.common import Add


def register(add: Add) -> None:
    """Add these commands to the parser."""
    bench = add("bench", _bench, "Measure the project on this machine.")
    kinds = bench.add_subparsers(title="what to measure", required=True, metavar="WHAT")
    text = "The same class by plain `nbgrader autograde` and by `attn grade`: wall and CPU seconds, ratios, equal scores."
    grading = kinds.add_parser("grading", help=text, description=text)
    grading.add_argument("--lesson", default="03", help="lesson to grade (default: 03)")
    grading.add_argument("--students", type=int, default=40, help="size of the class (default: 40)")
    grading.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="for attn grade (default: one for each core)")
    grading.add_argument("--no-feedback", action="store_true", help="marks only, without feedback pages, for both")
    grading.add_argument("--sizes", type=int, nargs="+", help="instead: how attn grade's cost grows over classes of these sizes")
    grading.add_argument("--json", action="store_true", help="print JSON")
    grading.set_defaults(measure=_grading)


def _bench(arguments: argparse.Namespace) -> int:
    measured: int = arguments.measure(arguments)
    return measured


def _grading(arguments: argparse.Namespace) -> int:
    from autograder import bench_grading
    from autograder.registry import find_lesson
    from autograder.tables import print_grading_bench, print_growth

    if arguments.sizes:
        rows = bench_grading.growth(find_lesson(arguments.lesson), arguments.sizes, workers=arguments.workers)
        print(json.dumps(rows)) if arguments.json else print_growth(rows)
        return 0
    found = bench_grading.run(
        find_lesson(arguments.lesson), arguments.students, workers=arguments.workers, feedback=not arguments.no_feedback
    )
    if arguments.json:
        print(json.dumps(found))
    else:
        print_grading_bench(found)
    return 0 if found["scores_equal"] else 1
