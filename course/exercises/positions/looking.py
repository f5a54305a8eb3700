"""A head that attends to the token some steps back, to be designed."""

import torch

from autograder import Case, Exercise, Misconception, Variant
from solutions import positions as ref


def _steps(low: int, high: int, d: int):
    return lambda draw: {"steps": draw.integer(low, high), "d": d}


def _constant(turn, length: float = 8.0):
    """A query rotated by `turn(steps)` tokens against a key that is the same everywhere, with `length` in every entry."""

    def answer(steps, d):
        key = torch.full((1, d), length, dtype=torch.float64)
        return ref.apply_rope(key, torch.tensor([turn(steps)], dtype=torch.float64))[0], key[0]

    return answer


def _key_turned_instead(steps, d):
    query, key = _constant(lambda s: s)(steps, d)
    return key, query


def _query_turned_by_halves(steps, d):
    key = torch.full((1, d), 8.0, dtype=torch.float64)
    return ref.rotate_half_rope(key, torch.tensor([-steps], dtype=torch.float64))[0], key[0]


def _key_turned_by_halves(steps, d):
    query = 8.0 * (torch.arange(d) < d // 2).double()[None]
    return query[0], ref.rotate_half_rope(query, torch.tensor([steps], dtype=torch.float64))[0]


def _by_hand_in_halves(length, key_turned=False):
    """Cosines in the first half and sines in the second, against a key that has the first half alone."""

    def answer(steps, d):
        first = length * (torch.arange(d) < d // 2).double()[None]
        turned = ref.rotate_half_rope(first, torch.tensor([steps if key_turned else -steps], dtype=torch.float64))[0]
        return (first[0], turned) if key_turned else (turned, first[0])

    return answer


def _fast_pairs_only(steps, d):
    query, key = _constant(lambda s: -s, 8.0)(steps, d)
    half = torch.arange(d) < d // 2
    return 3 * query * half, key * half


def _random_key(steps, d):
    signs = torch.where(torch.arange(d) % 3 == 0, -9.0, 8.0).double()[None]
    return ref.apply_rope(signs, torch.tensor([-steps]).double())[0], signs[0]


LOOK_BACK = Exercise(
    "look_back",
    title="Design: attend some tokens back",
    points=2,
    reference=ref.look_back,
    tensors=True,
    kind="design",
    behaviour="attention_course.designs:looks_back",
    difficulty=3,
    minutes=10,
    cases=(
        Case("one token back", lambda draw: {"steps": 1, "d": 32}),
        Case("some tokens back", _steps(2, 4, 32)),
        Case("further, in a wider head", _steps(5, 7, 64)),
    ),
    hints=(
        "If the query equals the key, which token does it attend to most? Both are rotated by the same angle there. By how much must you "
        "rotate the query beforehand, so that it points along a key `steps` tokens back?",
        "The score of the tokens at $i$ and $j$ is $q \\cdot R_{j-i}\\,k$, where $R_m$ rotates by $m$ tokens. It is largest where $R_{j-i}\\,k$ "
        "points along $q$, and you want this at $j - i = -s$. Long vectors make the scores large and the softmax sharp.",
        "Choose any key with large entries, for instance 8 everywhere. The query is that key, rotated by `apply_rope` to a single position. "
        "Which position is it, and with which sign?",
    ),
    misconceptions=(
        Misconception(
            "looks_at_itself",
            "gave query and key the same direction, so each token attends to itself",
            "At offset 0 both are rotated by the same angle. Rotate the query beforehand by the offset that you want.",
            _constant(lambda s: 0),
        ),
        Misconception(
            "looks_ahead",
            "rotated query and key against each other in the wrong direction, so each token attends as far *ahead*",
            "A key that is `steps` back is rotated **less** than your query. Which of the two needs a head start, so that they point the same way?",
            _constant(lambda s: s),
        ),
        Misconception(
            "both_turned",
            "rotated query and key apart by `steps` tokens each, so each token attends twice as far back",
            "Only the difference counts, so rotate just one of the two.",
            _constant(lambda s: -2 * s),
            also=(_constant(lambda s: -2 * s, 1.0),),
        ),
        Misconception(
            "one_step_too_many",
            "rotated by one token too many",
            "The offset between a token and itself is 0. For `steps` tokens back, rotate by exactly `steps` tokens.",
            _constant(lambda s: -s - 1),
        ),
        Misconception(
            "too_soft",
            "made the scores too small. The right token has the largest one, but gets less than half of the weight",
            "Scores grow with the product of the lengths, so make the entries larger. And use many pairs, because fast pairs tell a token from its "
            "neighbours, while slower ones tell one full turn of the fast pairs from the next.",
            _constant(lambda s: -s, 1.0),
        ),
        Misconception(
            "half_split",
            "rotated one of the two beforehand in the half-split layout, although `apply_rope` pairs neighbours",
            "Here the features $2i$ and $2i + 1$ form a pair. Use `apply_rope`, or alternate cosine and sine if you write the entries by hand.",
            _query_turned_by_halves,
            also=(
                _key_turned_by_halves,
                *(_by_hand_in_halves(length, turned) for length in (10.0, 100.0) for turned in (False, True)),
            ),
        ),
    ),
    variants=(
        Variant("the_key_is_turned", _key_turned_instead),
        Variant("fast_pairs_only", _fast_pairs_only),
        Variant("another_key", _random_key),
    ),
)
