"""Lesson 09 grouped_query: a number of key-value heads between one and all."""

from autograder import Exercise
from course.exercises.grouped_query.attention import GQA
from course.exercises.grouped_query.bill import CACHE_BILL, CONVERSATIONS
from course.exercises.grouped_query.folded import GQA_GROUPED, GROUPED_CHUNK
from course.exercises.grouped_query.pooling import MHA_TO_GQA

PREDICT_COPY = Exercise(
    "predict_copy",
    title="Predict: the bytes of a copy",
    points=0.5,
    difficulty=1,
    minutes=2,
    choices={
        "a": "a quarter: 8 heads are cached instead of 32",
        "b": "the same: after the copy there are 32 heads again",
        "c": "more than twice as many",
    },
    holds="c",
    reveal="**c.** The 8 cached heads are read, 32 heads are written, and attention then reads these 32: 8 + 32 + 32 = 72 heads' worth of "
    "bytes, where multi-head attention reads 32. That is 2.25 times the traffic, for a step whose time *is* its traffic. The "
    "cache is four times smaller all the same. To be faster as well, a step must not make the copy.",
)

PREDICT_EIGHT = Exercise(
    "predict_eight",
    title="Predict: eight groups",
    points=0.5,
    difficulty=1,
    minutes=2,
    choices={
        "a": "about 0.28 s: close to one group",
        "b": "about 0.38 s: on the straight line between 1 and 64 groups",
        "c": "about 0.9 s: in the middle",
    },
    holds="a",
    reveal="**a**, 0.28 s, and nearly the quality of 64 groups: 47.1 against 47.2 (Ainslie et al., 2023, table 1). The time lies far below "
    'the straight line. It was taken on eight chips: see "Why eight?".',
)

EXERCISES = (
    GQA,
    PREDICT_COPY,
    CONVERSATIONS,
    GQA_GROUPED,
    GROUPED_CHUNK,
    CACHE_BILL,
    PREDICT_EIGHT,
    MHA_TO_GQA,
)
