"""Lesson 02 scoring_functions: from the Gaussian to the dot product, learned queries and keys, and a small network."""

from course.exercises.scoring_functions.distance import GAUSSIAN_SCORES
from course.exercises.scoring_functions.gap import PREDICT_DROP
from course.exercises.scoring_functions.learning import LEARN_STEP
from course.exercises.scoring_functions.stable import POOL_IN_BLOCKS, SOFTMAX
from course.exercises.scoring_functions.unequal import ADDITIVE_SCORES, PREDICT_TANH

EXERCISES = (
    SOFTMAX,
    LEARN_STEP,
    GAUSSIAN_SCORES,
    PREDICT_DROP,
    POOL_IN_BLOCKS,
    PREDICT_TANH,
    ADDITIVE_SCORES,
)
