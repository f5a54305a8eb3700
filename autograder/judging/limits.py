"""What an answer may use: room for what it makes, and no automatic differentiation where all is to be done by hand.

In: a call. Out: its result, or a MemoryError that says how much was made. A copy that gives right values is seen by nothing else.
"""

import contextlib
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


def within(room: int, call: Callable[[], Any], *, tensors: bool) -> Any:
    """`call()`, whose first run warms up; raises MemoryError where the second makes more than `room` bytes.

    Of `tensors` the largest that is made counts, of arrays all that are there at once.
    """
    call()
    if tensors:
        with _largest_tensor() as watch:
            result = call()
        made = watch.largest
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


def _largest_tensor() -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        largest = 0

        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = operation(*args, **(kwargs or {}))
            given = [part for part in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(part, torch.Tensor)]
            old = {part.untyped_storage().data_ptr() for part in given}
            for part in torch.utils._pytree.tree_leaves(made):
                if isinstance(part, torch.Tensor) and part.untyped_storage().data_ptr() not in old:  # a view is not new
                    self.largest = max(self.largest, part.nbytes)
            return made

    return Largest()  # type: ignore[no-untyped-call]  # torch's own
