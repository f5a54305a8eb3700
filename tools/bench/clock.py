"""Times of functions that do the same thing: interleaved rounds on one device, in one process."""

import os
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Times = dict[str, list[float]]  # seconds of one call, one number for each round

AT_LEAST = 2e-3  # seconds that one measurement lasts: shorter calls are repeated
LAUNCHES = 1e-3  # seconds: a call that is shorter may wait for its launches, so a CUDA graph is replayed instead
ROUNDS = range(3, 16)
CHUNKS = 8  # parts of what the ceilings read, in turn
WIDTH = 4096  # numbers in a row of it


@dataclass(frozen=True)
class Work:
    """What is timed: `call(i)` does it on input set number `i`, of `sets`."""

    call: Callable[[int], object]
    sets: int = 1


def interleaved(calls: Mapping[str, Work], device: torch.device, *, seconds: float) -> Times:
    """Seconds per call of each of `calls`, for each round: every round measures all of them once, one after the other.

    So whatever slows the machine down for a while slows all alike. All have been called before, which warms them up. What one
    call leaves in the processor's caches can slow the next one down or speed it up, so each round has another order, and each
    call begins with another of its sets of inputs. `seconds` is about what all rounds may take; there are 3 to 15. On CUDA, where
    a call is so short that its launches matter, one pass over all its sets of inputs is captured in a CUDA graph and replayed.
    """
    passes = {name: _Pass(work, device, i * work.sets // len(calls)) for i, (name, work) in enumerate(calls.items())}
    once = {name: max(measured.seconds(1), 1e-7) for name, measured in passes.items()}
    once |= {name: max(passes[name].seconds(5), 1e-7) for name, t in once.items() if t < AT_LEAST}  # now that it is warm
    for name, measured in passes.items():
        if device.type == "cuda" and once[name] < LAUNCHES:
            measured.capture()
    times: Times = {name: [] for name in calls}
    repeats = {name: max(1, round(AT_LEAST / t)) for name, t in once.items()}
    a_round = sum(once[name] * repeats[name] for name in calls)
    order, shuffle = list(calls), random.Random(0).shuffle
    for _ in range(min(max(int(seconds / a_round), ROUNDS.start), ROUNDS.stop - 1)):
        shuffle(order)
        for name in order:
            times[name].append(passes[name].seconds(repeats[name]))
    return times


def own_clock(device: torch.device) -> Callable[[], float]:
    """The processor's time where one thread of a CPU does the work, since other work does not count in it, else the wall's.

    Windows counts a process's time in steps of 16 ms, which is too coarse.
    """
    alone = device.type == "cpu" and torch.get_num_threads() == 1 and sys.platform != "win32"
    return time.process_time if alone else time.perf_counter


class _Pass:
    """One call after the other, over the sets of inputs in turn, beginning with number `first`."""

    def __init__(self, work: Work, device: torch.device, first: int = 0) -> None:
        self.call, self.sets, self.device, self.now, self.next = work.call, work.sets, device, own_clock(device), first
        self.graph: Any = None  # a torch.cuda.CUDAGraph

    def capture(self) -> None:
        """From now on, replay a CUDA graph of one pass over all sets of inputs, if one can be captured."""
        try:
            self.graph = self._captured()
        except RuntimeError as problem:
            warnings.warn(f"timed with its launches, since no CUDA graph could be captured: {problem}", stacklevel=2)

    def _captured(self) -> Any:
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # PyTorch asks for a warm-up on a stream of its own before a capture
            self.call(0)
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
        """Of one call, the mean of `repeats`: device time between two events on CUDA, else the wall's until all is done."""
        if self.device.type == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            made = self._run(repeats)
            end.record()
            end.synchronize()
            return float(begin.elapsed_time(end)) / 1e3 / made
        _wait(self.device)
        start = self.now()
        made = self._run(repeats)
        _wait(self.device)
        return (self.now() - start) / made


def _wait(device: torch.device) -> None:
    """Until the device has done all that it was told: every device but the CPU answers before it has computed."""
    if device.type != "cpu":
        torch.get_device_module(device).synchronize()


def span(device: torch.device) -> int:
    """Bytes that are read in turn: far more than a last-level cache, hundreds of MB on a server, and little of the memory."""
    if device.type == "cuda":
        return min(2**31, int(torch.cuda.get_device_properties(device).total_memory) // 16)
    known = hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if known else 2**33
    return min(2**30, memory // 8)


def ceilings(device: torch.device, dtype: torch.dtype, span: int) -> tuple[dict[str, Work], dict[str, float]]:
    """What measures the machine's two ceilings, and the bytes or FLOPs of each call: readers of memory, and `matmul`.

    The readers go through `span` bytes, an eighth of them in each call, so that no cache holds what they read: a matrix-vector
    product, a sum, a dot product, and on CUDA a copy, which also writes. Which of them is fastest depends on the machine and
    on the number of threads; the ceiling is the fastest. None knows what it reads for, so no attention should beat it.
    """
    rows = max(2, span // CHUNKS // 4 // WIDTH)
    memory, vector = torch.ones(CHUNKS, rows, WIDTH, device=device), torch.ones(WIDTH, device=device)
    halves = memory.view(CHUNKS, 2, -1)
    readers: dict[str, Callable[[int], Any]] = {
        "gemv": lambda i: memory[i] @ vector,
        "sum": lambda i: memory[i].sum(),
        "dot": lambda i: torch.dot(halves[i, 0], halves[i, 1]),
    }
    moved = {name: float(memory[0].nbytes) for name in readers}
    if device.type == "cuda":
        target = torch.empty_like(memory[0])
        readers["copy"], moved["copy"] = lambda i: target.copy_(memory[i]), 2.0 * target.nbytes
    side = 8192 if device.type == "cuda" else 1024
    square = torch.randn(side, side, device=device).to(dtype)
    works = {name: Work(read, CHUNKS) for name, read in readers.items()} | {"matmul": Work(lambda i: square @ square)}
    return works, moved | {"matmul": 2.0 * side**3}


def median(times: Sequence[float]) -> float:
    """The median, in seconds."""
    return statistics.median(times)


def ratio(slower: Sequence[float], faster: Sequence[float]) -> float:
    """How many times as long one takes as the other: the median over the rounds of each round's own ratio."""
    return statistics.median(a / b for a, b in zip(slower, faster, strict=True))


def rotated(inputs: tuple[Tensor, ...], span: int) -> list[tuple[Tensor, ...]]:
    """The inputs and copies of them, in turn to be used, so many that they take `span` bytes together. Layouts are kept."""
    bytes_ = sum(x.nbytes for x in inputs)
    return [inputs, *(tuple(_copy(x) for x in inputs) for _ in range(1, -(-span // bytes_)))]


def _copy(x: Tensor) -> Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).copy_(x)
