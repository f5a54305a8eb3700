"""How designs are judged: each function maps what a learner's function returned to the behaviour that is compared.

A design has many right answers, so its numbers are not compared. What is compared is what it *does*, measured here. Each
function takes the learner's output and the inputs of the case by name, and returns an array; it raises ValueError, with a
sentence for the learner, where the output has not the asked form. NumPy only.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_course.thread import INDEX, THING, THREE_SENTENCES, VECTORS

Array = NDArray[np.float64]


def _weights(S: Any) -> Any:
    """The softmax of the last axis; a row of which all entries are -inf gets zeros."""
    top = S.max(axis=-1, keepdims=True)
    E = np.exp(S - np.where(np.isfinite(top), top, 0.0))
    total = E.sum(axis=-1, keepdims=True)
    return E / np.where(total > 0, total, 1.0)


RING = ("she", "ate", "pear", "sweet")


def looks_in_a_ring(output: Any) -> Any:
    """For *she*, *ate*, *pear* and *sweet*, each of which should look at the next (*sweet* at *she*), one number.

    2: it does, with a weight of 0.9 at least; 1: with the largest weight, but less than 0.9. Else which word has the largest
    weight: -1 it itself, -2 the one before it in the ring, 0 another, or several alike.

    >>> looks_in_a_ring((np.eye(2), np.eye(2)))
    array([-1, -1, -1, -1])
    """
    if not isinstance(output, tuple | list) or len(output) != 2:
        raise ValueError("expected two matrices, (W_Q, W_K).")
    W_Q, W_K = (np.asarray(W, dtype=float) for W in output)
    if W_Q.ndim != 2 or W_Q.shape != W_K.shape or len(W_Q) != 2 or W_Q.size == 0:
        raise ValueError(f"expected two matrices of one shape (2, d_k), got {W_Q.shape} and {W_K.shape}.")
    A = _weights(VECTORS @ W_Q @ (VECTORS @ W_K).T / np.sqrt(W_Q.shape[1]))
    found = []
    for i, word in enumerate(RING):
        row = A[INDEX[word]]
        best = int(row.argmax())
        after, before = INDEX[RING[(i + 1) % 4]], INDEX[RING[i - 1]]
        alone = np.delete(row, best).max() < row[best]
        others = {after: 2 if row[best] >= 0.9 else 1, before: -2, INDEX[word]: -1}
        found.append(others.get(best, 0) if alone else 0)
    return np.array(found)


def sensitivity(output: Any) -> Any:
    """Say what kind of eight scores these are, by the Frobenius norm of the softmax's Jacobian and the keys at the top.

    2: the norm is 0.49 or more. Otherwise 1: two keys share the largest weight. 0: three keys or more share it. -1: all keys
    share it. -2: one key has the largest weight alone.

    >>> sensitivity(np.zeros(8)), sensitivity(30 * np.eye(8)[0])
    (array([-1]), array([-2]))
    """
    s = np.asarray(output, dtype=float)
    if s.shape != (8,) or not np.isfinite(s).all():
        raise ValueError(f"expected eight finite scores, got the shape {s.shape}.")
    a = _weights(s)
    norm = np.linalg.norm(np.diag(a) - np.outer(a, a))
    tied = int((a > 0.9 * a.max()).sum())
    return np.array([2 if norm >= 0.49 else {1: -2, 2: 1, 8: -1}.get(tied, 0)])


def packed_rows(output: Any, *, documents: Any) -> Any:
    """What the real tokens of a packed row may see: the rows of the mask `output`, with those of the blanks left out (False).

    >>> packed_rows(np.tri(2, dtype=bool), documents=np.array([0, -1]))
    array([[ True, False],
           [False, False]])
    """
    documents = np.asarray(documents)
    n = len(documents)
    keep = np.asarray(output)
    if keep.dtype != bool:
        raise ValueError(f"expected a boolean mask, got numbers of type {keep.dtype}. True means keep.")
    if keep.shape != (n, n):
        raise ValueError(f"expected a mask of shape (query, key) = ({n}, {n}), got {keep.shape}.")
    return keep & (documents >= 0)[:, None]  # what a blank sees does not matter


def reveals_a_choice(output: Any, *, X: Any) -> Any:
    """Say what the changed tokens `output` show about a layer that doubles the two tokens with the largest first feature.

    3: only the last token differs from `X`, and an earlier output changes. 2: only the last token differs, and no earlier output
    changes. 1: an earlier token differs. 0: nothing differs. -1: an entry is not a finite number.

    >>> X = np.array([[3.0], [2.0], [1.0]])
    >>> reveals_a_choice(np.array([[3.0], [2.0], [9.0]]), X=X)
    array([3])
    """
    X, changed = np.asarray(X, dtype=float), np.asarray(output, dtype=float)
    if changed.shape != X.shape:
        raise ValueError(f"expected a copy of X, of shape {X.shape}, got {changed.shape}.")
    if not np.isfinite(changed).all():
        return np.array([-1])
    if (changed[:-1] != X[:-1]).any():
        return np.array([1])
    if (changed == X).all():
        return np.array([0])
    n = len(X)
    before, after = (set(np.argsort(-rows[:, 0], kind="stable")[:2].tolist()) - {n - 1} for rows in (X, changed))
    return np.array([3 if before != after else 2])


def _arrays(output: object, names: tuple[str, ...]) -> list[Array]:
    if not isinstance(output, tuple | list) or len(output) != len(names):
        raise ValueError(f"expected {len(names)} things, {', '.join(names)}, got {type(output).__name__}.")
    return [np.asarray(part, dtype=float) for part in output]


# ---------------------------------------------------------------------------------------------- lesson 01

_KIND = {0: -3, THING: 2, 8: -2}  # by the place of a word in its sentence: the person, the thing, the last adjective


def finds_the_thing(output: Any) -> Array:
    """For each of the three sentences of `thread.THREE_SENTENCES`, one number: what the query `output` finds at width 1.

    2: the thing, with a weight of 0.9 at least; 1: the thing, with the largest weight, but less; -1: nothing, since every score
    is rounded to 0; -2: the last adjective; -3: the person; 0: another word.

    >>> finds_the_thing(np.array([2.0, -1.0]))
    array([1., 1., 1.])
    """
    q = np.asarray(output, dtype=float)
    if q.shape != (2,):
        raise ValueError(f"expected a query of two numbers, shape (2,), got {q.shape}.")
    if not np.isfinite(q).all():
        raise ValueError("expected finite numbers in the query.")
    found = []
    for _, X in THREE_SENTENCES:
        s = np.exp(-((X - q) ** 2).sum(axis=-1) / 2)
        best = int(s.argmax())
        kind = _KIND.get(best, 0)
        found.append(-1 if s.sum() == 0 else 1 if kind == 2 and s[best] < 0.9 * s.sum() else kind)
    return np.array(found, dtype=float)


# ---------------------------------------------------------------------------------------------- lesson 02

FOUR = ("ripe", "pear", "sharp", "knife")
KINDS = np.array([[-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])  # describes or is a thing; fruit or tool
PARTNERS = (1, 0, 3, 2)


def finds_its_partner(output: Any) -> Array:
    """For *ripe*, *pear*, *sharp* and *knife*, one number: what each of them finds through the matrix `output`.

    2: its partner, with a weight of 0.9 at least; 1: its partner, with the largest weight, but less; -1: itself; -2: the word of
    the same kind; -3: the word that differs in both numbers; 0: several words alike.

    >>> finds_its_partner(np.eye(2))
    array([-1., -1., -1., -1.])
    """
    M = np.asarray(output, dtype=float)
    if M.shape != (2, 2):
        raise ValueError(f"expected a matrix of shape (2, 2), got {M.shape}.")
    if not np.isfinite(M).all():
        raise ValueError("expected finite numbers in M.")
    found = []
    for i, row in enumerate(_weights(KINDS @ M @ KINDS.T)):
        best = int(row.argmax())
        alone = np.delete(row, best).max() < row[best] - 1e-12
        kinds = {PARTNERS[i]: 2.0 if row[best] >= 0.9 else 1.0, i: -1.0, (i + 2) % 4: -2.0}
        found.append(kinds.get(best, -3.0) if alone else 0.0)
    return np.array(found)


# ---------------------------------------------------------------------------------------------- lesson 05


def two_heads(output: object, X: Array) -> Array:
    """The output of two heads with the learner's four matrices, for the tokens `X`."""
    W_Q, W_K, W_V, W_O = _arrays(output, ("W_Q", "W_K", "W_V", "W_O"))
    width = X.shape[1]
    for name, W in (("W_Q", W_Q), ("W_K", W_K), ("W_V", W_V)):
        if W.ndim != 2 or W.shape[0] != width or W.shape[1] % 2 or not W.shape[1]:
            raise ValueError(f"expected {name} of shape ({width}, 2 * d) for two heads of width d, got {W.shape}.")
    if W_Q.shape != W_K.shape:
        raise ValueError(f"expected W_Q and W_K of one shape, got {W_Q.shape} and {W_K.shape}.")
    if W_O.shape != (W_V.shape[1], width):
        raise ValueError(f"expected W_O of shape ({W_V.shape[1]}, {width}), got {W_O.shape}.")
    heads = []
    for h in range(2):
        q, k, v = (X @ np.split(W, 2, axis=1)[h] for W in (W_Q, W_K, W_V))
        heads.append(_weights(q @ k.T / math.sqrt(q.shape[1])) @ v)
    return np.asarray(np.concatenate(heads, axis=1) @ W_O)


