"""Lesson 01 soft_lookup: from `WHERE k = q` to weights that fall with distance."""

from course.exercises.soft_lookup.kernels import BOXCAR, EPANECHNIKOV, GAUSSIAN, TRIANGULAR
from course.exercises.soft_lookup.lookup import HARD_LOOKUP, NORMALIZE, PREDICT_EMPTY
from course.exercises.soft_lookup.pooling import ATTENTION_POOL, NADARAYA_WATSON, PREDICT_WIDTH

EXERCISES = (
    HARD_LOOKUP,
    PREDICT_EMPTY,
    NORMALIZE,
    GAUSSIAN,
    BOXCAR,
    TRIANGULAR,
    EPANECHNIKOV,
    ATTENTION_POOL,
    PREDICT_WIDTH,
    NADARAYA_WATSON,
)
