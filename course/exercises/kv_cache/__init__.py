"""Lesson 07 kv_cache: storing keys and values, attending with a past, decoding with a cache, and what it costs."""

from autograder import Exercise
from course.exercises.kv_cache.attending import ATTEND_CACHED, BATCH_POSITIONS
from course.exercises.kv_cache.costs import CATCH_UP, CHATS_THAT_FIT, STEP_FLOPS
from course.exercises.kv_cache.decoding import CACHED_MODEL
from course.exercises.kv_cache.generation import GENERATE
from course.exercises.kv_cache.paging import SHARED_PAGES
from course.exercises.kv_cache.storage import KV_CACHE

PREDICT_OFFSET = Exercise(
    "predict_offset",
    title="Predict: positions that start at 100",
    points=0.5,
    difficulty=1,
    minutes=2,
    choices={
        "a": "they stay the same, up to rounding",
        "b": "they change a little: position 100 rotates by another angle than position 0",
        "c": "they become useless: the model never saw a text begin at position 100",
    },
    holds="a",
    reveal="**a.** RoPE rotates the query at position i and the key at position j; their dot product depends on i − j alone. "
    "Shift *all* positions by 100, and every difference stays. What breaks a decoder is a shift of **some** tokens: new tokens "
    "that count from 0 again, or one off. So test a decoder against a full forward pass, over several steps. A look at its "
    "first token shows nothing.",
)

PREDICT_CLOCK = Exercise(
    "predict_clock",
    title="Predict: 512 tokens, by the clock",
    points=0.5,
    difficulty=1,
    minutes=3,
    choices={
        "a": "about 1/500: time goes with operations",
        "b": "about 1/10 to 1/40",
        "c": "about the same time: the same weights are involved",
    },
    holds="b",
    reveal="**b** on most machines: about 1/25 on one core of the machine that made this page. Time goes with operations only while the processor has nothing else to "
    "wait for. A full pass uses each weight that it reads for 512 tokens; a cached step reads all of them for one. So the step is "
    "bound by reading, and its 512 times fewer operations do not make it 512 times faster. On a machine with faster arithmetic "
    "and the same memory the gain is smaller still.",
)

EXERCISES = (
    KV_CACHE,
    ATTEND_CACHED,
    PREDICT_OFFSET,
    CACHED_MODEL,
    GENERATE,
    STEP_FLOPS,
    CATCH_UP,
    PREDICT_CLOCK,
    CHATS_THAT_FIT,
    BATCH_POSITIONS,
    SHARED_PAGES,
)
