"""Speed of the reference package beside what else a user would pick: prefill, decode, latent attention, cached generation.

Everything is measured in one process in interleaved rounds, so that ratios mean something on a noisy machine, and beside the
machine's own ceilings: bytes per second of the fastest of some plain readers of memory, FLOPs per second of a matrix product.
The *floor* of a case is the time that its least bytes and FLOPs take at these ceilings. Each contender's result is compared
with float64 before it is timed.

Source of the floor: Williams, Waterman, Patterson (2009), "Roofline".
"""

import datetime
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tools.bench import clock
from tools.bench.alternatives import wide
from tools.bench.cases import Case, Settings, cases
from tools.bench.clock import Times, Work, ceilings, interleaved, median, ratio

# The norm of the error over the norm of the result. Half precision rounds queries, weights and output once each or more.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 3e-2}


class WrongResultError(Exception):
    """A contender does not compute what the others do, so its time means nothing."""


def preset(device: torch.device, *, quick: bool = False, **given: Any) -> Settings:
    """The sizes for this device: some minutes of work, or with `quick` some seconds, on sizes too small to judge speed by.

    `given` replaces single settings. On CUDA: Llama 3's heads and DeepSeek's latents in bfloat16 over 32k tokens.
    """
    base: dict[str, Any] = {"device": device, "dtype": torch.bfloat16 if device.type == "cuda" else torch.float32}
    base["span"] = given.get("span") or (2**20 if quick else clock.span(device))
    if quick:
        base |= {"context": (96,), "prompt": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "latent": 32, "rope": 8}
        base |= {"latent_heads": (4,), "flex": False, "seconds": 0.0}
    elif device.type == "cuda":
        base |= {"batch": (1, 8, 32), "context": (32_768,), "prompt": 8192, "heads": 32, "kv_heads": 8, "latent_heads": (16, 128)}
    return Settings(**{**base, **{name: value for name, value in given.items() if value is not None}})


