"""Chapter 12: what a smaller cache costs, and latents for a trained model."""

from autograder import Prediction
from course.exercises.smaller_caches.absorbed import ABSORBED_STEP
from course.exercises.smaller_caches.combining import PREDICT_LINES, ROUND_LATENTS
from course.exercises.smaller_caches.counting import REMADE_RATIO
from course.exercises.smaller_caches.factors import OUTPUT_FACTORS
from course.exercises.smaller_caches.joint import LATENT_WEIGHTS
from course.exercises.smaller_caches.pairing import CHOOSE_CACHE, PAIRED_INTERVAL, PREDICT_PAIRS
from course.exercises.smaller_caches.plane import BEST_ANGLE
from course.exercises.smaller_caches.rounding import ROUND_TO_BITS
from course.exercises.smaller_caches.turning import PARTIAL_ROPE, PREDICT_PARTIAL

PREDICT_RANK = Prediction(
    "predict_rank",
    title="Predict: half of the directions",
    points=0.5,
    difficulty=1,
    minutes=1,
    choices={
        "a": "below 20 with both kinds of factors",
        "b": "about 100 with the plain factors and below 20 with the others",
        "c": "about 20 with both, and a few per cent less with the others",
        "d": "it rises above 1,000 with both kinds of factors",
    },
    holds="b",
    reveal="**b.** The inputs of a trained layer vary far more in some directions than in others, so large weights don't mean large keys "
    "and values.",
)

EXERCISES = (
    ROUND_TO_BITS,
    PREDICT_PAIRS,
    PAIRED_INTERVAL,
    CHOOSE_CACHE,
    BEST_ANGLE,
    OUTPUT_FACTORS,
    LATENT_WEIGHTS,
    PREDICT_RANK,
    PREDICT_LINES,
    ROUND_LATENTS,
    REMADE_RATIO,
    PREDICT_PARTIAL,
    PARTIAL_ROPE,
    ABSORBED_STEP,
)
