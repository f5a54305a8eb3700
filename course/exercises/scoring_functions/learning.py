"""One step of gradient descent on the two maps that make queries and keys."""

import math

import numpy as np

from autograder import After, Before, Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import scoring_functions as ref

Inputs = dict[str, object]


def _drawn(draw: Draw, n: int, m: int, d: int, p: int) -> Inputs:
    """`n` of `m` words ask; no word is its own answer, and no two rows of anything are alike."""
    asking = draw.rng.permutation(m)[:n]
    answers = (asking + 1 + draw.rng.integers(0, m - 1, n)) % m
    return {
        "X": draw.normal(m, d),
        "asking": asking,
        "answers": answers,
        "W_Q": draw.normal(d, p, scale=0.7),
        "W_K": draw.normal(d, p, scale=0.7),
        "rate": 1.5,
    }


def _one_question(draw: Draw) -> Inputs:
    X = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]])[draw.rng.permutation(3)]
    i = draw.integer(0, 2)
    maps = {"W_Q": np.array([[1.0, 0.0], [0.5, 1.0]]), "W_K": np.array([[1.0, -0.5], [0.0, 1.0]])}
    return {"X": X, "asking": np.array([i]), "answers": np.array([(i + 1) % 3])} | maps | {"rate": 1.0}


def _several(draw: Draw) -> Inputs:
    d, p = draw.sizes(2, low=2, high=5)
    return _drawn(draw, 3, 7, d, p)


def _square(draw: Draw) -> Inputs:
    """All words ask, and d = p = m: a wrong transpose raises no error."""
    return _drawn(draw, 4, 4, 4, 4)


def _one_hot(A, answers):
    T = np.zeros_like(A)
    T[np.arange(len(answers)), answers] = 1
    return T


def _hot_in_all_rows(A, answers):
    T = np.zeros_like(A)
    T[:, answers] = 1
    return T


def _step(
    X,
    asking,
    answers,
    W_Q,
    W_K,
    rate,
    *,
    sign=-1.0,
    count=lambda X, asking: len(asking),
    width=lambda W: W.shape[1],
    gradient_root=True,
    asks=lambda X, asking: X[asking],
    targets=_one_hot,
    old=True,
    keys=True,
    back=lambda A, E, answers: E,
    shared=ref.softmax,
):
    X_q, scale = asks(X, asking), math.sqrt(width(W_Q))
    Q, K = X_q @ W_Q, X @ W_K
    A = shared(Q @ K.T / scale)
    dS = back(A, A - targets(A, answers), answers) / count(X, asking) / (scale if gradient_root else 1.0)
    new_Q = W_Q + sign * rate * (X_q.T @ dS @ K)
    if not old:
        Q = X_q @ new_Q
    new_K = W_K + sign * rate * (X.T @ dS.T @ Q) if keys else W_K.copy()
    return new_Q, new_K


def _of_the_weight(A, E, answers):
    return A[np.arange(len(answers)), answers][:, None] * E


def _of_the_squares(A, E, answers):
    return 2 * A * (E - (A * E).sum(axis=1, keepdims=True))


def _of_half_the_squares(A, E, answers):
    return _of_the_squares(A, E, answers) / 2


def _written_over(out, W_Q, W_K, **_):
    W_Q[:], W_K[:] = out
    return W_Q, W_K


def _through_m(X, asking, answers, W_Q, W_K, rate):
    """By the gradient of M = W_Q W_K^T."""
    scale, n = math.sqrt(W_Q.shape[1]), len(asking)
    A = ref.softmax(X[asking] @ (W_Q @ W_K.T) @ X.T / scale)
    A[range(n), answers] -= 1
    dM = X[asking].T @ A @ X / n / scale
    return W_Q - rate * dM @ W_K, W_K - rate * dM.T @ W_Q


