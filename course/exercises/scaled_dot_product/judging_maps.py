"""How to judge an attention map: which noun gets the weight, and how good luck alone would look."""

import math

import numpy as np
import torch

from autograder import Case, Draw, Exercise, Instead, Misconception, Property, Tolerance, Variant
from solutions import scaled_dot_product as ref


def _map(draw: Draw, n: int, query: int, nouns: list[list[int]], heavy: dict[int, float]):
    """A causal map in which the query's row has these weights, and the rest is spread over the other positions."""
    A = np.abs(draw.normal(n, n)) * np.tri(n) + 1e-3 * np.tri(n)
    row = np.abs(draw.normal(n)) * 0.1 + 0.1
    row[query + 1 :] = 0
    for position in heavy:
        row[position] = 0
    row *= (1 - sum(heavy.values())) / row.sum()
    for position, weight in heavy.items():
        row[position] = weight
    A /= A.sum(-1, keepdims=True)
    A[query] = row
    return {"A": A, "query": query, "nouns": nouns}


def _one_token_each(draw: Draw):
    return _map(draw, 9, 6, [[1], [4]], {1: 0.15, 4: 0.4, 0: 0.05})


def _six_nouns(draw: Draw):
    """Another noun wins by each wrong reading: the largest token, the mean, the column, the last row, the least weight."""
    weights = {2: 0.12, 3: 0.12, 4: 0.12, 5: 0.25, 6: 0.02, 7: 0.2, 9: 0.02}
    inputs = _map(draw, 15, 10, [[2, 3, 4], [5, 6], [7], [12], [11], [9]], weights)
    inputs["A"][11, 10], inputs["A"][-1, 9] = 3.0, 3.0
    inputs["A"] /= inputs["A"].sum(-1, keepdims=True)
    return inputs


def _first_token_heavy(draw: Draw):
    """Most weight is on the first token, which is no noun; the first noun wins among three."""
    return _map(draw, 9, 7, [[3, 4], [1], [6]], {0: 0.5, 3: 0.1, 4: 0.12, 1: 0.15, 6: 0.04})


def _attended(A, query, nouns, *, total=torch.sum, row=lambda A, query: A[query]):
    weights = row(torch.as_tensor(A), query)
    return int(torch.stack([total(weights[list(p)]) for p in nouns]).argmax())


NOUN_ATTENDED = Exercise(
    "noun_attended",
    title="Which noun gets the weight?",
    points=1,
    kind="use",
    difficulty=1,
    minutes=5,
    reference=ref.noun_attended,
    recipe=_attended,
    tensors=True,
    cases=(
        Case("one token each", _one_token_each),
        Case("six nouns, some of several tokens", _six_nouns),
        Case("most weight on the first token", _first_token_heavy),
    ),
    hints=(
        "Which row of `A` belongs to the word that asks?",
        "If a noun is split into three tokens, attention to any of them is attention to the noun. How do you combine the three weights?",
        "Take the row `A[query]`, add up the weights of each noun's positions, and return the index of the largest sum.",
    ),
    misconceptions=(
        Misconception(
            "largest_piece",
            "compared the largest single weight of each noun",
            "A noun of three tokens can divide its weight among them. Add the three up.",
            Instead(total=torch.max),
        ),
        Misconception(
            "mean_of_the_pieces",
            "compared the mean weight of each noun's tokens",
            "The mean punishes a noun for being split. The question is how much weight the whole noun gets.",
            Instead(total=torch.mean),
        ),
        Misconception(
            "column_for_row",
            "read column `query` of the map instead of its row",
            "Rows belong to the words that ask. The column says who attends *to* that word.",
            Instead(row=lambda A, query: A[:, query]),
        ),
        Misconception(
            "last_row",
            "read the last row of the map, whatever `query` is",
            "The row of the word that asks is `A[query]`.",
            Instead(row=lambda A, query: A[-1]),
        ),
        Misconception(
            "position_of_the_largest",
            "returned the position of the largest weight in the row",
            "The largest weight can be on a word that is no noun. Compare only the nouns, and return which of them wins.",
            lambda A, query, nouns: int(torch.as_tensor(A)[query].argmax()),
        ),
        Misconception(
            "least_attended",
            "returned the noun with the smallest weight",
            "The head's choice is the noun that gets the most.",
            lambda A, query, nouns: int(torch.stack([torch.as_tensor(A)[query][list(p)].sum() for p in nouns]).argmin()),
        ),
    ),
    variants=(
        Variant(
            "plain_python",
            lambda A, query, nouns: max(range(len(nouns)), key=lambda i: sum(float(A[query, p]) for p in nouns[i])),
        ),
    ),
)


