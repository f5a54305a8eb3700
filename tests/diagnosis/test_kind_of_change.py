"""What is wrong with a piece of code is told from what passes in its place, and the change itself is not."""

import ast

import pytest

from autograder.diagnosis.phrase import say
from autograder.diagnosis.repair.kind_of_change import kind_of_change


def told(before: str, after: str) -> str:
    kind = kind_of_change(*(ast.parse(code, mode="eval").body for code in (before, after)))
    return say(kind) if kind is not None else ""


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("E / E.sum(axis=0, keepdims=True)", "E / E.sum(axis=-1, keepdims=True)", "`sum` runs along the wrong axis"),
        ("torch.softmax(S, -2)", "torch.softmax(S, -1)", "`softmax` runs along the wrong axis"),
        ("E / E.sum(-1)", "E / E.sum(-1, keepdim=True)", "`E.sum(-1)` drops the axis that it runs along"),
        ("x - x.max()", "x - x.max(axis=-1, keepdims=True)", "`x.max()` takes all entries together"),
        ("q @ k / n", "q @ k.T / n", "the axes of `k` are in the wrong order"),
        ("q @ k.T", "q @ k.mT", "`k.T` reverses all axes"),
        ("x + pos * theta", "x + pos[..., None] * theta", "`pos` needs one more axis of length 1"),
        ("torch.exp(S)", "torch.exp(S - S.amax(-1, keepdim=True))", "`exp` overflows where an entry is large"),
        ("np.exp(-u) / 2", "np.exp(-u / 2)", "the bracket of `exp` closes too early"),
        ("turn(x, pos)", "turn(x, pos, base=base)", "`turn` is called without its `base`"),
        ("torch.zeros(3)", "torch.zeros(3, dtype=x.dtype)", "`torch.zeros(3)` makes numbers of another type"),
        ("S.masked_fill(keep, 0)", "S.masked_fill(~keep, 0)", "`keep` is the wrong way round"),
        ("-a + b", "a + b", "`-a` has the wrong sign"),
        ("Q @ K", "(Q @ K) / d", "`Q @ K` is not divided by anything"),
        ("a * b * d", "a * b", "the factor `d` is one too many"),
        ("a / d", "a / d ** 0.5", "`d` lacks a square root"),
        ("start", "start.clone()", "`start` is the caller's own array"),
        ("x[0] + k", "x[1] + k", "0 is not the number that belongs there"),
        ("range(64)", "range(n)", "64 is a fixed number"),
        ("np.sqrt(d)", "np.sqrt(Q.shape[-1])", "`d` is not the variable that belongs there"),
        ("K @ q", "V @ q", "`K` is not the variable that belongs there"),
        ("i < n", "i <= n", "the comparison is not the right one"),
        ("a + b", "a - b", "the operation is not the right one"),
    ],
)
def test_the_kind_of_a_mistake_is_told_from_what_passes(before: str, after: str, says: str) -> None:
    assert told(before, after).startswith(says)


def test_of_differences_of_two_kinds_none_is_told() -> None:
    assert told("(a + b) * (c @ d)", "(a - b) * (d @ c)") == ""


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("V @ w", "w @ V", "its two sides"),
        ("(V @ w, K @ w)", "(w @ V, w @ K)", "its two sides"),
        ("(V, K)", "(K, V)", "its parts"),
        ("a & b", "a", "the condition `b` is one too many"),
    ],
)
def test_the_same_parts_in_another_order_are_told_as_such(before: str, after: str, says: str) -> None:
    assert told(before, after).startswith(says)
