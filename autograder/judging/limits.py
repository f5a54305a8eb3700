"""What an answer may use: room for what it makes, and no automatic differentiation where all is to be done by hand.

In: a call. Out: its result, or a MemoryError that says how much was made. A copy that gives right values is seen by nothing else.
"""

import contextlib
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

    Of `tensors` the largest that is made counts, of arrays all that are there at once.
    """
    call()
    if tensors:
        from torch.autograd.profiler import profile

        with _silent(), profile(profile_memory=True) as seen:
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
