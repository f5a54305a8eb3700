"""Lesson 10: the references against independent oracles, and every number that the lesson's text states."""

import inspect
import math
from itertools import pairwise, permutations
from types import SimpleNamespace
from typing import Any

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from attention_course import latent_pictures, latents, pair_game, recall, wonderland
from attention_course.memory import NewMemory, tells_copies
from attention_course.toy_decoder import apply_rope
from beartype import beartype
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from autograder import Draw, Exercise
from autograder.authoring import course
from solutions import device
from solutions import latent as reference
from solutions.latent import (
    absorb_output,
    absorb_query,
    absorb_up_to,
    causal_weights,
    decode_cost,
    gqa_as_mla,
    mla_absorbed,
    mla_cache_elements,
    mla_decoupled,
    mla_naive,
)
from solutions.lib.heads import per_head

DOUBLE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}  # float64 on both sides, another order of summation
SINGLE: dict[str, Any] = {"rtol": 1e-4, "atol": 2e-5}  # float32 through five matrix products
HALF: dict[str, Any] = {"rtol": 5e-2, "atol": 5e-2}  # bfloat16 keeps 8 bits

H, D_MODEL, D, D_C, D_V, D_ROPE, D_CQ = 3, 11, 5, 7, 2, 4, 6
V2 = SimpleNamespace(layers=60, d_model=5120, heads=128, d=128, d_c=512, d_cq=1536, d_rope=64)  # section 3.1.2
sizes = st.integers(1, 5)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def weights(
    heads: int = H, d_model: int = D_MODEL, d: int = D, d_c: int = D_C, d_v: int = D_V, dtype: torch.dtype = torch.float64
) -> dict[str, Tensor]:
    shapes = {
        "W_Q": (heads, d_model, d),
        "W_DQ": (d_model, D_CQ),
        "W_UQ": (heads, D_CQ, d),
        "W_QR": (heads, D_CQ, D_ROPE),
        "W_DKV": (d_model, d_c),
        "W_KR": (d_model, D_ROPE),
        "W_UK": (heads, d_c, d),
        "W_UV": (heads, d_c, d_v),
        "W_O": (heads, d_v, d_model),
    }
    return {name: normal(*s, seed=i, dtype=dtype) / math.sqrt(s[-2]) for i, (name, s) in enumerate(shapes.items())}


def content(w: dict[str, Tensor], *without: str) -> dict[str, Tensor]:
    """The weights of attention without positions or query compression, less those named."""
    return {name: weight for name, weight in w.items() if name not in ("W_DQ", "W_UQ", "W_QR", "W_KR", *without)}


def decoupled(x: Tensor, w: dict[str, Tensor], *pieces: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """`mla_decoupled` on a sequence that arrives in pieces."""
    cache, rows = (x.new_empty(*x.shape[:-2], 0, D_C), x.new_empty(*x.shape[:-2], 0, D_ROPE)), []
    w = {name: weight for name, weight in w.items() if name != "W_Q"}
    for piece in x.split(list(pieces), dim=-2):
        y, cache, _ = mla_decoupled(piece, cache, **w)
        rows.append(y)
    return torch.cat(rows, dim=-2), cache


def by_the_builtin(x: Tensor, w: dict[str, Tensor]) -> Tensor:
    """Decoupled latent attention on a whole sequence: keys and values made out, concatenated, PyTorch's own attention."""
    pos = torch.arange(x.shape[-2], device=x.device)
    C, c_q = x @ w["W_DKV"], (x @ w["W_DQ"]).unsqueeze(-3)
    q = torch.cat([c_q @ w["W_UQ"], apply_rope(c_q @ w["W_QR"], pos)], dim=-1)
    k_rope = apply_rope(x @ w["W_KR"], pos).unsqueeze(-3).expand(*q.shape[:-1], -1)
    k = torch.cat([C.unsqueeze(-3) @ w["W_UK"], k_rope], dim=-1)
    o = F.scaled_dot_product_attention(q, k, C.unsqueeze(-3) @ w["W_UV"], is_causal=True)  # its own scale: 1/sqrt(d + d_rope)
    return torch.einsum("...hnv,hve->...ne", o, w["W_O"])


# ---------------------------------------------------------------------------------------------- without positions


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, DOUBLE), (torch.float32, SINGLE)])
def test_naive_is_the_builtin_on_made_out_keys_and_values(
    lead: tuple[int, ...], dtype: torch.dtype, tolerance: dict[str, Any]
) -> None:
    x, w = normal(*lead, 6, D_MODEL, seed=9, dtype=dtype), weights(dtype=dtype)
    y, c = mla_naive(x, **content(w))
    shared = c.unsqueeze(-3)
    o = F.scaled_dot_product_attention(x.unsqueeze(-3) @ w["W_Q"], shared @ w["W_UK"], shared @ w["W_UV"], is_causal=True)
    assert_close(y, torch.einsum("...hnv,hve->...ne", o, w["W_O"]), **tolerance)
    assert_close(c, x @ w["W_DKV"], **tolerance)


