"""Chapter 02: scores, from the Gaussian to the dot product, to learned questions and a small network."""

from course.exercises.scoring_functions.bilinear import BILINEAR_SCORES, CHOOSE_M, DAYS_BY_TRYING
from course.exercises.scoring_functions.distance import GAUSSIAN_SCORES
from course.exercises.scoring_functions.gap import PREDICT_DROP, PREDICT_INSIDE
from course.exercises.scoring_functions.learning import LEARN_STEP
from course.exercises.scoring_functions.stable import POOL_IN_BLOCKS, SOFTMAX
from course.exercises.scoring_functions.unequal import ADDITIVE_SCORES, PREDICT_TANH

EXERCISES = (
    PREDICT_INSIDE,
    SOFTMAX,
    BILINEAR_SCORES,
    CHOOSE_M,
    LEARN_STEP,
    DAYS_BY_TRYING,
    GAUSSIAN_SCORES,
    PREDICT_DROP,
    POOL_IN_BLOCKS,
    PREDICT_TANH,
    ADDITIVE_SCORES,
)
