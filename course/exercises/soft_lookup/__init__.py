"""Chapter 01: from scores to weights, and what the width of a kernel does."""

from course.exercises.soft_lookup.design import ASK_FOR_A_THING, PREDICT_WIDE
from course.exercises.soft_lookup.lookup import NORMALIZE
from course.exercises.soft_lookup.pooling import ATTENTION_POOL
from course.exercises.soft_lookup.river import LEAVE_ONE_OUT, NADARAYA_WATSON, PREDICT_KERNEL, PREDICT_WIDTH
from course.exercises.soft_lookup.sentence import MIX_WORDS

EXERCISES = (
    NORMALIZE,
    ATTENTION_POOL,
    PREDICT_WIDE,
    ASK_FOR_A_THING,
    MIX_WORDS,
    NADARAYA_WATSON,
    PREDICT_WIDTH,
    LEAVE_ONE_OUT,
    PREDICT_KERNEL,
)
