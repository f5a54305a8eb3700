"""Times of functions that do the same thing: interleaved rounds on one device, in one process."""

import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

Call = Callable[[int], object]  # does the work on input set number i
Times = dict[str, list[float]]  # seconds of one call, one number for each round

AT_LEAST = 2e-3  # seconds that one measurement lasts: shorter calls are repeated
ROUNDS = range(3, 16)
CEILING_BYTES = 2**28  # the matrix of the gemv: many times any cache


def interleaved(calls: Mapping[str, Call], device: torch.device, *, sets: int, seconds: float, graph: bool = False) -> Times:
    """Seconds per call of each of `calls`, for each round: every round measures all of them once, one after the other.

    So whatever slows the machine down for a while slows all alike. All have been called before, which warms them up.
    `seconds` is about what all rounds may take; there are 3 to 15. With `graph`, on CUDA, one pass over all `sets` of inputs
    is captured in a CUDA graph and replayed, which takes the cost of launching out of the time.
    """
    passes = {name: _Pass(call, device, sets, graph) for name, call in calls.items()}
    once = {name: max(measured.seconds(1), 1e-7) for name, measured in passes.items()}
    once |= {name: max(passes[name].seconds(5), 1e-7) for name, t in once.items() if t < AT_LEAST}  # now that it is warm
    times: Times = {name: [] for name in calls}
    repeats = {name: max(1, round(AT_LEAST / t)) for name, t in once.items()}
    a_round = sum(once[name] * repeats[name] for name in calls)
    for _ in range(min(max(int(seconds / a_round), ROUNDS.start), ROUNDS.stop - 1)):
        for name, measured in passes.items():
            times[name].append(measured.seconds(repeats[name]))
    return times


class _Pass:
    """One call after the other, over the sets of inputs in turn."""

    def __init__(self, call: Call, device: torch.device, sets: int, graph: bool) -> None:
        self.call, self.device, self.sets, self.next = call, device, sets, 0
        self.graph = None
        if graph and device.type == "cuda":
            try:
                self.graph = self._captured()
            except RuntimeError as problem:
                warnings.warn(f"timed with its launches, since no CUDA graph could be captured: {problem}", stacklevel=2)

    def _captured(self) -> torch.cuda.CUDAGraph:
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # PyTorch asks for a warm-up on a stream of its own before a capture
            for i in range(self.sets):
                self.call(i)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(self.sets):
                self.call(i)
        return graph

    def _run(self, repeats: int) -> int:
        """How many calls were made, `repeats` or, by replaying the graph, a multiple of the number of sets."""
        if self.graph is not None:
            replays = -(-repeats // self.sets)
            for _ in range(replays):
                self.graph.replay()
            return replays * self.sets
        for _ in range(repeats):
            self.call(self.next % self.sets)
            self.next += 1
        return repeats

    def seconds(self, repeats: int) -> float:
        """Of one call, the mean of `repeats`: device time between two events on CUDA, else time on the wall."""
        if self.device.type != "cuda":
            start = time.perf_counter()
            made = self._run(repeats)
            return (time.perf_counter() - start) / made
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        made = self._run(repeats)
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / made


def ceilings(device: torch.device, dtype: torch.dtype) -> tuple[dict[str, Call], dict[str, float]]:
    """What measures the machine's two ceilings, and the bytes or FLOPs of each call: `gemv` (and `copy`, on CUDA), `matmul`.

    A matrix-vector product reads a matrix once, as a decode step reads its cache. On CUDA a copy is often faster, and the
    faster of the two is the ceiling; on a CPU it is the product alone, since a copy may write past the caches.
    """
    size = dtype.itemsize
    rows = CEILING_BYTES // size // 4096
    matrix, vector = torch.randn(rows, 4096, device=device).to(dtype), torch.randn(4096, device=device).to(dtype)
    side = 8192 if device.type == "cuda" else 1024
    square = torch.randn(side, side, device=device).to(dtype)
    calls: dict[str, Call] = {"gemv": lambda i: matrix @ vector, "matmul": lambda i: square @ square}
    work = {"gemv": float(matrix.nbytes), "matmul": 2.0 * side**3}
    if device.type == "cuda":
        target = torch.empty_like(matrix)
        calls["copy"], work["copy"] = lambda i: target.copy_(matrix), 2.0 * matrix.nbytes
    return calls, work


def median(times: Sequence[float]) -> float:
    """The median, in seconds."""
    return statistics.median(times)


def ratio(slower: Sequence[float], faster: Sequence[float]) -> float:
    """How many times as long one takes as the other: the median over the rounds of each round's own ratio."""
    return statistics.median(a / b for a, b in zip(slower, faster, strict=True))


def rotated(make: Callable[[int], tuple[Tensor, ...]], device: torch.device) -> list[tuple[Tensor, ...]]:
    """Sets of inputs by `make(seed)`, in turn to be read, together several times as large as the last-level cache."""
    first = make(0)
    cache = torch.cuda.get_device_properties(device).L2_cache_size if device.type == "cuda" else 2**26
    bytes_ = sum(x.nbytes for x in first)
    return [first, *(make(seed) for seed in range(1, min(16, -(-4 * int(cache) // bytes_))))]
