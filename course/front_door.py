"""The landing page of the course's site: its promise, a figure that moves, and one exercise that runs in the page."""
# ruff: noqa: E501  # sentences for learners

import io

import numpy as np
from attention_course.moving import Moving, slider
from attention_course.one_query import draw_step
from attention_course.thread import TOKENS, VECTORS

from autograder import After, Case, Draw, Exercise, Misconception, Variant
from autograder.authoring.front_door import FrontDoor

W_Q, W_K, W_V = (np.array(rows, dtype=float) for rows in ([[2, 1], [0, 1]], [[1, 0], [0, -1]], [[1, 0], [0, 2]]))


def scaled_scores(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Return the dot product of every query with every key, divided by the root of their width."""
    scores: np.ndarray = Q @ K.T / np.sqrt(Q.shape[-1])
    return scores


def figure() -> Moving:
    """One query on its way through self-attention, with a slider for the word that asks."""
    return slider(
        lambda query: draw_step(0, list(TOKENS), list(TOKENS).index(query), VECTORS, W_Q, W_K, W_V),
        query=TOKENS,
        start={"query": "it"},
        labels={"query": "the word that asks"},
        alt="Self-attention with all its numbers, for the word that you choose. The query of 'it' meets nine keys. The softmax of "
        "its scores gives pear a weight of 0.51, sweet 0.25 and ripe 0.12, and the values with these weights add up to the output.",
    )


def _sizes(n: int, m: int, d: int):
    return lambda draw: {"Q": draw.normal(n, d), "K": draw.normal(m, d)}


def _drawn(draw: Draw) -> dict[str, np.ndarray]:
    n, m, d = draw.sizes(3, low=3, high=13)
    return {"Q": draw.normal(n, d), "K": draw.normal(m, d)}


EXERCISE = Exercise(
    "scaled_scores",
    title="Scaled scores",
    points=1,
    difficulty=1,
    minutes=1,
    reference=scaled_scores,
    cases=(
        Case("two queries, three keys", _sizes(2, 3, 5)),
        Case("other sizes", _drawn),
        Case("wide vectors", _sizes(4, 3, 64)),
    ),
    hints=(
        "The dot product of two random vectors of width $d$ has variance $d$. If you divide it by $c$, the variance becomes "
        "$d / c^2$. Which $c$ makes that 1?",
        "Set $d / c^2 = 1$ and solve for $c$. It is the standard deviation of the dot product.",
        "Divide by the square root of `d`. NumPy calls it `np.sqrt`.",
    ),
    misconceptions=(
        Misconception(
            "scaled_by_d",
            "divided by $d$ instead of $\\sqrt{d}$",
            "Dividing by $c$ divides the variance by $c^2$. Here that leaves a variance of $1/d$, so the scores shrink as the vectors "
            "get wider. Which $c$ makes $d / c^2$ equal to 1?",
            After(lambda out, Q, K: out / np.sqrt(Q.shape[-1])),
        ),
        Misconception(
            "unscaled",
            "computed the dot products but didn't scale them",
            "The variance of a dot product is $d$, so these scores grow with the width. Which divisor brings the variance back to 1?",
            After(lambda out, Q, K: out * np.sqrt(Q.shape[-1])),
        ),
        Misconception(
            "half_of_d",
            "wrote `d ** 1/2`, which is $d / 2$ and not the square root",
            "`**` binds tighter than `/`, so `d ** 1/2` means `(d ** 1) / 2`. Write `d ** 0.5` or `np.sqrt(d)`.",
            After(lambda out, Q, K: out * 2 / np.sqrt(Q.shape[-1])),
        ),
        Misconception(
            "twice_d",
            "wrote `x / d ** 1/2`, which divides by $d$ and then by 2",
            "`**` binds tighter than `/`, and divisions run from left to right. Write `d ** 0.5` or `np.sqrt(d)`.",
            After(lambda out, Q, K: out / np.sqrt(Q.shape[-1]) / 2),
        ),
        Misconception(
            "multiplied_by_the_root",
            "multiplied by $\\sqrt{d}$ instead of dividing",
            "Wide vectors already have large dot products. Divide to make them smaller.",
            After(lambda out, Q, K: out * Q.shape[-1]),
        ),
        Misconception(
            "divided_by_d_squared",
            "divided by $d^2$ instead of $\\sqrt{d}$",
            "A divisor $c$ divides the variance by $c^2$. The variance of the dot products is $d$. Which $c$ makes $d / c^2$ equal to 1?",
            After(lambda out, Q, K: out / Q.shape[-1] ** 1.5),
        ),
        Misconception(
            "root_of_the_number_of_keys",
            "divided by the square root of the number of **keys**",
            "A dot product adds up features, not keys. Their number $d$ is the length of the last axis of `Q`.",
            After(lambda out, Q, K: out * np.sqrt(Q.shape[-1] / K.shape[-2])),
        ),
        Misconception(
            "root_of_the_number_of_queries",
            "divided by the square root of the number of **queries**",
            "A dot product adds up features, not queries. Their number $d$ is the length of the last axis of `Q`.",
            After(lambda out, Q, K: out * np.sqrt(Q.shape[-1] / Q.shape[-2])),
        ),
        Misconception(
            "keys_by_queries",
            "put the keys on the rows, so your result has the shape (key, query)",
            "There should be one row per **query**, so `Q` comes first in the product and `K` is the matrix to transpose.",
            After(lambda out, **_: out.T),
        ),
    ),
    variants=(
        Variant("power", lambda Q, K: Q @ K.T / Q.shape[-1] ** 0.5),
        Variant("scale_the_queries_first", lambda Q, K: (Q / np.sqrt(Q.shape[-1])) @ K.T),
        Variant("einsum", lambda Q, K: np.einsum("nd,md->nm", Q, K) * Q.shape[-1] ** -0.5),
    ),
)


def card() -> bytes:
    """The picture that other sites show beside a link to this one: the promise, and a mistake that is named."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    drawn = Figure(figsize=(12, 6.3), dpi=100, facecolor="#10233a")
    page = drawn.add_axes((0, 0, 1, 1))
    page.set(xlim=(0, 1200), ylim=(630, 0))
    page.axis("off")
    page.text(70, 120, "Attention, graded", size=40, weight="bold", color="white")
    page.text(70, 185, "Learn attention by writing it.", size=25, color="#cfe3f7")
    page.add_patch(Rectangle((70, 240), 1060, 110, facecolor="#1c324d", edgecolor="#5f7f9f"))
    page.text(100, 308, "return Q @ K.T / d", size=27, family="monospace", color="white")
    page.add_patch(Rectangle((70, 372), 1060, 186, facecolor="white"))
    page.add_patch(Rectangle((70, 372), 12, 186, facecolor="#b3261e"))
    page.text(112, 428, "\u2717 not yet", size=20, weight="bold", color="#b3261e")
    page.text(112, 484, "Your result comes out exactly as if", size=23, color="#1c1e21")
    page.text(112, 530, "you divided by d instead of \u221ad.", size=23, weight="bold", color="#1c1e21")
    file = io.BytesIO()
    drawn.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


FRONT_DOOR = FrontDoor(
    promise="Learn attention by writing it. When you make a mistake, the course tells you which one.",
    lead="You begin with a weighted average and end with a language model that runs on your own code. All you need is some NumPy "
    "and the mathematics of a first university year.",
    figure=figure,
    caption="Every mechanism is drawn to scale, with numbers that fit on paper. Let another word ask.",
    card=card,
    exercise=EXERCISE,
    task="A query is compared with a key by their dot product, whose variance is their width d. Attention divides it by a number that "
    "brings the variance to 1. This code divides by the wrong one. Press Check to see what the course says, then fix the last line.",
    setup="import numpy as np",
    start='''def scaled_scores(Q, K):
    """Queries are rows of Q,
    keys are rows of K."""
    d = Q.shape[-1]
    return Q @ K.T / d''',
)
