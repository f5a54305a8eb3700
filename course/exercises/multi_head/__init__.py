"""Chapter 05: what one head loses, H heads in one product, what trained heads do, and the module."""

from course.exercises.multi_head.as_sum import MHA_AS_SUM
from course.exercises.multi_head.attention import MHA
from course.exercises.multi_head.circuits import COPYING_SCORE
from course.exercises.multi_head.controls import FALL_BEYOND_CONTROLS
from course.exercises.multi_head.designs import WHO_AND_WHAT
from course.exercises.multi_head.heads import PREDICT_CHUNKS
from course.exercises.multi_head.module import MULTI_HEAD
from course.exercises.multi_head.parameters import BREAK_EVEN, PREDICT_PARAMS
from course.exercises.multi_head.shares import PREDICT_FEEDER, PREDICT_LAG, PROBE_TEXT
from course.exercises.multi_head.sums import ONE_HEAD_ERRORS, PREDICT_BEST_SHARE

EXERCISES = (
    PREDICT_BEST_SHARE,
    ONE_HEAD_ERRORS,
    MHA,
    WHO_AND_WHAT,
    MHA_AS_SUM,
    PREDICT_LAG,
    PROBE_TEXT,
    PREDICT_FEEDER,
    FALL_BEYOND_CONTROLS,
    COPYING_SCORE,
    PREDICT_CHUNKS,
    MULTI_HEAD,
    PREDICT_PARAMS,
    BREAK_EVEN,
)
