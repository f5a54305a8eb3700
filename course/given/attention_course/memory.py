"""What a copy costs, made visible: the memory that PyTorch's operations ask for, and a stopwatch."""

import importlib
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class NewMemory(TorchDispatchMode):
    """Watches a `with` block: the `bytes` of all tensors that its operations make, and the `largest` of them. Views are not new.

    >>> x = torch.zeros(4, 256)
    >>> with NewMemory() as new:
    ...     y = (x.T + 1).sum(0)
    >>> new.bytes, new.largest  # 4 x 256 numbers of 4 bytes, and 4 sums
    (4112, 4096)
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = self.largest = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation, and add up what it made."""
        made = operation(*args, **(kwargs or {}))
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        given = {leaf.untyped_storage().data_ptr() for leaf in leaves if isinstance(leaf, Tensor)}
        for tensor in torch.utils._pytree.tree_leaves(made):
            if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() not in given:
                self.bytes += tensor.nbytes
                self.largest = max(self.largest, tensor.nbytes)
        return made


def tells_copies(step: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: one more result, whether `step` made anything **larger** than each thing it was given and each it gives back.

    In a decode step the cache (of one or several tensors) is the largest of these. So True says that it was copied, or that
    more was made of it.

    >>> @tells_copies
    ... def best(asks, cache):
    ...     return (asks @ cache.T).max()
    >>> best(torch.ones(1, 8), torch.ones(50, 8))
    (tensor(8.), False)
    >>> tells_copies(lambda cache: (cache.sum(0), cache.repeat(3, 1).sum(0)))(torch.ones(2, 1))
    (tensor([2.]), tensor([6.]), True)
    """
    importlib.import_module("torch._dynamo")  # the first watching loads it, for seconds: not within a check's time limit

    @wraps(step)
    def watched(*inputs: Any, **named: Any) -> tuple[Any, ...]:
        with NewMemory() as new:
            result = step(*inputs, **named)
        results = result if isinstance(result, tuple) else (result,)
        leaves = map(torch.utils._pytree.tree_leaves, (*inputs, *named.values(), *results))
        largest = max(sum(leaf.nbytes for leaf in part if isinstance(leaf, Tensor)) for part in leaves)
        return (*results, new.largest > largest)

    return watched


def seconds(step: Callable[..., Any], *inputs: Any, trials: int = 5) -> float:
    """The shortest of some runs of `step(*inputs)`, after one that does not count: the one that was disturbed least.

    >>> seconds(torch.sum, torch.zeros(10)) < 1
    True
    """
    step(*inputs)
    times = []
    for _ in range(trials):
        start = time.perf_counter()
        step(*inputs)
        times.append(time.perf_counter() - start)
    return min(times)
