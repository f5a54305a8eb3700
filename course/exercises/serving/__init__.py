"""Workshop 07d: one step for many people."""

from autograder import Prediction
from course.exercises.serving.batches import BATCH_POSITIONS
from course.exercises.serving.paging import SHARED_PAGES
from course.exercises.serving.planning import PLAN_STEP
from course.exercises.serving.prefixes import PREFIX_CACHE

PREDICT_BUDGET = Prediction(
    "predict_budget",
    title="Predict: a smaller budget",
    points=0.5,
    difficulty=1,
    minutes=1,
    choices={
        "a": "the readers are interrupted less, and the document waits longer for its first token",
        "b": "everybody waits less, because short steps are over sooner",
        "c": "nothing changes for anybody, because the same tokens are processed in the end",
    },
    holds="a",
    reveal="**a.** A smaller budget makes each step shorter, so the next token of everybody else comes sooner. But small steps use the processor "
    "less well, and a part of each goes to the answers, so the long prompt takes more time in all.",
)

EXERCISES = (BATCH_POSITIONS, SHARED_PAGES, PREFIX_CACHE, PREDICT_BUDGET, PLAN_STEP)
