"""Lesson 02 scoring_functions: from the Gaussian to the dot product, and scores for vectors of unequal lengths."""

from course.exercises.scoring_functions.distance import DOT_SCORES, GAUSSIAN_SCORES
from course.exercises.scoring_functions.gap import PREDICT_DROP, WEIGHT_GAP
from course.exercises.scoring_functions.stable import SOFTMAX
from course.exercises.scoring_functions.unequal import ADDITIVE_SCORES, BILINEAR_SCORES, PREDICT_TANH

EXERCISES = (
    SOFTMAX,
    GAUSSIAN_SCORES,
    DOT_SCORES,
    PREDICT_DROP,
    WEIGHT_GAP,
    BILINEAR_SCORES,
    PREDICT_TANH,
    ADDITIVE_SCORES,
)
