"""Lesson 05 multi_head: from one attention to H of them, side by side in one matrix product."""

from course.exercises.multi_head.as_sum import MHA_AS_SUM
from course.exercises.multi_head.attention import MHA
from course.exercises.multi_head.designs import WHO_AND_WHAT
from course.exercises.multi_head.heads import PREDICT_CHUNKS, SPLIT_HEADS
from course.exercises.multi_head.module import MULTI_HEAD
from course.exercises.multi_head.parameters import PREDICT_LOOP, PREDICT_PARAMS
from course.exercises.multi_head.shares import HEAD_SHARES

EXERCISES = (
    SPLIT_HEADS,
    MHA,
    WHO_AND_WHAT,
    MHA_AS_SUM,
    HEAD_SHARES,
    PREDICT_CHUNKS,
    MULTI_HEAD,
    PREDICT_LOOP,
    PREDICT_PARAMS,
)
