"""Lesson 11 real_model: the learner's own attention in a trained language model, and smaller caches for it."""

from autograder import Exercise
from course.exercises.real_model.attention import GROUPED_ATTENTION
from course.exercises.real_model.choosing import LAYERS_TO_POOL, PARETO
from course.exercises.real_model.decoder import LLAMA
from course.exercises.real_model.factors import LATENT_WEIGHTS, OUTPUT_FACTORS
from course.exercises.real_model.latent import LATENT_ATTENTION
from course.exercises.real_model.measuring import KV_BYTES_PER_TOKEN, PERPLEXITY

PREDICT_BUG = Exercise(
    "predict_bug",
    title="Predict: the dearest mistake",
    points=0.5,
    choices={
        "a": "no positions at all",
        "b": "rotary positions in the half-split layout",
        "c": "scores not divided by anything",
        "d": "scores divided by d instead of its root",
        "e": "heads dealt to groups by h mod G",
    },
    reveal="**e**, by far. Six of nine heads then read keys and values that were made for other queries, and every layer passes the damage on. "
    "Without positions the model still knows *which* words stand before, and pays a factor of about twenty.",
)

PREDICT_POOL = Exercise(
    "predict_pool",
    title="Predict: a third of the cache",
    points=0.5,
    choices={
        "a": "about 15: hardly worse",
        "b": "about 20 to 30",
        "c": "about 100 to 300",
        "d": "more than 1,000",
    },
    reveal="**d**: more than 10,000. Mean-pooling is where uptraining *begins* (Ainslie et al., 2023). Without it the three groups of a "
    "layer have too little in common. Ainslie et al. train 5 % more, and then lose little.",
)

PREDICT_RANK = Exercise(
    "predict_rank",
    title="Predict: half of the directions",
    points=0.5,
    choices={
        "a": "both lose little: perplexity below 20",
        "b": "the plain one above 50, the one that knows the inputs below 20",
        "c": "the one that knows the inputs is a few per cent better",
        "d": "both are useless: above 1,000",
    },
    reveal="**b**. Which directions of the weights are large says little; which directions of the *keys and values* are large says nearly "
    "all. The inputs of a trained layer are far from alike in all directions.",
)

EXERCISES = (
    GROUPED_ATTENTION,
    LLAMA,
    KV_BYTES_PER_TOKEN,
    PREDICT_BUG,
    PERPLEXITY,
    PREDICT_POOL,
    LAYERS_TO_POOL,
    PREDICT_RANK,
    OUTPUT_FACTORS,
    LATENT_WEIGHTS,
    LATENT_ATTENTION,
    PARETO,
)
