"""Lesson 07 kv_cache: storing keys and values, attending with a past, decoding with a cache, and what it costs."""

from autograder import Exercise
from course.exercises.kv_cache.attending import ATTEND_CACHED
from course.exercises.kv_cache.costs import ATTENTION_FLOPS, CACHE_BYTES
from course.exercises.kv_cache.decoding import CACHED_MODEL
from course.exercises.kv_cache.generation import GENERATE
from course.exercises.kv_cache.storage import KV_CACHE

PREDICT_OFFSET = Exercise(
    "predict_offset",
    title="Predict: positions that start at 100",
    points=0.5,
    choices={
        "a": "they stay the same, up to rounding",
        "b": "they change a little: position 100 rotates by another angle than position 0",
        "c": "they become useless: the model never saw a text begin at position 100",
    },
    reveal="**a.** RoPE rotates the query at position i and the key at position j; their dot product depends on i − j alone. "
    "Shift *all* positions by 100, and every difference stays. What breaks a decoder is a shift of **some** tokens: new tokens "
    "that count from 0 again, or one off. So test a decoder against a full forward pass, over several steps. A look at its "
    "first token shows nothing.",
)

PREDICT_RATIO = Exercise(
    "predict_ratio",
    title="Predict: what does the cache save?",
    points=0.5,
    choices={
        "a": "2 times: keys and values are not computed again",
        "b": "about √n times",
        "c": "n times",
        "d": "n² times: the scores were an n × n matrix",
    },
    reveal="**c.** Without the cache all n tokens are processed; with it, one. Every product has n times as many rows, so the "
    "ratio is exactly n: for the projections (n rows against 1) and for the scores (n × n against 1 × n) alike.",
)

EXERCISES = (
    KV_CACHE,
    ATTEND_CACHED,
    PREDICT_OFFSET,
    CACHED_MODEL,
    GENERATE,
    PREDICT_RATIO,
    ATTENTION_FLOPS,
    CACHE_BYTES,
)
