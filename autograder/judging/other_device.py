"""Simulate a second device, which shows without a GPU what an answer would do on one.

In: the inputs of a call. Out: the same tensors, which report that they are on the device `PLACE`. Their numbers stay in main
memory, so loops, `.tolist()` and everything else give the same results as on a real device, and mixing devices raises the same
error. PyTorch is imported only if a case asks for this.
"""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple

PLACE = "meta"  # a device that every PyTorch has


class Device(NamedTuple):
    """`there()` is the context in which a call runs, `send` moves a value to the device, and `fetch` brings a result back.

    `fetch` raises RuntimeError if a tensor in the result is not on the device.
    """

    there: Callable[[], AbstractContextManager[Any]]
    send: Callable[[Any], Any]
    fetch: Callable[[Any], Any]


@functools.cache
def device() -> Device:
    """Return the simulated device, which is made at the first call."""
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves, tree_map

    copy, convert = torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default

    class Elsewhere(torch.Tensor):
        """A tensor on the simulated device. `held` is a tensor in main memory with its numbers."""

        held: torch.Tensor

        @staticmethod
        def __new__(cls, inner: torch.Tensor) -> "Elsewhere":
            layout = {"strides": inner.stride(), "dtype": inner.dtype, "device": torch.device(PLACE)}
            make: Any = torch.Tensor._make_wrapper_subclass
            made: Elsewhere = make(cls, inner.shape, **layout)
            made.held = inner
            return made

        def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]  # the stub has no name for it
            return f"{self.held!r} on {PLACE}"

        def tolist(self) -> Any:
            return self.held.tolist()

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]  # the stub has no `func`
            return _run(func, args, kwargs or {})

    def _inner(x: Any) -> Any:
        return x.held if isinstance(x, Elsewhere) else x

    def _send(x: Any) -> Any:
        return Elsewhere(x) if isinstance(x, torch.Tensor) and not isinstance(x, Elsewhere) else x

    def _is_there(place: Any) -> bool:
        return place is not None and torch.device(place).type == PLACE

    def _run(func: Any, args: Any, kwargs: Any) -> Any:
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        there = any(isinstance(x, Elsewhere) for x in tensors)
        if there and func not in (copy, convert) and any(x.ndim and not isinstance(x, Elsewhere) for x in tensors):
            raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two, {PLACE} and cpu.")
        place = kwargs.get("device")
        if _is_there(place):
            kwargs = {**kwargs, "device": torch.device("cpu")}
        result = func(*tree_map(_inner, args), **tree_map(_inner, kwargs))
        if func._schema.name.endswith("_"):
            return args[0]  # changed in place
        return tree_map(_send, result) if (_is_there(place) if place is not None else there) else result

    class Dispatched(TorchDispatchMode):
        """Runs operations that get no tensor of the device, such as `torch.zeros(3, device=x.device)`."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return _run(func, args, kwargs or {})

    class Called(TorchFunctionMode):
        """Makes tensors from Python's numbers, because PyTorch dispatches no operation when it copies these to a device."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func in (torch.tensor, torch.as_tensor) and _is_there(kwargs.get("device")):
                return _send(func(*args, **{**kwargs, "device": None}))
            return func(*args, **kwargs)

    def _there() -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(Called())
        stack.enter_context(Dispatched())  # type: ignore[no-untyped-call]
        return stack

    def _fetch(result: Any) -> Any:
        if any(isinstance(x, torch.Tensor) and not isinstance(x, Elsewhere) for x in tree_leaves(result)):
            raise RuntimeError(f"Expected a result on device {PLACE}, like the inputs, got one on cpu.")
        return tree_map(_inner, result)

    return Device(_there, lambda values: tree_map(_send, values), _fetch)
