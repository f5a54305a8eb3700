"""The two factors that make raw scores train like divided ones."""

from autograder import After, Case, Draw, Exercise, Misconception, Variant
from solutions import scaled_dot_product as ref


def _width(d_k: int):
    return lambda draw: {"d_k": d_k}


def _another(draw: Draw):
    return {"d_k": draw.choice((5, 7, 11, 13, 23))}


START_AND_STEP = Exercise(
    "start_and_step",
    title="Design: the same training without a division",
    points=2,
    kind="design",
    difficulty=3,
    minutes=8,
    reference=ref.start_and_step,
    cases=(Case("1,024 features", _width(1024)), Case("64 features", _width(64)), Case("another width", _another)),
    hints=(
        "A score is $(x W_Q)(X W_K)^\\top$. If you multiply both matrices by $c$, by how much does the score change? Which $c$ "
        "replaces a division by $\\sqrt{d_k}$?",
        "Now let both matrices be $c$ times smaller. Adam still moves every entry by about its learning rate, however small the "
        "entry is. Which learning rate changes each matrix by the same *fraction* as before?",
        "Both numbers are equal. Their square is $1/\\sqrt{d_k}$.",
    ),
    misconceptions=(
        Misconception(
            "root_for_both",
            "multiplied both matrices by $1/\\sqrt{d_k}$, which divides the scores by $d_k$",
            "A score contains $W_Q$ and $W_K$, so your factor enters twice.",
            lambda d_k: (d_k**-0.5, d_k**-0.5),
        ),
        Misconception(
            "step_unchanged",
            "made the matrices start smaller but left the learning rate at full size",
            "The scores now start at the right size. With Adam the first step still moves each entry by 0.01, which is much more "
            "than before, relative to the smaller entries.",
            lambda d_k: (d_k**-0.25, 1.0),
        ),
        Misconception(
            "start_unchanged",
            "made the steps smaller but left the start at full size",
            "A division also makes the very first scores smaller.",
            lambda d_k: (1.0, d_k**-0.25),
        ),
        Misconception(
            "root_for_the_step",
            "used $1/\\sqrt{d_k}$ as the factor of the learning rate",
            "The entries of each matrix are smaller by your `start`. A step should be smaller by the same factor, so that each matrix "
            "changes by the same fraction.",
            lambda d_k: (d_k**-0.25, d_k**-0.5),
        ),
        Misconception(
            "root_for_the_start",
            "used $1/\\sqrt{d_k}$ as the factor of the start",
            "A score contains $W_Q$ and $W_K$, so your `start` enters twice.",
            lambda d_k: (d_k**-0.5, d_k**-0.25),
        ),
        Misconception(
            "root_for_one_and_nothing_for_the_other",
            "put the whole factor $1/\\sqrt{d_k}$ into one of the two numbers and left the other at 1",
            "A division changes both the first scores and every later step, so both numbers have to change.",
            lambda d_k: (d_k**-0.5, 1.0),
            also=(lambda d_k: (1.0, d_k**-0.5),),
        ),
        Misconception(
            "factors_above_one",
            "returned the factors by which the division shrinks the matrices, where the factors to multiply by are needed",
            "Both numbers should be below 1 for a wide model.",
            After(lambda out, d_k: (1 / out[0], 1 / out[1])),
        ),
        Misconception(
            "square_root_of_gradients",
            "also made the steps smaller because the gradient is smaller, as it would be without Adam",
            "Adam divides the gradient by its own size, so the length of the gradient does not matter here.",
            lambda d_k: (d_k**-0.25, d_k**-0.75),
        ),
    ),
    variants=(Variant("two_roots", lambda d_k: ((1 / d_k**0.5) ** 0.5, (1 / d_k**0.5) ** 0.5)),),
)
