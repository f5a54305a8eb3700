"""Workshop 08b: the references against a whole softmax, and the numbers that the text states."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from solutions.attention_without_the_matrix import choose_tile, merge, tiled_attention


def whole_softmax(Q: Tensor, K: Tensor, V: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if causal:
        S = S.masked_fill(torch.ones(S.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    return torch.softmax(S, dim=-1) @ V, torch.logsumexp(S, dim=-1)


@pytest.mark.parametrize("tile", [1, 3, 4, 11, 16])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_tiles_of_any_size_give_the_whole_softmax(tile: int, causal: bool, scale: float) -> None:
    g = torch.Generator().manual_seed(tile)
    Q, K, V = (torch.randn(2, 11, d, generator=g, dtype=torch.float64) for d in (3, 3, 5))
    found, expected = tiled_attention(scale * Q, K, V, tile, causal), whole_softmax(scale * Q, K, V, causal)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)  # float64, a few hundred roundings


def test_tiles_above_the_diagonal_are_never_read() -> None:
    V = torch.ones(12, 2)
    V[8:] = math.nan
    out, _ = tiled_attention(torch.zeros(12, 2), torch.zeros(12, 2), V, tile=4)
    assert out[:8].isfinite().all()


def test_parts_merge_in_any_order_into_the_whole() -> None:
    g = torch.Generator().manual_seed(0)
    q, K, V = (torch.randn(n, 4, generator=g, dtype=torch.float64) for n in (3, 20, 20))
    parts = [whole_softmax(q, k, v, causal=False) for k, v in zip(K.chunk(4), V.chunk(4), strict=True)]
    for order in ((0, 1, 2, 3), (3, 1, 0, 2)):
        o, lse = parts[order[0]]
        for i in order[1:]:
            o, lse = merge(o, lse, *parts[i])
        torch.testing.assert_close((o, lse), whole_softmax(q, K, V, causal=False), rtol=1e-12, atol=1e-12)


def test_naive_attention_at_8192_tokens_uses_a_fifth_of_an_h100() -> None:
    n, d = 8192, 128
    naive, fused = (4 * n * n * d / (2 * numbers) for numbers in (4 * n * d + 4 * n * n, 4 * n * d))
    assert round(naive) == 63
    assert round(fused) == 4096
    assert round(989e12 / 3.35e12) == 295
    assert 0.20 < naive / 295 < 0.22


def test_an_h100_has_room_for_tiles_of_128_and_reaches_126_flops_per_byte() -> None:
    tile, reached = choose_tile(8192, 128, 228 * 1024)
    assert (tile, round(reached)) == (128, 126)


@settings(max_examples=60, deadline=None)
@given(d=st.integers(1, 300), room=st.integers(5000, 400_000), tiles=st.integers(1, 20))
def test_a_chosen_tile_fits_twice_of_it_does_not_and_its_traffic_is_that_of_the_loop(d: int, room: int, tiles: int) -> None:
    tile, _ = choose_tile(1 << 20, d, room)

    def held(B: int) -> int:  # array by array, in bytes
        return sum(2 * B * d for _ in "QKV") + 4 * (B * B) + 4 * (B * d) + 4 * B + 4 * B

    assert held(tile) <= room < held(2 * tile) or (tile == 1 and room < held(1))
    n = tile * tiles
    moved = sum(2 * tile * d + 2 * (2 * n * d) + 2 * tile * d for _ in range(tiles))  # a tile of Q, all of K and V, a tile of O
    assert choose_tile(n, d, room)[1] == pytest.approx(4 * n * n * d / moved)
