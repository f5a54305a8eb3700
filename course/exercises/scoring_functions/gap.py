"""What the step from the Gaussian to the dot product costs."""

from autograder import Exercise

PREDICT_DROP = Exercise(
    "predict_drop",
    title="Predict: without the key norms",
    points=0.5,
    choices={
        "a": "by less than 0.01",
        "b": "by about a quarter",
        "c": "by nearly 1",
        "d": "not at all, up to rounding",
    },
    holds="b",
    reveal="By about a quarter: 0.24 in the median of such draws, and 0.56 in the worst of 300. Half the squared norm varies from "
    "key to key 0.7 times as much as the dot product does. Only where all keys have the same norm is the answer (d), and only "
    "without the division by the root of d is it (c).",
)
