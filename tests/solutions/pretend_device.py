"""A device that is not there: tensors on "pretend" hold real values, compute on the CPU, and refuse to meet tensors left behind.

    with pretend(): f(*move(inputs))

raises where `f` makes a tensor on the CPU and lets it meet one of the device, as CUDA would. Written for the tests of
`test_devices.py`, in a process of its own: a backend of PyTorch is registered once and for all.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

aten = torch.ops.aten
MAY_CROSS = {aten.copy_.default, aten._to_copy.default}
MAY_INDEX = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default}
NAME = "pretend"


class _Backend(_DummyBackendModule):
    def get_rng_state(self, device: Any = None) -> Any:
        return torch.get_rng_state()

    def set_rng_state(self, state: Any, device: Any = None) -> None:
        pass


_setup_privateuseone_for_python_backend(NAME, backend_module=_Backend())
DEVICE = torch.device(f"{NAME}:0")


class There(torch.Tensor):
    """A tensor on the device; `raw` is the one on the CPU that does the work."""

    raw: torch.Tensor

    @staticmethod
    def __new__(cls, raw: torch.Tensor) -> "There":
        look = {"strides": raw.stride(), "storage_offset": raw.storage_offset(), "dtype": raw.dtype, "device": DEVICE}
        made: There = torch.Tensor._make_wrapper_subclass(cls, raw.size(), **look)  # type: ignore[attr-defined]
        return made

    def __init__(self, raw: torch.Tensor):
        self.raw = raw

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"There({self.raw!r})"

    def tolist(self) -> Any:
        return self.raw.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")

    def __array__(self, dtype: Any = None) -> Any:
        return self.numpy()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    leaves = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    ours = [x for x in leaves if isinstance(x, There)]
    behind = [x for x in leaves if not isinstance(x, There) and x.dim() > 0]
    if func in MAY_INDEX:  # indices may come from the CPU
        behind = [x for x in behind if x.is_floating_point()]
    if ours and behind and func not in MAY_CROSS:
        raise RuntimeError(f"Expected all tensors to be on the same device, but found cuda:0 and cpu ({func}).")
    if func is aten._local_scalar_dense.default:
        return func(args[0].raw)
    target = None if kwargs.get("device") is None else torch.device(kwargs["device"])
    generator = kwargs.get("generator")
    there = bool(ours) if target is None else target.type == NAME
    if generator is not None and there:
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
    if func is aten.copy_.default:
        _raw(args[0]).copy_(_raw(args[1]))
        return args[0]
    plain_args, plain = tree_map(_raw, (args, kwargs))
    if target is not None:
        plain["device"] = torch.device("cpu") if there else target
        plain.pop("pin_memory", None)
    out = func(*plain_args, **plain)
    if func is aten._to_copy.default and there and not ours and out is plain_args[0]:
        out = out.clone()
    seen = {id(x.raw): x for x in ours}
    return tree_map(lambda x: seen.get(id(x), There(x) if there else x) if isinstance(x, torch.Tensor) else x, out)


def _raw(x: Any) -> Any:
    return x.raw if isinstance(x, There) else x


def _is_there(kwargs: dict[str, Any]) -> bool:
    return kwargs.get("device") is not None and torch.device(kwargs["device"]).type == NAME


class _Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        ours = any(isinstance(x, There) for x in tree_leaves((args, kwargs)))
        return _run(func, args, kwargs) if ours or _is_there(kwargs) else func(*args, **kwargs)


class _Factories(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor) and _is_there(kwargs):
            rest = {name: value for name, value in kwargs.items() if name not in ("device", "requires_grad")}
            return There(func(*args, **rest)).requires_grad_(bool(kwargs.get("requires_grad")))
        return func(*args, **kwargs)


@contextmanager
def pretend() -> Iterator[None]:
    """Within, tensors can be made on `DEVICE` and computed with there."""
    with _Factories(), _Dispatch():
        yield


def move(value: Any) -> Any:
    """A value with all its tensors on the device."""
    return tree_map(lambda x: There(x.clone()) if isinstance(x, torch.Tensor) and not isinstance(x, There) else x, value)


def back(value: Any) -> Any:
    """A value with all its tensors on the CPU."""
    return tree_map(lambda x: x.raw if isinstance(x, There) else x, value)
