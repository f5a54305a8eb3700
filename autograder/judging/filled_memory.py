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
    empty, empty_like = np.empty, np.empty_like
    with contextlib.ExitStack() as undo:
        undo.callback(setattr, np, "empty", empty)
        undo.callback(setattr, np, "empty_like", empty_like)
        setattr(np, "empty", lambda *args, **kwargs: _filled(empty(*args, **kwargs)))  # noqa: B010 - mypy knows it as a function
        setattr(np, "empty_like", lambda *args, **kwargs: _filled(empty_like(*args, **kwargs)))  # noqa: B010
        if "torch" in sys.modules:
            undo.enter_context(_deterministic())
        yield


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    """Use PyTorch's deterministic mode, which also fills memory. Operations without a deterministic version run as usual."""
    import torch

    before, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warns)


def _filled(array: Any) -> Any:
    kind = array.dtype.kind
    if kind in "fc":
        array.fill(np.nan)
    elif kind in "iu":
        array.fill(np.iinfo(array.dtype).max)
    elif kind == "b":
        array.fill(True)
    return array
