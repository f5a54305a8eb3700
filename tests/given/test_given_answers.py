"""What lessons 11 and 12 give for the answers of earlier lessons does what those answers do."""

from typing import Any

import pytest
import torch
from attention_course.language_model import parts
from torch import Tensor
from torch.testing import assert_close

from solutions import grouped_query
from solutions.lib import cache, heads, rope

DOUBLE: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-9}  # float64 on both sides


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_heads_are_split_and_merged_as_in_lesson_05() -> None:
    x = normal(2, 3, 12)
    assert torch.equal(parts.split_heads(x, 4), heads.split_heads(x, 4))
    assert torch.equal(parts.merge_heads(parts.split_heads(x, 4)), x)


def test_rows_are_rotated_as_in_lesson_06() -> None:
    x, pos = normal(2, 5, 3, 8), torch.tensor([4, 0, 900])
    found, expected = parts.apply_rope(x, pos, 50.0), rope.apply_rope(x, pos, 50.0)
    assert_close(found, expected, rtol=1e-3, atol=1e-4)  # angles of position 900 in float32 on one side


def test_groups_attend_and_are_pooled_as_in_lesson_09() -> None:
    Q, K, V = normal(2, 6, 3, 4), normal(2, 3, 5, 4, seed=1), normal(2, 3, 5, 7, seed=2)
    for ours, theirs in zip(parts.gqa_grouped(Q, K, V), grouped_query.gqa_grouped(Q, K, V), strict=True):
        assert_close(ours, theirs.reshape(ours.shape), **DOUBLE)
    W = normal(5, 12)
    assert_close(parts.mha_to_gqa(W, 6, 2), grouped_query.mha_to_gqa(W, 6, 2), **DOUBLE)


def test_the_cache_is_that_of_lesson_07() -> None:
    ours, theirs = parts.KVCache(7), cache.KVCache(7)
    for n in (3, 1, 2):
        k, v = normal(2, 1, n, 4, seed=n), normal(2, 1, n, 5, seed=n + 9)
        for one, other in zip(ours.append(k, v), theirs.append(k, v), strict=True):
            assert torch.equal(one, other)
        assert ours.length == theirs.length
    with pytest.raises(ValueError, match="at most 7 tokens, got 8"):
        ours.append(normal(2, 1, 2, 4), normal(2, 1, 2, 5))
    ours.reset()
    assert ours.length == 0
