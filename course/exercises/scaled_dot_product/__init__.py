"""Lesson 03 scaled_dot_product: why the scale, attention and self-attention, its gradients, a trained head."""

from autograder import Exercise
from course.exercises.scaled_dot_product.attention import SDPA
from course.exercises.scaled_dot_product.gradients import SDPA_BACKWARD, SOFTMAX_JACOBIAN
from course.exercises.scaled_dot_product.scores import SCALED_SCORES
from course.exercises.scaled_dot_product.selfattention import CHOOSE_PROJECTIONS, HEAD_STATISTICS, SELF_ATTENTION

PREDICT_ENTROPY = Exercise(
    "predict_entropy",
    title="Predict: what does the scale do to the weights?",
    points=0.5,
    minutes=1,
    choices={
        "a": "all three stay as they are: the softmax normalises the scale away",
        "b": "raw scores: towards one-hot; divided by √d: no change; divided by d: towards uniform",
        "c": "raw scores: towards uniform; divided by √d: no change; divided by d: towards one-hot",
        "d": "raw scores and divided by √d: no change; divided by d: towards one-hot",
    },
    holds="b",
    reveal="**b.** Raw scores have standard deviation √d, so one key wins by more and more and the entropy goes to 0. Divided by "
    "√d they have standard deviation 1 at every d. Divided by d they have standard deviation 1/√d, so all scores become alike "
    "and the entropy goes to ln m, its maximum. The softmax forgets a **shift** of the scores, never their **scale**.",
)

PREDICT_GRADIENT = Exercise(
    "predict_gradient",
    title="Predict: how large is the gradient without the scale?",
    points=0.5,
    minutes=1,
    choices={
        "a": "smaller than with the scale at d = 64, and smaller still at d = 1024",
        "b": "larger than with the scale at d = 64, much smaller at d = 1024",
        "c": "larger than with the scale at both",
        "d": "the same as with the scale at both",
    },
    holds="b",
    reveal="**b**, for the **typical** (median) query. At d = 64 the unscaled gradient is about three times the scaled one: the "
    "softmax already passes less on, but nothing divides the result by √d = 8. At d = 1024 the typical gradient has all but "
    "vanished. Its **mean** has hardly moved: a few queries, whose two best keys happen to be nearly tied, carry most of it. "
    "Unscaled attention does not simply go quiet: most queries get next to nothing, a few get large jolts.",
)

EXERCISES = (
    SCALED_SCORES,
    SDPA,
    SELF_ATTENTION,
    PREDICT_ENTROPY,
    CHOOSE_PROJECTIONS,
    SOFTMAX_JACOBIAN,
    SDPA_BACKWARD,
    PREDICT_GRADIENT,
    HEAD_STATISTICS,
)
