"""Chapter 05: the references against independent oracles, and the numbers that the notebooks' text states."""

import ast
import inspect
import math
import re
from typing import Any

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from attention_course import designs
from attention_course.heads import load_heads
from attention_course.thread import INDEX, VECTORS
from beartype import beartype
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from autograder.authoring import course
from autograder.authoring.reference_source import solution_source
from autograder.judging.combined_mistakes import answer_of
from autograder.packs import make_pack
from course.exercises.multi_head.heads import merge_interleaved, split_interleaved
from solutions import device
from solutions import multi_head as reference
from solutions.lib import heads as lib_heads
from solutions.lib import sdpa as on_masks
from solutions.lib.heads import merge_heads, split_heads
from solutions.multi_head import (
    MultiHead,
    from_torch_mha,
    masked_sdpa,
    mha,
    mha_as_sum,
    who_and_what,
)

DOUBLE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}  # float64 on both sides, another order of summation
SINGLE: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-5}  # float32: torch's module and ours are each about 7e-7 off
HALF: dict[str, Any] = {"rtol": 4e-2, "atol": 4e-2}  # bfloat16 keeps 8 bits, through four products
sizes = st.integers(1, 5)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def weights(d_model: int, H: int, d_k: int, d_v: int, *, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    shapes = (d_model, H * d_k), (d_model, H * d_k), (d_model, H * d_v), (H * d_v, d_model)
    return tuple(normal(*shape, seed=10 + i, dtype=dtype) / math.sqrt(shape[0]) for i, shape in enumerate(shapes))


def causal(n: int) -> Tensor:
    return torch.ones(n, n).tril().bool()


def torch_module(width: int, H: int, *, bias: bool = True, dtype: torch.dtype = torch.float64, seed: int = 0) -> Any:
    """PyTorch's module with biases other than 0, in evaluation."""
    torch.manual_seed(seed)
    module = nn.MultiheadAttention(width, H, bias=bias, batch_first=True, dtype=dtype)
    if bias:
        nn.init.normal_(module.in_proj_bias)
        nn.init.normal_(module.out_proj.bias)
    return module.eval().requires_grad_(False)


# ---------------------------------------------------------------------------------------------- split and merge


@settings(max_examples=40, deadline=None)
@given(lead=st.lists(sizes, max_size=2), n=sizes, H=sizes, d=sizes)
def test_split_is_chunks_of_features_and_merge_is_its_inverse_and_a_concatenation(
    lead: list[int], n: int, H: int, d: int
) -> None:
    x = normal(*lead, n, H * d)
    heads = split_heads(x, H)
    assert torch.equal(heads, torch.stack(x.chunk(H, dim=-1), dim=-3))
    assert torch.equal(merge_heads(heads), x)
    y = normal(*lead, H, n, d)
    assert torch.equal(merge_heads(y), torch.cat(y.unbind(-3), dim=-1))


def test_a_width_that_is_no_multiple_of_the_heads_is_refused() -> None:
    with pytest.raises(RuntimeError, match="invalid for input"):
        split_heads(normal(3, 7), 2)


def test_no_tokens_and_other_strides_are_fine() -> None:
    assert split_heads(normal(0, 6), 2).shape == (2, 0, 3)
    x = normal(6, 5).T
    assert not x.is_contiguous()
    assert torch.equal(merge_heads(split_heads(x, 3)), x)


def test_two_bare_reshapes_are_a_round_trip_too() -> None:
    x = normal(3, 4)
    assert torch.equal(x.reshape(2, 3, 2).reshape(3, 4), x)
    assert not torch.equal(x.reshape(2, 3, 2), split_heads(x, 2))


def dependence(split: Any, merge: Any, n: int = 6, H: int = 3, width: int = 6) -> Tensor:
    def f(x: Tensor) -> Tensor:
        return merge(masked_sdpa(split(x, H), split(x, H), split(x, H), causal(n))[0])

    jacobian = torch.autograd.functional.jacobian(f, normal(n, width))
    return jacobian.pow(2).sum((1, 3)).sqrt() > 1e-12


def test_bare_reshapes_keep_each_token_in_its_own_third_and_a_mixed_pair_leaks_the_future() -> None:
    def bare_split(x: Tensor, H: int) -> Tensor:
        return x.reshape(H, 6, 2)

    def bare_merge(y: Tensor) -> Tensor:
        return y.reshape(6, 6)

    third = torch.arange(6) // 2
    assert torch.equal(dependence(split_heads, merge_heads), causal(6))
    assert torch.equal(dependence(bare_split, bare_merge), causal(6) & (third[:, None] == third))
    leaky = dependence(bare_split, merge_heads)
    assert leaky[0].nonzero().flatten().tolist() == [0, 2, 4]
    assert (dependence(split_heads, bare_merge) & ~causal(6)).any()


# ---------------------------------------------------------------------------------------------- attention


@pytest.mark.parametrize("lesson", ["05_multi_head", "05d_module_and_costs"])
def test_given_attention_is_that_of_the_lesson_on_masks_and_of_the_builtin(lesson: str) -> None:
    shown = {"torch": torch, "math": math}
    exec(_given(lesson, "masked_sdpa"), shown)  # the course's own text
    q, k, v = normal(2, 5, 3), normal(2, 7, 3, seed=1), normal(2, 7, 2, seed=2)
    q[1, 2] = math.nan  # a fault from elsewhere, in a query that keeps keys
    keep = normal(2, 5, 7, seed=3) > 0
    keep[0, 1] = False
    for attend in (shown["masked_sdpa"], masked_sdpa):
        output, A = attend(q, k, v, keep)
        assert_close((output, A), on_masks.masked_sdpa(q, k, v, keep), equal_nan=True, rtol=0, atol=0)
        assert not output[0, 1].any()
        assert not A[0, 1].any()
        assert output[1, 2].isnan().all()
        assert_close(attend(q, k, v)[0], F.scaled_dot_product_attention(q, k, v), equal_nan=True, **DOUBLE)
    assert_close(masked_sdpa(q[0], k[0], v[0], keep[0])[0], F.scaled_dot_product_attention(q[0], k[0], v[0], keep[0]), **DOUBLE)


def _given(lesson: str, name: str) -> str:
    """The source of a function that a lesson's text defines."""
    text = (course.course_root() / "lessons" / f"{lesson}.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^def {name}\(.*?(?=\n\S|\n\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, DOUBLE), (torch.float32, SINGLE)])
@pytest.mark.parametrize("masked", [False, True])
def test_mha_is_torchs_module_with_its_mask_negated_and_weights_not_averaged(
    masked: bool, dtype: torch.dtype, tolerance: dict[str, Any]
) -> None:
    module = torch_module(6, 3, bias=False, dtype=dtype)
    x, keep = normal(4, 5, 6, dtype=dtype), causal(5) if masked else None
    expected = module(x, x, x, attn_mask=None if keep is None else ~keep, average_attn_weights=False)
    ours = from_torch_mha(module)
    given_weights = [layer.weight.T for layer in (ours.W_Q, ours.W_K, ours.W_V, ours.W_O)]
    assert_close(mha(x, *given_weights, 3, keep), expected, **tolerance)
    average = module(x, x, x, attn_mask=None if keep is None else ~keep)[1]
    assert_close(mha(x, *given_weights, 3, keep)[1].mean(-3), average, **tolerance)


@settings(max_examples=30, deadline=None)
@given(n=sizes, d_model=sizes, H=sizes, d_k=sizes, d_v=sizes, seed=st.integers(0, 99))
def test_concatenation_and_sum_agree_at_all_sizes(n: int, d_model: int, H: int, d_k: int, d_v: int, seed: int) -> None:
    x, w, bias = normal(2, n, d_model, seed=seed), weights(d_model, H, d_k, d_v), normal(d_model, seed=5)
    y, a = mha(x, *w, H)
    total, summands = mha_as_sum(x, *w, bias, H)
    assert_close(total, y + bias, **DOUBLE)
    assert_close(summands.sum(-3), y, **DOUBLE)
    assert_close(a.sum(-1), torch.ones(2, H, n, dtype=torch.float64), **DOUBLE)


def test_a_summand_is_the_output_with_all_other_heads_switched_off() -> None:
    x, (w_q, w_k, w_v, w_o) = normal(5, 6), weights(6, 3, 2, 7)
    _, summands = mha_as_sum(x, w_q, w_k, w_v, w_o, torch.zeros(6, dtype=torch.float64), 3)
    for h in range(3):
        only = torch.zeros_like(w_o)
        only[7 * h : 7 * h + 7] = w_o[7 * h : 7 * h + 7]
        assert_close(mha(x, w_q, w_k, w_v, only, 3)[0], summands[h], **DOUBLE)


def test_reordering_the_heads_with_their_rows_changes_nothing_and_without_them_everything() -> None:
    x, (w_q, w_k, w_v, w_o) = normal(5, 6), weights(6, 3, 2, 2)
    order = torch.tensor([4, 5, 0, 1, 2, 3])  # features of heads 2, 0, 1
    plain = mha(x, w_q, w_k, w_v, w_o, 3)[0]
    assert_close(mha(x, w_q[:, order], w_k[:, order], w_v[:, order], w_o[order], 3)[0], plain, **DOUBLE)
    assert (mha(x, w_q[:, order], w_k[:, order], w_v[:, order], w_o, 3)[0] - plain).abs().max() > 0.1


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(6)))
def test_shuffled_tokens_give_the_same_outputs_shuffled(order: list[int]) -> None:
    x, w = normal(6, 4), weights(4, 2, 3, 5)
    assert_close(mha(x[order], *w, 2)[0], mha(x, *w, 2)[0][order], **DOUBLE)


