"""Lesson 12 smaller_caches: what a trained model's cache can do without."""

from autograder import Exercise
from course.exercises.smaller_caches.combining import PREDICT_LINES, ROUND_LATENTS
from course.exercises.smaller_caches.counting import REMADE_RATIO
from course.exercises.smaller_caches.factors import OUTPUT_FACTORS
from course.exercises.smaller_caches.joint import LATENT_WEIGHTS
from course.exercises.smaller_caches.latent import LATENT_ATTENTION
from course.exercises.smaller_caches.rounding import ROUND_TO_BITS
from course.exercises.smaller_caches.turning import PARTIAL_ROPE, PREDICT_PARTIAL

PREDICT_POOL = Exercise(
    "predict_pool",
    title="Predict: a third of the cache",
    points=0.5,
    difficulty=1,
    minutes=1,
    choices={
        "a": "about 15: hardly worse",
        "b": "about 20 to 30",
        "c": "about 100 to 300",
        "d": "more than 1,000",
    },
    holds="d",
    reveal="**d**: nearly 14,000, far more than 1,000. Mean-pooling is where uptraining *begins* (Ainslie et al., 2023). Without it the three groups of a "
    "layer have too little in common. Ainslie et al. train 5 % more, and then lose little.",
)

PREDICT_RANK = Exercise(
    "predict_rank",
    title="Predict: half of the directions",
    points=0.5,
    difficulty=1,
    minutes=1,
    choices={
        "a": "both below 20",
        "b": "about 100 and below 20",
        "c": "about 20, and a few per cent less",
        "d": "both above 1,000",
    },
    holds="b",
    reveal="**b**. Which directions of the weights are large says little; which directions of the *keys and values* are large says nearly "
    "all. The inputs of a trained layer are far from alike in all directions.",
)

EXERCISES = (
    PREDICT_POOL,
    ROUND_TO_BITS,
    OUTPUT_FACTORS,
    LATENT_WEIGHTS,
    PREDICT_RANK,
    PREDICT_LINES,
    ROUND_LATENTS,
    LATENT_ATTENTION,
    REMADE_RATIO,
    PREDICT_PARTIAL,
    PARTIAL_ROPE,
)
