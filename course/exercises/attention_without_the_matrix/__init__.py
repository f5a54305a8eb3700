"""Workshop 08b: attention that never builds the (query, key) matrix."""

from autograder import Prediction
from course.exercises.attention_without_the_matrix.counting import CHOOSE_TILE
from course.exercises.attention_without_the_matrix.merging import MERGE
from course.exercises.attention_without_the_matrix.tiles import TILED_ATTENTION

PREDICT_LINEAR = Prediction(
    "predict_linear",
    title="Predict: twice the length",
    points=0.5,
    difficulty=1,
    minutes=1,
    choices={
        "a": "memory and time both double",
        "b": "memory doubles, and time grows about fourfold",
        "c": "memory and time both grow fourfold",
    },
    holds="b",
    reveal="The largest tensor is now a strip or a tile, so it grows like n. But every query still meets every earlier key, so the number of "
    "products grows like n², and time with it.",
)

EXERCISES = (TILED_ATTENTION, CHOOSE_TILE, PREDICT_LINEAR, MERGE)
