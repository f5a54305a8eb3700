"""Predictions about dot products: what a lost term changes, and which key can never win."""

from autograder import Prediction

PREDICT_DROP = Prediction(
    "predict_drop",
    title="Predict: without the key norms",
    points=0.5,
    choices={
        "a": "it changes by less than 0.01",
        "b": "it changes by about a quarter",
        "c": "it changes by nearly 1",
        "d": "it does not change at all, up to rounding",
    },
    holds="b",
    reveal="The weight changes by about a quarter: by 0.24 in the median of such draws and by 0.56 in the largest of 300. From key to key, half "
    "the squared norm varies 0.7 times as much as the dot product does. The answer would be (d) if all keys had the same norm, and (c) "
    "without the division by the root of d.",
)

PREDICT_INSIDE = Prediction(
    "predict_inside",
    title="Predict: the key in the middle",
    points=0.5,
    choices={
        "a": "questions that point from the origin at *it*",
        "b": "short questions, which ask for something near the origin",
        "c": "no question at all, whatever its direction and length",
    },
    holds="c",
    reveal="No question finds *it*. A dot product asks which word lies farthest in the direction of the question, and a point inside the "
    "polygon of the others is never the farthest. The length of a question changes all scores by the same factor, so it changes how "
    "much weight the winner gets but not who wins.",
)
