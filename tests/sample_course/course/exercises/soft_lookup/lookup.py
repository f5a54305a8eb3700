"""The exact lookup, and how scores become weights."""

import numpy as np
from answers import soft_lookup as ref

from autograder import After, Before, Case, Draw, Exercise, Instead, Misconception, Prediction, Property, Variant

Inputs = dict[str, np.ndarray]


# ---------------------------------------------------------------------------------------------- hard_lookup


def _three_rows(draw: Draw) -> Inputs:
    """One key equals the query; each other key agrees with it in one entry."""
    a, b = draw.integer(1, 4), draw.integer(5, 9)
    K = np.array([[a, b], [a, b + 1], [a + 2, b]], dtype=float)[draw.rng.permutation(3)]
    return {"q": np.array([a, b], dtype=float), "K": K, "V": draw.normal(3, 5).round(1)}


def _more_rows(draw: Draw) -> Inputs:
    m, d, d_v = draw.sizes(3, low=3)
    K = draw.rng.integers(0, 4, (m, d)).astype(float)
    q = K[draw.integer(0, m - 1)].copy()
    twins = np.flatnonzero(np.equal(K, q).all(axis=-1))[1:]
    K[twins, 0] += 4  # exactly one match
    other = draw.choice(np.flatnonzero(np.not_equal(K, q).any(axis=-1)))
    K[other, 1:] = q[1:]
    K[other, 0] = q[0] + 5  # a key that differs in one entry only
    return {"q": q, "K": K, "V": draw.normal(m, d_v)}


def _several_matches(draw: Draw) -> Inputs:
    """Two keys equal the query; one holds its entries in the other order, and one has the same dot product with it."""
    given = _three_rows(draw)
    q = given["q"]
    beside = q + q[::-1] * np.array([1, -1])  # at a right angle to q from q: the products are equal
    again = draw.rng.permutation(np.r_[given["K"], [q, q[::-1], beside]])
    return {"q": q, "K": again, "V": draw.normal(6, 3).round(1)}


def _no_match(draw: Draw) -> Inputs:
    """The nearest key is not row 0, so that "the nearest" and "the first" give different rows; no key is below the query."""
    given = _three_rows(draw)
    if np.array_equal(given["K"][0], given["q"]):
        given["K"] = given["K"][::-1].copy()
    return given | {"q": given["q"] + 0.25 * np.array([1, -1])}


def _nearly(draw: Draw) -> Inputs:
    """One row equals the query, another is off by a twentieth in tens of thousands: equal to `np.isclose`, and not equal."""
    given = _three_rows(draw)
    q, K = 10_000 * given["q"], 10_000 * given["K"]
    again = np.r_[K, q[None] + 0.05]
    return {"q": q, "K": again[draw.rng.permutation(4)], "V": draw.normal(4, 3).round(1)}


def _rows_one_by_one(q, K, V):
    found = [v for k, v in zip(K, V, strict=True) if np.array_equal(k, q)]
    return sum(found) / len(found) if found else np.zeros(V.shape[1])


def _running_mean(q, K, V):
    total, count = np.zeros(V.shape[1]), 0
    for j in range(len(K)):
        if all(K[j, c] == q[c] for c in range(len(q))):
            total, count = total + V[j], count + 1
    return total / count if count else total


def _equal(q, K):
    return np.equal(K, q).all(axis=-1)


def _found(q, K, V, *, match=_equal, pick=lambda matches: matches, count=lambda matches: max(matches.sum(), 1), pool=np.matmul):
    matches = pick(match(q, K))
    return pool(matches / count(matches), V)


def _as_near_as_any(q, K, power=1):
    distance = (np.abs(K - q) ** power).sum(axis=-1)
    return np.equal(distance, distance.min())


def _whole_table(q, K):
    return np.equal(K, q).all()


def _by_argmax(matches):
    return np.arange(len(matches)) == np.argmax(matches)


def _only_the_last(matches):
    return matches & (np.arange(len(matches)) == np.flatnonzero(np.r_[True, matches])[-1] - 1)


def _d_zeros(out, q, K, V):
    return out if _equal(q, K).any() else np.zeros_like(q)


def _masked_mean(q, K, V):
    found = V[np.equal(K, q).all(axis=1)]
    return found.mean(axis=0) if len(found) else np.zeros(V.shape[1])


