"""Workshop 05c: what a transformer has besides attention, and how it is trained."""

from autograder import Prediction
from course.exercises.a_block_of_your_own.blocks import BLOCK, RMS_NORM
from course.exercises.a_block_of_your_own.guessing import BEST_LOSSES
from course.exercises.a_block_of_your_own.training import TRAIN

PREDICT_WORST = Prediction(
    "predict_worst",
    title="Predict: which part does the model miss most?",
    points=0.5,
    minutes=1,
    choices={
        "a": "the residual connections, because without them each part replaces what the stream held",
        "b": "attention, because without it no position knows what came before",
        "c": "the norms, because the numbers grow without bounds",
        "d": "the MLP, because it holds most of the parameters",
    },
    holds="a",
    reveal="**a.** Without residual connections a block does not add to the character's vector but replaces it, and the first block "
    "replaces it by an average of all characters so far. The model falls behind even a model without attention, which at least "
    "knows the character it reads. At this size the MLP helps a little, and the norms make no dependable difference.",
)

EXERCISES = (BEST_LOSSES, RMS_NORM, BLOCK, TRAIN, PREDICT_WORST)
