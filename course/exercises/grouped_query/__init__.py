"""Chapter 09: a number of key-value heads between one and all, attention without copies, and the choice of a number."""

from autograder import Prediction
from course.exercises.grouped_query.attention import GQA, WITH_MORE_GROUPS
from course.exercises.grouped_query.bill import CARDS_NEEDED, SHARE_KEPT
from course.exercises.grouped_query.chips import MOST_ON_A_CHIP
from course.exercises.grouped_query.folded import GQA_GROUPED, GROUPED_CHUNK
from course.exercises.grouped_query.pooling import MHA_TO_GQA

PREDICT_COPY = Prediction(
    "predict_copy",
    title="Predict: the bytes of a copy",
    points=0.5,
    difficulty=1,
    minutes=2,
    choices={
        "a": "a quarter, because 8 heads are cached instead of 32",
        "b": "the same, because after the copy there are 32 heads again",
        "c": "more than twice as many",
    },
    holds="c",
    reveal="**c.** The step reads the 8 cached heads, writes 32 heads, and attention then reads these 32. Together that is "
    "8 + 32 + 32 = 72 heads' worth of bytes, 2.25 times as many as the 32 that multi-head attention reads.",
)

PREDICT_BROADCAST = Prediction(
    "predict_broadcast",
    title="Predict: where does a broadcast copy?",
    points=0.5,
    difficulty=2,
    minutes=2,
    choices={
        "a": "nowhere",
        "b": "everywhere except for one text with one group",
        "c": "everywhere",
        "d": "only where there is more than one group",
    },
    holds="b",
    reveal="**b.** `torch.matmul` multiplies stacks of matrices, so it first expands both stacks to the same shape, and an expanded stack of "
    "keys is a copy. With one text and one group, the expanded stack repeats a single matrix, so it can stay a view of the cache.",
)

PREDICT_EIGHT = Prediction(
    "predict_eight",
    title="Predict: the time of eight groups",
    points=0.5,
    difficulty=1,
    minutes=2,
    choices={
        "a": "about 0.28 s, close to one group",
        "b": "about 0.38 s, on the straight line between 1 and 64 groups",
        "c": "about 0.9 s, in the middle",
    },
    holds="a",
    reveal="**a**, 0.28 s (Ainslie et al., 2023, table 1). If each of eight chips must store a whole group anyway, a chip reads as many keys "
    "and values with eight groups as with one.",
)

PREDICT_MMLU = Prediction(
    "predict_mmlu",
    title="Predict: what could the test have shown?",
    points=0.5,
    difficulty=2,
    minutes=3,
    choices={
        "a": "no loss worth mentioning, because 1.5 points are small beside 28",
        "b": "hardly anything, because a guess scores 25 and only 3 points could be lost",
        "c": "that the larger model is more robust, because it lost fewer points than the smaller one",
    },
    holds="b",
    reveal="**b.** MMLU has four answers to each question, so the multi-head model is only 3 points above a guess, and no version could have "
    "lost the 7.3 points of the other experiment. Next, count in shares instead of points.",
)

EXERCISES = (
    GQA,
    WITH_MORE_GROUPS,
    MOST_ON_A_CHIP,
    PREDICT_COPY,
    PREDICT_BROADCAST,
    GQA_GROUPED,
    GROUPED_CHUNK,
    CARDS_NEEDED,
    PREDICT_MMLU,
    SHARE_KEPT,
    PREDICT_EIGHT,
    MHA_TO_GQA,
)
