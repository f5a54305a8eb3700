"""Limit what an answer may use: the memory it allocates, the numbers it keeps, and automatic differentiation.

In: a call. Out: its result, or a MemoryError that says how much memory was allocated. No other check notices a needless copy
that gives the right values.
"""

import contextlib
import functools
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from tracemalloc import get_traced_memory, start, stop  # imported by name, because an answer can replace a module's attributes
from types import ModuleType
from typing import Any

import numpy as np

MANY = 100_000  # objects to visit at most; no real answer keeps so many


@functools.cache
def from_torch() -> tuple[Any, Any]:
    """Return PyTorch's inference mode and its profiler. Call this before any answer runs: the cache keeps the originals."""
    import torch
    from torch.autograd.profiler import profile

    return torch.inference_mode, profile


def by_hand(wanted: bool) -> contextlib.AbstractContextManager[Any]:
    """Switch off automatic differentiation in the block if `wanted`: PyTorch cannot record anything for a backward pass."""
    if not wanted or "torch" not in sys.modules:
        return contextlib.nullcontext()
    mode: contextlib.AbstractContextManager[Any] = from_torch()[0]()
    return mode


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Discard what PyTorch's profiler writes to stderr. In a sandbox that allows no file to be opened, the text stays."""
    with contextlib.ExitStack() as undo:
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            undo.callback(os.close, nowhere)
            saved = os.dup(2)
            undo.callback(os.close, saved)
            os.dup2(nowhere, 2)
            undo.callback(os.dup2, saved, 2)
        yield


def within(room: int, call: Callable[[], Any], *, tensors: bool) -> Any:
    """Return `call()`. Raises MemoryError if it allocates more than `room` bytes; a first call, which is not measured, warms up.

    If the inputs are `tensors`, only the largest single allocation counts. For arrays, the peak memory in use counts too.
    """
    with contextlib.suppress(Exception):
        call()  # an exception here is raised again in the measured call
    with contextlib.ExitStack() as looks:
        profiler = None
        if tensors or "torch" in sys.modules:
            looks.enter_context(_silent())
            profiler = looks.enter_context(from_torch()[1](profile_memory=True))
        if not tensors:
            start()
            looks.callback(stop)
        result = call()
        peak = 0 if tensors else get_traced_memory()[1]
    events: Any = [] if profiler is None else profiler.kineto_results.events()
    peak = max([peak, *(event.nbytes() for event in events if event.name() == "[memory]")])
    if peak > room:
        about = int(float(f"{peak:.2g}"))  # small Python objects differ in size between versions
        raise MemoryError(f"about {about} bytes are made at once, where {room} are enough")
    return result


def kept(obj: Any, beside: Any) -> int:
    """Return how many numbers the arrays and tensors in `obj` hold, counting shared memory once and skipping that of `beside`."""
    given = _memory(beside)
    return sum(size for place, size in _memory(obj).items() if place not in given)


def _memory(obj: Any) -> dict[int, int]:
    """Map each block of numbers reachable from `obj` through attributes and containers to its size: `{address: numbers}`."""
    sizes: dict[int, int] = {}
    left: list[Any] = [obj]
    visited: dict[int, Any] = {}  # keeps the objects alive, so that no id is reused
    torch = sys.modules.get("torch")
    while left and len(visited) < MANY:
        value = left.pop()
        if id(value) in visited or isinstance(value, str | bytes | int | float | type | ModuleType):
            continue
        visited[id(value)] = value
        if torch is not None and isinstance(value, torch.Tensor):  # a view shares its storage with its base
            storage = value.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes() // value.element_size()
        elif isinstance(value, np.ndarray):
            whole = value
            while isinstance(whole.base, np.ndarray):
                whole = whole.base
            sizes[whole.__array_interface__["data"][0]] = whole.size
        elif isinstance(value, Mapping):
            left += value.values()
        elif isinstance(value, list | tuple | set | frozenset | deque):
            left += value
        else:
            left += getattr(value, "__dict__", {}).values()
            left += [getattr(value, name, None) for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return sizes
