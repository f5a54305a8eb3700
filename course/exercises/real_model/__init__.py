"""Lesson 11 real_model: the learner's own attention in a trained language model."""

from autograder import Exercise
from course.exercises.real_model.attention import GROUPED_ATTENTION
from course.exercises.real_model.comparing import FIRST_DIFFERENCE
from course.exercises.real_model.decoder import LLAMA
from course.exercises.real_model.measuring import PERPLEXITY
from course.exercises.real_model.porting import FROM_HUGGING_FACE
from course.exercises.real_model.reading import SINK_STRENGTH

PREDICT_BUG = Exercise(
    "predict_bug",
    title="Predict: worse than a blind guess",
    points=0.5,
    difficulty=1,
    minutes=1,
    choices={
        "a": "none of them (the model still knows which words there are)",
        "b": "one",
        "c": "more than one",
    },
    holds="b",
    reveal="**One**: the heads dealt to groups by h mod G. Six of nine heads then read keys and values that were made for other "
    "queries, every layer passes the damage on, and the model is *sure* of wrong words. Without positions it still knows *which* words "
    "stand before, and pays a factor of about twenty.",
)

EXERCISES = (
    GROUPED_ATTENTION,
    LLAMA,
    FROM_HUGGING_FACE,
    FIRST_DIFFERENCE,
    PERPLEXITY,
    PREDICT_BUG,
    SINK_STRENGTH,
)