@settings(max_examples=40, deadline=None)
@given(new=sizes, past=st.integers(0, 4), heads=sizes, d=sizes, d_c=sizes, d_v=sizes)
def test_absorbed_is_the_end_of_naive(new: int, past: int, heads: int, d: int, d_c: int, d_v: int) -> None:
    w, x = content(weights(heads, 6, d, d_c, d_v)), normal(past + new, 6, seed=9)
    y, c = mla_naive(x, **w)
    got, mixtures, _ = mla_absorbed(x[past:], c, **content(w, "W_DKV"))
    assert_close(got, y[past:], **DOUBLE)
    assert mixtures.shape == (heads, new, d_c)
    assert_close(absorb_output(mixtures, w["W_UV"], w["W_O"]), got, **DOUBLE)


@settings(max_examples=20, deadline=None)
@given(heads=sizes, n=sizes, d=sizes, d_c=sizes)
def test_an_absorbed_query_asks_a_latent_what_the_query_asks_its_key(heads: int, n: int, d: int, d_c: int) -> None:
    q, w_uk, c = normal(heads, n, d), normal(heads, d_c, d, seed=1), normal(4, d_c, seed=2)
    assert_close(absorb_query(q, w_uk) @ c.mT, q @ (c @ w_uk).mT, **DOUBLE)


def test_absorbed_attention_is_multi_query_attention_on_the_latents() -> None:
    x, w = normal(6, D_MODEL, seed=9), weights()
    y, c = mla_naive(x, **content(w))
    rows = c.expand(1, 1, -1, -1)  # one key and value head
    asks = absorb_query(x @ w["W_Q"], w["W_UK"])[None]
    u = F.scaled_dot_product_attention(asks, rows, rows, is_causal=True, scale=D**-0.5, enable_gqa=True)[0]
    assert_close(absorb_output(u, w["W_UV"], w["W_O"]), y, **DOUBLE)


def test_all_keys_and_values_together_have_the_rank_of_the_latent() -> None:
    w = weights(heads=6, d_model=64, d=16, d_c=24, d_v=12)
    _, c = mla_naive(normal(100, 64, seed=9), **content(w))
    wide = torch.cat([c @ w["W_UK"], c @ w["W_UV"]], dim=-1).transpose(0, 1).flatten(1)
    assert wide.shape[1] == 168
    assert torch.linalg.matrix_rank(wide) == 24
    assert torch.linalg.matrix_rank(c @ w["W_UK"][0]) == 16


def test_no_token_sees_a_later_one() -> None:
    x, w = normal(6, D_MODEL, seed=9), weights()
    changed = torch.cat([x[:4], normal(2, D_MODEL, seed=10)])
    assert_close(mla_naive(changed, **content(w))[0][:4], mla_naive(x, **content(w))[0][:4], **DOUBLE)
    assert_close(decoupled(changed, w, 6)[0][:4], decoupled(x, w, 6)[0][:4], **DOUBLE)


