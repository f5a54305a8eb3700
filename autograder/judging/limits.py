"""What an answer may use: room for what it makes and keeps, and no automatic differentiation where all is to be done by hand.

In: a call. Out: its result, or a MemoryError that says how much was made. A copy that gives right values is seen by nothing else.
"""

import contextlib
import functools
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from tracemalloc import get_traced_memory, start, stop  # by name: a module's attributes an answer can replace
from types import ModuleType
from typing import Any

import numpy as np

MANY = 100_000  # no answer keeps so many things


@functools.cache
def from_torch() -> tuple[Any, Any]:
    """PyTorch's mode without a backward pass, and its profiler: kept, where this is called before any answer is there."""
    import torch
    from torch.autograd.profiler import profile

    return torch.inference_mode, profile


@contextlib.contextmanager
def by_hand(wanted: bool) -> Iterator[None]:
    """Where `wanted`, PyTorch writes nothing down for a backward pass, and cannot be asked to."""
    if not wanted or "torch" not in sys.modules:
        yield
        return
    mode, _ = from_torch()
    with mode():
        yield


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Whatever PyTorch's profiler has to say on stderr is lost; where a sandbox lets nothing be opened, it is said."""
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
    """`call()`, whose first run warms up; raises MemoryError where the second makes more than `room` bytes.

    Of tensors the largest that is made counts, of arrays, where the inputs are no `tensors`, all that are there at once.
    """
    with contextlib.suppress(Exception):
        call()  # what it raises, it raises again
    with contextlib.ExitStack() as looks:
        seen = None
        if tensors or "torch" in sys.modules:
            looks.enter_context(_silent())
            seen = looks.enter_context(from_torch()[1](profile_memory=True))
        if not tensors:
            start()
            looks.callback(stop)
        result = call()
        made = 0 if tensors else get_traced_memory()[1]
    found: Any = [] if seen is None else seen.kineto_results.events()
    made = max([made, *(event.nbytes() for event in found if event.name() == "[memory]")])
    if made > room:
        about = int(float(f"{made:.2g}"))  # the small objects around the arrays have another size in each version of Python
        raise MemoryError(f"about {about} bytes are made at once, where {room} are enough")
    return result


def kept(obj: Any, beside: Any) -> int:
    """How many numbers the arrays and tensors that `obj` keeps hold, each memory counted once, without what lies `beside`."""
    given = _memory(beside)
    return sum(size for place, size in _memory(obj).items() if place not in given)


def _memory(obj: Any) -> dict[int, int]:
    """Where the numbers are that can be reached from `obj` by attributes and containers, and how many there are."""
    found: dict[int, int] = {}
    left: list[Any] = [obj]
    seen: dict[int, Any] = {}  # what is seen stays alive, so that no id is used twice
    torch = sys.modules.get("torch")
    while left and len(seen) < MANY:
        one = left.pop()
        if id(one) in seen or isinstance(one, str | bytes | int | float | type | ModuleType):
            continue
        seen[id(one)] = one
        if torch is not None and isinstance(one, torch.Tensor):  # a view shares its storage
            storage = one.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes() // one.element_size()
        elif isinstance(one, np.ndarray):
            whole = one
            while isinstance(whole.base, np.ndarray):
                whole = whole.base
            found[whole.__array_interface__["data"][0]] = whole.size
        elif isinstance(one, Mapping):
            left += one.values()
        elif isinstance(one, list | tuple | set | frozenset | deque):
            left += one
        else:
            left += getattr(one, "__dict__", {}).values()
            left += [getattr(one, name, None) for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
    return found
