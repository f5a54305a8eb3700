"""What an answer may use: room for what it makes, and no automatic differentiation where all is to be done by hand.

In: a call. Out: its result, or a MemoryError that says how much was made. A copy that gives right values is seen by nothing else.
"""

import contextlib
import functools
import os
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def by_hand(wanted: bool) -> Iterator[None]:
    """Where `wanted`, PyTorch writes nothing down for a backward pass, and cannot be asked to."""
    torch = sys.modules.get("torch")
    if not wanted or torch is None:
        yield
        return
    with torch.inference_mode():
        yield


@functools.cache
def get_ready() -> None:
    """Call it in the main thread where `within` may run in another: PyTorch's profiler complains of a first use there."""
    if "torch" in sys.modules:
        with _profile():
            pass


def _profile() -> Any:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it tells stderr that it begins
    from torch.autograd.profiler import profile

    return profile(profile_memory=True)


def within(room: int, call: Callable[[], Any], *, tensors: bool) -> Any:
    """`call()`, whose first run warms up; raises MemoryError where the second makes more than `room` bytes.

    Of `tensors` the largest that is made counts, of arrays all that are there at once.
    """
    call()
    if tensors:
        with _profile() as seen:
            result = call()
        found: Any = seen.kineto_results
        made = max((event.nbytes() for event in found.events() if event.name() == "[memory]"), default=0)
    else:
        tracemalloc.start()
        try:
            result = call()
            made = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    if made > room:
        raise MemoryError(f"about {made} bytes are made at once, where {room} are enough")
    return result
