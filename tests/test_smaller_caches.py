"""Lesson 12: the answers against independent oracles, every number that its text states, and the lesson itself, offline."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from solutions.latent import gqa_as_mla
from solutions.real_model import GroupedAttention
from solutions.smaller_caches import LatentAttention, latent_weights, layers_to_pool, output_factors, pareto

DOUBLE: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-9}  # float64 on both sides, another order of sums
SINGLE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}  # angles by complex64 on one side
H, G, D, D_MODEL, VOCAB = 6, 3, 4, 10, 23
chunks = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def a_layer(seed: int = 0, heads: int = H, groups: int = G) -> dict[str, Any]:
    shapes = {"Wq": (D_MODEL, heads * D), "Wk": (D_MODEL, groups * D), "Wv": (D_MODEL, groups * D), "Wo": (heads * D, D_MODEL)}
    shapes |= {"Wgate": (D_MODEL, 7), "Wup": (D_MODEL, 7), "Wdown": (7, D_MODEL)}
    made: dict[str, Any] = {name: normal(*s, seed=seed + i) / s[0] ** 0.5 for i, (name, s) in enumerate(shapes.items())}
    made |= {name: 1 + 0.1 * normal(D_MODEL, seed=seed + 9) for name in ("norm1", "norm2")}
    return made | {"H": heads, "G": groups, "base": 100.0}


def weights() -> dict[str, Any]:
    layers = [a_layer(0), a_layer(20)]
    return {"embed": normal(VOCAB, D_MODEL, seed=50), "norm": torch.ones(D_MODEL).double(), "eps": 1e-5, "layers": layers}


def ids(n: int, batch: int = 1) -> Tensor:
    return torch.randint(0, VOCAB, (batch, n), generator=torch.Generator().manual_seed(n))


# ---------------------------------------------------------------------------------------------- choosing


@settings(max_examples=60, deadline=None)
@given(harm=st.lists(st.integers(0, 50), min_size=1, max_size=7), excess=st.integers(-5, 40), saved=st.integers(1, 9))
def test_the_chosen_layers_save_enough_with_the_least_harm_of_all_sets(harm: list[int], excess: int, saved: int) -> None:
    sets = [s for k in range(len(harm) + 1) for s in itertools.combinations(range(len(harm)), k) if k * saved >= excess]
    harms = [float(h) for h in harm]
    if not sets:
        with pytest.raises(ValueError, match="Allow the cache more"):
            layers_to_pool(harms, saved, excess)
        return
    chosen = layers_to_pool(harms, saved, excess)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(map(len, sets))
    assert sum(harms[i] for i in chosen) == min(sum(harms[i] for i in s) for s in sets if len(s) == len(chosen))


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from("abcdefg"), st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1))
def test_the_front_is_what_nothing_beats_and_falls_as_it_gets_dearer(points: dict[str, tuple[int, int]]) -> None:
    given_points = {name: (float(c), float(q)) for name, (c, q) in points.items()}
    kept = pareto(given_points)
    for name, (cost, loss) in given_points.items():
        beaten = any((c <= cost and q < loss) or (c < cost and q <= loss) for c, q in given_points.values())
        assert (name in kept) != beaten
    losses = [given_points[name][1] for name in kept]
    assert losses == sorted(losses, reverse=True)
    assert kept == sorted(kept, key=lambda name: (given_points[name][0], name))


# ---------------------------------------------------------------------------------------------- low rank


def a_moment(d: int, seed: int = 7) -> Tensor:
    """A second moment with correlations and very unequal directions."""
    root = normal(d, d, seed=seed) * torch.logspace(0, -2, d, dtype=torch.float64)
    return root.mT @ root


def lost(W: Tensor, W_r: Tensor, C: Tensor) -> float:
    """The expected square of the error of the outputs."""
    return float(((W - W_r) * (C @ (W - W_r))).sum())


@pytest.mark.parametrize("r", range(1, 7))
def test_factors_by_the_inputs_lose_less_than_plain_ones_and_as_little_as_is_possible(r: int) -> None:
    W, C = normal(9, 6), a_moment(9)
    down, up = output_factors(W, C)
    assert_close(down @ up, W, **DOUBLE)
    assert_close(up @ up.mT, torch.eye(6, dtype=torch.float64), **DOUBLE)
    ours = lost(W, down[:, :r] @ up[:r], C)
    singular = torch.linalg.svdvals(torch.linalg.cholesky(C).mT @ W)  # Eckart and Young, in whitened inputs
    assert ours == pytest.approx(float(singular[r:].square().sum()), abs=1e-9)
    plain_down, plain_up = output_factors(W, torch.eye(9).double())
    plain = lost(W, plain_down[:, :r] @ plain_up[:r], C)
    assert plain > 1.2 * ours or r == 6


def test_plain_factors_are_the_truncated_singular_value_decomposition() -> None:
    W = normal(9, 6)
    U, S, Vh = torch.linalg.svd(W, full_matrices=False)
    down, up = output_factors(W, torch.eye(9).double())
    assert_close(down[:, :3] @ up[:3], U[:, :3] * S[:3] @ Vh[:3], **DOUBLE)


def latent_layer(r: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A layer with latents `r` wide, and the grouped one with the products as weights."""
    layer = a_layer()
    W_DKV, W_UK, W_UV = latent_weights(layer["Wk"], layer["Wv"], a_moment(D_MODEL), r)
    return layer | {"W_DKV": W_DKV, "W_UK": W_UK, "W_UV": W_UV}, layer | {"Wk": W_DKV @ W_UK, "Wv": W_DKV @ W_UV}


