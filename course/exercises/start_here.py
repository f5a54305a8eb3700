"""Lesson 00 start_here: one simple exercise that shows how checks work."""

import numpy as np

from autograder import Case, Draw, Exercise, Misconception, Prediction, Variant
from solutions import start_here as ref


def _values(draw: Draw) -> dict[str, np.ndarray]:
    m, d_v = draw.sizes(2, low=3, high=7)
    return {"V": draw.normal(m, d_v) + 1.0}


def _one_row(draw: Draw) -> dict[str, np.ndarray]:
    return {"V": draw.normal(1, 5)}


def _loop(V):
    total = np.zeros(V.shape[1])
    for row in V:
        total = total + row
    return total / len(V)


def _in_place(V):
    for row in V[1:]:
        V[0] += row
    return V[0] / len(V)


EXERCISES = (
    Prediction(
        "predict_shape",
        title="Predict the shape of an average",
        points=0.5,
        choices={
            "a": "(3,), one number for each item",
            "b": "(2,), one number for each component",
            "c": "a single number for all values and components together",
        },
        holds="b",
        reveal="The average of vectors is a vector of the same kind. The axis of the items disappears and the components stay, so the shape is (2,).",
    ),
    Exercise(
        "average_pool",
        title="Average the values",
        points=1,
        difficulty=1,
        minutes=5,
        reference=ref.average_pool,
        cases=(Case("a few rows", _values), Case("one row", _one_row)),
        hints=(
            "Each **row** of `V` is one value. How many numbers should their average hold?",
            "Add the rows and divide by how many there are. In NumPy, `axis=0` runs down the rows.",
            "NumPy's `mean` does both steps at once if you tell it which axis should disappear.",
        ),
        misconceptions=(
            Misconception(
                "averaged_within_rows",
                "averaged the entries *inside* each row, which leaves one number per row",
                "Average over the rows. With `axis=0` the row axis disappears and the columns stay.",
                lambda V: V.mean(axis=1),
            ),
            Misconception(
                "averaged_everything",
                "averaged all entries into a single number",
                "Without an `axis`, NumPy averages the whole array. Tell it which axis should disappear.",
                lambda V: V.mean(),
            ),
            Misconception(
                "forgot_to_divide",
                "added the rows but did not divide by how many there are",
                "Divide the sum by the number of rows, `len(V)`, so that the weights add up to 1.",
                lambda V: V.sum(axis=0),
            ),
            Misconception(
                "divided_by_columns",
                "divided the sum of the rows by the number of *columns*",
                "The mean divides by how many values there are, and each value is a row: `len(V)`.",
                lambda V: V.sum(axis=0) / V.shape[1],
            ),
            Misconception(
                "size_of_the_example",
                "divided by 3, the number of rows in one example, whatever `V` holds",
                "Other inputs have other sizes. `len(V)` is the number of rows of the `V` that you were given.",
                lambda V: V.sum(axis=0) / 3,
            ),
            Misconception(
                "changed_the_input",
                "computed the right mean but changed the caller's `V` on the way",
                "Build the result in a new array, because whoever called your function still needs `V`.",
                _in_place,
            ),
        ),
        variants=(
            Variant("mean", lambda V: V.mean(axis=0)),
            Variant("loop", _loop),
            Variant("uniform_weights", lambda V: np.full(len(V), 1 / len(V)) @ V),
        ),
    ),
)
