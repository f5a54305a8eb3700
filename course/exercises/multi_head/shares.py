"""Heads that copy, heads that only count, and heads that feed others."""

from autograder import Case, Draw, Exercise, Misconception, Prediction, Variant
from solutions import multi_head as ref


def _nothing(draw: Draw) -> dict[str, object]:
    return {}


def _blocks(count: int, size: int, turned=reversed):
    """Blocks of new tokens, and the same blocks in another order."""
    blocks = [list(range(size * b, size * (b + 1))) for b in range(count)]
    return [token for block in (*blocks, *turned(blocks)) for token in block]


def _gaps_that_grow():
    """Words of six tokens, each repeated after more and more tokens that never come again."""
    text, fresh = [], 100
    for number in range(4):
        word = [10 * number + i for i in range(6)]
        between = list(range(fresh, fresh + number))
        fresh += number
        text += word + between + word
    return text


PROBE_TEXT = Exercise(
    "probe_text",
    title="Design: a text that counting cannot pass",
    points=2,
    kind="design",
    difficulty=3,
    minutes=9,
    reference=ref.probe_text,
    behaviour="attention_course.designs:tells_reading_from_counting",
    cases=(Case("the text", _nothing),),
    hints=(
        "In `a b c a b c` every copy is three tokens after the original, so one lag is right everywhere. How can two parts of a text "
        "be repeated at *different* distances?",
        "Write some blocks of new tokens, for example A B C D E, and then the same blocks in another order. In which order does each block "
        "have a distance of its own? How many tests does a block of five tokens give?",
        "The order E D C B A gives the blocks five different distances. In a repeated block each token but the last is a test, so five "
        "blocks of five tokens give 5 · 4 tests, of which each lag passes a fifth.",
    ),
    misconceptions=(
        Misconception(
            "one_lag_passes",
            "repeated most of the text at the same distance, so a head with the right lag passes more than a quarter of the tests",
            "The distance from a token to its copy must vary. At least four distances are needed, each with a quarter of the tests.",
            lambda: [*range(30), *range(30)],
            also=(
                lambda: [*range(20)] * 3,
                lambda: [*range(10)] * 2 + [*range(10, 25)] * 2,
                lambda: _blocks(3, 10),
                lambda: _blocks(5, 5, turned=list),
            ),
        ),
        Misconception(
            "too_few_tests",
            "wrote fewer than 20 tests. A place counts as one if its token occurred exactly once before and the next token is the same at both places",
            "Repeat *runs* of tokens and not single ones. If the order within a run changes, what followed then does not follow now.",
            lambda: list(range(60)),
            also=(
                lambda: [*range(30), *reversed(range(30))],
                lambda: [*range(30), *range(0, 30, 2), *range(1, 30, 2)],
                lambda: [1, 2, 3] * 20,
                lambda: [1] * 60,
                lambda: _blocks(5, 4),
                lambda: _blocks(15, 2),
            ),
        ),
        Misconception(
            "too_long",
            "wrote more than 60 tokens",
            "Five distances with four tests each are enough. How many tokens does that take?",
            lambda: _blocks(8, 8),
            also=(lambda: [*range(40), *range(40)],),
        ),
    ),
    variants=(
        Variant("six_blocks", lambda: _blocks(6, 5)),
        Variant("four_blocks_of_six", lambda: _blocks(4, 6)),
        Variant("gaps_that_grow", _gaps_that_grow),
    ),
)

PREDICT_LAG = Prediction(
    "predict_lag",
    title="Predict: a head that only counts",
    points=0.5,
    minutes=2,
    choices={
        "a": "1 and 0, because in the second text the copy is farther away",
        "b": "1 and 1, because it finds what followed in both texts",
        "c": "0 and 0, because it does not read the tokens",
        "d": "about 1/2 and 1/2, because it is right in one of the two texts",
    },
    holds="a",
    reveal="**a.** In a text of 40 tokens that is read twice, what followed the same token is 39 positions back. In a text of 65 tokens it is 64 "
    "positions back, so a head that only counts attends to the wrong token every time. With a single length you could not tell such a head "
    "from one that reads.",
)

PREDICT_FEEDER = Prediction(
    "predict_feeder",
    title="Predict: knock out the heads that attend to the previous token",
    points=0.5,
    minutes=2,
    choices={
        "a": "it rises in both cases, but more without the three",
        "b": "it rises without 16.0, and it hardly changes without the other three",
        "c": "it hardly changes without 16.0, and it rises without the other three",
        "d": "it hardly changes in either case, because the heads that are left do the same job",
    },
    holds="b",
    reveal="**b.** All four heads attend to the previous token, but the copying depends on one of them. An attention map does not show who reads "
    "what a head has written.",
)