def _tail(sentences: int, right: int) -> float:
    return sum(math.comb(sentences, k) for k in range(right, sentences + 1)) / 2**sentences


def _sizes(heads: int, sentences: int, right: int):
    return lambda draw: {"heads": heads, "sentences": sentences, "right": right}


LUCK = Exercise(
    "luck",
    title="Estimate: how good does luck look?",
    points=2,
    kind="estimate",
    difficulty=3,
    minutes=10,
    reference=ref.luck,
    tolerance=Tolerance(rtol=1e-6, atol=1e-9),  # exact counts in float64
    properties=(Property("non_negative"),),
    cases=(
        Case("one head, ten sentences", _sizes(1, 10, 8)),
        Case("all heads, twenty sentences", _sizes(270, 20, 16)),
        Case("nine heads, twenty sentences", _sizes(9, 20, 14)),
    ),
    hints=(
        "Start with a single head. In how many of the $2^n$ equally likely results of $n$ tosses is it right at least `right` times?",
        "`math.comb(n, k)` counts the results with exactly $k$ right answers, so add these from `right` to $n$. For many heads, the "
        "opposite event is easier. What is the probability that *no* head looks that good?",
        "If one head reaches the mark with probability $p$, all of them miss it with probability $(1 - p)^{\\text{heads}}$.",
    ),
    misconceptions=(
        Misconception(
            "exactly_so_many",
            "counted only the results with exactly `right` right answers",
            "A head that is right even more often looks at least as good. Add up all numbers from `right` on.",
            lambda heads, sentences, right: 1 - (1 - math.comb(sentences, right) / 2**sentences) ** heads,
        ),
        Misconception(
            "more_than_right",
            "left out the heads that are right exactly `right` times",
            "`range` stops before its end, and the count should start at `right` itself.",
            lambda heads, sentences, right: 1 - (1 - _tail(sentences, right + 1)) ** heads,
        ),
        Misconception(
            "one_head_only",
            "computed the probability for a single head",
            "With many heads there are many chances. What is the probability that none of them reaches the mark?",
            lambda heads, sentences, right: _tail(sentences, right),
        ),
        Misconception(
            "added_up_over_the_heads",
            "multiplied the probability of one head by the number of heads",
            "That is the expected *number* of lucky heads, and it can exceed 1. Ask for the opposite event instead.",
            lambda heads, sentences, right: heads * _tail(sentences, right),
            also=(lambda heads, sentences, right: min(1.0, heads * _tail(sentences, right)),),
        ),
        Misconception(
            "all_heads_lucky",
            "computed the probability that *every* head looks that good",
            "One lucky head is enough to be shown in a figure.",
            lambda heads, sentences, right: _tail(sentences, right) ** heads,
        ),
        Misconception(
            "none_lucky",
            "returned the probability that *no* head looks that good",
            "You need the opposite event.",
            lambda heads, sentences, right: (1 - _tail(sentences, right)) ** heads,
        ),
    ),
    variants=(
        Variant(
            "from_below",
            lambda heads, sentences, right: 1 - (sum(math.comb(sentences, k) for k in range(right)) / 2**sentences) ** heads,
        ),
    ),
)
