"""What the trained heads look at."""

import operator

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
    return sum(1 / i for i in range(2, n + 1)) / (n - 1)


def _strength(share=lambda A: A[..., 1:, 0].mean(-1), even=_even, join=operator.truediv):
    return lambda A: join(share(A), even(A.shape[-1]))


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
    title="How strong is the sink?",
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
        "Which entries of $A$ are weights on the first token? Of these, which one is 1 in every head, whatever the head does?",
        "Column 0, from row 1 on, averaged over the rows. For the even share: token $i$ sees $i + 1$ tokens, so what would its weight on "
        "each of them be, and what is the mean of that over $i = 1, \\dots, n - 1$?",
        "`A[..., 1:, 0]` are the weights; one mean over the last axis is left. The even share is the mean of 1/2, 1/3, …, 1/n: how many "
        "numbers are that?",
    ),
    misconceptions=(
        Misconception(
            "first_row_counted",
            "counted the first token's own row, which is 1 whatever the head does",
            "Start at row 1, in the weights and in the even share: the first token has no choice.",
            Instead(share=lambda A: A[..., 0].mean(-1), even=lambda n: sum(1 / i for i in range(1, n + 1)) / n),
        ),
        Misconception(
            "first_row_in_the_weights",
            "took the mean of the weights over all rows, the first one too",
            "Leave row 0 out, of the weights as of the even share.",
            Instead(share=lambda A: A[..., 0].mean(-1)),
        ),
        Misconception(
            "rows_for_columns",
            "took what the first token **gives**, not what it gets",
            "`A[l, h, i, j]` is what $i$ gives to $j$: take column 0.",
            Instead(share=lambda A: A[..., 0, 1:].mean(-1)),
        ),
        Misconception(
            "one_over_n",
            "took 1/n for the even share, as if each token saw all others",
            "Token $i$ sees $i + 1$ tokens. Early tokens see few, so their even weights are large.",
            Instead(even=lambda n: 1 / n),
        ),
        Misconception(
            "one_off",
            "let token $i$ see $i$ tokens in the even share; it sees itself, too",
            "$i + 1$ tokens: those before it, and itself.",
            Instead(even=lambda n: sum(1 / i for i in range(1, n)) / (n - 1)),
        ),
        Misconception(
            "share",
            "returned the share itself; how many times the even share is it?",
            "Divide by the even share.",
            Instead(even=lambda n: 1),
        ),
        Misconception(
            "excess",
            "subtracted the even share instead of dividing by it",
            "How many **times**: divide.",
            Instead(join=operator.sub),
        ),
        Misconception(
            "heads_averaged",
            "averaged over the heads as well",
            "One number for each head: the mean runs over the tokens alone.",
            Instead(share=lambda A: A[..., 1:, 0].mean((-1, -2))),
        ),
        Misconception(
            "mean_of_ratios",
            "divided each token's weight by its own even share first: late tokens then count hundreds of times as much as early ones",
            "First the two means, then their ratio.",
            lambda A: (A[..., 1:, 0] * (1 + torch.arange(1, A.shape[-1]))).mean(-1),
        ),
        Misconception(
            "last_token_only",
            "looked at the last token alone",
            "The mean over all tokens but the first.",
            lambda A: A[..., -1, 0] * A.shape[-1],
        ),
    ),
    variants=(Variant("a_loop", _loop), Variant("with_even_weights", _with_even_weights)),
)
