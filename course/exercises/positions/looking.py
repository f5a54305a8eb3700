"""A head that looks back, to be designed."""

import torch

from autograder import Case, Exercise, Misconception, Variant
from solutions import positions as ref


def _steps(low: int, high: int, d: int):
    return lambda draw: {"steps": draw.integer(low, high), "d": d}


def _constant(turn, length: float = 8.0):
    """A query turned by `turn(steps)` tokens against a key that is the same everywhere, `length` in every entry."""

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
    title="Design a head that looks back",
    points=2,
    reference=ref.look_back,
    tensors=True,
    kind="design",
    behaviour="attention_course.designs:looks_back",
    difficulty=3,
    minutes=15,
    cases=(
        Case("one token back", lambda draw: {"steps": 1, "d": 32}),
        Case("some tokens back", _steps(2, 4, 32)),
        Case("further, in a wider head", _steps(5, 7, 64)),
    ),
    hints=(
        "Where does a query look that equals the key? Both then turn together. By how much must it be turned beforehand so that it "
        "falls on a key that stands behind?",
        "The score at positions $i$ and $j$ is $q \\cdot R_{j-i}\\,k$. It is largest where $R_{j-i}\\,k$ points along $q$. You want "
        "this at $j - i = -s$. And long vectors make a softmax decide.",
        "Choose any key with large entries, all 8 for instance. The query is that key, turned by `apply_rope` to one position: "
        "which one, and with which sign?",
    ),
    misconceptions=(
        Misconception(
            "looks_at_itself",
            "gave query and key the same direction: the head looks at its own token",
            "At offset 0 both have turned alike. Turn the query beforehand, by the offset that you want.",
            _constant(lambda s: 0),
        ),
        Misconception(
            "looks_ahead",
            "turned query and key against each other the wrong way round: the head looks as far *ahead*",
            "A key `steps` back has turned **less** than your query. Which of the two must start ahead, so that they meet?",
            _constant(lambda s: s),
        ),
        Misconception(
            "both_turned",
            "turned query and key apart by `steps` tokens each: the head looks twice as far back",
            "It is their difference that counts: turn one of the two.",
            _constant(lambda s: -2 * s),
            also=(_constant(lambda s: -2 * s, 1.0),),
        ),
        Misconception(
            "one_step_too_many",
            "turned by one token too many",
            "At offset 0 nothing is turned, so `steps` tokens back takes `steps` turns.",
            _constant(lambda s: -s - 1),
        ),
        Misconception(
            "too_soft",
            "made the scores too small: the right token has the largest, but the softmax spreads its weight",
            "Scores grow with the product of the lengths: make the entries larger, 8 for instance. And let many pairs take part: fast ones tell a token from its neighbours, slower ones tell one turn of the fast from the next.",
            _constant(lambda s: -s, 1.0),
        ),
        Misconception(
            "half_split",
            "turned one of the two beforehand as the half-split layout would, and the head turns neighbours: the head looks elsewhere",
            "Here the features $2i$ and $2i + 1$ form a pair. `apply_rope` turns them so; by hand, let cosine and sine take turns.",
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
