"""Estimate: how many tokens does a model process while it writes?"""

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import kv_cache as ref


def _as_in_the_figure(cached: bool):
    return lambda draw: {"n0": 9, "n": 3, "cached": cached}


def _drawn(cached: bool):
    def make(draw: Draw):
        n0, n = draw.sizes(2, low=5, high=17)
        return {"n0": n0, "n": n, "cached": cached}

    return make


def _one_new(cached: bool):
    return lambda draw: {"n0": draw.integer(4, 90), "n": 1, "cached": cached}


def _counted(*, runs=lambda n: n, first=lambda n0: n0, per_step=1, prompt=lambda n0: n0, swapped=False):
    """The count as a sum over runs, with one part replaced by a mistake."""

    def answer(n0, n, cached):
        if cached != swapped:
            return prompt(n0) + per_step * (runs(n) - 1)
        return sum(first(n0) + i for i in range(runs(n)))

    return answer


def _by_sum(n0, n, cached):
    lengths = range(n0, n0 + n)
    return n0 + len(lengths[1:]) if cached else sum(lengths)


TOKENS_PROCESSED = Exercise(
    "tokens_processed",
    title="Estimate: tokens processed",
    kind="estimate",
    points=1,
    difficulty=2,
    minutes=5,
    reference=ref.tokens_processed,
    recipe=Made(_counted),
    cases=(
        Case("three words after nine, without a cache", _as_in_the_figure(False)),
        Case("three words after nine, with a cache", _as_in_the_figure(True)),
        Case("more tokens, without a cache", _drawn(False)),
        Case("more tokens, with a cache", _drawn(True)),
        Case("one new token, with a cache", _one_new(True), edge=0.2),
    ),
    hints=(
        "Set the slider to three words and count the squares row by row. Which token has no square in any row?",
        "How many rows are there for n new tokens? Without a cache, how much longer is each row than the one above it?",
        "Without a cache, add up n row lengths, of which the first is n0. With a cache, one row is as long as the prompt, and the other rows have "
        "a single square each.",
    ),
    misconceptions=(
        Misconception(
            "last_token_processed",
            "counted one run too many, as if the last new token were processed as well",
            "Which run writes the last token, and is there any need for another run after it?",
            Instead(runs=lambda n: n + 1),
        ),
        Misconception(
            "one_run_too_many_with_a_cache",
            "counted one token too many with a cache",
            "Compare your number with the squares in the figure, for one word written and for three.",
            lambda n0, n, cached: n0 + n if cached else ref.tokens_processed(n0, n, False),
        ),
        Misconception(
            "one_token_too_many",
            "counted one token too many, with a cache and without",
            "Count the squares of the figure for one word written. There is one run, with a cache as without, and it processes the prompt alone.",
            lambda n0, n, cached: ref.tokens_processed(n0, n, cached) + 1,
        ),
        Misconception(
            "prompt_not_counted",
            "left the prompt out of the count with a cache, although it has to be processed once",
            "Look at the first row of the figure with a cache.",
            Instead(prompt=lambda n0: 1),
            also=(Instead(prompt=lambda n0: 0),),
        ),
        Misconception(
            "prompt_alone_each_time",
            "counted the same number of tokens for every run without a cache, although the text grows",
            "Compare the first row of the figure without a cache with the second one.",
            lambda n0, n, cached: ref.tokens_processed(n0, n, True) if cached else n * n0,
        ),
        Misconception(
            "starts_one_late",
            "counted one token too many in every run without a cache",
            "How many squares has the first row of the figure, before anything has been written?",
            Instead(first=lambda n0: n0 + 1),
        ),
        Misconception(
            "starts_one_early",
            "counted one token too few in every run without a cache",
            "How many squares has the first row of the figure, before anything has been written?",
            Instead(first=lambda n0: n0 - 1),
        ),
        Misconception(
            "half_a_square",
            "counted half of the square of the new tokens without a cache, which is not quite the sum of the rows",
            "The rows grow from one to the next by a single token. Add up a few of them by hand and compare.",
            lambda n0, n, cached: ref.tokens_processed(n0, n, True) if cached else n * n0 + n * n // 2,
        ),
        Misconception(
            "whole_text_at_last",
            "counted only the last and longest run without a cache",
            "Every run processes its whole text, so all of them count.",
            lambda n0, n, cached: n0 + n - 1,
        ),
        Misconception(
            "squared",
            "squared the length of the text without a cache",
            "The first run doesn't process the whole final text. Look at how the rows of the figure grow.",
            lambda n0, n, cached: ref.tokens_processed(n0, n, True) if cached else (n0 + n - 1) ** 2,
            also=(lambda n0, n, cached: ref.tokens_processed(n0, n, True) if cached else (n0 + n) ** 2,),
        ),
        Misconception(
            "the_other_way_round",
            "swapped the two counts",
            "`cached=True` is the case in which each token is processed only once.",
            Instead(swapped=True),
        ),
    ),
    variants=(Variant("sum_of_lengths", _by_sum),),
)
