"""Lesson 06 positions: what attention does not see, how queries and keys are turned, and two layers that learn to copy."""

from autograder import Exercise
from course.exercises.positions.by_hand import FULL_TURN, TURNED_SCORE
from course.exercises.positions.heads import ROTARY_MHA
from course.exercises.positions.layouts import INTERLEAVE_PERMUTATION
from course.exercises.positions.looking import LOOK_BACK
from course.exercises.positions.order import PERMUTATION_GAP
from course.exercises.positions.roles import HEAD_ROLES, PREDICT_ABLATION
from course.exercises.positions.rotary import APPLY_ROPE, ROPE_ANGLES

PREDICT_CAUSAL = Exercise(
    "predict_causal",
    title="Predict: does a causal mask see the order?",
    points=0.5,
    minutes=1,
    choices={
        "a": "it is 0 as well: the same dot products, some of them left out",
        "b": "it is not 0: the mask itself speaks of places",
        "c": "it is not 0, but only because the softmax then runs over fewer keys",
    },
    holds="b",
    reveal="**b.** The mask says *which places* a row may see, and it stays where it is when the rows move: the row put first "
    "sees itself alone, the row put last sees all. So masked attention is not equivariant, and a stack of such layers can tell "
    "places apart with no encoding at all. (That fewer keys are summed is how it shows, not why: a padding mask that moves "
    "*with* the rows leaves fewer keys too, and keeps the gap at 0.)",
)

PREDICT_BFLOAT16 = Exercise(
    "predict_bfloat16",
    title="Predict: the angles in bfloat16",
    points=0.5,
    minutes=1,
    choices={
        "a": "about 0.000002 radians",
        "b": "about 0.002 radians",
        "c": "about 0.02 radians",
        "d": "about 2 radians",
    },
    holds="d",
    reveal="**d.** bfloat16 keeps 8 significant bits, so a rounding costs up to 0.4 per cent. Of an angle of some hundred radians "
    "that is a radian or more; and an angle is used modulo $2\\pi$, so its sine and cosine are then simply other numbers. (b) is "
    "nearly the *relative* error: of an angle of 750 radians it makes 1.5. Nothing warns: the norms of queries and keys are still right.",
)

EXERCISES = (
    PERMUTATION_GAP,
    PREDICT_CAUSAL,
    TURNED_SCORE,
    ROPE_ANGLES,
    APPLY_ROPE,
    LOOK_BACK,
    ROTARY_MHA,
    HEAD_ROLES,
    PREDICT_ABLATION,
    FULL_TURN,
    PREDICT_BFLOAT16,
    INTERLEAVE_PERMUTATION,
)
