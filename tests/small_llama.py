"""A Llama small enough to compare in float64, for the tests of the lessons on a trained model."""

from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

DOUBLE: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-9}  # float64 on both sides, another order of sums
SINGLE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}  # angles by complex64 on one side
H, G, D, D_MODEL, VOCAB = 6, 3, 4, 10, 23
chunks = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def a_layer(seed: int = 0, heads: int = H, groups: int = G) -> dict[str, Any]:
    shapes = {
        "W_Q": (D_MODEL, heads * D),
        "W_K": (D_MODEL, groups * D),
        "W_V": (D_MODEL, groups * D),
        "W_O": (heads * D, D_MODEL),
    }
    shapes |= {"Wgate": (D_MODEL, 7), "Wup": (D_MODEL, 7), "Wdown": (7, D_MODEL)}
    made: dict[str, Any] = {name: normal(*s, seed=seed + i) / s[0] ** 0.5 for i, (name, s) in enumerate(shapes.items())}
    made |= {name: 1 + 0.1 * normal(D_MODEL, seed=seed + 9) for name in ("norm1", "norm2")}
    return made | {"H": heads, "G": groups, "base": 100.0}


def weights() -> dict[str, Any]:
    layers = [a_layer(0), a_layer(20)]
    return {"embed": normal(VOCAB, D_MODEL, seed=50), "norm": torch.ones(D_MODEL).double(), "eps": 1e-5, "layers": layers}


def ids(n: int, batch: int = 1) -> Tensor:
    return torch.randint(0, VOCAB, (batch, n), generator=torch.Generator().manual_seed(n))
