"""Chapter 08: what a decode step waits for, one set of keys and values for all heads, and the time of a whole step."""

from autograder import Prediction
from course.exercises.multi_query.attention import MQA
from course.exercises.multi_query.costs import ARITHMETIC_INTENSITY, DECODE_TIME_FLOOR
from course.exercises.multi_query.estimates import CONTEXT_FOR_TWICE, LARGEST_BATCH
from course.exercises.multi_query.step import MQA_STEP

PREDICT_HEADS = Prediction(
    "predict_heads",
    title="Predict: one set for 32 queries",
    points=0.5,
    difficulty=1,
    minutes=2,
    choices={
        "a": "it stays the same, because the FLOPs do",
        "b": "it falls, and fewer bytes are the whole reason",
        "c": "it falls, and fewer bytes are only one of the reasons",
    },
    holds="c",
    reveal="**c.** The bytes fall to a 32nd. But the 32 queries have also become the rows of one matrix, so 32 products of a vector and a "
    "matrix have become one product of two matrices, which a processor does much better. The next cell measures the two effects one by one.",
)

PREDICT_TRAINING = Prediction(
    "predict_training",
    title="Predict: training and decoding with MQA",
    points=0.5,
    difficulty=1,
    minutes=2,
    choices={
        "a": "training and decoding both became several times faster",
        "b": "training became faster, decoding stayed about the same",
        "c": "training stayed about the same, decoding became several times faster",
        "d": "both stayed about the same, because the FLOPs did",
    },
    holds="c",
    reveal="**c.** Per token, training took 13.2 µs with multi-head and 13.0 µs with multi-query attention, and the decoder took 46 and 3.8 µs "
    "(Shazeer 2019, table 2). In training all positions are processed at once, so each key that is read serves many queries. In decoding "
    "it serves one query per head.",
)

PREDICT_BATCH = Prediction(
    "predict_batch",
    title="Predict: larger and larger batches",
    points=0.5,
    difficulty=1,
    minutes=2,
    choices={
        "a": "it stops falling long before 153, near the time that it takes to read one cache",
        "b": "it falls up to a batch of 153, where the arithmetic takes over",
        "c": "it falls for ever, because everything is read once for the whole batch",
    },
    holds="a",
    reveal="**a.** The parameters are read once for the whole batch, so their share of a token's time falls like 1/B. But each user brings a "
    "cache of its own, and nobody else can use what is read from it. No batch can push the time per token below the time of one cache.",
)

PREDICT_EXPERTS = Prediction(
    "predict_experts",
    title="Predict: a critical batch with experts",
    points=0.5,
    difficulty=2,
    minutes=2,
    choices={
        "a": "about 14, because each token computes with fewer parameters",
        "b": "153 again, because it depends only on the chip",
        "c": "about 1,700, because each token computes with fewer parameters",
    },
    holds="c",
    reveal="**c.** Reading 236 billion parameters takes as long as before, but a token keeps the arithmetic busy with only 21 billion. So it takes "
    "236/21, about eleven times as many tokens, until arithmetic takes as long as reading.",
)

EXERCISES = (
    MQA,
    MQA_STEP,
    PREDICT_HEADS,
    CONTEXT_FOR_TWICE,
    ARITHMETIC_INTENSITY,
    PREDICT_TRAINING,
    DECODE_TIME_FLOOR,
    PREDICT_BATCH,
    LARGEST_BATCH,
    PREDICT_EXPERTS,
)