def test_each_sequence_obeys_its_own_mask_also_where_there_are_as_many_sequences_as_heads() -> None:
    x, w = normal(3, 5, 6), weights(6, 3, 2, 7)
    keep = (torch.arange(5) < torch.tensor([2, 5, 3])[:, None, None]).expand(3, 5, 5)
    y, a = mha(x, *w, 3, keep)
    for b in range(3):
        assert_close((y[b], a[b]), mha(x[b], *w, 3, keep[b]), **DOUBLE)
        assert (a[b][:, ~keep[b]] == 0).all()


def test_a_query_with_nothing_to_look_at_gets_zero_and_finite_gradients() -> None:
    x, w = normal(3, 4).requires_grad_(), weights(4, 2, 3, 5)
    y, a = mha(x, *w, 2, torch.tensor([[False] * 3, [True] * 3, [True] * 3]))
    assert (y[0] == 0).all()
    assert (a[:, 0] == 0).all()
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert gradient.isfinite().all()


def test_one_head_of_full_width_with_identity_weights_is_plain_attention() -> None:
    x, eye = normal(5, 6), torch.eye(6, dtype=torch.float64)
    assert_close(mha(x, eye, eye, eye, eye, 1)[0], F.scaled_dot_product_attention(x, x, x), **DOUBLE)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, SINGLE), (torch.bfloat16, HALF)])
