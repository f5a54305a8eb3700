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
    title="Predict: the most expensive mistake",
    points=0.5,
    difficulty=1,
    minutes=1,
    choices={
        "a": "no positions at all",
        "b": "rotary positions in the half-split layout",
        "c": "scores not divided by anything",
        "d": "scores divided by d instead of its root",
        "e": "heads dealt to groups by h mod G",
    },
    holds="e",
    reveal="**e**, by far. Six of nine heads then read keys and values that were made for other queries, and every layer passes the damage on. "
    "Without positions the model still knows *which* words stand before, and pays a factor of about twenty.",
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
