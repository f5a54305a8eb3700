"""The package's classes, adapters, tiles and benchmark on the pretend device: a JSON line for each, {"name": …, "problem": …}."""

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import solutions
from tests.solutions.pretend_device import DEVICE, There, back, move, pretend
from tools import bench


def _there(module: nn.Module) -> nn.Module:
    """A module with its weights on the device."""
    for part in module.modules():
        for name, parameter in list(part._parameters.items()):
            if parameter is not None:
                part._parameters[name] = nn.Parameter(There(parameter.detach().clone()), requires_grad=False)
    return module


def _steps(module: Any, cache: Any) -> Any:
    x = move(torch.randn(2, 5, 24))
    whole = module(x)
    parts = torch.cat([module(x[:, i : i + 1], cache=cache) for i in range(5)], dim=1)
    assert torch.allclose(back(whole), back(parts), atol=1e-5)
    return whole


def _attention() -> Any:
    return _steps(_there(solutions.Attention(24, 6, 2)), solutions.KVCache(5))


def _latent() -> Any:
    module = _there(solutions.LatentAttention(24, H=3, d=8, d_v=5, d_c=12, d_rope=4, d_cq=10, norm=True))
    assert isinstance(module, solutions.LatentAttention)
    for mode in ("naive", "absorbed"):
        module.mode = mode  # type: ignore[assignment]
        found = _steps(module, module.new_cache(2, 5))
    return found


def _tiles() -> Any:
    q, k, v = (move(torch.randn(2, 3, n, 8)) for n in (7, 9, 9))
    parts = [solutions.attention_tiled(q, k[:, :, part], v[:, :, part]) for part in (slice(0, 4), slice(4, 9))]
    solutions.merge_tiles(*parts)
    return solutions.attention_tiled(q, k, v, causal=True, block=4)[0]


def _rope() -> Any:
    x, pos = move(torch.randn(2, 3, 7, 8)), move(torch.arange(7))
    solutions.rotate_half_rope(x, pos)
    return solutions.apply_rope(x, pos)


def _mha() -> Any:
    ours = solutions.from_torch_mha(_there(nn.MultiheadAttention(12, 3, batch_first=True)))
    x = move(torch.randn(2, 7, 12))
    return ours(x, x)


def _llama() -> Any:
    shapes = {"q_proj": (24, 24), "k_proj": (8, 24), "v_proj": (8, 24), "o_proj": (24, 24)}
    state = {f"{name}.weight": move(torch.randn(shape)) for name, shape in shapes.items()}
    return solutions.from_llama(state, num_heads=6, num_kv_heads=2)(move(torch.randn(1, 3, 24)))


def _deepseek() -> Any:
    shapes = {"q_proj": (18, 8), "kv_a_proj_with_mqa": (7, 8), "kv_b_proj": (27, 5), "o_proj": (8, 15)}
    state = {f"{name}.weight": move(torch.randn(shape)) for name, shape in shapes.items()}
    state["kv_a_layernorm.weight"] = move(torch.ones(5))
    return solutions.from_deepseek(state, H=3, d=4, d_rope=2)(move(torch.randn(1, 3, 8)))


def _bench() -> Any:
    cases = importlib.import_module("tools.bench.cases")  # the package has a function of this name
    cases.normal = lambda s, *shape, seed: move(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)))
    cases._latent_module = lambda s, H: _there(solutions.LatentAttention(8, H, s.head_dim, s.head_dim, s.latent, s.rope))
    bench.allocated = lambda compute: 0  # by data pointers, and the device has none
    settings = bench.preset(DEVICE, quick=True, span=2**16, dtype=torch.float32, context=(24,), prompt=16)
    found = 0
    with torch.no_grad():
        for case in cases.cases(settings):
            found += len([row for row in bench._checked(case, 2e-4) if "skipped" not in row])
    assert found >= 30, found
    return move(torch.ones(1))


THINGS: dict[str, Callable[[], Any]] = {
    "Attention": _attention, "LatentAttention": _latent, "tiles": _tiles, "rope": _rope, "from_torch_mha": _mha,
    "from_llama": _llama, "from_deepseek": _deepseek, "bench": _bench,
}  # fmt: skip


def main() -> None:
    torch.__future__.set_overwrite_module_params_on_conversion(True)  # a module's `to` makes new parameters of another class
    for name, thing in THINGS.items():
        problem = ""
        try:
            with pretend(), torch.no_grad():
                problem = "" if isinstance(thing(), There) else "came back to the CPU"
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error)[:300]}"
        print(json.dumps({"name": name, "problem": problem}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
