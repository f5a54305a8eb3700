"""Lesson 07 kv_cache: storing keys and values, attending with a past, decoding with a cache, and what it costs."""

from autograder import Exercise
from course.exercises.kv_cache.attending import ATTEND_CACHED
from course.exercises.kv_cache.batches import BATCH_POSITIONS
from course.exercises.kv_cache.costs import CHATS_THAT_FIT, STEP_FLOPS
from course.exercises.kv_cache.decoding import CACHED_MODEL
from course.exercises.kv_cache.generation import GENERATE
from course.exercises.kv_cache.paging import SHARED_PAGES
from course.exercises.kv_cache.storage import KV_CACHE

PREDICT_CLOCK = Exercise(
    "predict_clock",
    title="Predict: 512 tokens, by the clock",
    points=0.5,
    difficulty=1,
    minutes=3,
    choices={
        "a": "about 1/500: time goes with operations",
        "b": "about 1/10 to 1/60",
        "c": "about the same time: the same weights are involved",
    },
    holds="b",
    reveal="**b** on most machines: 1/20 to 1/40 on one core of the machine that made this page. Time goes with operations only while the processor has nothing else to "
    "wait for. A full pass uses each weight that it reads for 512 tokens; a cached step reads all of them for one. So the step is "
    "bound by reading, and its 512 times fewer operations do not make it 512 times faster. On a machine with faster arithmetic "
    "and the same memory the gain is smaller still.",
)

EXERCISES = (
    KV_CACHE,
    PREDICT_CLOCK,
    ATTEND_CACHED,
    CACHED_MODEL,
    GENERATE,
    STEP_FLOPS,
    CHATS_THAT_FIT,
    BATCH_POSITIONS,
    SHARED_PAGES,
)