def verb_sentence(kinds: str, seed: int) -> Array:
    """Tokens of width 12: flags verb, acts, is acted on (letters v, a, o; a dot has none), a meaning of 3 numbers, 6 zeros.

    >>> verb_sentence("av", 0)[:, :3]
    array([[0., 1., 0.],
           [1., 0., 0.]])
    """
    flags = np.array([[letter == kind for kind in "vao"] for letter in kinds], dtype=float)
    meaning = np.random.default_rng(seed).normal(size=(len(kinds), 3)).round(1)
    return np.concatenate([flags, meaning, np.zeros((len(kinds), 6))], axis=1)


SENTENCES = ("av.o", "a.v..o", "ov.a", "..o.va.", "va.o.....")


def who_and_what(output: object) -> dict[str, Array]:
    """The verb's row of $Y$, in five sentences: its meaning (features 3 to 5), *who* (6 to 8) and *what* (9 to 11)."""
    found = []
    for seed, kinds in enumerate(SENTENCES):
        Y = two_heads(output, verb_sentence(kinds, seed))
        found.append(Y[kinds.index("v"), 3:])
    shown = np.array(found).round(6) + 0.0  # a panel then shows 0 where 1e-13 is left over
    return dict(zip(("meaning", "who", "what"), np.split(shown, 3, axis=1), strict=True))