def test_results_follow_the_device_and_dtype_of_the_inputs(dtype: torch.dtype, tolerance: dict[str, Any]) -> None:
    x, w = normal(2, 5, 6), weights(6, 3, 2, 7)
    y, a = mha(x.to(device(), dtype), *(m.to(device(), dtype) for m in w), 3, causal(5).to(device()))
    assert y.dtype == a.dtype == dtype
    assert y.device.type == device().type
    assert_close(y.cpu().double(), mha(x, *w, 3, causal(5))[0], **tolerance)


def test_annotated_shapes_hold_at_run_time() -> None:
    typed = jaxtyping.jaxtyped(typechecker=beartype)
    x, w = normal(2, 5, 6), weights(6, 3, 2, 7)
    typed(split_heads)(x, 3)
    typed(merge_heads)(normal(2, 3, 5, 7))
    typed(reference.mha)(x, *w, 3, causal(5))
    typed(reference.mha_as_sum)(x, *w, normal(6), 3)
    typed(reference.masked_sdpa)(x, x, x, causal(5))
    with pytest.raises(jaxtyping.TypeCheckError):
        typed(reference.mha)(x, *(m.T for m in w), 3)


# ---------------------------------------------------------------------------------------------- module


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, DOUBLE), (torch.float32, SINGLE)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_a_module_made_from_torchs_computes_what_torchs_does(
    masked: bool, bias: bool, dtype: torch.dtype, tolerance: dict[str, Any]
) -> None:
    theirs = torch_module(6, 3, bias=bias, dtype=dtype)
    ours = from_torch_mha(theirs)
    asking, offering = normal(4, 5, 6, dtype=dtype), normal(4, 7, 6, seed=1, dtype=dtype)
    keep = (normal(5, 7, seed=2) > 0).index_fill(1, torch.tensor([0]), True) if masked else None
    expected = theirs(asking, offering, offering, attn_mask=None if keep is None else ~keep)[0]
    assert_close(ours(asking, offering, keep), expected, **tolerance)
    assert (ours.W_Q.bias is not None) == bias


