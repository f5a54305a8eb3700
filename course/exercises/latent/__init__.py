"""Lesson 10 latent: one latent per token, absorbed matrices, decoupled positions, and what is cached."""

from autograder import Exercise
from course.exercises.latent.attention import MLA_ABSORBED, MLA_NAIVE
from course.exercises.latent.cache import GQA_AS_MLA
from course.exercises.latent.costs import CACHE_PER_GPU, DECODE_COST, PROMPT_RATIO
from course.exercises.latent.positions import MLA_DECOUPLED

PREDICT_WORK = Exercise(
    "predict_work",
    title="Predict: the arithmetic",
    points=0.5,
    difficulty=1,
    minutes=3,
    choices={
        "a": "less: that is why it is faster",
        "b": "the same: only brackets have moved",
        "c": "about 3 times as much",
        "d": "about 100 times as much",
    },
    holds="c",
    reveal="**c**, 3.4 times. Absorbed scores and mixtures run over 512 + 64 and 512 features where ready-made keys and values have "
    "128 + 64 and 128. Moving brackets keeps values and changes costs. (d) is what you pay, in comparison with absorbing, if you "
    "make keys and values from the latents again at every step.",
)

PREDICT_ROTATION = Exercise(
    "predict_rotation",
    title="Predict: the best single matrix",
    points=0.5,
    difficulty=1,
    minutes=3,
    choices={
        "a": "nearly all of it: 98 %",
        "b": "about half",
        "c": "about a fifth",
        "d": "nothing at all",
    },
    holds="c",
    reveal="**c.** The fast pairs turn many times within 4096 tokens: their mean is nearly zero and nothing of them can be absorbed. "
    "But RoPE's slowest pairs hardly move in 4096 tokens, and those a fixed matrix does absorb. With 8 tokens it would be most of it: "
    "a demonstration on a short sequence can look harmless.",
)

EXERCISES = (
    MLA_NAIVE,
    PREDICT_WORK,
    GQA_AS_MLA,
    MLA_ABSORBED,
    DECODE_COST,
    PROMPT_RATIO,
    PREDICT_ROTATION,
    MLA_DECOUPLED,
    CACHE_PER_GPU,
)
