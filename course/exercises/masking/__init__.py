"""Lesson 04 masking: which keys a query may see, how to tell the softmax, and what to do when none is left."""

from autograder import Exercise
from course.exercises.masking.attention import MASKED_SDPA
from course.exercises.masking.cross import CROSS_ATTENTION
from course.exercises.masking.layer import CAUSAL_LAYER
from course.exercises.masking.masks import CAUSAL_MASK, PADDING_MASK
from course.exercises.masking.packed import PACKED_MASK
from course.exercises.masking.scores import CHEATING_LOSS

PREDICT_EMPTY_ROW = Exercise(
    "predict_empty_row",
    title="Predict: what does -1e9 make of an empty row?",
    points=0.5,
    minutes=2,
    choices={
        "a": "NaN: there is nothing to normalise",
        "b": "zeros: all weights vanish",
        "c": "the plain mean of all values, the forbidden ones included",
        "d": "the usual weighted average, as if there were no mask",
    },
    holds="c",
    reveal="**c.** The softmax knows only differences. Where **all** scores are -1e9 they are all equal, so the weights are uniform and "
    "the query gets the mean of exactly those values that it must not see. With -inf the answer is **a**; PyTorch's builtin "
    "returns **b**. And adding -1e9 in float64, instead of filling it in, gives **d**: the scores survive the addition, "
    "the shift cancels, and the mask has no effect on that row at all.",
)

PREDICT_DECODE = Exercise(
    "predict_decode",
    title="Predict: one new query, five keys, is_causal=True",
    points=0.5,
    minutes=2,
    choices={
        "a": "all five keys: the newest position may look at everything so far",
        "b": "the first key only",
        "c": "the last key only, its own position",
        "d": "none: the shapes do not fit, so an error is raised",
    },
    holds="b",
    reveal="**b.** `is_causal=True` aligns the triangle at the **top left** corner: query 0 sees key 0. With as many queries as keys that "
    "is right. With one query and five keys it hides all keys but the oldest, and nothing warns you. Align at the bottom right: "
    "$j \\le i + (n_k - n_q)$.",
)

EXERCISES = (
    CAUSAL_MASK,
    PADDING_MASK,
    PREDICT_EMPTY_ROW,
    MASKED_SDPA,
    PREDICT_DECODE,
    PACKED_MASK,
    CHEATING_LOSS,
    CAUSAL_LAYER,
    CROSS_ATTENTION,
)
