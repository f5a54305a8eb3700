"""Fill uninitialised memory with NaN, so that a program that reads it returns the same result every time.

In: a block of code. Out: inside it, `np.empty` and `torch.empty` return arrays filled with NaN (integers: the largest value,
booleans: True). Otherwise a program that leaves part of such an array unwritten would return whatever lay in memory before.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np


@contextlib.contextmanager
def filled_memory() -> Iterator[None]:
    """Fill the arrays that `np.empty`, `np.empty_like` and, if PyTorch is loaded, `torch.empty` and its relatives make."""
    with contextlib.ExitStack() as undo:
        for name in ("empty", "empty_like"):
            make = getattr(np, name)
            undo.callback(setattr, np, name, make)
            setattr(np, name, lambda *args, make=make, **kwargs: _filled(make(*args, **kwargs)))
        if (torch := sys.modules.get("torch")) is not None:  # its deterministic mode fills memory, too
            before, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
            undo.callback(torch.use_deterministic_algorithms, before, warn_only=warns)
            torch.use_deterministic_algorithms(True, warn_only=True)  # an operation without a deterministic version runs as usual
        yield


def _filled(array: Any) -> Any:
    kind = array.dtype.kind
    if kind in "fc":
        array.fill(np.nan)
    elif kind in "iu":
        array.fill(np.iinfo(array.dtype).max)
    elif kind == "b":
        array.fill(True)
    return array
