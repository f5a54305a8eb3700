"""`attn bench`: what is fast here, and how fast it could be."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autograder.authoring.course import CourseError
from autograder.cli.common import Add, Command


def register(add: Add) -> None:
    """Add these commands to the parser."""
    bench = add("bench", lambda arguments: 2, "Measure speed on this machine.")
    kinds = bench.add_subparsers(title="what to measure", required=True, metavar="KIND")

    def add_kind(name: str, run: Command, text: str) -> argparse.ArgumentParser:
        kind = kinds.add_parser(name, help=text, description=text)
        kind.set_defaults(run=run)
        kind.add_argument("--json", nargs="?", const="-", metavar="FILE", help="write JSON to FILE, or instead of the table")
        return kind

    _add_grading(
        add_kind("grading", _grading, "A class graded by plain `nbgrader autograde` and by `attn grade`: ratios, equal scores.")
    )
    _add_attention(add_kind("attention", _attention, "The reference package's attention beside what else one would pick."))


def _add_grading(kind: argparse.ArgumentParser) -> None:
    kind.add_argument("--lesson", default="03", help="lesson to grade (default: 03)")
    kind.add_argument("--students", type=int, default=40, help="size of the class (default: 40)")
    kind.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="for attn grade (default: one for each core)")
    kind.add_argument("--no-feedback", action="store_true", help="marks only, without feedback pages, for both")
    kind.add_argument("--sizes", type=int, nargs="+", help="instead: how attn grade's cost grows over classes of these sizes")


def _grading(arguments: argparse.Namespace) -> int:
    from autograder.authoring.course import find_lesson
    from autograder.cli import instructor_output
    from autograder.grading import bench

    lesson, feedback = find_lesson(arguments.lesson), not arguments.no_feedback
    if arguments.sizes:
        rows = bench.growth(lesson, arguments.sizes, workers=arguments.workers)
        _write(arguments, rows, instructor_output.growth_lines)
        return 0
    found = bench.run(lesson, arguments.students, workers=arguments.workers, feedback=feedback)
    _write(arguments, found, instructor_output.grading_bench_lines)
    return 0 if found["scores_equal"] else 1


def _add_attention(kind: argparse.ArgumentParser) -> None:
    kind.add_argument("--plot", type=Path, metavar="FILE", help="draw the times relative to the floor (.png, .svg, .pdf)")
    kind.add_argument("--quick", action="store_true", help="sizes too small to judge speed by: does everything run, and agree?")
    kind.add_argument("--device", help="cpu or cuda (default: the course's, see ATTN_DEVICE)")
    kind.add_argument("--dtype", choices=["float32", "float16", "bfloat16"], help="default: bfloat16 on CUDA, else float32")
    kind.add_argument("--threads", type=int, help="threads of a CPU (default: PyTorch's own choice)")
    kind.add_argument("--batch", type=int, nargs="+", help="sequences in a decode step; several sizes may be given")
    kind.add_argument("--context", type=int, nargs="+", help="tokens in the cache of a decode step; several may be given")
    kind.add_argument("--prompt", type=int, help="tokens of a prefill")
    kind.add_argument("--heads", type=int, help="heads of queries")
    kind.add_argument("--kv-heads", type=int, help="heads of keys and values in GQA")
    kind.add_argument("--head-dim", type=int, help="width of a head")
    kind.add_argument("--latent-heads", type=int, nargs="+", help="heads of MLA; several may be given")
    kind.add_argument("--seconds", type=float, help="about how long to measure each case, after a warm-up")
    kind.add_argument("--no-flex", action="store_true", help="leave out flex_attention, which is compiled for each shape")


def _attention(arguments: argparse.Namespace) -> int:
    try:
        import torch

        from solutions import bench, device
        from solutions.bench import report as reports
    except ImportError as error:
        raise CourseError(
            f"expected the course's clone with PyTorch (the benchmark measures its `solutions`), got: {error}. "
            "Run it in the clone, after `pip install -e '.[learn]'`."
        ) from None
    names = ("batch", "context", "prompt", "heads", "kv_heads", "head_dim", "latent_heads", "seconds")
    given: dict[str, Any] = {name: getattr(arguments, name) for name in names}
    given |= {name: tuple(given[name]) for name in ("batch", "context", "latent_heads") if given[name]}
    given |= {"dtype": arguments.dtype and getattr(torch, arguments.dtype), "flex": False if arguments.no_flex else None}
    _refuse_impossible({**given, "threads": arguments.threads})
    where = torch.device(arguments.device) if arguments.device else device()
    settings = bench.preset(where, quick=arguments.quick, **given)
    if settings.heads % settings.kv_heads:
        raise CourseError(f"--kv-heads: expected a divisor of --heads = {settings.heads}, got {settings.kv_heads}.")
    try:
        report = bench.run(settings, threads=arguments.threads, say=_progress())
    except bench.WrongResultError as wrong:
        raise CourseError(str(wrong)) from None
    _write(arguments, report, reports.lines)
    if arguments.plot:
        reports.plot(report, arguments.plot)
        print(f"wrote {arguments.plot}", file=sys.stderr)
    return 0


def _refuse_impossible(given: dict[str, Any]) -> None:
    for name, value in given.items():
        numbers = value if isinstance(value, tuple) else (value,)
        if any(isinstance(x, int) and not isinstance(x, bool) and x < 1 for x in numbers):
            raise CourseError(f"--{name.replace('_', '-')}: expected at least 1, got {min(numbers)}.")


def _progress() -> Callable[[str], None]:
    return lambda line: print(f"measuring {line}", file=sys.stderr, flush=True) if sys.stderr.isatty() else None


def _write(arguments: argparse.Namespace, report: Any, lines: Callable[[Any], list[str]]) -> None:
    if arguments.json == "-":
        print(json.dumps(report, indent=1))
        return
    print("\n".join(lines(report)))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(report, indent=1), encoding="utf-8")
        print(f"wrote {arguments.json}", file=sys.stderr)
