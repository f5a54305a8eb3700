"""Lesson 01 soft_lookup: from `WHERE k = q` to weights that fall with distance."""

from .kernels import GAUSSIAN
from .lookup import HARD_LOOKUP, NORMALIZE, PREDICT_EMPTY
from .pooling import ATTENTION_POOL, LEAVE_ONE_OUT, NADARAYA_WATSON, PREDICT_WIDTH
from .sentence import MIX_WORDS

EXERCISES = (
    PREDICT_EMPTY,
    NORMALIZE,
    GAUSSIAN,
    ATTENTION_POOL,
    HARD_LOOKUP,
    PREDICT_WIDTH,
    NADARAYA_WATSON,
    LEAVE_ONE_OUT,
    MIX_WORDS,
)
