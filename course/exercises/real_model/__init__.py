"""Chapter 11: the learner's own attention in SmolLM2, a test of ports, and how to find out what is wrong with one."""

from autograder import Prediction
from course.exercises.real_model.attention import GROUPED_ATTENTION
from course.exercises.real_model.comparing import WRONG_IN_PORT_C
from course.exercises.real_model.porting import FROM_HUGGING_FACE
from course.exercises.real_model.reading import SINK_STRENGTH
from course.exercises.real_model.scaling import SOFTMAX_SCALE
from course.exercises.real_model.testing import ACCEPTS

PREDICT_PARIS = Prediction(
    "predict_paris",
    title="Predict: who still says Paris?",
    points=0.5,
    difficulty=1,
    minutes=1,
    choices={
        "a": "none of the five",
        "b": "two of the five",
        "c": "all five",
    },
    holds="b",
    reveal="**Two**, the port without positions and the one with the wrong layout. A third one, without a scale, goes on in English and "
    "misses the city. Only the other two produce junk that anybody would notice.",
)

PREDICT_BUG = Prediction(
    "predict_bug",
    title="Predict: worse than a blind guess",
    points=0.5,
    difficulty=1,
    minutes=1,
    choices={
        "a": "none of them, because the model still knows which tokens came before",
        "b": "one",
        "c": "more than one",
    },
    holds="b",
    reveal="**One**, the port whose heads read key-value head h mod G. Six of nine heads then read keys and values that were made for other "
    "queries, and the model becomes *sure* of wrong tokens. A model without positions still knows which tokens came before, and pays "
    "a factor of about twenty.",
)

EXERCISES = (
    GROUPED_ATTENTION,
    PREDICT_PARIS,
    ACCEPTS,
    FROM_HUGGING_FACE,
    WRONG_IN_PORT_C,
    PREDICT_BUG,
    SOFTMAX_SCALE,
    SINK_STRENGTH,
)