HARD_LOOKUP = Exercise(
    "hard_lookup",
    title="The exact lookup",
    points=2,
    difficulty=2,
    minutes=7,
    reference=ref.hard_lookup,
    recipe=_found,
    cases=(
        Case("one match among three rows", _three_rows),
        Case("one match, more rows", _more_rows),
        Case("two rows match", _several_matches, edge=0.25),
        Case("no row matches", _no_match, edge=0.25),
        Case("a row that nearly matches", _nearly, edge=0.1),
    ),
    hints=(
        "First ask of every key, yes or no: is it the query? How many answers do you expect, and of what shape?",
        "`K == q` compares entry by entry and has shape `(m, d)`. A key matches when *all* of its entries agree, so collapse "
        "the last axis. Zeros and ones are nearly a weighting: divide them by the number of ones, then combine the rows of `V`.",
        "`(K == q).all(axis=-1)` is the row of answers. Its sum counts the matches: divide by that, but by 1 where it is 0 "
        "(Python's `max`). A row of `m` weights times `V` is the weighted sum of the rows.",
    ),
    misconceptions=(
        Misconception(
            "any_entry_matches",
            "counted a key as a match as soon as *one* of its entries equals the query's",
            "The whole key must be equal: collapse the last axis with `all`, not `any`.",
            Instead(match=lambda q, K: np.equal(K, q).any(axis=-1)),
        ),
        Misconception(
            "counted_equal_entries",
            "gave each key as much weight as it has entries equal to the query's",
            "A key counts only if *all* of its entries are equal, and then once: collapse the last axis with `all`, not with `sum`.",
            lambda q, K, V: np.equal(K, q).sum(axis=1) @ V / max(np.equal(K, q).sum(), 1),
        ),
        Misconception(
            "added_the_matches",
            "added the matching rows up, so with two matches the weights sum to 2",
            "Share the weight: divide by the number of matches (where there is at least one).",
            Instead(count=lambda matches: 1),
        ),
        Misconception(
            "left_out_the_later_matches",
            "returned the first match and left the others out",
            "All matching rows share the weight evenly: average them.",
            Instead(pick=lambda matches: matches & _by_argmax(matches)),
        ),
        Misconception(
            "left_out_the_earlier_matches",
            "returned the last match and left those before it out, as a `dict` does, where a later entry takes the place of an equal one",
            "All matching rows share the weight evenly: average them.",
            Instead(pick=_only_the_last),
        ),
        Misconception(
            "nothing_gives_d_zeros",
            "returned zeros of the query's length where no key equals it",
            "What comes out is made of values: there are `d_v` zeros, not `d`.",
            After(_d_zeros),
        ),
        Misconception(
            "divided_by_m",
            "divided by the number of *keys* and not by the number of matches",
            "Rows that don't match must not count below the line either.",
            Instead(count=len),
        ),
        Misconception(
            "argmax_of_the_matches",
            "took one row by `argmax`: the first match, or row 0 where nothing matches",
            "`argmax` of a row without any `True` is 0. Build weights instead: zero everywhere is then a possible answer.",
            Instead(pick=_by_argmax),
        ),
        Misconception(
            "took_the_nearest",
            "took one row alone, that whose key is nearest, also where no key *equals* the query",
            "An exact lookup accepts equal keys only. (Nearness is what the kernels of the first sitting are for.)",
            Instead(match=lambda q, K: _by_argmax(-np.linalg.norm(K - q, axis=-1))),
        ),
        Misconception(
            "took_all_the_nearest",
            "took the rows whose keys are nearest, all that are equally near, also where no key *equals* the query",
            "An exact lookup accepts equal keys only. (Nearness is what the kernels of the first sitting are for.)",
            Instead(match=_as_near_as_any),
            also=(Instead(match=lambda q, K: _as_near_as_any(q, K, power=2)),),
        ),
        Misconception(
            "mean_of_nothing",
            "averaged the matching rows also where there are none, which divides 0 by 0",
            "Decide the empty case on its own: here it is the zero vector. `max(count, 1)` in the denominator does it.",
            Instead(count=np.sum),
        ),
        Misconception(
            "nearly_equal",
            "counted a key as a match that is only nearly the query",
            "An exact lookup asks for equality: `K == q`, without a tolerance. (Nearness is what the kernels of the first sitting are for.)",
            Instead(match=lambda q, K: np.isclose(K, q, atol=1e-2).all(axis=-1)),
        ),
        Misconception(
            "returned_rows",
            "returned a matrix of rows, as a database would, and not one vector",
            "One query gives one vector of shape `(d_v,)`: average the matching rows.",
            Instead(pool=lambda weights, V: V[weights > 0]),
        ),
        Misconception(
            "first_entry_only",
            "compared the first entry of each key only",
            "The whole key must be equal: compare all entries, and collapse the last axis with `all`.",
            Instead(match=lambda q, K: np.equal(K[:, 0], q[0])),
        ),
        Misconception(
            "one_answer_for_the_table",
            "asked one question of the whole table, whether *every* key agrees, and so have one answer and not one for each key",
            "`all` without an axis takes in all entries of `K == q`. Say which axis it is to collapse: that of one key's entries.",
            Instead(match=_whole_table),
            raises=True,
        ),
        Misconception(
            "nothing_is_ever_found",
            "found no match even where a key equals the query: your result is zero everywhere",
            "How many answers does your comparison give? There must be one for each key; `all` without an axis gives one "
            "for the whole table.",
            Instead(match=lambda q, K: np.zeros(len(K), bool)),
            also=(Instead(match=_whole_table, pool=np.dot),),
        ),
        Misconception(
            "asked_of_each_column",
            "asked of each *column* whether all keys agree there, and so have one answer for each entry of the query",
            "The answers belong to the keys: collapse the axis of the entries, not that of the keys.",
            Instead(match=lambda q, K: np.equal(K, q).all(axis=0)),
            raises=True,
        ),
        Misconception(
            "compared_sums",
            "compared the sums of the entries: another key can have the same sum",
            "Compare entry by entry, and ask whether *all* agree.",
            Instead(match=lambda q, K: np.equal(K.sum(axis=-1), q.sum())),
        ),
        Misconception(
            "same_dot_product",
            "took a key for the query where its dot product with the query is as large as the query's with itself",
            "Other keys can have the same product. Compare the entries: `(K == q).all(axis=-1)`.",
            Instead(match=lambda q, K: np.equal(K @ q, q @ q)),
        ),
        Misconception(
            "returned_the_key",
            "returned the matching **key**, which equals the query: you had that already",
            "Keys are there to be found by. What is handed over is the row of `V`.",
            Before(lambda K, **_: {"V": K}),
        ),
        Misconception(
            "returned_the_weights",
            "returned the weights, one per key",
            "Combine the rows of `V` with them: `weights @ V`.",
            Instead(pool=lambda weights, V: weights),
        ),
    ),
    variants=(
        Variant("rows_one_by_one", _rows_one_by_one),
        Variant("entries_one_by_one", _running_mean),
        Variant("masked_mean", _masked_mean),
        Variant(
            "one_hot_einsum", lambda q, K, V: np.einsum("j,jv->v", ref.normalize(np.equal(K, q).all(axis=1).astype(float)), V)
        ),
    ),
)


