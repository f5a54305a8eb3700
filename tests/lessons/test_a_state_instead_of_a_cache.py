"""Workshop 13b: the references against loops, random keys and transformers' gated delta rule, and what the text states."""

import pytest
import torch
import torch.nn.functional as F
from attention_course.overwriting import WORDS, texts
from torch import Tensor
from torch.testing import assert_close

from solutions.a_state_instead_of_a_cache import crosstalk, delta_chunk, delta_write, linear_attention


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_linear_attention_is_the_causal_matrix_of_bare_scores_times_the_values() -> None:
    Q, K, V = drawn(9, 4), drawn(9, 4, seed=1), drawn(9, 3, seed=2)
    assert_close(linear_attention(Q, K, V), (Q @ K.mT).tril() @ V)


@pytest.mark.parametrize("pairs", [8, 16, 48])
def test_crosstalk_is_the_mean_squared_error_of_a_reading(pairs: int) -> None:
    d, errors = 24, []
    for seed in range(60):
        K, V = F.normalize(drawn(pairs, d, seed=seed), dim=-1), F.normalize(drawn(pairs, d, seed=1000 + seed), dim=-1)
        errors.append(((K @ (K.mT @ V) - V) ** 2).sum(-1).mean())
    assert float(torch.stack(errors).mean()) == pytest.approx(crosstalk(pairs, d), rel=0.12)  # 60 draws


def test_a_delta_write_moves_the_reading_of_its_key_and_leaves_right_angles_alone() -> None:
    S, k, v = drawn(5, 3), F.normalize(drawn(5, seed=1), dim=0), drawn(3, seed=2)
    q = drawn(5, seed=3)
    q = q - (q @ k) * k
    for b in (0.0, 0.4, 1.0):
        new = delta_write(S, k, v, b)
        assert_close(k @ new, (1 - b) * (k @ S) + b * v)
        assert_close(q @ new, q @ S)


def test_a_delta_write_to_a_state_that_faded_first_is_the_gated_rule_of_qwen3_next() -> None:
    shipped = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next").torch_recurrent_gated_delta_rule
    n, d_k, d_v = 7, 5, 3
    Q, K, V = drawn(n, d_k), F.normalize(drawn(n, d_k, seed=1), dim=-1), drawn(n, d_v, seed=2)
    a, b = drawn(n, seed=3).sigmoid(), drawn(n, seed=4).sigmoid()
    S, rows = torch.zeros(d_k, d_v, dtype=torch.float64), []
    for i in range(n):
        S = delta_write(a[i] * S, K[i], V[i], float(b[i]))
        rows.append(Q[i] @ S / d_k**0.5)  # theirs divides queries by the root of their width
    batch = [x[None, :, None].float() for x in (Q, K, V)]
    theirs, state = shipped(*batch, g=a.log()[None, :, None].float(), beta=b[None, :, None].float(), initial_state=None,
                            output_final_state=True)  # fmt: skip
    assert_close(torch.stack(rows).float(), theirs[0, :, 0], rtol=1e-4, atol=1e-5)
    assert_close(S.float(), state[0, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1, 16, 64])
def test_chunks_of_any_size_are_the_loop(size: int) -> None:
    n, d = 64, 8
    Q, K, V = drawn(n, d), F.normalize(drawn(n, d, seed=1), dim=-1), drawn(n, d, seed=2)
    b = drawn(n, seed=3).sigmoid()
    S, rows = drawn(d, d, seed=4), []
    T, parts = S, []
    for i in range(n):
        S = delta_write(S, K[i], V[i], float(b[i]))
        rows.append(Q[i] @ S)
    for chunk in zip(*(X.split(size) for X in (Q, K, V, b)), strict=True):
        read, T = delta_chunk(T, *chunk)
        parts.append(read)
    assert_close(torch.cat(parts), torch.stack(rows), rtol=0.0, atol=1e-12)
    assert_close(T, S, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("times", [1, 2])
def test_the_answers_of_a_text_are_the_values_that_were_written_last(times: int) -> None:
    ids, asked = texts(4, 5, torch.Generator().manual_seed(0), times)
    assert asked == 2 * times * 5
    assert ids.shape == (4, asked + 10)
    for row in ids.tolist():
        written = row[:asked]
        assert all(written[::2].count(key) == times for key in written[::2])
        last = dict(zip(written[::2], written[1::2], strict=True))
        assert all(key < WORDS <= value for key, value in last.items())
        assert dict(zip(row[asked::2], row[asked + 1 :: 2], strict=True)) == last


def test_the_text_on_qwen3_next_says_what_its_configuration_says() -> None:
    config = pytest.importorskip("transformers").Qwen3NextConfig()
    assert config.num_hidden_layers == 48
    assert config.layer_types.count("linear_attention") == 36
    assert (config.num_key_value_heads, config.head_dim) == (2, 256)
    state = config.linear_num_value_heads * config.linear_key_head_dim * config.linear_value_head_dim
    assert state == 32 * 128 * 128
    assert state == 512 * 2 * config.num_key_value_heads * config.head_dim


def test_with_each_key_written_once_the_delta_rule_recalls_less_than_the_sum() -> None:
    right = {"sum": 0.0, "delta": 0.0}
    for seed in range(20):
        K, possible = F.normalize(drawn(32, 32, seed=seed), dim=-1), F.normalize(drawn(64, 32, seed=100 + seed), dim=-1)
        chosen = torch.randint(64, (32,), generator=torch.Generator().manual_seed(seed))
        S = torch.zeros(32, 32, dtype=torch.float64)
        for k, v in zip(K, possible[chosen], strict=True):
            S = delta_write(S, k, v, 1.0)
        for name, state in (("sum", K.mT @ possible[chosen]), ("delta", S)):
            right[name] += float(((K @ state @ possible.mT).argmax(-1) == chosen).double().mean()) / 20
    assert right["sum"] > right["delta"] + 0.1
