"""Lesson 04: the references against independent oracles, and every number that the lesson's text states."""

import math
from typing import Any

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from beartype import beartype
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right
from torch.testing import assert_close

from autograder.authoring import course, verify
from autograder.judging import pack
from solutions import device
from solutions import masking as reference
from solutions.masking import additive_mask, apply_mask, causal_mask, combine_masks, cross_attention, masked_sdpa, padding_mask
from solutions.scaled_dot_product import scaled_scores, sdpa

DOUBLE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}  # float64 on both sides, another order of summation
SINGLE: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-5}  # float32: the builtin and ours are each about 1e-6 off
HALF: dict[str, Any] = {"rtol": 2e-2, "atol": 2e-2}  # bfloat16 keeps 8 bits: a few roundings of 0.4 % each

INFINITY = float("inf")
sizes = st.integers(1, 6)
seeds = st.integers(0, 99)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def triple(*lead: int, n: int = 5, m: int = 7, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[Tensor, ...]:
    shapes = (n, 3), (m, 3), (m, 2)
    return tuple(normal(*lead, *shape, seed=3 * seed + i, dtype=dtype) for i, shape in enumerate(shapes))


def random_mask(*shape: int, seed: int = 0) -> Tensor:
    """Half of it False; the first row keeps nothing."""
    keep = torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    keep[..., 0, :] = False
    return keep


# ---------------------------------------------------------------------------------------------- masks


@settings(max_examples=30, deadline=None)
@given(m=sizes, lengths=st.lists(st.integers(0, 6), min_size=1, max_size=5))
def test_a_padding_mask_keeps_the_first_positions_of_each_sequence(m: int, lengths: list[int]) -> None:
    counts = torch.tensor(lengths).clamp(max=m)
    keep = padding_mask(counts, m)
    assert keep.shape == (len(lengths), 1, m)
    assert keep.dtype == torch.bool
    assert keep.sum(-1)[:, 0].tolist() == counts.tolist()
    assert keep.equal(keep.sort(dim=-1, descending=True, stable=True).values)


@settings(max_examples=30, deadline=None)
@given(sizes, sizes)
def test_a_causal_mask_is_the_last_rows_of_the_square_one(n_q: int, n_k: int) -> None:
    keep = causal_mask(n_q, n_k)
    n = max(n_q, n_k)
    assert keep.equal(torch.ones(n, n).tril().bool()[n - n_q :, n - n_k :])
    assert keep[-1].all()
    assert (~keep.any(-1)).sum() == max(0, n_q - n_k)


@pytest.mark.parametrize(("n_q", "n_k"), [(5, 5), (3, 5), (1, 5), (2, 7)])
def test_a_causal_mask_is_the_builtin_bias_at_the_lower_right(n_q: int, n_k: int) -> None:
    q, k, v = (x[None] for x in triple(1, n=n_q, m=n_k))
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(n_q, n_k))
    assert_close(masked_sdpa(q, k, v, causal_mask(n_q, n_k))[0], expected, **DOUBLE)


def test_combined_masks_keep_what_every_mask_keeps_in_any_order_and_leave_them_alone() -> None:
    masks = [random_mask(2, 5, 7, seed=1), random_mask(5, 7, seed=2), padding_mask(torch.tensor([3, 6]), 7)]
    before = [mask.clone() for mask in masks]
    keep = combine_masks(masks)
    assert keep.equal(masks[0] * masks[1] * masks[2])
    assert keep.equal(combine_masks(masks[::-1]))
    assert combine_masks(masks[:1]).equal(masks[0])
    assert all(mask.equal(old) for mask, old in zip(masks, before, strict=True))


# ---------------------------------------------------------------------------------------------- scores


