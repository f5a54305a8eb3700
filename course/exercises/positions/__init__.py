"""Chapter 06: how queries and keys are rotated, two layers that learn to copy, and other ways to encode positions."""

from autograder import Prediction
from course.exercises.positions.by_hand import TURNED_SCORE
from course.exercises.positions.heads import ROTARY_MHA
from course.exercises.positions.layouts import INTERLEAVE_PERMUTATION
from course.exercises.positions.looking import LOOK_BACK
from course.exercises.positions.reach import ALIBI_REACH
from course.exercises.positions.roles import HEAD_ROLES, PREDICT_ABLATION
from course.exercises.positions.rotary import APPLY_ROPE, ROPE_ANGLES

PREDICT_REVERSED = Prediction(
    "predict_reversed",
    title="Predict: all positions reversed",
    points=0.5,
    minutes=2,
    choices={
        "a": "it stays at 3.63, because no distance has changed",
        "b": "it rises a little, to about 3.8",
        "c": "it rises to about 5.4, which is nearly as bad as no rotation at all",
        "d": "it rises to about 11, the loss of an even guess among all 49,152 tokens",
    },
    holds="c",
    reveal="**c.** The distance is the same, but the *offset* $p - p'$ has changed its sign, and the score contains "
    "$\\cos(\\alpha + (p - p')\\,\\theta)$. Unless $\\alpha$ is 0, the cosine at $-3$ differs from the cosine at $3$. In training every key came "
    "before its query, so the model has never seen these angles together. It still reads far better than an even guess, because much of what "
    "it does needs no positions.",
)

PREDICT_CAUSAL = Prediction(
    "predict_causal",
    title="Predict: does a causal mask see the order?",
    points=0.5,
    minutes=2,
    choices={
        "a": "yes, because the dot products are the same and some are just left out",
        "b": "no, because the mask itself depends on positions",
        "c": "no, but only because each softmax now runs over fewer keys",
    },
    holds="b",
    reveal="**b.** The mask says *which positions* a row may see, and it stays in place when the rows are reordered. The row that is now first "
    "sees only itself, and the row that is now last sees everything. Fewer keys alone would not do it. A padding mask that moves along with the "
    "rows leaves fewer keys too, and the outputs of the reordered rows are still the old ones.",
)

PREDICT_BFLOAT16 = Prediction(
    "predict_bfloat16",
    title="Predict: angles in bfloat16",
    points=0.5,
    minutes=2,
    choices={
        "a": "about 0.000002 radians",
        "b": "about 0.002 radians",
        "c": "about 0.02 radians",
        "d": "about 2 radians",
    },
    holds="d",
    reveal="**d.** bfloat16 keeps 8 significant bits, so each rounding changes a number by up to 0.4 percent. For an angle of several hundred "
    "radians that is a radian or more, after which its sine and cosine are simply different numbers. Answer b is close to the *relative* error. "
    "No error is raised, and the lengths of queries and keys are still right.",
)

EXERCISES = (
    TURNED_SCORE,
    ROPE_ANGLES,
    APPLY_ROPE,
    PREDICT_REVERSED,
    ROTARY_MHA,
    HEAD_ROLES,
    LOOK_BACK,
    PREDICT_ABLATION,
    PREDICT_CAUSAL,
    ALIBI_REACH,
    INTERLEAVE_PERMUTATION,
    PREDICT_BFLOAT16,
)