def share_by_lag(text: Any) -> Array:
    """The share of a text's tests at which a head that attends k tokens back is right, for k = 0, 1, 2, ...

    A test is a place whose token occurred exactly once before and is followed by the same token as then. A text without a
    test gives zeros.

    >>> share_by_lag([7, 8, 9, 7, 8, 9])
    array([0., 0., 1., 0., 0., 0.])
    """
    tokens, found = list(text), np.zeros(len(text))
    for i in range(len(tokens) - 1):
        if tokens[:i].count(tokens[i]) == 1:
            then = tokens.index(tokens[i])
            if tokens[then + 1] == tokens[i + 1]:
                found[i - then - 1] += 1
    shares: Array = found / max(1.0, found.sum())
    return shares


def tells_reading_from_counting(output: Any) -> Any:
    """Say what a text shows: 2 if no head that counts is right at more than a quarter of 20 tests or more.

    1: some head that counts is right more often. 0: fewer than 20 tests. -1: more than 60 tokens.

    >>> tells_reading_from_counting([*range(30), *range(30)])
    array([1])
    """
    try:
        tokens = [int(token) for token in output]
    except (TypeError, ValueError):
        raise ValueError("expected a list of numbers, one for each token.") from None
    if len(tokens) > 60:
        return np.array([-1])
    tests = sum(
        tokens[:i].count(tokens[i]) == 1 and tokens[tokens.index(tokens[i]) + 1] == tokens[i + 1] for i in range(len(tokens) - 1)
    )
    if tests < 20:
        return np.array([0])
    return np.array([1 if share_by_lag(tokens).max() > 0.25 else 2])


# ---------------------------------------------------------------------------------------------- lesson 06


def looks_back(output: object, *, steps: int, d: int) -> dict[str, Array]:
    """Where each of eight tokens looks most (how far back), and whether it gives that token more than half of its weight.

    >>> same = np.full(4, 8.0)
    >>> looks_back((same, same), steps=1, d=4)["looks_back"][:2]
    array([0., 0.])
    """
    q, k = _arrays(output, ("a query", "a key"))
    if q.shape != (d,) or k.shape != (d,):
        raise ValueError(f"expected a query and a key of shape ({d},), got {q.shape} and {k.shape}.")
    n = 96  # an angle of 1 radian a token is nearly the same again after 44 tokens: one clock alone is not enough
    angles = np.arange(n)[:, None] * 10_000.0 ** (-np.arange(0, d, 2) / d)
    Q, K = (_turned(x, angles) for x in (q, k))
    A = _weights(Q @ K.T / math.sqrt(d))
    rows = np.arange(44, 52)  # in the middle: all that may be looked at stands on both sides
    sure = A[rows, rows - steps] > 0.5
    return {"looks_back": (rows - A[rows].argmax(axis=-1)).astype(float), "sure": sure.astype(float)}