def test_apply_mask_writes_minus_infinity_exactly_where_the_mask_is_false() -> None:
    scores, keep = normal(2, 5, 7), random_mask(2, 1, 7, seed=3)
    masked = apply_mask(scores, keep)
    assert masked.isneginf().equal(~keep.expand(2, 5, 7))
    assert masked.where(keep, 0.0).equal(scores.where(keep, 0.0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_adding_the_additive_mask_is_applying_the_mask_in_every_precision(dtype: torch.dtype) -> None:
    scores, keep = normal(5, 7).to(dtype), random_mask(5, 7)
    assert additive_mask(keep, dtype).dtype == dtype
    assert (scores + additive_mask(keep, dtype)).equal(apply_mask(scores, keep))


# ---------------------------------------------------------------------------------------------- attention


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, DOUBLE), (torch.float32, SINGLE), (torch.bfloat16, HALF)])
@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_output_is_that_of_the_builtin_empty_rows_included(
    lead: tuple[int, ...], dtype: torch.dtype, tolerance: dict[str, Any]
) -> None:
    q, k, v = triple(*lead, dtype=dtype)
    keep = random_mask(*lead, 5, 7)
    output, weights = masked_sdpa(q, k, v, keep)
    assert_close(output, F.scaled_dot_product_attention(q, k, v, attn_mask=keep), **tolerance)
    assert weights.masked_select(~keep).eq(0).all()
    assert output[..., 0, :].eq(0).all()


@pytest.mark.parametrize("lead", [(), (2,)])
def test_gradients_are_those_of_the_builtin_and_finite_with_empty_rows(lead: tuple[int, ...]) -> None:
    leaves = [x.requires_grad_() for x in triple(*lead)]
    keep, cotangent = random_mask(*lead, 5, 7), normal(*lead, 5, 2, seed=8)
    mine = torch.autograd.grad(masked_sdpa(*leaves, keep)[0], leaves, cotangent)
    theirs = torch.autograd.grad(F.scaled_dot_product_attention(*leaves, attn_mask=keep), leaves, cotangent)
    assert_close(mine, theirs, **DOUBLE)
    assert all(grad.isfinite().all() for grad in mine)


@pytest.mark.filterwarnings("ignore:Anomaly Detection:UserWarning")
def test_no_nan_arises_anywhere_on_the_way_back() -> None:
    leaves = [x.requires_grad_() for x in triple()]
    with torch.autograd.detect_anomaly():
        masked_sdpa(*leaves, random_mask(5, 7))[0].sum().backward()
    assert torch.autograd.gradcheck(lambda q, k, v: masked_sdpa(q, k, v, random_mask(5, 7))[0], leaves)


@settings(max_examples=30, deadline=None)
@given(n=sizes, m=sizes, seed=seeds)
def test_a_masked_query_is_a_query_to_the_kept_keys_alone(n: int, m: int, seed: int) -> None:
    q, k, v = triple(n=n, m=m, seed=seed)
    keep = random_mask(n, m, seed=seed)
    output, weights = masked_sdpa(q, k, v, keep)
    for i in range(n):
        expected = sdpa(q[i : i + 1], k[keep[i]], v[keep[i]])[0][0] if keep[i].any() else torch.zeros(2, dtype=torch.float64)
        assert_close(output[i], expected, **DOUBLE)
    assert_close(weights.sum(-1), keep.any(-1).double(), **DOUBLE)


def test_hidden_keys_and_values_change_nothing_however_large() -> None:
    q, k, v = triple()
    keep = torch.ones(5, 7, dtype=torch.bool)
    keep[:, 3] = False
    before = masked_sdpa(q, k, v, keep)
    k[3], v[3] = 1e4, -1e6
    assert_close(masked_sdpa(q, k, v, keep), before, rtol=0, atol=0)


def test_a_nan_in_a_hidden_value_gets_through_in_the_builtin_too() -> None:
    q, k, v = triple()
    v[6] = math.nan
    keep = padding_mask(torch.tensor([6]), 7)[0]
    assert masked_sdpa(q, k, v, keep)[0].isnan().all()
    assert F.scaled_dot_product_attention(q, k, v, attn_mask=keep.expand(5, 7)).isnan().all()


def test_a_mask_that_keeps_everything_is_no_mask_and_other_strides_give_the_same() -> None:
    q, k, v = triple(2)
    everything = torch.ones(5, 7, dtype=torch.bool)
    assert_close(masked_sdpa(q, k, v, everything), sdpa(q, k, v), **DOUBLE)
    strided = [x.mT.contiguous().mT for x in (q, k, v)]
    keep = random_mask(5, 7)
    assert_close(masked_sdpa(*strided, keep.mT.contiguous().mT), masked_sdpa(q, k, v, keep), **DOUBLE)


