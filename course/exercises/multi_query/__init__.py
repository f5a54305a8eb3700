"""Lesson 08 multi_query: one set of keys and values for all heads, and the memory traffic that it saves."""

from autograder import Exercise
from course.exercises.multi_query.attention import MQA
from course.exercises.multi_query.costs import ARITHMETIC_INTENSITY, DECODE_TIME_FLOOR
from course.exercises.multi_query.estimates import CRITICAL_BATCH, LONGEST_CONTEXT, TOKENS_A_SECOND
from course.exercises.multi_query.step import MQA_STEP

PREDICT_HEADS = Exercise(
    "predict_heads",
    title="Predict: 32, 8 and 1 heads of keys and values",
    points=0.5,
    difficulty=1,
    minutes=3,
    choices={
        "a": "all three alike: the operations are the same",
        "b": "8 heads take a quarter to a third of the time, 1 head about a tenth to a twentieth",
        "c": "8 heads take a quarter to a third of the time, 1 head about a 32nd",
    },
    holds="b",
    reveal="**b**, on most processors. With 32 heads and with 8 the step waits for memory, so a quarter of the bytes takes little more than a quarter of "
    "the time. With 1 head the bytes are a 32nd, and then the arithmetic, which has stayed the same, takes longer than the reading.",
)

PREDICT_BATCH = Exercise(
    "predict_batch",
    title="Predict: does a larger batch help?",
    points=0.5,
    difficulty=1,
    minutes=2,
    choices={
        "a": "everything is read once for the whole batch, so the time per token falls towards 0",
        "b": "at first it falls; then it stays at the time that it takes to read one sequence's cache",
        "c": "no gain: twice the sequences take twice the time from the start",
    },
    holds="b",
    reveal="**b.** The parameters are read once for the whole batch: their share of each token falls like 1/B. But each sequence "
    "brings a cache of its own, and that is read for nobody else. So the time per token falls to the time of one cache, and "
    "no batch brings it lower. Only a smaller cache does.",
)

PREDICT_TRAINING = Exercise(
    "predict_training",
    title="Predict: training and decoding with MQA",
    points=0.5,
    difficulty=1,
    minutes=2,
    choices={
        "a": "both became several times faster",
        "b": "training became faster, decoding stayed about as it was",
        "c": "training stayed about as it was, decoding became several times faster",
        "d": "both stayed about as they were: the FLOPs are the same",
    },
    holds="c",
    reveal="**c.** Shazeer (2019, table 2) measured 13.2 → 13.0 µs per token in training and 46 → 3.8 µs in the decoder. In "
    "training all positions are processed at once: keys that were read serve many queries, so their bytes hardly matter. In "
    "decoding they serve one query per head, and the bytes are nearly all of the cost.",
)

EXERCISES = (
    TOKENS_A_SECOND,
    MQA,
    PREDICT_HEADS,
    MQA_STEP,
    ARITHMETIC_INTENSITY,
    PREDICT_TRAINING,
    PREDICT_BATCH,
    DECODE_TIME_FLOOR,
    CRITICAL_BATCH,
    LONGEST_CONTEXT,
)
