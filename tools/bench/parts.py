"""`python -m tools.bench.parts`: where the time of a decode step on a CPU goes, counted part by part.

A step is two products of few rows, one for each head that shares the cache, with the cache, and a softmax between them. Each
product is timed on a cache that comes from memory, and again on one that the last call has left near by, which is what the
arithmetic alone takes. A library's matrix product first copies what it reads into the order that its inner loop wants, and
only then multiplies: so the two times add up, where the roofline lets the longer one hide the shorter. With one thread it is
the processor's time that counts.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from solutions.lib import decode_choice
from solutions.lib.attention import decode
from solutions.lib.latent import attend_latents
from tools.bench import clock
from tools.bench.clock import Work, ceilings, interleaved, median, rotated

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Step:
    """A decode step's sizes: `heads` share `n` cached rows of `width` numbers; `read` of them are values."""

    name: str
    heads: int
    n: int
    width: int
    values: int
    shared: bool  # whether values are a part of the same rows, as in MLA


STEPS = (Step("MQA", 16, 4096, 128, 128, False), Step("MLA, absorbed", 16, 4096, 576, 512, True))


def parts(step: Step, span: int, seconds: float) -> dict[str, float]:
    """Seconds of each part and of the whole step; then of its floor: the rows read once, or the FLOPs as fast as can be."""
    n, heads = step.n, step.heads
    q, weights = torch.randn(1, heads, step.width) / step.width**0.5, torch.softmax(torch.randn(1, heads, n), dim=-1)
    keys = torch.randn(1, n, step.width)
    sets = rotated((keys,) if step.shared else (keys, torch.randn(1, n, step.values)), span)

    def scores(i: int) -> torch.Tensor:
        out: torch.Tensor = q @ sets[i][0].mT
        return out

    def average(i: int) -> torch.Tensor:
        out: torch.Tensor = weights @ sets[i][-1][..., : step.values]
        return out

    def whole(i: int) -> torch.Tensor:
        if step.shared:
            return attend_latents(q, sets[i][0], step.values, scale=1.0)
        return decode(q, *sets[i])

    for i in range(decode_choice.STEPS):  # what Attention decides in its first steps is decided before it is timed
        whole(i % len(sets))
    probes, work = ceilings(CPU, torch.float32, span)
    calls = probes | {
        "scores, rows from memory": Work(scores, len(sets)),
        "scores, rows near by": Work(scores),
        "softmax": Work(lambda i: torch.softmax(weights, dim=-1)),
        "averages, rows from memory": Work(average, len(sets)),
        "averages, rows near by": Work(average),
        "the step": Work(whole, len(sets)),
    }
    times = {name: median(own) for name, own in interleaved(calls, CPU, seconds=seconds).items()}
    rates = {name: work[name] / times[name] for name in probes}
    fastest = max(rate for name, rate in rates.items() if name != "matmul")
    found = {name: times[name] for name in calls if name not in probes}
    found["reading the rows once"] = sum(x.nbytes for x in sets[0]) / fastest
    found["the FLOPs, as a square product"] = 2 * heads * n * (step.width + step.values) / rates["matmul"]
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Print the parts of both steps; returns 0."""
    kind = argparse.ArgumentParser(prog="python -m tools.bench.parts", description="Where a decode step's time goes on a CPU.")
    kind.add_argument("--threads", type=int, default=1)
    kind.add_argument("--seconds", type=float, default=10.0, help="about how long to measure each step")
    kind.add_argument("--quick", action="store_true", help="sizes too small to judge by")
    arguments = kind.parse_args(argv)
    before = torch.get_num_threads()
    torch.set_num_threads(arguments.threads)
    try:
        for step in STEPS:
            sizes = Step(step.name, step.heads, 64, step.width, step.values, step.shared) if arguments.quick else step
            found = parts(sizes, 2**21 if arguments.quick else clock.span(CPU), 0.0 if arguments.quick else arguments.seconds)
            print(f"{sizes.name}, {sizes.heads} heads, {sizes.n:,} rows, {arguments.threads} thread(s)")
            for name, t in found.items():
                print(f"  {name:34}{t * 1e6:9.0f} us")
            floor = max(found["reading the rows once"], found["the FLOPs, as a square product"])
            print(f"  {'share of the floor':34}{floor / found['the step']:9.2f}")
    finally:
        torch.set_num_threads(before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
