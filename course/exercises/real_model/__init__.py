"""Lesson 11 real_model: the learner's own attention in a trained language model."""

from autograder import Exercise
from course.exercises.real_model.attention import GROUPED_ATTENTION
from course.exercises.real_model.decoder import LLAMA
from course.exercises.real_model.measuring import KV_BYTES_PER_TOKEN, PERPLEXITY

PREDICT_BUG = Exercise(
    "predict_bug",
    title="Predict: the dearest mistake",
    points=0.5,
    choices={
        "a": "no positions at all",
        "b": "rotary positions in the half-split layout",
        "c": "scores not divided by anything",
        "d": "scores divided by d instead of its root",
        "e": "heads dealt to groups by h mod G",
    },
    reveal="**e**, by far. Six of nine heads then read keys and values that were made for other queries, and every layer passes the damage on. "
    "Without positions the model still knows *which* words stand before, and pays a factor of about twenty.",
)

EXERCISES = (
    GROUPED_ATTENTION,
    LLAMA,
    KV_BYTES_PER_TOKEN,
    PREDICT_BUG,
    PERPLEXITY,
)
