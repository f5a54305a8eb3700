"""Every word of a sentence asking at once."""

import numpy as np

from autograder import After, Before, Case, Draw, Exercise, Instead, Misconception, Variant
from solutions import soft_lookup as ref

Inputs = dict[str, object]


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
    """Mix the words, reading queries, keys and values each from the old array (0) or from the new one (1), which changes."""
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
        "In the draft, the first word reads the old vectors. Which vectors does the last word read?",
        "Print `X` before and after the call. Which line makes a second *name* for the same array, and which line writes into it?",
        "Every output is made of old vectors, so the outputs need an array of their own. `np.empty_like` makes one of the same shape. "
        "Then check which array each query is read from.",
    ),
    misconceptions=(
        Misconception(
            "as_shown",
            "wrote each output into `X`, as the draft does, so later words read vectors that have already changed",
            "`new = X` copies nothing, since both names mean the same array. `X[:]` doesn't copy either, because it is a *view* of the same numbers. Give the outputs an array of their own.",
            Instead(begin=lambda X: X),
        ),
        Misconception(
            "copied_and_read_again",
            "copied the caller's `X`, but later words still read vectors that have already changed",
            "Use two arrays inside the function, one to read from and one to write into.",
            Instead(begin=np.copy, keys=1, values=1),
        ),
        Misconception(
            "nothing_changed",
            "returned the vectors unchanged",
            "The outputs belong in an array of their own. Is that the array that you return?",
            After(lambda out, X, **_: X.copy()),
        ),
        Misconception(
            "asked_with_zeros",
            "gave the outputs an array of their own but read the queries from it as well, so every word asks with zeros",
            "Query $i$ is row $i$ of the old `X`.",
            Instead(asks=1),
        ),
        Misconception(
            "values_already_changed",
            "scored the old vectors but averaged vectors that have already changed",
            "Values are old vectors as well, so multiply the weights by the old `X`.",
            Instead(begin=np.copy, values=1),
        ),
        Misconception(
            "keys_already_changed",
            "averaged the old vectors, but with weights from keys that have already changed",
            "Keys are old vectors as well, so compute the scores from the old `X`.",
            Instead(begin=np.copy, keys=1),
        ),
        Misconception(
            "other_direction",
            "reversed the loop, so the first words read vectors of later words that have already changed",
            "No order of the loop is right while it reads from the array that it writes into. Use two arrays.",
            Instead(begin=np.copy, keys=1, values=1, step=-1),
        ),
        Misconception(
            "written_back",
            "computed the right outputs but wrote them into the caller's `X`",
            "Return a new array, because the old vectors are still needed. The outputs are added to them.",
            After(_written_back),
        ),
        Misconception(
            "over_the_wrong_axis",
            "normalised each word's scores over the words that *ask* instead of the words that answer",
            "Row $i$ of the weights belongs to query $i$ and sums to 1.",
            Instead(total=_of_those_who_ask),
        ),
        Misconception(
            "width_left_out",
            "did not divide the distances by the width",
            "Divide query and keys by `width` before you call the kernel, as the draft does.",
            Before(lambda **_: {"width": 1.0}),
        ),
        Misconception(
            "added_already",
            "added the word's own vector to the output already",
            "Return the output alone. The next cell of the notebook adds it to the word's vector.",
            After(lambda out, X, **_: X + out),
        ),
        Misconception(
            "without_itself",
            "left each word out of its own average",
            "Every word is a key for every query, including its own.",
            Instead(itself=0.0),
        ),
        Misconception(
            "not_normalised",
            "used the raw scores as weights, which do not sum to 1",
            "Divide each word's scores by their sum, as `normalize` does.",
            Instead(total=lambda s, K: 1.0),
        ),
        Misconception(
            "multiplied_by_the_width",
            "multiplied query and keys by the width, so a larger width makes a narrower kernel",
            "Distances are counted in widths, so divide both by `width`.",
            Before(lambda width, **_: {"width": 1 / width}),
        ),
        Misconception(
            "values_divided_by_the_width",
            "divided the values by the width as well",
            "Only distances are counted in widths. The values are the words themselves.",
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