def test_cross_attention_is_that_of_multihead_attention_with_one_head() -> None:
    x_q, x_kv = normal(2, 5, 6), normal(2, 7, 4, seed=1)
    keep = padding_mask(torch.tensor([3, 7]), 7)
    module = nn.MultiheadAttention(6, 1, bias=False, batch_first=True, kdim=4, vdim=4, dtype=torch.float64)
    with torch.no_grad():
        expected, weights = module(x_q, x_kv, x_kv, key_padding_mask=~keep[:, 0])
        w_q, w_k, w_v = module.q_proj_weight.T, module.k_proj_weight.T, module.v_proj_weight.T
        output, mine = cross_attention(x_q, x_kv, w_q, w_k, w_v, keep)
        assert_close(output @ module.out_proj.weight.T, expected, **DOUBLE)
        assert_close(mine, weights, **DOUBLE)


def test_results_follow_the_device_of_the_inputs() -> None:
    lengths = torch.tensor([3, 7], device=device())
    keep = padding_mask(lengths, 7)
    q, k, v = (x.to(device()) for x in triple(2, dtype=torch.float32))
    square = torch.eye(3, device=device())
    results = [keep, combine_masks([keep, keep]), apply_mask(scaled_scores(q, k), keep), additive_mask(keep, torch.float16)]
    results += [*masked_sdpa(q, k, v, keep), *cross_attention(q, k, square, square, square, keep)]
    assert all(x.device.type == device().type for x in results)


def test_annotated_shapes_hold_at_run_time() -> None:
    names = ("padding_mask", "causal_mask", "combine_masks", "apply_mask", "additive_mask", "masked_sdpa", "cross_attention")
    checked = {name: jaxtyping.jaxtyped(typechecker=beartype)(getattr(reference, name)) for name in names}
    q, k, v = triple(2)
    keep = checked["padding_mask"](torch.tensor([3, 7]), 7)
    both = checked["combine_masks"]([keep, checked["causal_mask"](5, 7)])
    checked["apply_mask"](scaled_scores(q, k), both)
    checked["additive_mask"](both, torch.float16)
    checked["masked_sdpa"](q, k, v, both)
    checked["cross_attention"](q, k, normal(3, 4), normal(3, 4), normal(3, 2), both)
    with pytest.raises(jaxtyping.TypeCheckError):
        checked["masked_sdpa"](q, v, k, both)


# ---------------------------------------------------------------------------------------------- numbers in the text


def lesson_batch() -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([4, 2, 1])
    x = normal(3, 4, 8)
    for b, length in enumerate(lengths):
        x[b, length:] = 0.0
    return x, lengths


def test_zero_embeddings_do_not_remove_blanks_but_the_mask_does() -> None:
    x, lengths = lesson_batch()
    plain = torch.softmax(scaled_scores(x, x), dim=-1)
    assert plain[1, 0, 2:].sum() > 0.1
    assert plain[2, 0, 1:].sum() > 0.1
    bare, masked = [], []
    for m in (2, 3, 4):
        bare.append(sdpa(x[1, :m], x[1, :m], x[1, :m])[0][0])
        masked.append(masked_sdpa(x[1:2, :m], x[1:2, :m], x[1:2, :m], padding_mask(lengths[1:2], m))[0][0, 0])
    assert bare[0].norm() > bare[1].norm() > bare[2].norm()
    assert_close(masked, [bare[0]] * 3, **DOUBLE)


def test_a_blank_query_takes_the_plain_mean_of_the_real_words() -> None:
    x, lengths = lesson_batch()
    _, weights = masked_sdpa(x, x, x, padding_mask(lengths, 4))
    assert_close(weights[1, 3], torch.tensor([0.5, 0.5, 0, 0], dtype=torch.float64))


def test_float16_ends_at_65504_and_cannot_hold_minus_1e9() -> None:
    assert torch.finfo(torch.float16).max == 65504
    keep, half = torch.tensor([True, False]), torch.zeros(2, dtype=torch.float16)
    with pytest.raises(RuntimeError, match="overflow"):
        half.masked_fill(~keep, -1e9)
    assert torch.where(keep, half, -1e9)[1] == -INFINITY


