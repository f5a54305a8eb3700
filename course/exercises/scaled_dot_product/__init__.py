"""Chapter 03: scaled dot-product attention, the two matrices, the backward pass, and how to judge a head."""

from autograder import Prediction
from course.exercises.scaled_dot_product.attention import SDPA
from course.exercises.scaled_dot_product.gradients import MOST_SENSITIVE_SCORES, SDPA_BACKWARD, SOFTMAX_JACOBIAN
from course.exercises.scaled_dot_product.judging_maps import LUCK, NOUN_ATTENDED
from course.exercises.scaled_dot_product.scores import SCALED_SCORES
from course.exercises.scaled_dot_product.selfattention import CHOOSE_PROJECTIONS, HEAD_STATISTICS, SELF_ATTENTION
from course.exercises.scaled_dot_product.training import START_AND_STEP

PREDICT_ENTROPY = Prediction(
    "predict_entropy",
    title="Predict: what does the division do to the weights?",
    points=0.5,
    minutes=1,
    choices={
        "a": "raw scores: no change; divided by √d: no change; divided by d: no change",
        "b": "raw scores: towards one-hot; divided by √d: no change; divided by d: towards uniform",
        "c": "raw scores: towards uniform; divided by √d: no change; divided by d: towards one-hot",
        "d": "raw scores: no change; divided by √d: no change; divided by d: towards one-hot",
    },
    holds="b",
    reveal="**b.** Raw scores have standard deviation √d, so one key wins by more and more, and the entropy falls to 0. Divided by √d, "
    "they have standard deviation 1 at every d. Divided by d, they have standard deviation 1/√d, so all scores become alike and the "
    "entropy rises to its maximum, ln m. The softmax ignores a **shift** of the scores, but not their **scale**.",
)

PREDICT_GRADIENT = Prediction(
    "predict_gradient",
    title="Predict: how long is the gradient without the division?",
    points=0.5,
    minutes=1,
    choices={
        "a": "shorter than with the division at d = 64, and shorter still at d = 1024",
        "b": "longer than with the division at d = 64, much shorter at d = 1024",
        "c": "longer than with the division at both",
        "d": "the same as with the division at both",
    },
    holds="b",
    reveal="**b**, for the **median** query. At d = 64 the raw gradient is about three times as long as the divided one. The softmax "
    "already passes on less, but nothing divides the result by √d = 8. At d = 1024 the median gradient has almost vanished. Its "
    "**mean** has not, because a few queries whose two best keys are nearly tied carry most of it.",
)

PREDICT_PAIR = Prediction(
    "predict_pair",
    title="Predict: tired or wide?",
    points=0.5,
    minutes=1,
    choices={
        "a": "*animal* gets more weight in the first sentence, and *street* in the second",
        "b": "*animal* gets more weight in both, but less of it in the second",
        "c": "the weights are the same in both sentences",
        "d": "*street* gets more weight in both, because it is nearer",
    },
    holds="c",
    reveal="**c.** The weights of *it* are exactly the same. The model reads from left to right and no word attends to a later one, so at "
    "*it* both sentences are still identical. Whatever the head does there, it cannot depend on *tired* or *wide*.",
)

EXERCISES = (
    SCALED_SCORES,
    PREDICT_ENTROPY,
    SDPA,
    START_AND_STEP,
    CHOOSE_PROJECTIONS,
    SELF_ATTENTION,
    SOFTMAX_JACOBIAN,
    MOST_SENSITIVE_SCORES,
    SDPA_BACKWARD,
    PREDICT_GRADIENT,
    PREDICT_PAIR,
    NOUN_ATTENDED,
    LUCK,
    HEAD_STATISTICS,
)
