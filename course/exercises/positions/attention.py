"""Attention with rotary positions: queries and keys turn, values do not."""

import torch

from autograder import Before, Case, Draw, Exercise, Misconception, Property, Variant
from course.exercises.positions import probes
from course.exercises.positions.rotary import ROTATION
from solutions import positions as ref


def _case(n: int, m: int, d_k: int, d_v: int, *, lead: tuple[int, ...] = ()):
    """Keys from a low first position, queries from another, later one: nowhere do the two numberings agree."""

    def make(draw: Draw):
        return {
            "Q": draw.normal(*lead, n, d_k),
            "K": draw.normal(*lead, m, d_k),
            "V": draw.normal(*lead, m, d_v),
            "pos_q": probes.positions(draw, n, first=12, last=17),
            "pos_k": probes.positions(draw, m, first=2, last=7),
            "base": probes.base(draw),
        }

    return make


def _both_sides(draw: Draw):
    """Each query stands just after the key of its row: later keys lie ahead of it, and nobody asked for a mask."""
    inputs = _case(3, 3, 6, 6)(draw)
    inputs["pos_q"] = inputs["pos_k"] + 1
    return inputs


def _next_token(draw: Draw):
    """One new token at the position after its keys: a step of generation."""
    inputs = _case(1, 5, 6, 4)(draw)
    inputs["pos_q"] = inputs["pos_k"][-1:] + 1
    return inputs


def _attention(turn_q, turn_k, turn_v=None):
    """An answer that turns each of Q, K, V by its own rule `turn(x, pos_q, pos_k, base)`."""

    def answer(Q, K, V, pos_q, pos_k, base):
        V = V if turn_v is None else turn_v(V, pos_q, pos_k, base)
        return ref.sdpa(turn_q(Q, pos_q, pos_k, base), turn_k(K, pos_q, pos_k, base), V)

    return answer


def _by_query(x, pos_q, pos_k, base):
    return ref.apply_rope(x, pos_q, base)


def _by_key(x, pos_q, pos_k, base):
    return ref.apply_rope(x, pos_k, base)


def _from_zero(x, pos_q, pos_k, base):
    return ref.apply_rope(x, torch.arange(x.shape[-2]), base)


def _still(x, pos_q, pos_k, base):
    return x


def _backwards(x, pos_q, pos_k, base):
    return ref.apply_rope(x, -pos_k, base)


def _half_split(Q, K, V, pos_q, pos_k, base):
    perm = ref.interleave_permutation(Q.shape[-1]).argsort()
    return ref.sdpa(ref.rotate_half_rope(Q[..., perm], pos_q, base), ref.rotate_half_rope(K[..., perm], pos_k, base), V)


def _one_query_at_a_time(Q, K, V, pos_q, pos_k, base):
    """Turn the keys to each query in turn, by the difference of positions, and leave the queries alone."""
    rows = [ref.sdpa(Q[..., i : i + 1, :], ref.apply_rope(K, pos_k - pos_q[i], base), V) for i in range(Q.shape[-2])]
    return tuple(torch.cat(parts, dim=-2) for parts in zip(*rows, strict=True))


ROPE_SDPA = Exercise(
    "rope_sdpa",
    title="Attention with rotary positions",
    points=1,
    difficulty=2,
    minutes=6,
    reference=ref.rope_sdpa,
    tensors=True,
    tolerance=ROTATION,
    properties=(Property("sums_to_one", axis=-1, output=1), Property("non_negative", output=1)),
    cases=(
        Case("two queries, three keys", _case(2, 3, 4, 6), grad=("Q", "K", "V")),
        Case("keys on both sides of the queries", _both_sides),
        Case("heads", _case(2, 5, 6, 4, lead=(3,))),
        Case("one new token after its keys", _next_token),
    ),
    hints=(
        "You have everything: `apply_rope` and, from the set-up cell, `sdpa`. Which of the three inputs should know positions?",
        "Rotate the queries to `pos_q` and the keys to `pos_k`. The values are *what* is handed over; they stay as they are.",
        "Two calls of `apply_rope`, each with the positions of its own rows and with `base`; what they return goes into `sdpa`.",
    ),
    misconceptions=(
        Misconception(
            "rope_on_v",
            "rotated the values too: your weights are right, your outputs depend on absolute positions",
            "Leave `V` alone. Rotations cancel in a dot product of two rotated vectors; in a sum of values nothing cancels.",
            _attention(_by_query, _by_key, _by_key),
        ),
        Misconception(
            "keys_not_rotated",
            "rotated the queries only, so a score depends on the query's absolute position and not at all on the key's",
            "The rotations cancel to a relative one only if queries **and** keys are rotated.",
            _attention(_by_query, _still),
        ),
        Misconception(
            "queries_not_rotated",
            "rotated the keys only, so a score depends on the key's absolute position and not at all on the query's",
            "The rotations cancel to a relative one only if queries **and** keys are rotated.",
            _attention(_still, _by_key),
        ),
        Misconception(
            "numbered_from_zero",
            "numbered queries and keys from 0 each, whatever their positions are. In self-attention nobody would notice",
            "Use `pos_q` for the queries and `pos_k` for the keys: a query may come long after its keys.",
            _attention(_from_zero, _from_zero),
        ),
        Misconception(
            "one_set_of_positions",
            "used the queries' positions for the keys as well",
            "Keys have positions of their own: `pos_k`.",
            _attention(_by_query, _by_query),
        ),
        Misconception(
            "keys_rotated_backwards",
            "rotated the keys by $-p$: the score then depends on the **sum** of the positions, not on their difference",
            "Rotate both the same way. The dot product itself takes the difference of the angles.",
            _attention(_by_query, _backwards),
        ),
        Misconception(
            "base_not_passed_on",
            "did not hand `base` on, so `apply_rope` used its default",
            "Call `apply_rope(Q, pos_q, base)`, and likewise for the keys.",
            Before(lambda **_: {"base": 10000.0}),
        ),
        Misconception(
            "unscaled",
            "left out the scale $1/\\sqrt{d_k}$",
            "Divide the scores by $\\sqrt{d_k}$ as before: turning changes no length. Or call `sdpa`.",
            Before(lambda Q, **_: {"Q": Q * Q.shape[-1] ** 0.5}),
        ),
    ),
    variants=(
        Variant("in_the_half_split_layout", _half_split),
        Variant("turn_the_keys_to_each_query", _one_query_at_a_time),
    ),
)
