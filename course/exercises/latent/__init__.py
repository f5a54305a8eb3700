"""Chapter 10: one latent per token, absorbed matrices, and what is cached."""

from autograder import Prediction
from course.exercises.latent.attention import MLA_ABSORBED, MLA_NAIVE
from course.exercises.latent.cache import GQA_AS_MLA
from course.exercises.latent.costs import ABSORB_UP_TO, DECODE_COST

PREDICT_LATENT = Prediction(
    "predict_latent",
    title="Predict: a latent of 16",
    points=0.5,
    difficulty=1,
    minutes=2,
    choices={
        "a": "like the best model with 16 numbers, or below",
        "b": "about as well as the model with 128 numbers",
        "c": "near one half, because 16 numbers hold one key",
    },
    holds="b",
    reveal="**b.** All four heads compare 16 features, as in the model with 128 numbers. Their keys and values together have only rank 16, but "
    "every head learns which mixture of these 16 numbers it needs, and the game asks for no more. The next cell trains it.",
)

PREDICT_WORK = Prediction(
    "predict_work",
    title="Predict: the arithmetic",
    points=0.5,
    difficulty=1,
    minutes=2,
    choices={
        "a": "less, which is why it is faster",
        "b": "the same, because only brackets have moved",
        "c": "about 3 times as much",
        "d": "about 100 times as much",
    },
    holds="c",
    reveal="**c**, 3.4 times. Absorbed scores and averages run over 512 + 64 and 512 features, where cached keys and values have 128 + 64 and "
    "128. Moving brackets keeps the result and changes the costs. The factor in (d) is what rebuilding takes in comparison with absorbing.",
)

EXERCISES = (
    MLA_NAIVE,
    GQA_AS_MLA,
    PREDICT_LATENT,
    MLA_ABSORBED,
    PREDICT_WORK,
    DECODE_COST,
    ABSORB_UP_TO,
)
