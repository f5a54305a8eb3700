"""Every word of a sentence asking at once."""

import numpy as np
from answers import soft_lookup as ref

from autograder import After, Before, Case, Draw, Exercise, Instead, Misconception, Variant

Inputs = dict[str, object]


# ------------------------------------------------------------------------------------------------ mix_words


def _three_words(draw: Draw) -> Inputs:
    """Whole numbers, no two words alike."""
    spots = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, -2.0], [-1.0, 1.0], [-2.0, -1.0]])
    return {"X": spots[draw.rng.permutation(5)[:3]], "width": 2.0}


def _more_words(draw: Draw) -> Inputs:
    n, d = draw.sizes(2, low=3, high=7)
    return {"X": draw.normal(n, d), "width": round(float(draw.rng.uniform(1.3, 1.8)), 2)}


def _as_many_words_as_numbers(draw: Draw) -> Inputs:
    n = int(draw.sizes(1, low=3, high=7)[0])
    return {"X": draw.normal(n, n), "width": 1.5}


def _word_by_word(X, width, *, begin=np.zeros_like, asks=0, keys=0, values=0, step=1, total=lambda s, K: s.sum(), itself=1.0):
    """Asks, scores and mixes what lies in the old array (0), or in the new one (1), whose words change one by one."""
    read = old, new = X, begin(X)
    for i in range(len(old))[::step]:
        K = read[keys] / width
        s = ref.gaussian(read[asks][i] / width, K)
        s[i] *= itself
        new[i] = s / total(s, K) @ read[values]
    return new


def _of_those_who_ask(s, K):
    return sum(ref.gaussian(k, K) for k in K)


def _one_table(X, width):
    s = np.exp(-(((X[:, None] - X[None]) / width) ** 2).sum(axis=-1) / 2)
    return s / s.sum(axis=1, keepdims=True) @ X


def _written_back(out, X, **_):
    X[:] = out
    return X


MIX_WORDS = Exercise(
    "mix_words",
    title="Find the bug: every word asks at once",
    points=2,
    kind="bug",
    difficulty=2,
    minutes=5,
    reference=ref.mix_words,
    recipe=_word_by_word,
    cases=(
        Case("three words", _three_words),
        Case("more words", _more_words),
        Case("as many words as numbers in each", _as_many_words_as_numbers),
    ),
    hints=(
        "The first word comes out right and the last one is the most wrong. What has happened in between that the last word can see?",
        "Follow one array: print `X` before and after the call. Which line makes a second *name* for it, and which line then writes "
        "into it?",
        "Every new vector must be made of old ones, so the results need an array of their own. NumPy makes one of the same shape "
        "with `np.empty_like`, or with the method `copy`.",
    ),
    misconceptions=(
        Misconception(
            "as_shown",
            "did what the code as shown does: it writes each new vector into `X`, which the later words then read",
            "`new = X` copies nothing: both names are the same array. Nor does `X[:]`: of a list it is a copy, of a NumPy array a *view* of the same numbers. Give the results an array of their own.",
            Instead(begin=lambda X: X),
        ),
        Misconception(
            "copied_and_read_again",
            "saved the caller's `X` by a copy, but the later words still read vectors that have already changed",
            "Read from the old array and write into another: two arrays inside the function.",
            Instead(begin=np.copy, keys=1, values=1),
        ),
        Misconception(
            "nothing_changed",
            "returned the vectors that came in, unchanged",
            "The new vectors belong in an array of their own. Is that the array which you return?",
            After(lambda out, X, **_: X.copy()),
        ),
        Misconception(
            "asked_with_zeros",
            "gave the results an array of their own, filled with zeros, but the queries are read from it too: every word asks with zeros",
            "Query $i$ is row $i$ of the old `X`, not of the new array.",
            Instead(asks=1),
        ),
        Misconception(
            "values_already_changed",
            "compared the old vectors, but mixed the ones that have already changed",
            "Queries, keys *and* values are the old vectors: weights times the old `X`.",
            Instead(begin=np.copy, values=1),
        ),
        Misconception(
            "keys_already_changed",
            "mixed the old vectors, but with weights from keys that have already changed",
            "Queries, keys *and* values are the old vectors: score against the old `X`.",
            Instead(begin=np.copy, keys=1),
        ),
        Misconception(
            "other_direction",
            "turned the loop around: now the first words read the changed vectors of the last",
            "No order of the loop is right as long as it reads where it writes. Use two arrays.",
            Instead(begin=np.copy, keys=1, values=1, step=-1),
        ),
        Misconception(
            "written_back",
            "computed the right vectors, but wrote them into the caller's `X`",
            "Return a new array: whoever called you may still need the old vectors.",
            After(_written_back),
        ),
        Misconception(
            "over_the_wrong_axis",
            "shared out each word's weight among those who *ask*, not among those who answer",
            "Row $i$ of the weights belongs to query $i$ and sums to 1.",
            Instead(total=_of_those_who_ask),
        ),
        Misconception(
            "width_left_out",
            "left the width out of the distances",
            "Divide query and keys by `width` before the kernel, as the code that was shown does.",
            Before(lambda **_: {"width": 1.0}),
        ),
        Misconception(
            "without_itself",
            "left each word out of its own mixture",
            "Every word is a key for every query, for its own as well.",
            Instead(itself=0.0),
        ),
        Misconception(
            "not_normalised",
            "mixed with the scores as they are: they do not sum to 1",
            "Divide each word's scores by their sum, as `normalize` does.",
            Instead(total=lambda s, K: 1.0),
        ),
        Misconception(
            "multiplied_by_the_width",
            "multiplied query and keys by the width: the wider the kernel, the fewer words count as near",
            "Divide both by `width`: distances are counted in widths.",
            Before(lambda width, **_: {"width": 1 / width}),
        ),
        Misconception(
            "values_divided_by_the_width",
            "divided the values by the width as well",
            "The width belongs to the distances. What is mixed are the words themselves.",
            After(lambda out, width, **_: out / width),
        ),
    ),
    variants=(
        Variant("one_table", _one_table),
        Variant(
            "list_of_rows", lambda X, width: np.array([ref.attention_pool(q / width, X / width, X, ref.gaussian) for q in X])
        ),
        Variant("copy_of_the_old", lambda X, width: _word_by_word(X.copy(), width)),
    ),
)