# ------------------------------------------------------------------------------------------------ normalize


def _three_scores(draw: Draw) -> Inputs:
    return {"s": draw.uniform(3, low=0.2, high=2.5).round(1)}


def _several_queries(draw: Draw) -> Inputs:
    n, m = draw.sizes(2, low=3, high=7)
    return {"s": draw.uniform(n, m, low=0.05, high=2.5)}


def _one_empty_row(draw: Draw) -> Inputs:
    s = draw.uniform(3, 5, low=0.05, high=2.5)
    s[draw.integer(0, 2)] = 0.0
    return {"s": s}


def _nothing_for_one_query(draw: Draw) -> Inputs:
    return {"s": np.zeros(int(draw.sizes(1, low=3, high=7)[0]))}


def _tiny_scores(draw: Draw) -> Inputs:
    return {"s": draw.uniform(5, low=0.2, high=2.5) * 1e-30}


def _row_by_row(s):
    flat = np.atleast_2d(s)
    rows = [row / row.sum() if row.sum() > 0 else np.zeros_like(row) for row in flat]
    return np.array(rows).reshape(s.shape)


def _divide_where(s):
    total = s.sum(axis=-1, keepdims=True)
    return np.divide(s, total, out=np.zeros_like(s), where=total != 0)


def _silenced_nan(s):
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(s / s.sum(-1)[..., None])


def _guarded(s, total):
    return s / np.where(total > 0, total, 1.0)


def _shares(s, *, total=lambda s: s.sum(axis=-1, keepdims=True), of=lambda s: s, by=_guarded):
    return by(of(s), total(of(s)))


def _uniform_where_empty(s):
    total = s.sum(axis=-1, keepdims=True)
    return np.where(total > 0, _guarded(s, total), 1 / s.shape[-1])


def _in_place(s):
    total = s.sum(axis=-1, keepdims=True)
    s /= np.where(total > 0, total, 1.0)
    return s