def test_other_strides_give_the_same() -> None:
    x, w = normal(6, D_MODEL, seed=9), weights()
    strided = {name: weight.mT.contiguous().mT for name, weight in w.items()}
    assert not strided["W_UK"].is_contiguous()
    assert_close(decoupled(x.T.contiguous().T, strided, 2, 4), decoupled(x, w, 2, 4), **DOUBLE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_results_follow_the_device_and_dtype_of_the_inputs(dtype: torch.dtype) -> None:
    w = {name: weight.to(device()) for name, weight in weights(dtype=dtype).items()}
    x = normal(5, D_MODEL, seed=9, dtype=dtype).to(device())
    y, c = mla_naive(x, **content(w))
    z, cache = decoupled(x, w, 2, 3)
    results = [y, c, z, *cache, *mla_absorbed(x, c, **content(w, "W_DKV"))[:2], *gqa_as_mla(w["W_UK"], w["W_UV"], 6)]
    assert all(r.dtype == dtype and r.device.type == device().type for r in results)
    tolerance = SINGLE if dtype == torch.float32 else HALF
    assert_close(z.double(), by_the_builtin(x.double(), {name: weight.double() for name, weight in w.items()}), **tolerance)


def test_annotated_shapes_hold_at_run_time() -> None:
    checked = {
        name: jaxtyping.jaxtyped(typechecker=beartype)(inspect.unwrap(f))  # `tells_copies` adds a result
        for name, f in inspect.getmembers(reference, inspect.isfunction)
        if f.__module__ == reference.__name__
    }
    assert len(checked) == 11
    x, w = normal(2, 6, D_MODEL, seed=9), weights()
    _, c = checked["mla_naive"](x, **content(w))
    _, u = checked["mla_absorbed"](x[:, 4:], c, **content(w, "W_DKV"))
    checked["absorb_output"](u, w["W_UV"], w["W_O"])
    checked["absorb_query"](x.unsqueeze(1) @ w["W_Q"], w["W_UK"])
    checked["mla_decoupled"](x, (c, normal(2, 6, D_ROPE)), **{name: weight for name, weight in w.items() if name != "W_Q"})
    checked["gqa_as_mla"](normal(2, 5, 3), normal(2, 5, 4), 4)
    checked["mla_cache_elements"](4, 2, 3)
    checked["decode_cost"]("cached", 2, 3, 3, 5, 2)
    checked["cache_per_gpu"]("mla", 2, 4, 2, 3, 5, 2)
    with pytest.raises(jaxtyping.TypeCheckError):
        checked["absorb_query"](x @ w["W_Q"][0], w["W_UK"].mT)


def test_the_given_products_are_those_of_the_module_and_say_where_the_head_axis_is_missing() -> None:
    x, w = normal(2, 3, 4, 5), normal(3, 5, 6, seed=1)
    assert_close(latents.per_head(x, w), per_head(x, w), **DOUBLE)
    assert_close(latents.per_head(x[:, :1], w), per_head(x[:, :1], w), **DOUBLE)
    assert_close(latents.causal_weights(x), causal_weights(x), **DOUBLE)
    for rows in (x[0, 0], x[:, 0]):
        with pytest.raises(ValueError, match=r"no head axis: try x\.unsqueeze"):
            latents.per_head(rows, w)


def test_the_given_fold_is_a_product_with_a_head_axis_and_copies_nothing() -> None:
    x, shared = normal(2, 3, 4, 5), normal(2, 5, 64, seed=1)
    with NewMemory() as new:
        product = latents.times_shared(x, shared)
    assert_close(product, x @ shared.unsqueeze(-3), **DOUBLE)
    assert new.largest == product.nbytes


# ---------------------------------------------------------------------------------------------- memory of a batched step


def broadcast_step(X: Tensor, C: Tensor, W_Q: Tensor, W_UK: Tensor, W_UV: Tensor, W_O: Tensor) -> Tensor:
    """The step as nearly everybody writes it first: a head axis of length 1, and `torch.matmul` broadcasts it."""
    shared = C.unsqueeze(-3)
    S = X.unsqueeze(-3) @ W_Q @ W_UK.mT @ shared.mT / math.sqrt(W_Q.shape[-1])
    return (causal_weights(S) @ shared @ W_UV @ W_O).sum(-3)


STEP = {"heads": 16, "d_model": 256, "d": 64, "d_c": 256, "d_v": 64, "dtype": torch.float32}


@pytest.mark.parametrize("batch", [1, 2, 8])
def test_a_batched_step_copies_neither_latents_nor_weights_for_each_head_or_sequence(batch: int) -> None:
    n, w = 1024, weights(**STEP)
    x, c, k_r = normal(batch, 1, 256, dtype=torch.float32), *(normal(batch, n, d, dtype=torch.float32) for d in (256, D_ROPE))
    scores = batch * 16 * n * 4
    with NewMemory() as absorbed:
        y, _, copied = mla_absorbed(x, c, **content(w, "W_DKV"))
    assert not copied
    assert absorbed.largest == scores  # H / d_c = a sixteenth of the latents
    assert scores == c.nbytes / 16
    assert absorbed.bytes < c.nbytes / 2
    with NewMemory() as decoupled_step:
        assert not mla_decoupled(x, (c, k_r), **{name: weight for name, weight in w.items() if name != "W_Q"})[2]
    assert decoupled_step.largest == c.nbytes / n * (n + 1)  # the cache itself, with the new token in it
    assert decoupled_step.bytes < 1.6 * c.nbytes
    with NewMemory() as copying:
        expected = broadcast_step(x, c, **content(w, "W_DKV"))
    assert_close(y, expected, **SINGLE)
    assert (copying.largest >= 16 * c.nbytes) == (batch > 1)  # a batch of one is not copied: that hides it
    if batch > 1:
        assert copying.bytes > 32 * c.nbytes


@pytest.mark.parametrize("batch", [1, 2])
def test_copies_of_latents_show_in_a_batch_alone_and_made_keys_always(batch: int) -> None:
    x, c, w = normal(batch, 1, D_MODEL), normal(batch, 64, D_C), content(weights(), "W_DKV")

    def made(X: Tensor, C: Tensor, W_Q: Tensor, W_UK: Tensor, W_UV: Tensor, W_O: Tensor) -> Tensor:
        q, k, v = (per_head(rows.unsqueeze(-3), W) for rows, W in ((X, W_Q), (C, W_UK), (C, W_UV)))
        return per_head(causal_weights(q @ k.mT / math.sqrt(D)) @ v, W_O).sum(-3)

    expected, _, copied = mla_absorbed(x, c, **w)
    assert not copied
    for step, shows in ((broadcast_step, batch > 1), (made, True)):
        y, copied = tells_copies(step)(x, c, **w)
        assert copied == shows
        assert_close(y, expected, **DOUBLE)


@settings(max_examples=20, deadline=None)
@given(lead=st.lists(st.integers(1, 3), max_size=2), heads=sizes, shared=st.booleans(), n=sizes, d=sizes, e=sizes)
def test_per_head_is_matmul_with_a_head_axis(lead: list[int], heads: int, shared: bool, n: int, d: int, e: int) -> None:
    x, w = normal(*lead, 1 if shared else heads, n, d), normal(heads, d, e, seed=1)
    assert_close(per_head(x, w), x @ w, **DOUBLE)


# ---------------------------------------------------------------------------------------------- positions


@pytest.mark.parametrize("lead", [(), (2,)])
def test_decoupled_is_the_builtin_with_content_and_position_side_by_side(lead: tuple[int, ...]) -> None:
    x, w = normal(*lead, 9, D_MODEL, seed=9), weights()
    assert_close(decoupled(x, w, 9)[0], by_the_builtin(x, w), **DOUBLE)


@settings(max_examples=20, deadline=None)
@given(st.sets(st.integers(1, 11)))
def test_a_sequence_in_pieces_gives_what_it_gives_at_once(cuts: set[int]) -> None:
    x, w = normal(12, D_MODEL, seed=9), weights()
    pieces = [b - a for a, b in pairwise([0, *sorted(cuts), 12])]
    assert_close(decoupled(x, w, *pieces), decoupled(x, w, 12), **DOUBLE)


def test_order_matters_with_positions_and_does_not_without() -> None:
    x, w = normal(10, D_MODEL, seed=9), weights()
    swapped = x[[1, 0, *range(2, 10)]]
    assert (decoupled(x, w, 10)[0][-1] - decoupled(swapped, w, 10)[0][-1]).abs().max() > 1e-3
    assert_close(mla_naive(x, **content(w))[0][-1], mla_naive(swapped, **content(w))[0][-1], **DOUBLE)


def test_the_cache_given_is_left_as_it_was() -> None:
    x, w = normal(3, D_MODEL, seed=9), weights()
    given_cache = normal(4, D_C), normal(4, D_ROPE)
    copies = [part.clone() for part in given_cache]
    _, (c, k_rope), _ = mla_decoupled(x, given_cache, **{name: weight for name, weight in w.items() if name != "W_Q"})
    assert_close(list(given_cache), copies, rtol=0, atol=0)
    assert_close([c[:4], k_rope[:4]], copies, rtol=0, atol=0)


# ---------------------------------------------------------------------------------------------- GQA as MLA


@pytest.mark.parametrize(("groups", "heads"), [(1, 3), (2, 6), (3, 3)])
def test_grouped_query_attention_is_latent_attention_with_the_same_cache(groups: int, heads: int) -> None:
    x, w_q, w_o = normal(7, 11, seed=9), normal(heads, 11, 5, seed=1), normal(heads, 3, 11, seed=2)
    w_k, w_v = normal(groups, 11, 5, seed=3), normal(groups, 11, 3, seed=4)
    y, c = mla_naive(x, w_q, *gqa_as_mla(w_k, w_v, heads), w_o)
    o = F.scaled_dot_product_attention((x @ w_q)[None], (x @ w_k)[None], (x @ w_v)[None], is_causal=True, enable_gqa=True)
    assert_close(y, torch.einsum("hnv,hve->ne", o[0], w_o), **DOUBLE)
    assert c.shape[-1] == groups * (5 + 3)


# ---------------------------------------------------------------------------------------------- numbers in the text


def test_deepseek_v2_caches_34560_elements_a_token_a_57th_of_multi_head() -> None:
    ours = mla_cache_elements(V2.d_c, V2.d_rope, V2.layers)
    multi_head = 2 * V2.heads * V2.d * V2.layers
    assert (ours, multi_head, 2 * 8 * V2.d * V2.layers, 2 * V2.d * V2.layers) == (34_560, 1_966_080, 122_880, 15_360)
    assert multi_head / ours == pytest.approx(56.9, abs=0.05)
    assert ours == 4.5 * V2.d * V2.layers == 2.25 * 2 * V2.d * V2.layers
    assert multi_head * 2 * 131_072 / 1e9 == pytest.approx(515.4, abs=0.05)
    assert ours * 2 * 131_072 / 1e9 == pytest.approx(9.1, abs=0.05)
    assert ours / mla_cache_elements(V2.d_c, 0, V2.layers) == 1.125


def test_the_product_of_the_query_and_key_matrices_is_three_times_as_large() -> None:
    product, factors = V2.d_cq * V2.d_c, V2.d_cq * V2.d + V2.d * V2.d_c
    assert (product, factors) == (786_432, 262_144)
    assert product == 3 * factors
    assert V2.d_model * V2.heads * V2.d == pytest.approx(83.9e6, rel=1e-3)
    assert V2.d_model * V2.d_cq + V2.d_cq * V2.heads * V2.d == pytest.approx(33.0e6, rel=1e-3)


def test_query_compression_is_a_factorised_query_matrix() -> None:
    x, w = normal(6, D_MODEL, seed=9), weights()
    w_dq, w_uq = normal(D_MODEL, 4, seed=20), normal(H, 4, D, seed=21)
    y, _ = mla_naive(x, **{**content(w), "W_Q": w_dq @ w_uq})
    product = w_uq @ w["W_UK"].mT  # W_UQK: queries' latents meet keys' latents directly
    a = causal_weights((x @ w_dq) @ product @ (x @ w["W_DKV"]).mT / math.sqrt(D))
    assert_close(absorb_output(a @ (x @ w["W_DKV"]), w["W_UV"], w["W_O"]), y, **DOUBLE)


def counted_flops(n: int, new: int) -> tuple[float, float, float]:
    """FLOPs that torch counts per cached token at DeepSeek-V2's sizes, for `new` tokens that meet `n` cached ones: with keys
    and values ready, with the making of them from the latents, and absorbed."""

    def empty(*shape: int) -> Tensor:
        return torch.empty(shape, device="meta")  # shapes alone: nothing is computed

    q, r, absorbed_q = (empty(V2.heads, new, width) for width in (V2.d, V2.d_rope, V2.d_c))
    c, k_r, up = empty(n, V2.d_c), empty(n, V2.d_rope), empty(V2.heads, V2.d_c, V2.d)
    k, v, full_q = empty(V2.heads, n, V2.d + V2.d_rope), empty(V2.heads, n, V2.d), torch.cat([q, r], dim=-1)
    counters = [FlopCounterMode(display=False) for _ in range(3)]
    with counters[0]:
        (full_q @ k.mT) @ v
    with counters[1]:
        (full_q @ torch.cat([c @ up, k_r.expand(V2.heads, -1, -1)], dim=-1).mT) @ (c @ up)
    with counters[2]:
        (absorbed_q @ c.mT + r @ k_r.mT) @ c
    ready, made, absorbed = (counter.get_total_flops() / n for counter in counters)
    return ready, made, absorbed


@pytest.mark.parametrize(("new", "absorbing_is_cheaper"), [(1, True), (170, True), (171, False), (1000, False)])
def test_torch_counts_fewer_flops_for_made_out_keys_from_171_new_tokens_on(new: int, absorbing_is_cheaper: bool) -> None:
    _, made, absorbed = counted_flops(n=8, new=new)
    assert (absorbed < made) == absorbing_is_cheaper
    per_head = 2 * V2.d_c * 2 * V2.d + new * 2 * (2 * V2.d + V2.d_rope), new * 2 * (2 * V2.d_c + V2.d_rope)
    assert (made / V2.heads, absorbed / V2.heads) == per_head  # the two lines of the lesson's figure


def cost(way: str, heads: int = V2.heads) -> tuple[int, int]:
    return decode_cost(way, H=heads, d=V2.d, d_v=V2.d, d_c=V2.d_c, d_rope=V2.d_rope)


def test_the_costs_by_hand_are_32_flop_and_28_bytes_and_made_again_272_and_24() -> None:
    sizes = {"H": 2, "d": 3, "d_v": 3, "d_c": 10, "d_rope": 2}
    assert [decode_cost(way, **sizes) for way in ("cached", "remade")] == [(32, 28), (272, 24)]


def exercises() -> list[Exercise]:
    """The exercises of all notebooks of the chapter."""
    return [exercise for lesson in course.find_lessons("10*") for exercise in lesson.in_code()]


def cost_case(way: str) -> Any:
    asked = next(each for each in exercises() if each.id == "decode_cost")
    return next(case.make for case in asked.cases if case.make(Draw(0))["way"] == way)


@pytest.mark.parametrize("way", ["cached", "remade", "absorbed"])
def test_no_width_of_the_costs_passes_for_another_or_for_a_sum_or_difference_of_two(way: str) -> None:
    for seed in range(100):
        given_sizes = {name: size for name, size in cost_case(way)(Draw(seed)).items() if name != "way"}
        assert len(set(given_sizes.values())) == 5
        for (_, a), (_, b), (_, c) in permutations(given_sizes.items(), 3):
            assert c not in (a + b, a - b, 2 * a), given_sizes


def test_absorbing_costs_3_4_times_the_arithmetic_and_saves_a_factor_57_of_traffic() -> None:
    (ready, wide), (again, narrow), (absorbed, same) = (cost(way) for way in ("cached", "remade", "absorbed"))
    assert (ready, again, absorbed, wide, narrow) == (81_920, 33_636_352, 278_528, 65_664, 1_152)
    assert same == narrow
    assert counted_flops(n=64, new=1) == (ready, again, absorbed)
    assert absorbed / ready == 3.4
    assert wide / narrow == 57
    assert again / absorbed == pytest.approx(121, abs=0.5)
    assert cost("absorbed", 16)[0] / cost("absorbed", 16)[1] == pytest.approx(30, abs=0.5)  # 16 heads on one of eight GPUs
    peak, bandwidth, n = 790e12, 4.3e12, 32_768
    assert peak / bandwidth == pytest.approx(184, abs=0.5)
    assert absorbed / narrow > peak / bandwidth
    times = [n * max(flop / peak, read / bandwidth) * 1e6 for flop, read in ((ready, wide), (again, narrow), (absorbed, narrow))]
    assert times == pytest.approx([500, 1395, 11.6], rel=5e-3)
    assert n * narrow / bandwidth * 1e6 == pytest.approx(9, abs=0.5)
    assert 40 < times[0] / times[2] < times[1] / times[2]
    grouped = 2 * 8 * 2 * V2.d  # bytes per cached token of 8 groups
    assert grouped == 4096
    assert ready / grouped < peak / bandwidth  # memory decides
    assert n * grouped / bandwidth * 1e6 == pytest.approx(31, abs=0.5)
    assert n * grouped / bandwidth * 1e6 / times[2] == pytest.approx(2.7, abs=0.05)


ONCE, READY, ASKED = 2 * V2.d_c * 2 * V2.d, 2 * (2 * V2.d + V2.d_rope), 2 * (2 * V2.d_c + V2.d_rope)


def made_and_absorbed(q: int, m: int) -> tuple[float, float]:
    """FLOP of one head for `q` new tokens behind `m` cached ones, by made keys and values and absorbed."""
    pairs = q * m + q * (q + 1) / 2
    return (m + q) * ONCE + pairs * READY, q * ONCE + pairs * ASKED


def test_absorbing_a_query_costs_what_making_a_key_and_a_value_costs() -> None:
    q, u, c = (torch.empty(s, device="meta") for s in ((1, V2.d), (1, V2.d_c), (1, V2.d_c)))
    up = torch.empty(V2.d_c, V2.d, device="meta")
    counters = [FlopCounterMode(display=False) for _ in range(2)]
    with counters[0]:
        _ = q @ up.mT, u @ up
    with counters[1]:
        _ = c @ up, c @ up
    assert counters[0].get_total_flops() == counters[1].get_total_flops() == ONCE == 262_144
    assert pytest.approx(410, abs=0.5) == ONCE / READY


def test_in_a_fresh_prompt_absorbing_never_pays_and_341_forgets_its_two_products() -> None:
    assert all(made < absorbed for made, absorbed in (made_and_absorbed(n, 0) for n in range(1, 3000)))
    made, absorbed = made_and_absorbed(2000, 0)
    assert absorbed / made == pytest.approx(2.7, abs=0.01)
    assert absorb_up_to(0) == 0
    forgotten = [n for n in range(1, 1000) if n * (n + 1) / 2 * ASKED < n * ONCE + n * (n + 1) / 2 * READY]
    assert max(forgotten) + 1 == 341


@pytest.mark.parametrize(("past", "most"), [(1, 17), (100, 109), (1_000, 158), (100_000, 170), (10**9, 170)])
def test_behind_a_long_past_absorbing_pays_for_fewer_than_171_new_tokens(past: int, most: int) -> None:
    cheaper = [q for q in range(1, 400) if made_and_absorbed(q, past)[1] < made_and_absorbed(q, past)[0]]
    assert cheaper == list(range(1, most + 1))
    assert absorb_up_to(past) == most


def test_rolling_matrices_into_one_makes_them_three_times_and_3_6_times_as_large() -> None:
    assert V2.d_c * V2.d_model == 2_621_440
    assert V2.d_c * V2.d + V2.d * V2.d_model == 720_896
    assert pytest.approx(3.6, abs=0.05) == 2_621_440 / 720_896


def test_deepseek_v2_tables_8_and_9_say_what_the_lesson_opens_with() -> None:
    mha, mla = {"BBH": (37.9, 46.6), "MMLU": (48.7, 57.5), "C-Eval": (51.6, 57.9), "CMMLU": (52.3, 60.7)}, {
        "BBH": (39.0, 50.7), "MMLU": (50.0, 59.0), "C-Eval": (50.9, 59.2), "CMMLU": (53.4, 62.5),
    }  # fmt: skip
    better = [a < b for name in mha for a, b in zip(mha[name], mla[name], strict=True)]
    assert (sum(better), len(better)) == (7, 8)
    assert round(860.2 / 34.6) == 25
    assert (27 * 2 * 16 * 128, 27 * 576) == (110_592, 15_552)  # 110.6 and 15.6 thousand: 16 heads of 128 in 27 layers
    assert V2.d_model / V2.d == 40  # the heads that multi-head attention of that width would have
    assert sum(a < b for name in mha for a, b in [(mha[name][0], mla[name][0])]) == 3


def test_the_large_baseline_had_56_heads_and_the_small_one_16() -> None:
    assert pytest.approx(56, abs=0.05) == 860_200 / (2 * 60 * 128)
    assert 60 * 2 * 56 * 128 == 860_160
    assert 60 * 576 == 34_560  # DeepSeek-V2, which has 128 heads, caches what the table says of its large MLA


@settings(max_examples=15, deadline=None)
@given(heads=st.integers(1, 4), d=sizes, d_c=sizes)
def test_multi_head_attention_computes_what_latent_attention_with_the_same_heads_does(heads: int, d: int, d_c: int) -> None:
    w, x = content(weights(heads, 6, d, d_c, d)), normal(2, 5, 6, seed=9)
    products = (w["W_DKV"] @ w[name] for name in ("W_UK", "W_UV"))
    assert_close(latents.multi_head(x, w["W_Q"], *products, w["W_O"]), mla_naive(x, **w)[0], **DOUBLE)


def cells(lesson: str, *, until: str) -> dict[str, Any]:
    """What the code cells of a notebook define, up to the first that contains `until`; figures are left out."""
    text = (course.course_root() / "lessons" / f"{lesson}.md").read_text(encoding="utf-8")
    found: dict[str, Any] = {}
    for cell in text.split("```{code-cell} ipython3\n")[1:]:
        code = cell.split("\n```")[0]
        if ":tags: [figure]" in code or "check(" in code:
            continue
        exec("\n".join(line for line in code.splitlines() if not line.startswith(":")), found)
        if until in code:
            return found
    raise ValueError(f"expected a cell with {until!r} in {lesson}.")


def test_in_the_game_a_latent_of_16_ends_level_with_multi_head_attention_of_128_numbers() -> None:
    game = cells("10_latent", until="runs = {")
    ends = [right[-20:].mean().item() for right in game["runs"].values()]
    many, two, one, narrow = ends
    shapes = (4, 64, 16), (64, 16), (4, 16, 16), (4, 16, 16), (4, 16, 64)
    latent = pair_game.train(lambda X, *W: mla_naive(X, *W)[0], *shapes)[-20:].mean().item()
    assert many > 0.99
    assert latent > 0.98
    assert 0.9 < two < 0.97
    assert one == pytest.approx(0.5, abs=0.05)
    assert narrow < 0.3


@pytest.mark.slow
def test_in_the_game_two_narrow_heads_depend_on_the_seed_and_multi_query_attention_is_faster_than_latents() -> None:
    game = cells("10_latent", until="runs = {")
    train, multi_head = pair_game.train, latents.multi_head
    ends = [train(*game["of_heads"](2, 4), seed=seed)[-20:].mean().item() for seed in (1, 2)]
    assert ends == [pytest.approx(0.50, abs=0.02), pytest.approx(0.65, abs=0.02)]
    shared = train(multi_head, (4, 64, 8), (1, 64, 8), (1, 64, 8), (4, 8, 64))
    latent = train(lambda X, *W: mla_naive(X, *W)[0], (4, 64, 16), (64, 16), (4, 16, 16), (4, 16, 16), (4, 16, 64))
    assert shared[-20:].mean() > 0.99
    assert shared[100:150].mean() > latent[100:150].mean() + 0.2


@settings(max_examples=15, deadline=None)
@given(heads=st.integers(1, 4), d=sizes, d_c=sizes, d_cq=sizes)
def test_merged_matrices_give_the_scores_and_the_output_of_their_factors(heads: int, d: int, d_c: int, d_cq: int) -> None:
    w = weights(heads, 6, d, d_c, d)
    c_q, c, w_uq = normal(3, d_cq, seed=9), normal(5, d_c, seed=8), normal(heads, d_cq, d, seed=7)
    w_uqk, w_uvo = w_uq @ w["W_UK"].mT, w["W_UV"] @ w["W_O"]
    assert_close(c_q @ w_uqk @ c.mT, (c_q @ w_uq) @ (c @ w["W_UK"]).mT, **DOUBLE)
    u = normal(heads, 3, d_c, seed=6)
    assert_close((u @ w_uvo).sum(0), absorb_output(u, w["W_UV"], w["W_O"]), **DOUBLE)


def test_merging_makes_335_5_million_numbers_of_92_3_and_pays_for_heads_wider_than_384() -> None:
    w_uqk, w_uvo = torch.empty(1536, 512, device="meta"), torch.empty(512, 5120, device="meta")
    factors = 1536 * 128 + 512 * 128, 512 * 128 + 128 * 5120
    assert (w_uqk.numel(), w_uvo.numel(), *factors) == (786_432, 2_621_440, 262_144, 720_896)
    assert [round(128e-6 * n, 1) for n in (w_uqk.numel(), factors[0], w_uvo.numel(), factors[1])] == [100.7, 33.6, 335.5, 92.3]
    assert [round(w_uqk.numel() / factors[0], 1), round(w_uvo.numel() / factors[1], 1)] == [3.0, 3.6]
    assert 1536 * 512 / (1536 + 512) == 384


def test_transformers_expands_all_latents_for_one_new_token() -> None:
    pytest.importorskip("transformers.models.deepseek_v3")
    text = (course.course_root() / "lessons" / "10b_decoding_from_latents.md").read_text(encoding="utf-8")
    code = text[text.index("def one_step(") : text.index("\n\ntry:")]
    found: dict[str, Any] = {"torch": torch, "FlopCounterMode": FlopCounterMode}
    exec(code, found)
    with torch.no_grad():
        expanded, share = found["one_step"]()
    assert expanded == 2049
    assert share == pytest.approx(0.9966, abs=5e-5)
    assert "expanded, share = 2049, 0.9966" in text  # what the notebook says without the library


def test_the_pictures_say_what_they_show() -> None:
    made, absorbed, folded = latent_pictures.keys_and_values_made(), latent_pictures.absorbed(), latent_pictures.folded()
    for picture in (made, absorbed, folded, latent_pictures.caches()):
        assert "<svg" in picture.svg()
    assert "32,768" in latent_pictures.caches().svg()
    four = latent_pictures.four_ways().svg()
    assert all(word in four for word in ("multi-head", "grouped", "multi-query", "latent, in the cache", "made, not kept"))
    assert len(latent_pictures.dials().alt.split()) > 10


def test_absorbing_takes_512_products_for_a_cached_token_and_not_512_times_129() -> None:
    c, w, q = torch.randn(40, 512), torch.randn(2, 512, 128), torch.randn(2, 1, 128)
    made, absorbed = q @ per_head(c[None], w).mT, (q @ w.mT) @ c.mT
    assert_close(made, absorbed, rtol=1e-3, atol=0.1)
    counters = [FlopCounterMode(display=False) for _ in range(2)]
    with counters[0]:
        _ = q @ (c[None].expand(2, -1, -1) @ w).mT
    with counters[1]:
        _ = (q @ w.mT) @ c.mT
    per_token = [
        (counter.get_total_flops() - extra) / (2 * 2 * 40)
        for counter, extra in zip(counters, (0, 2 * 2 * 512 * 128), strict=True)
    ]
    assert per_token == [512 * 128 + 128, 512]


# ---------------------------------------------------------------------------------------------- trained at equal cache


def test_the_stored_run_says_what_the_text_says() -> None:
    runs = recall.stored()["runs"]
    found = {(kind, int(n)): sorted(r["recalled"] for r in rs) for kind, by in runs.items() for n, rs in by.items()}
    assert all(len(rs) == 3 for rs in found.values())
    wide = {"multi-head": 8, "grouped": 4, "multi-query": 2, "latent": 4}  # the cache over the rotated width of a head
    for (kind, n), rs in found.items():
        if kind == recall.HALF:
            continue
        rotated = n / wide[kind]
        if rotated < 6:
            assert rs[-1] < 0.1, (kind, n)  # a guess among 16 values is 1/16
        elif rotated > 8 or (kind, n) != ("multi-query", 16):
            assert rotated == 6 or rs[0] > 0.96, (kind, n)
    assert [r > 0.89 for r in found["multi-query", 16]] == [False, True, True]
    assert [r > 0.91 for r in found[recall.HALF, 16]] == [False, True, True]
    assert found["multi-head", 48][-1] < 0.5
    assert pytest.approx(0.06, abs=0.005) == 1 / 16


@pytest.mark.parametrize("kind", [wonderland.LARGE_KIND, *wonderland.KINDS, wonderland.WIDER, wonderland.HALF])
def test_the_readers_of_a_book_have_equal_caches_and_as_many_parameters(kind: str) -> None:
    model = wonderland.Writer(kind, 67)
    attend = model.layers[0].attend
    into_cache = attend.down if hasattr(attend, "down") else attend.kv
    assert into_cache.out_features == (128 if kind == wonderland.LARGE_KIND else 32)
    assert sum(p.numel() for p in model.parameters()) == 90_816


def test_the_readers_of_the_book_come_out_as_the_text_says() -> None:
    losses = {kind: [run["loss"] for run in runs] for kind, runs in wonderland.stored()["runs"].items()}
    means = {kind: round(sum(found) / len(found), 2) for kind, found in losses.items()}
    assert [means[kind] for kind in (wonderland.LARGE_KIND, *wonderland.KINDS)] == [1.68, 1.79, 1.73, 1.67, 1.72]
    assert all(len(losses[kind]) == 3 for kind in (wonderland.LARGE_KIND, *wonderland.KINDS))
    narrow, grouped, one, latent = (losses[kind] for kind in wonderland.KINDS)
    assert min(narrow) > max(grouped + one + latent)
    assert max(one) < min(latent + grouped)
    assert max(latent) > min(grouped)
    assert [losses[kind] for kind in (wonderland.WIDER, wonderland.HALF)] == [[pytest.approx(1.72, abs=0.005)], [1.7368]]
    assert min(losses[wonderland.WIDER] + losses[wonderland.HALF]) > latent[0]  # the same seed


def test_a_reader_trains_repeatably_and_writes_letters_of_the_book() -> None:
    one, two = (wonderland.train("latent", 0, steps=8) for _ in range(2))
    assert one == two
    assert one["loss"] < math.log(67)
    assert one["writes"].startswith("Alice")
    assert set(one["writes"]) <= set(wonderland.book())


def test_the_book_is_whole_and_in_plain_characters() -> None:
    text = wonderland.book()
    assert text.isascii()
    assert (len(text), len(set(text)), text.count("Alice")) == (143_700, 67, 397)
    assert text.endswith("THE END\n")


@pytest.mark.parametrize("kind", [*recall.KINDS, recall.HALF])
def test_each_kind_caches_as_many_numbers_as_it_says(kind: str) -> None:
    layer = recall.Reader(kind, 32).layers[0]
    into_cache = layer.down if hasattr(layer, "down") else layer.kv
    assert into_cache.out_features == 32
    assert recall.Reader(kind, 32)(torch.zeros(2, 8, dtype=torch.long)).shape == (2, 8, 2 * recall.WORDS)


def test_a_key_is_followed_by_the_same_value_both_times() -> None:
    ids, asked = recall.texts(5, 3, torch.Generator().manual_seed(1))
    for text in ids.tolist():
        first = dict(zip(text[:6:2], text[1:6:2], strict=True))
        assert len(first) == 3
        assert all(first[text[i]] == text[i + 1] for i in asked.nonzero().flatten().tolist())


@pytest.mark.slow
def test_training_is_repeatable_and_learns() -> None:
    one, two = (recall.train("multi-query", 32, seed=0, steps=60, pairs=2) for _ in range(2))
    assert one == two
    assert recall.train("multi-query", 32, seed=0, steps=300, pairs=2)["recalled"] > 0.8


@pytest.mark.parametrize(("d_c", "crossing"), [(512, 171), (192, 384), (100_000, 128)])
def test_from_171_new_tokens_on_making_keys_out_is_cheaper(d_c: int, crossing: int) -> None:
    d, d_rope = V2.d, V2.d_rope
    cross = d_c * 2 * d / ((2 * d_c + d_rope) - (2 * d + d_rope))
    assert cross == pytest.approx(crossing, abs=0.5)
    assert 2 * d_c * 2 * d + cross * 2 * (2 * d + d_rope) == pytest.approx(cross * 2 * (2 * d_c + d_rope))


def test_the_scale_without_the_rotated_part_is_too_large_by_1_22() -> None:
    assert math.sqrt((V2.d + V2.d_rope) / V2.d) == pytest.approx(math.sqrt(1.5)) == pytest.approx(1.22, abs=0.005)


def test_erratum_a_lost_transpose_does_not_fit() -> None:
    c_q, c_kv, w_uq, w_uk = torch.ones(6, 1), torch.ones(5, 1), torch.ones(3, 6), torch.ones(3, 5)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        c_q @ w_uq.T @ w_uk @ c_kv
    assert (c_q.T @ w_uq.T @ w_uk @ c_kv).shape == (1, 1)


# ---------------------------------------------------------------------------------------------- exercises


def test_the_misconceptions_that_the_syllabus_names_are_known() -> None:
    known = {(e.id, m.id) for e in exercises() for m in e.misconceptions}
    named = {
        ("mla_absorbed", "key_matrix_on_the_wrong_side"),
        ("mla_absorbed", "latents_copied_for_each_head"),
        ("mla_absorbed", "keys_and_values_made"),
        ("mla_absorbed", "heads_masked_as_tokens"),
        ("mla_absorbed", "scaled_by_latent"),
    }
    assert named <= known