def _question_by_question(X, asking, answers, W_Q, W_K, rate):
    n, scale = len(asking), math.sqrt(W_Q.shape[1])
    dW_Q, dW_K = np.zeros_like(W_Q), np.zeros_like(W_K)
    for i, right in zip(asking, answers, strict=True):
        q, K = X[i] @ W_Q, X @ W_K
        a = ref.softmax(K @ q / scale)
        ds = a.copy()
        ds[right] -= 1
        dW_Q += np.outer(X[i], ds @ K) / n / scale
        dW_K += X.T @ np.outer(ds, q) / n / scale
    return W_Q - rate * dW_Q, W_K - rate * dW_K


def _by_trying(X, asking, answers, W_Q, W_K, rate):
    """By finite differences, as the notebook does first: right to three or four digits."""
    n, W = len(asking), np.stack([W_Q, W_K])

    def loss(W):
        A = ref.softmax((X[asking] @ W[0]) @ (X @ W[1]).T / math.sqrt(W_Q.shape[1]))
        return -np.log(A[np.arange(n), answers]).mean()

    slopes, here = np.zeros_like(W), loss(W)
    for place in np.ndindex(W.shape):
        changed = W.copy()
        changed[place] += 0.001
        slopes[place] = (loss(changed) - here) / 0.001
    return tuple(W - rate * slopes)


def _moved_all_along(X, asking, answers, W_Q, W_K, rate):
    """Everything is computed again with the moved matrix of queries, the weights too."""
    moved, _ = ref.learn_step(X, asking, answers, W_Q, W_K, rate)
    return moved, ref.learn_step(X, asking, answers, moved, W_K, rate)[1]


def _but(**changed):
    return lambda X, asking, answers, W_Q, W_K, rate: _step(X, asking, answers, W_Q, W_K, rate, **changed)