def test_an_adapted_module_owns_its_weights() -> None:
    theirs = torch_module(6, 3)
    ours = from_torch_mha(theirs)
    before = ours(x := normal(5, 6), x)
    theirs.in_proj_weight.zero_()
    assert torch.equal(ours(x, x), before)


@pytest.mark.parametrize("options", [{"kdim": 4}, {"add_bias_kv": True}, {"add_zero_attn": True}])
def test_an_adapter_refuses_what_the_module_has_no_place_for(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        from_torch_mha(nn.MultiheadAttention(6, 2, **options))


def test_the_module_is_the_function_where_both_inputs_are_the_same() -> None:
    module = MultiHead(6, 3, 2, 7, bias=False).double()
    w = [layer.weight.T for layer in (module.W_Q, module.W_K, module.W_V, module.W_O)]
    x = normal(2, 5, 6)
    assert_close(module(x, x, causal(5)), mha(x, *w, 3, causal(5))[0], **DOUBLE)


@settings(max_examples=30, deadline=None)
@given(d_model=sizes, H=sizes, d_k=sizes, d_v=sizes, bias=st.booleans())
def test_parameters_are_as_many_as_the_module_has(d_model: int, H: int, d_k: int, d_v: int, bias: bool) -> None:
    built = MultiHead(d_model, H, d_k, d_v, bias)
    outputs = 2 * H * d_k + H * d_v + d_model
    counted = 2 * d_model * H * (d_k + d_v) + (outputs if bias else 0)
    assert counted == sum(p.numel() for p in built.parameters())


def test_a_released_class_keeps_signatures_and_docstrings_and_no_body() -> None:
    source = solution_source("multi_head", "MultiHead")
    outside = [part.split("### END SOLUTION")[-1] for part in source.split("### BEGIN SOLUTION")]
    assert "def forward" in "".join(outside)
    assert "four `nn.Linear`" in "".join(outside)
    assert "super().__init__()" not in "".join(outside)
    assert "split_heads(" not in "".join(outside)


def test_the_lessons_locked_cells_hold_the_given_functions_of_the_module() -> None:
    lesson = (course.course_root() / "lessons" / "05_multi_head.md").read_text(encoding="utf-8")
    cells = "\n".join(re.findall(r"```\{code-cell\}[^\n]*\n:nbgrader: \{[^\n]*locked: true\}\n\n(.*?)\n```", lesson, re.DOTALL))
    module = inspect.getsource(lib_heads)
    shown, meant = ({f.name: f for f in ast.parse(source).body if isinstance(f, ast.FunctionDef)} for source in (cells, module))
    assert set(shown) == {"masked_sdpa", "split_heads", "merge_heads"}
    for name in ("split_heads", "merge_heads"):
        assert [ast.dump(line) for line in shown[name].body[1:]] == [
            ast.dump(line) for line in meant[name].body[1:]
        ]  # but the docstring


def test_heads_of_features_dealt_like_cards_are_those_of_other_weights() -> None:
    """The silent bug of the module as found: the same family of functions, so only loaded weights show it."""
    x, (w_q, w_k, w_v, w_o) = normal(2, 5, 6), weights(6, 3, 2, 7)
    q, k, v = (split_interleaved(x @ w, 3) for w in (w_q, w_k, w_v))
    dealt = merge_interleaved(masked_sdpa(q, k, v, causal(5))[0]) @ w_o
    narrow, wide = (torch.arange(3 * d).reshape(d, 3).T.flatten() for d in (2, 7))
    other = mha(x, w_q[:, narrow], w_k[:, narrow], w_v[:, wide], w_o[wide], 3, causal(5))[0]
    assert_close(dealt, other, **DOUBLE)
    assert (dealt - mha(x, w_q, w_k, w_v, w_o, 3, causal(5))[0]).abs().max() > 0.05
    assert torch.equal(merge_interleaved(split_interleaved(x, 3)), x)
    assert torch.equal(dependence(split_interleaved, merge_interleaved), causal(6))  # what the lesson tests shows nothing


def test_the_module_as_found_agrees_only_where_its_three_faults_cannot_show() -> None:
    from course.exercises.multi_head.module import MULTI_HEAD

    found = answer_of(MULTI_HEAD, next(m.answer for m in MULTI_HEAD.misconceptions if m.id == "as_found"))
    init = {"d_model": 6, "H": 1, "d_k": 6, "d_v": 6}
    wrong, right = found(**init), MultiHead(**init).double()
    wrong.load_state_dict(right.state_dict())
    x = normal(5, 6)
    assert_close(wrong(x, x, causal(5)), right(x, x, causal(5)), **DOUBLE)  # one head of full width, no batch
    init["H"], init["d_k"], init["d_v"] = 3, 2, 2
    wrong, right = found(**init), MultiHead(**init).double()
    wrong.load_state_dict(right.state_dict())
    assert (wrong(x, x) - right(x, x)).abs().max() > 1e-2


# ---------------------------------------------------------------------------------------------- numbers in the text


def test_parameters_do_not_depend_on_the_number_of_heads_at_fixed_total_width() -> None:
    counts = {sum(p.numel() for p in MultiHead(512, H, 512 // H, 512 // H, False).parameters()) for H in (1, 8, 32)}
    assert counts == {1_048_576}
    assert 128 * 128 == 16384


def test_half_of_she_and_half_of_pear_is_nothing() -> None:
    assert (0.5 * VECTORS[INDEX["she"]] + 0.5 * VECTORS[INDEX["pear"]] == 0).all()


def test_two_heads_keep_who_and_what_apart_in_any_order() -> None:
    found = designs.who_and_what(who_and_what())
    for row, kinds in enumerate(designs.SENTENCES):
        meaning = designs.verb_sentence(kinds, row)[:, 3:6]
        assert found["meaning"][row] == pytest.approx(0, abs=1e-6)
        assert found["who"][row] == pytest.approx(meaning[kinds.index("a")], abs=1e-4)
        assert found["what"][row] == pytest.approx(meaning[kinds.index("o")], abs=1e-4)


def test_one_percent_of_the_weight_on_each_other_word_is_too_much_in_every_sentence() -> None:
    for row, kinds in enumerate(designs.SENTENCES):
        meaning = designs.verb_sentence(kinds, row)[:, 3:6]
        for letter in "ao":
            off = 0.01 * (meaning - meaning[kinds.index(letter)]).sum(axis=0)
            assert abs(off).max() > 0.005


def test_the_designs_own_heads_are_those_of_mha() -> None:
    x = torch.from_numpy(designs.verb_sentence("av.o", 0)).float()
    assert_close(mha(x, *who_and_what(), 2)[0].double(), torch.from_numpy(designs.two_heads(who_and_what(), x.numpy())), **SINGLE)


WRONG_FORMS = [
    (None, "expected 4 things"),
    ((torch.zeros(12, 3),) * 4, "two heads"),
    ((torch.zeros(12, 2), torch.zeros(12, 4), torch.zeros(12, 2), torch.zeros(2, 12)), "one shape"),
    ((torch.zeros(12, 2),) * 4, "expected W_O"),
]


@pytest.mark.parametrize(("output", "message"), WRONG_FORMS)
def test_a_design_of_another_form_is_refused_with_a_sentence(output: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        designs.who_and_what(output)


def test_one_head_given_both_questions_returns_an_average() -> None:
    w_q, w_k, w_v, w_o = (torch.as_tensor(w).double() for w in who_and_what())
    both = (w_k[:, :1] + w_k[:, 1:]).expand(-1, 2)
    x = torch.from_numpy(designs.verb_sentence("av.o", 0))
    y = mha(x, w_q, both, w_v, w_o, 2)[0][1]
    assert_close(y[6:9], (x[0, 3:6] + x[3, 3:6]) / 2, rtol=0, atol=1e-6)
    assert_close(y[6:9], y[9:12], **DOUBLE)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999))
def test_no_single_head_subtracts_or_keeps_apart_with_any_weights_that_we_try(seed: int) -> None:
    """At (0, t) and (t, 0), the signs of what reaches the reading agree, for large t."""
    w_q, w_k, w_v, w_o = weights(4, 1, 3, 5)
    w_q, w_k, w_v, w_o = (w + normal(*w.shape, seed=seed + i) for i, w in enumerate((w_q, w_k, w_v, w_o)))
    found = []
    for before, after in ((0.0, 1e4), (1e4, 0.0)):
        x = torch.cat([torch.eye(3), torch.tensor([[before], [after], [0.0]])], dim=1).double()
        found.append(float(mha(x, w_q, w_k, w_v, w_o, 1)[0][2, 3]))
    bound = float((w_v @ w_o).abs()[:3, 3].max()) + 1e-6  # what the flags may contribute
    w = float((w_v @ w_o)[3, 3])
    assert all(y * math.copysign(1, w) > -bound for y in found)  # never one clearly positive and one clearly negative


def test_a_circuit_multiplied_out_is_four_and_a_half_times_as_large_as_its_factors() -> None:
    assert 576**2 / (2 * 576 * 64) == 4.5


def test_scores_and_summands_are_those_of_the_circuits() -> None:
    x, (w_q, w_k, w_v, w_o) = normal(5, 6), weights(6, 3, 2, 7)
    q, k = split_heads(x @ w_q, 3), split_heads(x @ w_k, 3)
    _, a = mha(x, w_q, w_k, w_v, w_o, 3)
    _, c = mha_as_sum(x, w_q, w_k, w_v, w_o, torch.zeros(6).double(), 3)
    for h in range(3):
        qk = w_q[:, 2 * h : 2 * h + 2] @ w_k[:, 2 * h : 2 * h + 2].T
        ov = w_v[:, 7 * h : 7 * h + 7] @ w_o[7 * h : 7 * h + 7]
        assert_close(x @ qk @ x.T, q[h] @ k[h].T, **DOUBLE)
        assert_close(a[h] @ x @ ov, c[h], **DOUBLE)


def test_a_masked_sum_is_the_masked_concatenation() -> None:
    x, w = normal(3, 5, 6), weights(6, 3, 2, 7)
    keep = (torch.arange(5) < torch.tensor([2, 5, 3])[:, None, None]).expand(3, 5, 5)
    assert_close(mha_as_sum(x, *w, torch.zeros(6).double(), 3, keep)[0], mha(x, *w, 3, keep)[0], **DOUBLE)


# ---------------------------------------------------------------------------------------------- trained heads

FIVE = ("previous_token", "first_token", "induction", "verb", "coreference")


def test_trained_heads_look_where_the_text_says() -> None:
    text = load_heads()
    place = {word.strip(): i for i, word in enumerate(text.tokens)}
    a = {name: text.head(name).weights() for name in FIVE}
    assert a["previous_token"].diagonal(-1).mean() == pytest.approx(0.79, abs=0.01)
    assert a["first_token"][1:, 0].min() > 0.99
    assert a["verb"][place["pear"], place["ate"]] == pytest.approx(0.57, abs=0.01)
    assert a["coreference"][place["it"], place["pear"]] == pytest.approx(0.55, abs=0.01)
    assert a["coreference"][place["was"], place["pear"]] == pytest.approx(0.84, abs=0.01)
    assert {name: (text.head(name).layer, text.head(name).head) for name in FIVE} == {
        "previous_token": (16, 0), "first_token": (18, 8), "induction": (17, 5), "verb": (26, 2), "coreference": (13, 8),
    }  # fmt: skip


@pytest.mark.parametrize(("before", "after"), [(20.0, 23.5), (120.0, 123.5), (23.5, 20.0)])
def test_two_heads_subtract_and_one_head_cannot(before: float, after: float) -> None:
    tokens = torch.tensor([[1.0, 0.0, 0.0, before], [0.0, 1.0, 0.0, after], [0.0, 0.0, 1.0, 0.0]])
    w_q, w_k, w_v, w_o = torch.zeros(4, 2), torch.zeros(4, 2), torch.zeros(4, 2), torch.zeros(2, 4)
    w_q[2] = 50.0
    w_k[1, 0] = w_k[0, 1] = w_v[3, :] = w_o[0, 3] = 1.0
    w_o[1, 3] = -1.0
    assert mha(tokens, w_q, w_k, w_v, w_o, 2)[0][2, 3].item() == pytest.approx(after - before, abs=1e-4)
    alone = mha(tokens, w_q[:, :1], w_k[:, :1], w_v[:, :1], w_o[:1], 1)[0][2, 3].item()
    assert 0 <= alone <= max(before, after) * (1 + 1e-6)  # one head averages the readings, of which the question's is 0


def test_two_soft_heads_subtract_exactly_up_to_the_difference_of_their_weights() -> None:
    before, after = 2.0, 3.5
    tokens = torch.tensor([[1.0, 0.0, 0.0, before], [0.0, 1.0, 0.0, after], [0.0, 0.0, 1.0, 0.0]]).double()
    w_q, w_k, w_v, w_o = (torch.zeros(shape).double() for shape in ((4, 2), (4, 2), (4, 2), (2, 4)))
    w_q[2] = 1.5
    w_k[1, 0] = w_k[0, 1] = w_v[3, :] = w_o[0, 3] = 1.0
    w_o[1, 3] = -1.0
    y, a = mha(tokens, w_q, w_k, w_v, w_o, 2)
    p, q = a[0, 2, 1], a[0, 2, 0]  # on what head 0 asks for, and on the other reading
    assert 0.1 < q < p < 0.8
    assert_close(y[2, 3], (p - q) * (after - before), **DOUBLE)


def test_one_large_projection_is_all_the_small_ones_and_differs_from_one_wide_head_at_the_softmax() -> None:
    x, (w_q, w_k, w_v, w_o) = normal(5, 6), weights(6, 3, 2, 2)
    small = torch.stack([x @ w_q[:, 2 * h : 2 * h + 2] for h in range(3)])
    assert_close(split_heads(x @ w_q, 3), small, **DOUBLE)
    q, k = split_heads(x @ w_q, 3), split_heads(x @ w_k, 3)
    assert_close((q @ k.mT).sum(0), (x @ w_q) @ (x @ w_k).T, **DOUBLE)  # one wide head sums the scores over h
    assert (mha(x, w_q, w_k, w_v, w_o, 3)[0] - mha(x, w_q, w_k, w_v, w_o, 1)[0]).abs().max() > 0.05


def test_xavier_on_the_stacked_projections_starts_smaller_than_on_each() -> None:
    torch.manual_seed(0)
    largest = nn.MultiheadAttention(64, 2).in_proj_weight.abs().max().item()
    assert largest == pytest.approx(math.sqrt(6 / (64 + 3 * 64)), rel=1e-3)
    assert largest < 0.75 * math.sqrt(6 / (64 + 64))


def test_xavier_on_eight_heads_in_one_matrix_starts_three_quarters_as_large_as_on_each() -> None:
    torch.manual_seed(0)
    together, alone = (nn.init.xavier_uniform_(torch.empty(512, width)).abs().max().item() for width in (512, 64))
    assert together / alone == pytest.approx(math.sqrt(1.125 / 2), rel=2e-3)
    assert math.sqrt(1.125 / 2) == 0.75


def test_the_rank_of_a_heads_scores_is_its_width_and_at_width_one_queries_of_one_sign_rank_keys_alike() -> None:
    x, (w_q, w_k, _, _) = normal(9, 8), weights(8, 4, 2, 2)
    q, k = split_heads(x @ w_q, 4), split_heads(x @ w_k, 4)
    assert (torch.linalg.matrix_rank(q @ k.mT) == 2).all()
    scores = normal(9, 1) @ normal(9, 1, seed=1).T
    orders = scores.argsort(-1)
    positive = normal(9, 1).flatten() > 0
    assert (orders[positive] == orders[positive][0]).all()
    assert (orders[~positive] == orders[~positive][0]).all()


def test_single_head_is_nine_tenths_of_a_bleu_point_below_the_best() -> None:
    bleu = {1: 24.9, 4: 25.5, 8: 25.8, 16: 25.8, 32: 25.4}  # Vaswani et al. (2017), Table 3, rows (A) and base
    assert max(bleu.values()) - bleu[1] == pytest.approx(0.9)
    assert bleu[32] < bleu[8]


# ---------------------------------------------------------------------------------------------- errata


def test_one_bias_in_each_head_adds_it_h_times() -> None:
    x, w, bias = normal(5, 6), weights(6, 3, 2, 7), normal(6, seed=5)
    once, summands = mha_as_sum(x, *w, bias, 3)
    assert_close((summands + bias).sum(0) - once, (2 * bias).expand(5, -1), **DOUBLE)


def test_the_printed_class_and_line_fail_as_said() -> None:
    class NoSuper(nn.Module):
        def __init__(self) -> None:
            self.W = nn.Linear(2, 2)

    with pytest.raises(AttributeError, match="cannot assign module before"):
        NoSuper()
    with pytest.raises(SyntaxError):
        compile("self.W_O(, dim=-1))", "blog", "eval")


def test_h_plus_one_heads_do_not_fit_w_o_and_widths_must_agree_for_dot_products() -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.cat([normal(5, 3)] * 3, dim=-1) @ normal(6, 6)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        normal(5, 3) @ normal(5, 2).mT


def test_scores_without_projections_are_symmetric_and_a_single_key_gets_all_weight() -> None:
    x, (w_q, w_k, _, _) = normal(5, 6), weights(6, 1, 6, 6)
    assert_close(x @ x.T, (x @ x.T).T, **DOUBLE)
    projected = (x @ w_q) @ (x @ w_k).T
    assert (projected - projected.T).abs().max() > 0.1
    assert masked_sdpa(x[:1], x[1:2], x[1:2])[1].item() == 1.0


def test_without_weights_a_head_sees_its_slice_of_the_features_alone() -> None:
    x, eye = normal(5, 6), torch.eye(6, dtype=torch.float64)
    changed = torch.cat([x[:, :3] + 1.0, x[:, 3:]], dim=1)
    difference = (mha(x, eye, eye, eye, eye, 2)[0] - mha(changed, eye, eye, eye, eye, 2)[0]).abs().amax(0)
    assert (difference > 1e-6).tolist() == [True] * 3 + [False] * 3


def test_h_is_summed_only_if_it_is_missing_after_the_arrow() -> None:
    a, v = normal(2, 5, 5), normal(2, 5, 3, seed=1)
    kept = torch.einsum("hij,hjb->hib", a, v)
    assert_close(torch.einsum("hij,hjb->ib", a, v), kept.sum(0), **DOUBLE)
    w_o = normal(2, 3, 6, seed=2)
    assert_close(torch.einsum("hib,hbc->ic", kept, w_o), merge_heads(kept) @ w_o.reshape(6, 6), **DOUBLE)


# ---------------------------------------------------------------------------------------------- probes


@pytest.mark.parametrize("seed", [make_pack.VISIBLE_SEED, 7])
def test_probe_weights_are_neither_saturated_nor_flat(seed: int) -> None:
    exercise = next(e for e in course.find_lesson("multi_head").exercises() if e.id == "mha")
    for case in make_pack.make_record("multi_head", exercise, seed).cases:
        assert case.expected.value is not None
        a = torch.from_numpy(case.expected.value.arrays[1])
        entropy = torch.special.entr(a).sum(-1).mean() / math.log(a.shape[-1])
        assert 0.25 < entropy < 0.95
