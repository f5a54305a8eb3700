"""Chapter 07: storing keys and values, when a cache is valid, and what it saves and takes."""

from autograder import Prediction
from course.exercises.kv_cache.attending import ATTEND_CACHED
from course.exercises.kv_cache.costs import BYTES_PER_TOKEN, SCORES_OUTGROW_CACHE, STEP_FLOPS
from course.exercises.kv_cache.counting import TOKENS_PROCESSED
from course.exercises.kv_cache.decoding import CACHED_MODEL
from course.exercises.kv_cache.storage import KV_CACHE

PREDICT_CLOCK = Prediction(
    "predict_clock",
    title="Predict: how much faster?",
    points=0.5,
    difficulty=1,
    minutes=2,
    choices={
        "a": "about 1/500 of the time, because it takes 1/512 of the operations",
        "b": "about 1/10 to 1/60 of the time",
        "c": "about the same time, because the same weights take part",
    },
    holds="b",
    reveal="**b** on most machines. Time follows the number of operations only while the processor waits for nothing else. A full pass uses "
    "each weight that it reads for 512 tokens, while a cached step reads all 538 MB of weights for a single one, in some two hundred "
    "products of a matrix and one vector that use the processor poorly. On a machine with faster arithmetic and the same memory, the gain is smaller still.",
)

PREDICT_GROWTH = Prediction(
    "predict_growth",
    title="Predict: twice the text",
    points=0.5,
    difficulty=2,
    minutes=2,
    choices={
        "a": "twice as many, because the work of a step is linear",
        "b": "four times as many, because there are also twice as many steps",
        "c": "eight times as many, because all tokens meet at each step",
    },
    holds="b",
    reveal="**b.** With the cache, step t compares one query with t keys, and 1 + 2 + … + n grows like n²/2. Without the cache, step t "
    "compares t queries with t keys, and the sum of t² grows like n³/3, so twice the text has **eight** times as many scores.",
)

PREDICT_CAT = Prediction(
    "predict_cat",
    title="Predict: a buffer or torch.cat",
    points=0.5,
    difficulty=2,
    minutes=2,
    choices={
        "a": "about 1,000 times as many bytes, as the writes suggest",
        "b": "about three times as many bytes, since attention reads it too",
        "c": "about as many bytes, since reading dominates",
    },
    holds="b",
    reveal="**b.** Attention reads the whole cache at every step in either case. `torch.cat` also reads the old cache and writes the new one, "
    "so the cache travels three times per step instead of once.",
)

EXERCISES = (
    TOKENS_PROCESSED,
    KV_CACHE,
    PREDICT_CLOCK,
    ATTEND_CACHED,
    CACHED_MODEL,
    STEP_FLOPS,
    PREDICT_GROWTH,
    BYTES_PER_TOKEN,
    SCORES_OUTGROW_CACHE,
    PREDICT_CAT,
)