LEARN_STEP = Exercise(
    "learn_step",
    title="One step of learning",
    points=4,
    difficulty=4,
    minutes=28,
    reference=ref.learn_step,
    recipe=Made(_but),
    cases=(
        Case("one word asks", _one_question),
        Case("three of seven words ask", _several),
        Case("everything is square", _square),
    ),
    hints=(
        "Go forwards first and write down queries, keys, scores, weights and loss with their shapes. Then go back from `dS` to the two "
        "matrices. What shape must each gradient have?",
        "With $S = X_q W_Q K^\\top / \\sqrt{p}$, a change of $W_Q$ reaches the scores by way of $X_q$ on its left and $K^\\top$ on its "
        "right. So its gradient is $X_q^\\top\\, dS\\, K / \\sqrt{p}$. Transpose $S$ to find the gradient of $W_K$.",
        "$dS = (A - T) / n$, where `np.eye(m)[answers]` gives the rows of $T$. For $W_K$, use $S^\\top = X W_K Q^\\top / \\sqrt{p}$. Its "
        "gradient has `X.T` on the left, `dS.T` in the middle, and the queries from the *old* $W_Q$ on the right.",
    ),
    misconceptions=(
        Misconception(
            "uphill",
            "moved in the direction of the gradient, so the loss grows",
            "Gradient descent subtracts the gradient: `W - rate * gradient`.",
            Instead(sign=1.0),
        ),
        Misconception(
            "already_moved_queries",
            "moved $W_Q$ first and used the new one for the gradient of $W_K$",
            "Compute both gradients at the old matrices, then move both.",
            Instead(old=False),
            also=(_moved_all_along,),
        ),
        Misconception(
            "all_words_ask",
            "let all words ask instead of those in `asking`",
            "Only the words in `asking` have queries, `X[asking] @ W_Q`, and only they appear in the gradient.",
            Instead(asks=lambda X, asking: X),
        ),
        Misconception(
            "summed_not_averaged",
            "summed the gradients over the queries, although the loss is a mean",
            "Divide `dS` by the number of queries.",
            Instead(count=lambda X, asking: 1),
        ),
        Misconception(
            "averaged_over_the_words",
            "divided by the number of words in `X`, although the loss is a mean over the words that ask",
            "Divide `dS` by the number of queries, `len(asking)`.",
            Instead(count=lambda X, asking: len(X)),
        ),
        Misconception(
            "scaled_by_the_width_of_the_words",
            "divided by $\\sqrt{d}$, where $d$ is the width of the words in `X`",
            "A score sums over the $p$ entries of a query, so divide by $\\sqrt{p}$ with `p = W_Q.shape[1]`.",
            Instead(width=lambda W: W.shape[0]),
        ),
        Misconception(
            "no_one_hot",
            "left the right answers out of the gradient, which is $A - T$ and not $A$",
            "Subtract 1 at the answer of each query, as in `A - np.eye(m)[answers]`.",
            Instead(targets=lambda A, answers: 0.0),
        ),
        Misconception(
            "answers_of_all_queries",
            "subtracted 1 at the answers of *all* queries in every row",
            "`A[:, answers]` takes those columns in all rows. `A[np.arange(n), answers]` picks one entry per row.",
            Instead(targets=_hot_in_all_rows),
        ),
        Misconception(
            "softmax_over_the_queries",
            "took the softmax over the queries, so the weights of each key sum to 1 instead of those of each query",
            "The words compete for each query, so the softmax runs over the last axis of the scores.",
            Instead(shared=lambda S: ref.softmax(S, axis=0)),
        ),
        Misconception(
            "not_scaled",
            "didn't divide the scores by $\\sqrt{p}$",
            "Divide the scores by $\\sqrt{p}$, and the gradients as well.",
            Instead(width=lambda W: 1.0),
        ),
        Misconception(
            "gradient_not_scaled",
            "scaled the scores but not the gradients",
            "The factor $1/\\sqrt{p}$ lies between the matrices and the scores, so the chain rule multiplies the gradient by it.",
            Instead(gradient_root=False),
        ),
        Misconception(
            "keys_not_learned",
            "moved only $W_Q$",
            "$W_K$ has a gradient as well. Transpose $S$ to find it.",
            Instead(keys=False),
        ),
        Misconception(
            "by_trying",
            "found the derivatives by changing each number by 0.001, which is only close to the gradient",
            "Derive them from the two facts. Each gradient is a product of three matrices.",
            _by_trying,
        ),
        Misconception(
            "followed_the_weight",
            "followed the gradient of the weight instead of its logarithm, so a small weight hardly moves",
            "The loss is $-\\ln a$. Its gradient with respect to the scores is $(A - T) / n$, without another factor $a$.",
            Instead(back=_of_the_weight),
        ),
        Misconception(
            "squared_error",
            "followed the gradient of the squared error of the weights instead of $-\\ln a$",
            "The loss is $-\\ln a$ of the right answer. Its gradient with respect to the scores is $(A - T) / n$.",
            Instead(back=_of_the_squares),
            also=(Instead(back=_of_half_the_squares),),
        ),
        Misconception(
            "overwrote_the_matrices",
            "changed the caller's matrices in place",
            "Return new ones: `W_Q - rate * dW_Q`.",
            After(_written_over),
        ),
        Misconception(
            "order_exchanged",
            "returned the new $W_K$ first",
            "The docstring says $W_Q$ first, then $W_K$.",
            After(lambda out, **_: out[::-1]),
        ),
        Misconception(
            "gradients_alone",
            "returned the steps instead of the matrices after the step",
            "Return `W_Q - rate * dW_Q`, and the same for $W_K$.",
            After(lambda out, W_Q, W_K, **_: (out[0] - W_Q, out[1] - W_K)),
            also=(
                After(lambda out, W_Q, W_K, rate, **_: ((W_Q - out[0]) / rate, (W_K - out[1]) / rate)),
                After(lambda out, W_Q, W_K, **_: (W_Q - out[0], W_K - out[1])),
            ),
        ),
        Misconception(
            "rate_ignored",
            "took the whole gradient as the step, so `rate` has no effect",
            "Multiply the gradient by `rate` before you subtract it.",
            Before(lambda **_: {"rate": 1.0}),
        ),
    ),
    variants=(
        Variant("through_M", _through_m),
        Variant("question_by_question", _question_by_question),
    ),
)
