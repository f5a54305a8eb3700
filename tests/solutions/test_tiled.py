"""Tiled attention equals the plain one: every block size, mask and layout, values, log-sum-exp and gradients."""

import inspect
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.bias import causal_lower_right
from torch.utils._python_dispatch import TorchDispatchMode

from solutions.lib.tiled import QUERIES, attention_tiled, merge_tiles


def _inputs(n_q: int, n_k: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((2, 3, n_q, 5), (2, 3, n_k, 5), (2, 3, n_k, 7))
    q, k, v = (torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes)
    return q, k, v


@settings(max_examples=25, deadline=None)
@given(n_q=st.integers(1, 9), n_k=st.integers(1, 13), block=st.integers(1, 14))
def test_any_block_size_gives_the_attention_of_sdpa(n_q: int, n_k: int, block: int) -> None:
    q, k, v = _inputs(n_q, n_k)
    out, lse = attention_tiled(q, k, v, block=block)
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, k, v), rtol=0, atol=1e-10)
    torch.testing.assert_close(lse, torch.logsumexp(q @ k.mT / math.sqrt(5), dim=-1), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("n_q", "n_k"), [(6, 6), (2, 9), (1, 5)])
def test_causal_is_aligned_bottom_right(n_q: int, n_k: int) -> None:
    q, k, v = _inputs(n_q, n_k)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(n_q, n_k))
    torch.testing.assert_close(attention_tiled(q, k, v, causal=True, block=4)[0], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n_q", [QUERIES, 2 * QUERIES + 3])
def test_several_tiles_of_queries_are_masked_each_by_its_own_place(n_q: int, causal: bool) -> None:
    q, k, v = _inputs(n_q, n_q + 5)
    keep = torch.rand(n_q, n_q + 5, generator=torch.Generator().manual_seed(2)) < 0.7
    keep[:, 0] = True
    seen = keep.tril(5) if causal else keep
    out, lse = attention_tiled(q, k, v, keep=keep, causal=causal, block=50)
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, k, v, attn_mask=seen), rtol=0, atol=1e-10)
    scores = (q @ k.mT / math.sqrt(5)).masked_fill(~seen, -math.inf)
    torch.testing.assert_close(lse, torch.logsumexp(scores, dim=-1), rtol=0, atol=1e-10)


def test_no_tensor_is_larger_than_a_tile_of_scores_and_blocks_out_of_sight_are_skipped() -> None:
    n, block, shapes = 4 * QUERIES, 64, []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            if func in (torch.ops.aten.mm.default, torch.ops.aten.bmm.default):
                shapes.append(tuple(out.shape[-2:]))
            return out

    for causal in (False, True):
        shapes.clear()
        with Watch():
            attention_tiled(torch.zeros(n, 16), torch.zeros(n, 16), torch.zeros(n, 16), causal=causal, block=block)
        tiles = [shape for shape in shapes if shape == (QUERIES, block)]
        assert len(tiles) == (4 + 3 + 2 + 1 if causal else 4 * 4) * QUERIES // block
        assert all(rows <= QUERIES and columns <= block for rows, columns in shapes)


def test_a_query_that_sees_nothing_gets_zeros_and_no_nan_gradient() -> None:
    q, k, v = (x.requires_grad_() for x in _inputs(3, 4))
    keep = torch.ones(3, 4, dtype=torch.bool)
    keep[1] = False
    out, lse = attention_tiled(q, k, v, keep=keep, block=2)
    assert out[..., 1, :].eq(0).all()
    assert lse[..., 1].eq(-math.inf).all()
    out.sum().backward()
    for leaf in (q, k, v):
        assert leaf.grad is not None
        assert leaf.grad.isfinite().all()


def test_gradients_are_those_of_sdpa() -> None:
    leaves = [x.requires_grad_() for x in _inputs(5, 8)]
    cotangent = torch.randn(2, 3, 5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ours = torch.autograd.grad(attention_tiled(*leaves, block=3)[0], leaves, cotangent)
    theirs = torch.autograd.grad(F.scaled_dot_product_attention(*leaves), leaves, cotangent)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-10)


def test_scores_of_a_thousand_do_not_overflow_in_float32() -> None:
    q, k, v = _inputs(3, 6, torch.float32)
    out, lse = attention_tiled(300 * q, 300 * k, v, block=2)
    assert out.isfinite().all()
    assert lse.isfinite().all()


def test_float32_agrees_within_its_own_rounding() -> None:
    q, k, v = _inputs(4, 300, torch.float32)
    torch.testing.assert_close(attention_tiled(q, k, v, block=64)[0], F.scaled_dot_product_attention(q, k, v), rtol=0, atol=2e-5)


def test_results_over_parts_of_the_keys_merge_exactly() -> None:
    q, k, v = _inputs(4, 9)
    parts = [attention_tiled(q, k[..., part, :], v[..., part, :]) for part in (slice(0, 4), slice(4, 9))]
    out, lse = merge_tiles(*parts)
    expected = attention_tiled(q, k, v)
    torch.testing.assert_close(out, expected[0], rtol=0, atol=1e-10)
    torch.testing.assert_close(lse, expected[1], rtol=0, atol=1e-10)


def test_bad_shapes_and_blocks_say_what_was_expected() -> None:
    q, k, v = _inputs(2, 3)
    with pytest.raises(ValueError, match="expected block >= 1"):
        attention_tiled(q, k, v, block=0)
    with pytest.raises(ValueError, match=r"expected K \(key, 5\)"):
        inspect.unwrap(attention_tiled)(q, v, v)  # as a user meets it, without the tests' own shape checks