@pytest.mark.parametrize("sizes", [[7], [3, 4], [1] * 7])
@pytest.mark.parametrize("r", [2, 5, 2 * G * D])
def test_a_cache_of_latents_gives_what_its_products_give_in_any_chunks(r: int, sizes: list[int]) -> None:
    ours, merged = latent_layer(r)
    x, latent = normal(2, 7, D_MODEL, seed=3), LatentAttention(ours, 9)
    found = torch.cat([latent(part) for part in x.split(sizes, dim=1)], dim=1)
    assert_close(found, GroupedAttention(merged, 9)(x), **DOUBLE)
    stored = latent.cache.append(x.new_zeros(2, 1, 1, r), x.new_zeros(2, 1, 1, 0))
    assert [tuple(part.shape) for part in stored] == [(2, 1, 8, r), (2, 1, 8, 0)]  # r numbers for each token, and nothing beside


def test_at_full_rank_and_as_lesson_10_writes_it_a_latent_cache_is_exact() -> None:
    layer, x = a_layer(), normal(2, 7, D_MODEL, seed=3)
    expected = GroupedAttention(layer, 9)(x)
    assert_close(LatentAttention(latent_layer(2 * G * D)[0], 9)(x), expected, **DOUBLE)
    by_group = [layer[name].unflatten(-1, (G, D)).transpose(0, 1) for name in ("Wk", "Wv")]
    W_DKV, W_UK, W_UV = gqa_as_mla(*by_group, H=G)
    picked = {"W_DKV": W_DKV, "W_UK": W_UK.transpose(0, 1).flatten(1), "W_UV": W_UV.transpose(0, 1).flatten(1)}
    assert_close(LatentAttention(layer | picked, 9)(x), expected, **DOUBLE)


# ---------------------------------------------------------------------------------------------- the lesson's numbers


def test_making_keys_again_costs_what_the_lesson_states() -> None:
    heads, groups, d = 9, 3, 64
    remade = {r: 2 * r * groups * d + 3 * groups * d + 2 * heads * d + 2 * heads * r for r in (128, 384)}
    assert [round(flop / (4 * heads * d)) for flop in remade.values()] == [23, 68]
    assert [6 * 64, 3 * 64, 9 * 30] == [384, 192, 270]  # numbers in a full latent, in all rotated keys of a layer; heads
