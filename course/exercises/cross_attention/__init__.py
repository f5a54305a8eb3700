"""Workshop 04d: one sequence that reads another."""

from autograder import Prediction
from course.exercises.cross_attention.masks import THREE_MASKS
from course.exercises.cross_attention.reading import CROSS_ATTENTION
from course.exercises.cross_attention.shifting import SHIFTED

PREDICT_ALONE = Prediction(
    "predict_alone",
    title="Predict: a date without company",
    points=0.5,
    difficulty=1,
    minutes=1,
    choices={
        "a": "both numbers are low, because training without a mask fails",
        "b": "both numbers are high, because the model learns that a blank means nothing",
        "c": "the first number is high and the second is clearly lower",
        "d": "the first number is low and the second is high, because nothing distracts the model any more",
    },
    holds="c",
    reveal="**c.** In training almost every date shared its batch with a longer one, so the model learned to count on blanks behind the "
    "date. A date alone has none, and the weights that went to the blanks now go elsewhere. The answer depends on who shares the batch.",
)

EXERCISES = (CROSS_ATTENTION, THREE_MASKS, SHIFTED, PREDICT_ALONE)
