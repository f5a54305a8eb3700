"""What a head writes about the token that it attends to."""

import numpy as np
import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import multi_head as ref


def _three_tokens(draw: Draw):
    return {"X": draw.normal(3, 4), "W_V": draw.normal(4, 2), "W_O": draw.normal(2, 4), "E": draw.normal(3, 4)}


def _more_tokens(draw: Draw):
    n, d = draw.sizes(2, low=5, high=8)
    return {"X": draw.normal(n, 6), "W_V": draw.normal(6, d), "W_O": draw.normal(d, 6), "E": draw.normal(n, 6)}


def _one_copies(draw: Draw):
    """A head that copies exactly, up to one token that it confuses."""
    X = np.linalg.qr(draw.normal(7, 7))[0]
    E = X.copy()
    E[draw.integer(0, 6)] *= -1
    return {"X": X, "W_V": np.eye(7), "W_O": np.eye(7), "E": E}


def _score(*, logits=lambda X, W_V, W_O, E: X @ W_V @ W_O @ E.mT, own_counts=False, less=torch.lt, over=-1, total=None):
    """The share of tokens that are beaten, with one idea replaced."""

    def answer(X, W_V, W_O, E):
        L = logits(X, W_V, W_O, E)
        own, n = L.diagonal(), len(X)
        beats = less(L, own[:, None] if over == -1 else own[None]).to(L.dtype)
        count = n * (n - 1) if total is None else total(n)
        return (beats.sum() + (n if own_counts else 0)) / count

    return answer


def _always_first(X, W_V, W_O, E):
    L = X @ W_V @ W_O @ E.mT
    return (L.argmax(-1) == torch.arange(len(X))).to(L.dtype).mean()


def _mean_difference(X, W_V, W_O, E):
    L = X @ W_V @ W_O @ E.mT
    return L.diagonal().mean() - L.mean()


def _one_by_one(X, W_V, W_O, E):
    found, n = 0, len(X)
    for j in range(n):
        logits = E @ (X[j] @ W_V @ W_O)
        found += sum(int(logits[i] < logits[j]) for i in range(n) if i != j)
    return torch.tensor(found / (n * (n - 1)), dtype=X.dtype)


def _by_rank(X, W_V, W_O, E):
    L = X @ (W_V @ W_O) @ E.mT
    return L.argsort(-1).argsort(-1).diagonal().to(L.dtype).mean() / (len(X) - 1)


COPYING_SCORE = Exercise(
    "copying_score",
    title="Find the bugs: does a head raise what it attends to?",
    points=2,
    kind="bug",
    difficulty=3,
    minutes=9,
    reference=ref.copying_score,
    recipe=Made(_score),
    tensors=True,
    cases=(
        Case("three tokens", _three_tokens),
        Case("more tokens", _more_tokens),
        Case("a head that copies all tokens but one", _one_copies),
    ),
    hints=(
        "Suppose that a query attends only to token $j$. In which row of `logits` are the effects on all $n$ tokens, and with which one "
        "number should they be compared?",
        "`logits.diagonal()` has shape $(n,)$, so it lines up with the *columns*. And what does the draft count where a token is compared with "
        "itself?",
        "The own logits must stand in a column, one for each row, as `diagonal()[:, None]`. Count with a strict comparison, and divide by the "
        "number of comparisons with *other* tokens.",
    ),
    misconceptions=(
        Misconception(
            "draft_unchanged",
            "left all three bugs in the draft",
            "Ask which entries are compared with which, what the diagonal contributes, and how many comparisons there are.",
            Instead(own_counts=True, total=lambda n: n * n, over=-2),
        ),
        Misconception(
            "without_the_circuit",
            "compared the vectors with the logits directly, without the head's matrices",
            "The head writes `X @ W_V @ W_O`. Without these two matrices all heads would get the same score.",
            Instead(logits=lambda X, W_V, W_O, E: X @ E.mT),
        ),
        Misconception(
            "along_the_wrong_axis",
            "compared each token's logit across the attended tokens, which is down a column",
            "Fix the attended token $j$ and compare the logits of all tokens in row $j$.",
            Instead(over=-2),
        ),
        Misconception(
            "exchanged_sides",
            "exchanged the attended tokens and the tokens whose logits change",
            "A row of `X` is attended to, and `E` turns the result into logits, so the order is `X @ W_V @ W_O @ E.mT`.",
            Instead(logits=lambda X, W_V, W_O, E: E @ W_V @ W_O @ X.mT),
        ),
        Misconception(
            "only_the_winner",
            "counted how often the attended token gets the **largest** logit",
            "Count how many of the other tokens it beats, also where it does not beat them all.",
            _always_first,
        ),
        Misconception(
            "divided_by_all_pairs",
            "divided by $n^2$, which includes each token's comparison with itself",
            "There are $n - 1$ other tokens in each of the $n$ rows.",
            Instead(total=lambda n: n * n),
        ),
        Misconception(
            "beats_itself",
            "counted each token among those that it beats",
            "Only the other tokens count. Use a strict comparison, or leave out the diagonal.",
            Instead(own_counts=True),
            also=(Instead(own_counts=True, total=lambda n: n * n),),
        ),
        Misconception(
            "losses_counted",
            "counted the tokens whose logits are raised **more**",
            "A head that copies should get a score near 1. Count the tokens with a smaller logit.",
            Instead(less=torch.gt),
        ),
        Misconception(
            "counted_and_not_divided",
            "returned a number of tokens and not a share",
            "Divide by the number of comparisons, $n (n - 1)$.",
            Instead(total=lambda n: 1),
            also=(Instead(total=lambda n: n),),
        ),
        Misconception(
            "difference_of_logits",
            "returned a difference of logits and not the share of tokens that are beaten",
            "Logits of different heads have different sizes. Count comparisons instead.",
            _mean_difference,
        ),
        Misconception(
            "row_by_row",
            "returned one share for each attended token",
            "Take the mean over all attended tokens, so that a head gets one number.",
            lambda X, W_V, W_O, E: (
                ((X @ W_V @ W_O @ E.mT) < (X @ W_V @ W_O @ E.mT).diagonal()[:, None]).to(X.dtype).sum(-1) / (len(X) - 1)
            ),
        ),
    ),
    variants=(
        Variant("one_by_one", _one_by_one),
        Variant("by_rank", _by_rank),
    ),
)