def empty_row(dtype: torch.dtype = torch.float32) -> tuple[list[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 4, generator=generator), torch.randn(3, 4, generator=generator)
    leaves = [x.to(dtype).requires_grad_() for x in (q, k, torch.tensor([[1.0], [2.0], [9.0]]))]
    return leaves, torch.tensor([[True, True, False], [False, False, False]])


def finite(output: Tensor, leaves: list[Tensor]) -> list[bool]:
    return [bool(grad.isfinite().all()) for grad in torch.autograd.grad(output.sum(), leaves)]


def test_minus_1e9_gives_an_empty_row_the_mean_of_all_values_or_no_mask_at_all() -> None:
    (q, k, v), keep = empty_row()
    for scores in (scaled_scores(q, k).masked_fill(~keep, -1e9), scaled_scores(q, k) - 1e9 * ~keep):
        assert_close((torch.softmax(scores, dim=-1) @ v)[1].item(), 4.0)
    (q, k, v), keep = empty_row(torch.float64)
    added = torch.softmax(scaled_scores(q, k) - 1e9 * ~keep, dim=-1) @ v
    assert_close(added[1], sdpa(q, k, v)[0][1], rtol=1e-5, atol=1e-5)  # a score near 1e9 keeps 7 decimals
    spacing = torch.tensor(1e9) - torch.nextafter(torch.tensor(1e9), torch.tensor(0.0))
    assert spacing == 64


def test_minus_infinity_alone_is_nan_and_nan_to_num_comes_too_late() -> None:
    leaves, keep = empty_row()
    q, k, v = leaves
    filled = torch.softmax(apply_mask(scaled_scores(q, k), keep), dim=-1) @ v
    assert filled[1].isnan().all()
    assert finite(filled.nan_to_num(), leaves) == [True, True, False]
    added = torch.softmax(scaled_scores(q, k) + additive_mask(keep, q.dtype), dim=-1) @ v
    assert finite(added.nan_to_num(), leaves) == [False, False, False]
    builtin = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
    assert builtin[1].item() == 0
    assert finite(builtin, leaves) == finite(masked_sdpa(q, k, v, keep)[0], leaves) == [True, True, True]
    assert_close(filled[0], builtin[0], **SINGLE)


def test_the_switch_is_causal_sees_the_first_key_only() -> None:
    q, k = normal(1, 1, 4), normal(1, 5, 4, seed=1)
    eye = torch.eye(5, dtype=torch.float64)[None]
    assert_close(F.scaled_dot_product_attention(q, k, eye, is_causal=True), eye[:, :1])
    assert_close(masked_sdpa(q, k, eye, causal_mask(1, 5))[0], sdpa(q, k, eye)[0])


def test_left_blanks_under_a_causal_mask_leave_two_queries_with_nothing() -> None:
    right = padding_mask(torch.tensor([3]), 5)
    empty = [
        (~combine_masks([real, causal_mask(5, 5)]).any(-1)[0]).nonzero().flatten().tolist() for real in (right, right.flip(-1))
    ]
    assert empty == [[], [0, 1]]


def leakage(keep: Tensor, late: Tensor | None = None) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(5, 8, generator=generator, dtype=torch.float64)
    w_q, w_k, w_v = torch.randn(3, 8, 8, generator=generator, dtype=torch.float64) / math.sqrt(8)

    def attend(x: Tensor) -> Tensor:
        _, weights = masked_sdpa(x @ w_q, x @ w_k, x @ w_v, keep)
        return (weights if late is None else weights * late) @ x @ w_v

    jacobian: Tensor = torch.autograd.functional.jacobian(attend, tokens)
    return jacobian.norm(dim=(1, 3))


def test_only_a_causal_mask_before_the_softmax_does_not_leak() -> None:
    everything = torch.ones(5, 5, dtype=torch.bool)
    assert leakage(causal_mask(5, 5)).triu(1).eq(0).all()
    assert leakage(causal_mask(5, 5)).tril().count_nonzero() == 15
    for sizes_of in (leakage(everything), leakage(everything, late=causal_mask(5, 5))):
        assert (sizes_of.triu(1) > 0.01).sum() == 10
    ahead = leakage(everything.tril(1))
    assert ahead.triu(2).eq(0).all()
    assert (ahead.diagonal(1) > 0.01).all()


def test_the_toy_translation_crosses_and_ignores_blanks() -> None:
    features, sharp = torch.eye(4), 2.5 * torch.eye(4)
    source = torch.cat([features[[0, 2, 1, 3]], torch.zeros(2, 4)])
    _, weights = cross_attention(features, source, sharp, sharp, features, padding_mask(torch.tensor([4]), 6)[0])
    assert weights.argmax(-1).tolist() == [0, 2, 1, 3]
    assert weights[:, 4:].eq(0).all()


# ---------------------------------------------------------------------------------------------- errata


@settings(max_examples=20, deadline=None)
@given(seed=seeds, blanks=st.integers(1, 20))
def test_zeroed_values_shrink_the_output_by_the_share_of_the_kept_keys(seed: int, blanks: int) -> None:
    q, k, v = triple(m=3 + blanks, seed=seed)
    real = padding_mask(torch.tensor([3]), 3 + blanks)[0]
    weights = sdpa(q, k, v)[1]
    share = (weights * real).sum(-1, keepdim=True)
    assert (share < 1).all()
    assert_close(weights @ (v * real.mT), share * masked_sdpa(q, k, v, real)[0], **DOUBLE)


def test_the_printed_triangle_shows_new_tokens_too_few_keys_and_a_strict_one_leaves_an_empty_row() -> None:
    assert (torch.arange(5) <= torch.arange(2)[:, None]).sum(-1).tolist() == [1, 2]
    assert causal_mask(2, 5).sum(-1).tolist() == [4, 5]
    assert (~torch.ones(4, 4).tril(-1).bool().any(-1)).tolist() == [True, False, False, False]


def test_multihead_attention_wants_the_opposite_polarity_and_returns_nan_where_all_is_blocked() -> None:
    tokens = normal(1, 5, 8)
    module = nn.MultiheadAttention(8, 1, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        q, k, v = (tokens @ w.T for w in module.in_proj_weight.chunk(3))
        mine = masked_sdpa(q, k, v, causal_mask(5, 5))[0] @ module.out_proj.weight.T
        assert_close(module(tokens, tokens, tokens, attn_mask=~causal_mask(5, 5))[0], mine, **DOUBLE)
        assert not torch.allclose(module(tokens, tokens, tokens, attn_mask=causal_mask(5, 5))[0], mine, equal_nan=True)
        assert module(tokens, tokens, tokens, attn_mask=torch.ones(5, 5, dtype=torch.bool))[0].isnan().all()


def test_the_documented_equivalent_of_the_builtin_is_nan_where_the_builtin_is_zero() -> None:
    q, k, v = triple(1)
    nothing = torch.zeros(5, 7, dtype=torch.bool)
    bias = torch.zeros(5, 7, dtype=torch.float64).masked_fill_(nothing.logical_not(), -INFINITY)
    assert (torch.softmax(scaled_scores(q, k) + bias, dim=-1) @ v).isnan().all()
    assert F.scaled_dot_product_attention(q, k, v, attn_mask=nothing).eq(0).all()


def test_appending_a_token_changes_no_earlier_output() -> None:
    x = normal(5, 8)
    longer = masked_sdpa(x, x, x, causal_mask(5, 5))[0]
    assert_close(masked_sdpa(x[:4], x[:4], x[:4], causal_mask(4, 4))[0], longer[:4], rtol=0, atol=1e-14)


# ---------------------------------------------------------------------------------------------- probes


@pytest.mark.parametrize("seed", [pack.VISIBLE_SEED, 7, 20_240_229])
def test_probes_hold_the_rows_that_their_names_promise(seed: int) -> None:
    exercise = next(e for e in course.find_lesson("masking").exercises() if e.id == "masked_sdpa")
    cases = {case.name: case for case in pack.make_record("masking", exercise, seed).cases}
    for name, case in cases.items():
        empty = ~case.probe.inputs.arrays[3].any(-1)
        assert empty.any() == ("see nothing" in name)
        assert not empty.all()
    q, k, _, keep = (torch.from_numpy(x) for x in cases["a forbidden key with a huge score"].probe.inputs.arrays)
    scores = scaled_scores(q.double(), k.double())
    assert (apply_mask(scores, ~keep).amax(-1) - apply_mask(scores, keep).amax(-1)).min() > 750  # beyond exp in float64


@pytest.mark.parametrize(("dtype", "passes"), [(torch.float16, True), (torch.float32, False), (torch.float64, False)])
def test_the_check_of_the_additive_mask_sees_its_precision(dtype: torch.dtype, passes: bool) -> None:
    exercise = next(e for e in course.find_lesson("masking").exercises() if e.id == "additive_mask")
    record = pack.make_record("masking", exercise, pack.VISIBLE_SEED)
    assert verify.grade(record, lambda keep, **_: additive_mask(keep, dtype)).passed is passes
