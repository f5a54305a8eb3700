"""What the trained heads look at."""

import math

import numpy as np
import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import real_model as ref


def _causal(layers, heads, n):
    """Weights of random heads: each row a softmax over what it sees, the first token favoured by some heads."""

    def make(draw: Draw):
        S = draw.normal(layers, heads, n, n)
        S[..., 0] += draw.uniform(layers, heads, 1, low=0.0, high=2.0)
        E = np.exp(S) * np.tri(n)
        return {"A": E / E.sum(-1, keepdims=True)}

    return make


def _even(n):
    return math.fsum(1 / i for i in range(2, n + 1)) / (n - 1)


def _strength(
    *,
    given=lambda A: A[..., 0],
    seen=lambda i, n: i + 1,
    tokens=slice(1, None),
    even_tokens=slice(1, None),
    mean=lambda x: x.mean(-1),
    join=lambda share, even, mean: mean(share) / even.mean(),
):
    """What each token gives to the first, what it would give if it gave the same to all `seen`, and the two together."""

    def answer(A):
        n = A.shape[-1]
        even = 1 / seen(torch.arange(n, dtype=A.dtype), n)
        return join(given(A)[..., tokens], even[even_tokens], mean)

    return answer


def _loop(A):
    layers, heads, n, _ = A.shape
    share = A.new_zeros(layers, heads)
    for i in range(1, n):
        share += A[:, :, i, 0] / (n - 1)
    return share / _even(n)


def _with_even_weights(A):
    """The yardstick measured on weights that are made even."""
    seen = A.new_ones(A.shape[-2:]).tril()
    even = seen / seen.sum(-1, keepdim=True)
    return A[..., 1:, 0].sum(-1) / even[1:, 0].sum()


SINK_STRENGTH = Exercise(
    "sink_strength",
    title="Use: how strong is the sink?",
    points=1.5,
    kind="use",
    difficulty=2,
    minutes=8,
    reference=ref.sink_strength,
    recipe=Made(_strength),
    tensors=True,
    cases=(
        Case("one head, three tokens", _causal(1, 1, 3)),
        Case("two layers of three heads", _causal(2, 3, 5)),
        Case("a longer text", _causal(3, 2, 13)),
    ),
    hints=(
        "Which entries of $A$ are weights on the first token? Which of these is 1 in every head, whatever the head does?",
        "Average column 0 over the rows from row 1 on. For the even share, token $i$ may attend to $i + 1$ tokens. What would its weight on "
        "each of them be, and what is the mean of that over $i = 1, \\dots, n - 1$?",
        "The weights are `A[..., 1:, 0]`, and they still need a mean over the last axis. The even share is the mean of 1/2, 1/3, …, 1/n. How many "
        "numbers is that?",
    ),
    misconceptions=(
        Misconception(
            "first_row_counted",
            "counted the first token's own row, which is 1 whatever the head does",
            "The first token has no choice, so start at row 1, in the weights and in the even share.",
            Instead(tokens=slice(None), even_tokens=slice(None)),
        ),
        Misconception(
            "first_row_in_the_weights",
            "averaged the weights over all rows, including the first one",
            "Leave row 0 out of the weights, as you do for the even share.",
            Instead(tokens=slice(None)),
        ),
        Misconception(
            "rows_for_columns",
            "took the weights with which the first token attends, instead of those on it",
            "In `A[l, h, i, j]`, token $i$ attends to token $j$, so take column 0.",
            Instead(given=lambda A: A[..., 0, :]),
        ),
        Misconception(
            "one_over_n",
            "took 1/n for the even share, as if every token could attend to all others",
            "Token $i$ may attend to $i + 1$ tokens. For early tokens these are few, so their even weights are large.",
            Instead(seen=lambda i, n: n + 0 * i),
        ),
        Misconception(
            "one_off",
            "let token $i$ attend to $i$ tokens in the even share, although it also attends to itself",
            "There are $i + 1$ tokens, those before it and itself.",
            Instead(seen=lambda i, n: i),
        ),
        Misconception(
            "share",
            "returned the weight itself instead of its ratio to the even share",
            "Divide it by the even share.",
            Instead(join=lambda share, even, mean: mean(share)),
        ),
        Misconception(
            "excess",
            "subtracted the even share instead of dividing by it",
            "The question is how many **times** as large it is, so divide.",
            Instead(join=lambda share, even, mean: mean(share) - even.mean()),
        ),
        Misconception(
            "heads_averaged",
            "averaged over the heads as well",
            "Each head gets a number of its own, so average over the tokens alone.",
            Instead(mean=lambda x: x.mean((-1, -2))),
            also=(Instead(mean=lambda x: x.mean((-1, -2), keepdim=True)[..., 0].expand(x.shape[:-1])),),
        ),
        Misconception(
            "mean_of_ratios",
            "divided each token's weight by its own even share first, so late tokens count far more than early ones",
            "Compute the two means first, and then their ratio.",
            Instead(join=lambda share, even, mean: mean(share / even)),
        ),
        Misconception(
            "one_over_the_mean",
            "took one over the mean number of tokens for the even share, instead of the mean of one over that number",
            "Compute 1/2, 1/3, …, 1/n first, and then their mean. For three tokens it is 5/12, while one over the mean of 2 and 3 is 2/5.",
            Instead(join=lambda share, even, mean: mean(share) * (1 / even).mean()),
        ),
        Misconception(
            "last_token_only",
            "used only the last token's weights",
            "Average over all tokens except the first.",
            Instead(tokens=slice(-1, None), even_tokens=slice(-1, None)),
        ),
        Misconception(
            "first_row_in_the_even_share",
            "included the first token in the even share, but not in the weights",
            "Leave row 0 out of both. The even share is the mean of 1/2, 1/3, …, 1/n.",
            Instead(even_tokens=slice(None)),
        ),
        Misconception(
            "summed",
            "summed the weights over the tokens, but divided by an even share that is a mean",
            "Use two means over $n - 1$ tokens, or two sums.",
            Instead(mean=lambda x: x.sum(-1)),
        ),
    ),
    variants=(Variant("a_loop", _loop), Variant("with_even_weights", _with_even_weights)),
)
