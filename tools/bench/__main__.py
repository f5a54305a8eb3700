"""`python -m tools.bench`: what is fast here, and how fast it could be."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from solutions import device
from tools import bench
from tools.bench import report as reports


def _parser() -> argparse.ArgumentParser:
    kind = argparse.ArgumentParser(
        prog="python -m tools.bench", description="The reference package's attention beside what else one would pick."
    )
    kind.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="write JSON to FILE after each case, or instead of the table"
    )
    kind.add_argument("--plot", type=Path, metavar="FILE", help="draw the times relative to the floor (.png, .svg, .pdf)")
    kind.add_argument("--quick", action="store_true", help="sizes too small to judge speed by: does everything run, and agree?")
    kind.add_argument("--device", help="cpu, cuda or mps (default: the course's, see ATTN_DEVICE)")
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
    kind.add_argument("--only", metavar="NAME", help="cases whose names contain NAME, such as decode or 'decode GQA'")
    kind.add_argument("--no-flex", action="store_true", help="leave out flex_attention, which is compiled for each shape")
    return kind


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status: 0 well, 2 wrong use, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    try:
        return _run(arguments)
    except (ValueError, bench.WrongResultError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench: interrupted; what is above was measured", file=sys.stderr)
        return 130


def _run(arguments: argparse.Namespace) -> int:
    names = ("batch", "context", "prompt", "heads", "kv_heads", "head_dim", "latent_heads", "seconds", "only")
    given: dict[str, Any] = {name: getattr(arguments, name) for name in names}
    given |= {name: tuple(given[name]) for name in ("batch", "context", "latent_heads") if given[name]}
    given |= {"dtype": arguments.dtype and getattr(torch, arguments.dtype), "flex": False if arguments.no_flex else None}
    _refuse_impossible({**given, "threads": arguments.threads})
    where = torch.device(arguments.device) if arguments.device else device()
    settings = bench.preset(where, quick=arguments.quick, **given)
    if settings.heads % settings.kv_heads:
        raise ValueError(f"--kv-heads: expected a divisor of --heads = {settings.heads}, got {settings.kv_heads}.")
    file = Path(arguments.json) if arguments.json not in (None, "-") else None
    shown = 0

    def show(report: Any) -> None:  # as it comes: who interrupts a run of an hour keeps what was measured
        nonlocal shown
        lines = reports.lines(report)
        if arguments.json != "-":
            print("\n".join(lines[shown:]), flush=True)
        shown = len(lines)
        if file and report["cases"]:
            file.write_text(json.dumps(report, indent=1), encoding="utf-8")

    report = bench.run(settings, threads=arguments.threads, say=_progress(), show=show)
    if arguments.json == "-":
        print(json.dumps(report, indent=1))
        return 0
    print("\n".join(["", *reports.summary(report)]))
    if file:
        print(f"wrote {file}", file=sys.stderr)
    if arguments.plot:
        reports.plot(report, arguments.plot)
        print(f"wrote {arguments.plot}", file=sys.stderr)
    return 0


def _refuse_impossible(given: dict[str, Any]) -> None:
    for name, value in given.items():
        numbers = value if isinstance(value, tuple) else (value,)
        if any(isinstance(x, int) and not isinstance(x, bool) and x < 1 for x in numbers):
            raise ValueError(f"--{name.replace('_', '-')}: expected at least 1, got {min(numbers)}.")


def _progress() -> Callable[[str], None]:
    return lambda line: print(f"measuring {line}", file=sys.stderr, flush=True) if sys.stderr.isatty() else None


if __name__ == "__main__":
    sys.exit(main())