def _turned(x: Array, angles: Array) -> Array:
    """The vector at every position, pairs of neighbours turned."""
    even, odd = x[0::2], x[1::2]
    cos, sin = np.cos(angles), np.sin(angles)
    parts = even * cos - odd * sin, even * sin + odd * cos
    return np.asarray(np.stack(parts, axis=-1).reshape(len(angles), -1))


# ---------------------------------------------------------------------------------------------- later lessons


def latent_of_groups(output: Any, *, W_K: Any, W_V: Any, H: Any) -> dict[str, Any]:
    """What a latent made of groups does: its width, and the products by which each head makes its keys and its values of a token.

    >>> W_K, W_V = np.full((1, 2, 1), 3.0), np.full((1, 2, 1), 7.0)
    >>> down, key, value = np.array([[7.0, 3.0]] * 2), np.array([[[0.0], [1.0]]] * 2), np.array([[[1.0], [0.0]]] * 2)
    >>> found = latent_of_groups((down, key, value), W_K=W_K, W_V=W_V, H=2)
    >>> found["d_c"], found["W_DKV @ W_UK"][1].ravel(), found["W_DKV @ W_UV"][1].ravel()
    (array([2]), array([3., 3.]), array([7., 7.]))
    """
    if not isinstance(output, tuple | list) or len(output) != 3:
        raise ValueError("expected three tensors, (W_DKV, W_UK, W_UV).")
    if len({np.asarray(W).dtype for W in output}) > 1:
        raise ValueError("expected three tensors of one dtype, that of W_K: was one made without `dtype`?")
    down, key, value = (np.asarray(W, dtype=float) for W in output)
    (_, d_model, d), d_v, heads = np.shape(W_K), np.shape(W_V)[-1], int(H)
    if down.ndim != 2 or len(down) != d_model:
        raise ValueError(f"W_DKV: expected the shape (d_model, d_c) with d_model = {d_model}, got {down.shape}.")
    for name, got, width in (("W_UK", key, d), ("W_UV", value, d_v)):
        if got.shape != (heads, down.shape[1], width):
            raise ValueError(f"{name}: expected (head, d_c, width) = {(heads, down.shape[1], width)}, got {got.shape}.")
    return {"d_c": np.array([down.shape[1]]), "W_DKV @ W_UK": down @ key, "W_DKV @ W_UV": down @ value}


# ---------------------------------------------------------------------------------------------- lesson 12


def best_of_each_rank(output: object, W: Array, moment: Array) -> dict[str, Array]:
    """What two factors of `W` make at each rank, and the products of the rows of `up`: neither depends on signs.

    >>> W = np.diag([1.0, 2.0])
    >>> best_of_each_rank((W, np.eye(2)), W, np.eye(2))["rank 1"]
    array([[1., 0.],
           [0., 0.]])
    """
    down, up = _arrays(output, ("down", "up"))
    d_in, d_out = W.shape
    for name, factor, expected in (("down", down, (d_in, d_out)), ("up", up, (d_out, d_out))):
        if factor.shape != expected:
            raise ValueError(f"expected {name} of shape {expected}, got {factor.shape}.")
    return {f"rank {r}": down[:, :r] @ up[:r] for r in range(1, d_out + 1)} | {"up @ up.mT": up @ up.T}


def products_of_a_latent(output: object, W_K: Array, W_V: Array, moment: Array, r: int) -> dict[str, Array]:
    """The keys' and the values' weights that a latent stands for, and the products of the rows of `W_DKV`: no signs in them."""
    names = "W_DKV", "W_UK", "W_UV"
    parts = dict(zip(names, _arrays(output, names), strict=True))
    shapes = {"W_DKV": (len(W_K), r), "W_UK": (r, W_K.shape[1]), "W_UV": (r, W_V.shape[1])}
    for name, expected in shapes.items():
        if parts[name].shape != expected:
            raise ValueError(f"expected {name} of shape {expected}, got {parts[name].shape}.")
    latent = parts["W_DKV"]
    products = {f"W_DKV @ {name}": latent @ parts[name] for name in ("W_UK", "W_UV")}
    return products | {"W_DKV @ W_DKV.mT": latent @ latent.T}