@contextmanager
def _threads(wanted: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(wanted or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


Report = dict[str, Any]


def run(
    settings: Settings,
    *,
    threads: int | None = None,
    say: Callable[[str], None] = lambda line: None,
    show: Callable[[Report], None] = lambda report: None,
) -> Report:
    """The report: machine, settings, ceilings, and for each case its floor and all contenders' times; ready for JSON.

    Seconds, bytes, FLOPs throughout. `say` is told the name of each case as it starts, `show` gets the report as it stands
    before the first case and after each.

    Raises WrongResultError where a contender's result is not the float64 one within its dtype's tolerance, ValueError where no
    case's name contains `settings.only`.
    """
    with torch.no_grad(), _threads(threads):
        probes, work = ceilings(settings.device, settings.dtype, settings.span)
        report: Report = {"machine": _machine(settings), "ceilings": {}, "cases": []}
        seen = {name: list[float]() for name in probes}
        show(report)
        for case in cases(settings):
            say(f"{case.name} {title(case.sizes)}")
            row, times = _measure(case, settings, probes, work)
            for name in probes:
                seen[name] += times[name]
            report["ceilings"] = {name: work[name] / median(seen[name]) for name in probes}
            report["cases"].append(row)
            show(report)
        if not report["cases"]:
            raise ValueError(f"only: expected a part of a case's name, such as 'decode GQA', got {settings.only!r}.")
        return report


def title(sizes: Mapping[str, int]) -> str:
    """`H=16, n=4096`, of a case's sizes."""
    return ", ".join(f"{name}={value}" for name, value in sizes.items())


def _machine(s: Settings) -> dict[str, Any]:
    cuda = s.device.type == "cuda"
    return {
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name(s.device) if cuda else platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "dtype": str(s.dtype).removeprefix("torch."),
        "span": s.span,
        "torch": torch.__version__,
    }


def _measure(case: Case, s: Settings, probes: Mapping[str, Work], work: Mapping[str, float]) -> tuple[dict[str, Any], Times]:
    rows = _checked(case, TOLERANCE[s.dtype])
    calls = dict(probes)
    for name in (row["name"] for row in rows if "skipped" not in row):
        calls[name] = Work(partial(_on_set, case, case.contenders[name]), len(case.sets))
    times = interleaved(calls, s.device, seconds=s.seconds)
    floors = [
        floor(case.bytes, case.flops, {name: work[name] / times[name][i] for name in probes}) for i in range(len(times["matmul"]))
    ]
    for row in rows:
        if own := times.get(row["name"]):
            row |= {"seconds": median(own), "best": min(own)}
            row |= {"of_floor": ratio(floors, own), "times_ours": ratio(own, times[rows[0]["name"]])}
    least = {"bytes": case.bytes, "flops": case.flops, "floor": median(floors), "rounds": len(floors)}
    return {"name": case.name, "sizes": case.sizes, **least, "contenders": rows, "goals": _goals(case, rows)}, times


def floor(bytes_: int, flops: int, rates: Mapping[str, float]) -> float:
    """Seconds that nothing should beat: so many bytes at the rate of the fastest reader, or so many FLOPs at `matmul`'s.

    >>> floor(60, 8, {"gemv": 10.0, "sum": 20.0, "dot": 30.0, "matmul": 2.0})
    4.0
    >>> floor(300, 8, {"gemv": 10.0, "sum": 20.0, "dot": 30.0, "matmul": 2.0})
    10.0
    """
    fastest = max(rate for name, rate in rates.items() if name != "matmul")
    return max(bytes_ / fastest, flops / rates["matmul"])


def _on_set(case: Case, compute: Callable[..., Tensor], i: int) -> Tensor:
    return compute(*case.sets[i])


def _checked(case: Case, tolerance: float) -> list[dict[str, Any]]:
    """A row for each contender, with its error and the memory it makes, or why it can't run here. Ours must."""
    expected, rows = case.reference(*case.sets[0]), list[dict[str, Any]]()
    for name, compute in case.contenders.items():
        call = partial(_on_set, case, compute, 0)
        try:
            error = float((wide(call()) - expected).norm() / expected.norm())
        except (RuntimeError, NotImplementedError) as problem:  # out of memory, not for these shapes, no compiler
            if not rows:
                raise
            reason = next(iter(str(problem).strip().splitlines()), "")
            rows.append({"name": name, "skipped": f"{type(problem).__name__}: {reason}"[:200]})
            continue
        if not error <= tolerance:
            raise WrongResultError(
                f"{case.name}, {name}: expected float64's result within {tolerance:g}, got a relative error of {error:.2g}."
            )
        made = None if name == "flex_attention" else allocated(call)  # what is compiled can't be watched
        rows.append({"name": name, "error": error, "allocated": made})
    return rows


def _goals(case: Case, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    reached = {row["name"]: row["times_ours"] for row in rows[1:] if "times_ours" in row}
    reached |= {"floor": rows[0]["of_floor"], "fastest": min(reached.values(), default=None)}
    return [{"against": goal.contender, "at_least": goal.times, "got": reached.get(goal.contender)} for goal in case.goals]


def allocated(compute: Callable[[], object]) -> int:
    """The bytes of all tensors that `compute` makes, views left out: what it copies or keeps besides its inputs.

    >>> x = torch.ones(8, 4)
    >>> allocated(lambda: x.mT.flatten()), allocated(lambda: x.view(4, 8))
    (128, 0)
    """
    seen = _Allocations()
    with seen:
        compute()
    return seen.total


class _Allocations(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own has no types
        self.total = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = operation(*args, **(kwargs or {}))
        given = {x.untyped_storage().data_ptr() for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        made = [x for x in tree_leaves(out) if isinstance(x, Tensor) and x.untyped_storage().data_ptr() not in given]
        self.total += sum(x.nbytes for x in made)
        return out
