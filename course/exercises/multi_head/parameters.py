"""What heads cost, in time and in parameters."""

from autograder import Exercise

PREDICT_LOOP = Exercise(
    "predict_loop",
    title="Predict: the clock",
    points=0.5,
    minutes=1,
    choices={
        "a": "hardly any difference: the multiplications are the same",
        "b": "clearly faster on the short text, and on the long one the advantage is gone",
        "c": "about 16 times faster, whatever the length",
    },
    holds="b",
    reveal="**b.** The arithmetic is the same. What the loop pays is the cost of *starting* each operation, some microseconds, for every "
    "head: on a short text that is most of the time. With 1,024 tokens the products are so large that starting them no longer "
    "matters. The loop may even win there: the scores of one head are 4 MiB, which a processor keeps close by, those of 16 heads are "
    "64 MiB. (On a GPU small products leave most of it idle.)",
)

PREDICT_PARAMS = Exercise(
    "predict_params",
    title="Predict: one head or eight",
    points=0.5,
    minutes=1,
    choices={
        "a": "8 times as many parameters, 8 times the work",
        "b": "as many parameters, and nearly the same work",
        "c": "an eighth of the parameters, because each head is an eighth as wide",
        "d": "as many parameters, and 8 times the work",
    },
    holds="b",
    reveal="**b.** Eight heads of width 64 have the same four 512 × 512 matrices as one head of width 512. The products with them "
    "cost the same, and so do the scores: n² dot products of length 512 against 8 n² of length 64. Only the softmax works more: "
    "8 n² weights instead of n².",
)
