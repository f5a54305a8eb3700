"""Chapter 04: the causal mask, padding and packed texts, queries that may see nothing, and how to find a leak."""

from autograder import Prediction
from course.exercises.masking.attention import MASKED_ATTENTION, MASKED_SDPA
from course.exercises.masking.layer import CAUSAL_LAYER
from course.exercises.masking.masks import CAUSAL_MASK, PADDING_MASK
from course.exercises.masking.packed import PACKED_MASK
from course.exercises.masking.revealing import REVEALING_CHANGE
from course.exercises.masking.scores import CHEATING_LOSS

PREDICT_WITHOUT_FUTURE = Prediction(
    "predict_without_future",
    title="Predict: the loss without the future",
    points=0.5,
    minutes=2,
    choices={
        "a": "about 0.1, as before",
        "b": "about 1.5, because the model has half of each text on average",
        "c": "about 2.83, which is the loss of an even guess",
        "d": "far above 2.83",
    },
    holds="d",
    reveal="**d.** It is about 6. A model that knows nothing could at least guess evenly and get 2.83, but this model is *sure*. It has "
    "learned to copy what it finds at the next position, and when that position is missing it copies something else with the same confidence.",
)

PREDICT_EMPTY_ROW = Prediction(
    "predict_empty_row",
    title="Predict: what does -1e9 make of an empty row?",
    points=0.5,
    minutes=2,
    choices={
        "a": "NaN, because there is nothing to normalise",
        "b": "zeros, because all of its weights vanish",
        "c": "the plain mean of all values, the forbidden ones included",
        "d": "the usual weighted average, as if there were no mask",
    },
    holds="c",
    reveal="**c.** The softmax knows only the differences between scores. If **all** scores are -1e9 they are all equal, so the weights are "
    "uniform and the query gets the mean of exactly those values that it must not see. With $-\\infty$ the answer is **a**, and PyTorch's own "
    "attention returns **b**. If you *add* -1e9 in float64 instead of filling it in, you get **d**, because the scores survive the addition "
    "and the shift cancels.",
)

PREDICT_DECODE = Prediction(
    "predict_decode",
    title="Predict: one new query, five keys, is_causal=True",
    points=0.5,
    minutes=2,
    choices={
        "a": "all five keys, because the newest position may attend to everything so far",
        "b": "the first key only, which is the oldest",
        "c": "the last key only, which is its own position",
        "d": "none, because the shapes don't fit and an error is raised",
    },
    holds="b",
    reveal="**b.** `is_causal=True` aligns the triangle at the **top left** corner, where query 0 sees key 0. With as many queries as keys "
    "that is right. With one query and five keys it hides all keys except the oldest, without a warning. The right alignment is at the "
    "bottom right, $j \\le i + (n_k - n_q)$.",
)

PREDICT_LATE_MASK = Prediction(
    "predict_late_mask",
    title="Predict: a mask after the softmax",
    points=0.5,
    minutes=2,
    choices={
        "a": "none, because a weight of 0 lets nothing through",
        "b": "all outputs except the last one",
        "c": "the first only, because it has lost the most weight",
        "d": "none as it is, but they would if you divided by the new sum",
    },
    holds="b",
    reveal="**b.** The softmax divided each weight by a sum over all keys, and that sum contains the scores of the future. Each output is the "
    "right one times a factor that depends on every later token. A division by the new sum would cancel this factor, so it would remove the "
    "leak, up to rounding. The last output has no later token.",
)

EXERCISES = (
    PREDICT_WITHOUT_FUTURE,
    CHEATING_LOSS,
    CAUSAL_MASK,
    MASKED_ATTENTION,
    PADDING_MASK,
    PREDICT_EMPTY_ROW,
    MASKED_SDPA,
    PREDICT_DECODE,
    PACKED_MASK,
    PREDICT_LATE_MASK,
    CAUSAL_LAYER,
    REVEALING_CHANGE,
)