NORMALIZE = Exercise(
    "normalize",
    title="Shares of a total",
    points=2,
    difficulty=2,
    minutes=8,
    reference=ref.normalize,
    recipe=_shares,
    cases=(
        Case("three scores", _three_scores),
        Case("several queries at once", _several_queries),
        Case("a query that found nothing", _one_empty_row, edge=0.25),
        Case("a single query that found nothing", _nothing_for_one_query, edge=0.1),
        Case("tiny scores", _tiny_scores, edge=0.15),
    ),
    properties=(Property("non_negative"), Property("sums_to_one", axis=-1)),
    hints=(
        "Shares of a whole: by what must each score be divided, so that they add up to 1? With `n` queries there are `n` wholes.",
        "Sum over the **keys**, the last axis. Keep that axis with length 1 (`keepdims=True`), so that the division lines up "
        "row by row. Then think of a row whose sum is 0.",
        "With the sums in a column `total`, a row of zeros may be divided by anything but 0 and stays zero. `np.where` can put a 1 "
        "in the place of each zero total before you divide.",
    ),
    misconceptions=(
        Misconception(
            "normalised_over_queries",
            "normalised down the columns, so each *key's* weights sum to 1 over the queries",
            "A query shares its weight among the keys: sum over the last axis, not the first.",
            Instead(total=lambda s: s.sum(axis=0, keepdims=True)),
        ),
        Misconception(
            "normalised_everything",
            "divided by the sum of the whole array, so all queries share one total of 1",
            "Every query has its own total: `sum(axis=-1, keepdims=True)`.",
            Instead(total=lambda s: s.sum()),
        ),
        Misconception(
            "lost_the_axis",
            "divided the `(n, m)` scores by `n` sums of shape `(n,)`, which NumPy tries to line up with the *last* axis",
            "Keep the summed axis: `sum(axis=-1, keepdims=True)` has shape `(n, 1)` and stretches along each row.",
            Instead(total=lambda s: s.sum(axis=-1)),
            raises=True,
        ),
        Misconception(
            "a_number_for_a_row",
            "took every number of a single query's scores for a row of its own, which is then its own sum",
            "With one query `s` has shape `(m,)`: going through it gives numbers, not rows. A sum over the last axis "
            "is right for one query and for many.",
            lambda s: np.array([part / np.where(part.sum() > 0, part.sum(), 1.0) for part in s]),
        ),
        Misconception(
            "exponentiated_first",
            "took exponentials before dividing: that is the softmax, which lesson 02 is about",
            "The scores here are already non-negative. Divide them by their sum as they are.",
            Instead(of=np.exp),
        ),
        Misconception(
            "nothing_gives_nan",
            "divided 0 by 0 for the query that found nothing: the result is NaN",
            "Replace a zero sum before you divide, for example by 1: the row then stays zero.",
            Instead(by=lambda s, total: s / total),
        ),
        Misconception(
            "nothing_gives_uniform",
            "gave every key the same weight where all scores are zero",
            "That pretends that the query likes all keys alike. The rule here: nothing found, all weights stay 0.",
            _uniform_where_empty,
        ),
        Misconception(
            "added_an_epsilon",
            "took tiny scores for none: by a constant added to the sum, a floor under it, or a test with a tolerance",
            "A tiny sum is as good a sum as any other. Treat exactly zero on its own, and divide all others by their true sum.",
            Instead(by=lambda s, total: s / (total + 1e-12)),
        ),
        Misconception(
            "overwrote_the_scores",
            "divided in place (`s /= …`), so the caller's scores are gone",
            "Return a new array: `s / …`.",
            _in_place,
        ),
    ),
    variants=(
        Variant("row_by_row", _row_by_row),
        Variant("divide_where", _divide_where),
        Variant("nan_to_num", _silenced_nan),
        Variant("transposed", lambda s: (s.T / np.where(s.T.sum(axis=0) > 0, s.T.sum(axis=0), 1)).T),
    ),
)

PREDICT_EMPTY = Prediction(
    "predict_empty",
    title="Predict: nothing is near",
    points=0.5,
    choices={
        "a": "nine zeros: nothing over something is nothing",
        "b": "nine times 1/9: with nothing to tell the keys apart, they share evenly",
        "c": "nine times NaN: 0 / 0 is not a number",
        "d": "a ZeroDivisionError",
    },
    holds="c",
    reveal="NumPy follows IEEE 754: 0 / 0 is NaN, with a RuntimeWarning and no exception, so the plain formula gives (c). "
    "(a) and (b) are *policies*, things that somebody has to decide and write. This course decides for (a).",
)
