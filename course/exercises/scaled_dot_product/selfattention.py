"""A sequence that attends to itself: projections, and what a head's scores and weights look like."""

import math

import numpy as np
import torch

from autograder import After, Before, Case, Draw, Exercise, Instead, Made, Misconception, Of, Variant
from course.exercises.scaled_dot_product.attention import BUILTIN, WEIGHTS_ARE_WEIGHTS, attend
from solutions import scaled_dot_product as ref


def _self(draw: Draw, lead: tuple[int, ...], n: int, d_model: int, d_k: int, d_v: int):
    inputs = {"X": draw.normal(*lead, n, d_model)}
    for name, width in (("W_Q", d_k), ("W_K", d_k), ("W_V", d_v)):
        inputs[name] = draw.normal(d_model, width) / math.sqrt(d_model)  # unit variance: the softmax does not saturate
    return inputs


def _three_words(draw: Draw):
    return _self(draw, (), 3, 2, 5, 7)


def _batch(draw: Draw):
    n, d_model, d_k, d_v = draw.sizes(4, low=3, high=11)
    return _self(draw, (2,), n, d_model, d_k, d_v)


def _square(draw: Draw):
    """As many tokens as features, every projection square: no wrong turn is stopped by a shape error."""
    n = draw.sizes(1, low=5, high=7)[0]
    return _self(draw, (), n, n, n, n)


def _projected(X, W_Q, W_K, W_V, *, q="Q", k="K", v="V", **settings):
    """Queries, keys and values by the matrix of that letter ("": by none); the rest as `attend` is set."""
    by = {"Q": X @ W_Q, "K": X @ W_K, "V": X @ W_V, "": X}
    return attend(by[q], by[k], by[v], **settings)


def _one_matrix(X, W_Q, W_K, W_V):
    A = torch.softmax(X @ (W_Q @ W_K.mT) @ X.mT / math.sqrt(W_Q.shape[1]), dim=-1)
    return (A @ X) @ W_V, A


def _joined(X, W_Q, W_K, W_V):
    d_k = W_Q.shape[1]
    Q, K, V = torch.split(X @ torch.cat([W_Q, W_K, W_V], dim=1), [d_k, d_k, W_V.shape[1]], dim=-1)
    return ref.sdpa(Q, K, V)


SELF_ATTENTION = Exercise(
    "self_attention",
    title="Find the bugs: a head that cannot ask",
    points=2,
    difficulty=3,
    minutes=12,
    reference=ref.self_attention,
    recipe=_projected,
    tensors=True,
    properties=WEIGHTS_ARE_WEIGHTS,
    forbid=BUILTIN,
    cases=(
        Case("three words", _three_words, grad=("X", "W_Q", "W_K", "W_V")),
        Case("a batch", _batch),
        Case("as many tokens as features", _square),
    ),
    hints=(
        "Test the parts with what you know. Should the scores be symmetric? How large should they be? Which numbers must sum to 1?",
        "Read the code line by line and ask what each matrix is for. Each of the three matrices should appear once. Then compare the divisor with the number of features that a dot product adds up.",
        "There are two bugs. One concerns the matrix that makes the keys, the other the width under the square root. If you call `sdpa`, the second one disappears.",
    ),
    misconceptions=(
        Misconception(
            "values_not_projected",
            "used the tokens themselves as values, so `W_V` has no effect",
            "A token's key and its value are two different things. The values are `X @ W_V`.",
            Instead(v=""),
        ),
        Misconception(
            "values_are_the_matrix",
            "used the matrix `W_V` itself as the values",
            "Each token has a value of its own, so the values are `X @ W_V`.",
            lambda X, W_Q, W_K, W_V: ref.sdpa(X @ W_Q, X @ W_K, W_V),
            raises=True,
        ),
        Misconception(
            "keys_not_projected",
            "used the tokens themselves as keys",
            "The keys are `X @ W_K`, which says what a token can be found by.",
            Instead(k=""),
        ),
        Misconception(
            "no_projections",
            "used the tokens as queries, keys and values at once",
            "Make the three roles with three products, one for each matrix.",
            Instead(q="", k="", v=""),
        ),
        Misconception(
            "one_matrix_for_both",
            "used `W_Q` for both queries and keys, so the scores are symmetric",
            "The keys have a matrix of their own. Which bug does that leave?",
            Instead(k="Q"),
        ),
        Misconception(
            "roles_swapped",
            "swapped the roles of `W_Q` and `W_K`",
            "Queries are made by `W_Q` and come first in the product, so that each row belongs to a query.",
            Instead(q="K", k="Q"),
        ),
        Misconception(
            "transposed_weights",
            "multiplied by the transposed matrices, which is how `nn.Linear` stores its weight",
            "Here a matrix has the shape (d_in, d_out) and is applied from the right, as in `X @ W`.",
            Before(lambda W_Q, W_K, W_V, **_: {"W_Q": W_Q.T, "W_K": W_K.T, "W_V": W_V.T}),
        ),
        Misconception(
            "scaled_by_the_model_width",
            "divided by $\\sqrt{d_{model}}$, where $d_{model}$ is the width of the tokens",
            "How many products does one score add up? It is the width of a query that counts.",
            Instead(scale=Of(lambda X, **_: X.shape[-1] ** -0.5)),
        ),
        Misconception(
            "scaled_by_the_model_width_too",
            "divided the scores by $\\sqrt{d_{model}}$ as well as by $\\sqrt{d_k}$",
            "Your `sdpa` already divides by the right width, so pass the projections to it unchanged.",
            Instead(scale=Of(lambda X, W_Q, **_: (X.shape[-1] * W_Q.shape[1]) ** -0.5)),
        ),
        Misconception(
            "scaled_twice",
            "divided by $\\sqrt{d_k}$ twice",
            "Your `sdpa` already divides, so pass the projections to it unchanged.",
            Instead(scale=Of(lambda W_Q, **_: 1 / W_Q.shape[1])),
        ),
        Misconception(
            "unscaled",
            "left out the factor $1/\\sqrt{d_k}$",
            "Pass the three projections to your `sdpa`, which divides the scores.",
            Instead(scale=1.0),
        ),
        Misconception(
            "softmax_over_queries",
            "ran the softmax along the queries, so each column sums to 1 where each row should",
            "The softmax of the given code was right. Put `dim=-1` back, or call `sdpa`.",
            Instead(axis=-2),
        ),
        Misconception(
            "queries_not_projected",
            "used the tokens themselves as queries",
            "The queries are `X @ W_Q`, which says what a token is looking for.",
            Instead(q=""),
        ),
        Misconception(
            "one_matrix_for_keys_and_values",
            "made the values with `W_K`, the matrix of the keys",
            "A token's key and its value are two different things. The values are `X @ W_V`.",
            Instead(v="K"),
        ),
        Misconception(
            "weights_first",
            "returned the weights first and the output second",
            "The docstring asks for $(O, A)$, in the order in which `sdpa` returns them.",
            After(lambda out, **_: (out[1], out[0])),
        ),
    ),
    variants=(
        Variant("one_matrix_for_the_scores", _one_matrix),
        Variant("one_large_projection", _joined),
    ),
)


# ---------------------------------------------------------------------------------------------- statistics of a head


def _two_queries(draw: Draw):
    return {"Q": draw.normal(2, 5), "K": draw.normal(3, 5)}


def _a_batch_of_heads(draw: Draw):
    b, n, m, d_k = draw.sizes(4, high=7)
    return {"Q": draw.normal(b, n, d_k), "K": draw.normal(b, m, d_k)}


def _square_heads(draw: Draw):
    n, d_k = draw.sizes(2, low=3, high=7)
    return {"Q": draw.normal(n, n, d_k), "K": draw.normal(n, n, d_k)}


def _saturated(draw: Draw):
    """Scores so far apart that all weights but one are 0 in any precision; the second query's are all 0 or less: no `exp` overflows."""
    Q, K = np.zeros((2, 3)), draw.normal(5, 3)
    Q[:, 0], K[:, 0] = (100.0, -100.0), draw.rng.permutation([0.0, 100.0, 200.0, 300.0, 400.0])
    return {"Q": Q, "K": K}


def _one_far_behind(draw: Draw):
    """One weight of the first query is 0 in any precision, and 28 are not: what replaces NaN behind the sum loses them.

    So many, because who centres the scores loses as much precision as their mean is away from them.
    """
    Q, K = draw.normal(2, 3), draw.normal(29, 3)
    Q[:, 0], K[:, 0] = (-100.0, 0.0), draw.rng.permutation([14.0] + 28 * [0.0])
    return {"Q": Q, "K": K}


def _plain_softmax(S, dim):
    E = torch.exp(S)
    return E / E.sum(dim, keepdim=True)


def _statistics(*, spread=None, entropy=None, scores=ref.scaled_scores, softmax=torch.softmax):
    """Both numbers of the scores and weights, with another rule for one of them."""

    def answer(Q, K):
        S = scores(Q, K)
        A = softmax(S, dim=-1)
        return (
            S.std(dim=-1, correction=0) if spread is None else spread(S),
            torch.special.entr(A).sum(-1) if entropy is None else entropy(A),
        )

    return answer


def _by_log_softmax(Q, K):
    S = ref.scaled_scores(Q, K)
    log_a = torch.log_softmax(S, dim=-1)
    return (S - S.mean(-1, keepdim=True)).square().mean(-1).sqrt(), -(log_a.exp() * log_a).sum(-1)


HEAD_STATISTICS = Exercise(
    "head_statistics",
    title="Two numbers for a trained head",
    points=2,
    kind="use",
    difficulty=2,
    minutes=7,
    reference=ref.head_statistics,
    recipe=Made(_statistics),
    tensors=True,
    outputs=(0.5, 0.5),
    cases=(
        Case("two queries, three keys", _two_queries),
        Case("a batch", _a_batch_of_heads),
        Case("equal sizes", _square_heads),
        Case("scores far apart", _saturated, edge=0.1),
        Case("one key far behind the others", _one_far_behind, edge=0.1),
    ),
    hints=(
        "Both numbers describe one query, so both come from one row. Which axis do you reduce?",
        "You already have functions for the scores and the weights. `torch.std` has an argument `correction`. For the entropy, try what `a * log(a)` gives if a weight has underflowed to 0.",
        "`torch.special.entr(a)` is $-a \\ln a$, and it is 0 at 0. Sum it over the keys. For the other number, take the standard deviation of the **scores** over the keys with `correction=0`.",
    ),
    misconceptions=(
        Misconception(
            "nan_where_a_weight_is_zero",
            "computed `a * log(a)`, which is NaN for a weight that has underflowed to 0",
            "The limit of this product is 0. Use `torch.special.entr`, or get the logarithm from `log_softmax`.",
            Instead(entropy=lambda A: -(A * A.log()).sum(-1)),
        ),
        Misconception(
            "nan_replaced_after_the_sum",
            "replaced NaN only after the sum, so a query with one weight of 0 gets entropy 0",
            "Only the term of that key is 0. Replace NaN in each term **before** the sum, or use `torch.special.entr`.",
            Instead(entropy=lambda A: torch.nan_to_num(-(A * A.log()).sum(-1))),
        ),
        Misconception(
            "unstable_softmax",
            "took `exp` of the raw scores, which overflows if they are in the thousands",
            "Use `torch.softmax`, or the weights that your `sdpa` returns.",
            Instead(softmax=_plain_softmax),
        ),
        Misconception(
            "small_number_in_the_logarithm",
            "added a small number inside the logarithm, which shifts the entropy a little",
            "You don't need it, because `torch.special.entr` is 0 at 0.",
            Instead(entropy=lambda A: -(A * (A + 1e-3).log()).sum(-1)),
        ),
        Misconception(
            "bits",
            "measured the entropy in bits, with `log2`",
            "Use the natural logarithm. Uniform weights on $m$ keys then have entropy $\\ln m$.",
            Instead(entropy=lambda A: torch.special.entr(A).sum(-1) / math.log(2)),
        ),
        Misconception(
            "divisor_one_less",
            "divided by $m - 1$, which is the default of `torch.std`",
            "The docstring asks for the divisor $m$, which is `correction=0`.",
            Instead(spread=lambda S: S.std(dim=-1)),
        ),
        Misconception(
            "variance",
            "returned the variance of the scores",
            "The standard deviation is the square root of the variance.",
            Instead(spread=lambda S: S.var(dim=-1, correction=0)),
        ),
        Misconception(
            "spread_of_the_weights",
            "took the standard deviation of the **weights**",
            "The docstring asks for the standard deviation of the scores, before the softmax.",
            Instead(spread=lambda S: torch.softmax(S, dim=-1).std(dim=-1, correction=0)),
        ),
        Misconception(
            "unscaled",
            "left out the factor $1/\\sqrt{d_k}$",
            "Start from `scaled_scores(Q, K)`.",
            Instead(scores=lambda Q, K: Q @ K.mT),
        ),
        Misconception(
            "over_the_queries",
            "reduced over the queries, so there is one number per **key**",
            "A query is a row, and its keys are the last axis.",
            Instead(spread=lambda S: S.std(dim=-2, correction=0), entropy=lambda A: torch.special.entr(A).sum(-2)),
        ),
        Misconception(
            "sign_forgotten",
            "left out the minus sign of the entropy",
            "The logarithm of a weight below 1 is negative, so the sum needs a minus sign to become positive.",
            Instead(entropy=lambda A: -torch.special.entr(A).sum(-1)),
        ),
    ),
    variants=(
        Variant("by_log_softmax", _by_log_softmax),
        Variant("xlogy", _statistics(entropy=lambda A: -torch.special.xlogy(A, A).sum(-1))),
    ),
)


# ---------------------------------------------------------------------------------------------- design


def _turned(form):
    """W_Q = form, W_K = identity: the scores of the tokens are X form X^T / sqrt(2)."""
    return lambda: (torch.tensor(form), torch.eye(2))


def _rotated(degrees, length, mirrored=False):
    """Queries turned clockwise, or mirrored, and made `length` times as long."""
    c, s = length * math.cos(math.radians(degrees)), length * math.sin(math.radians(degrees))
    return _turned([[c, s], [s, -c]] if mirrored else [[c, -s], [s, c]])


def _wide():
    W_Q, W_K = ref.choose_projections()
    return torch.cat([W_Q, 0 * W_Q], dim=1) * 2, torch.cat([W_K, W_K], dim=1)


CHOOSE_PROJECTIONS = Exercise(
    "choose_projections",
    title="Design: four words in a ring",
    points=3,
    kind="design",
    difficulty=3,
    minutes=15,
    reference=ref.choose_projections,
    behaviour="attention_course.designs:looks_in_a_ring",
    tensors=True,
    cases=(Case("the sentence", lambda draw: {}),),
    hints=(
        "With $W_K = I$ the keys are the arrows in the drawing. In which order do the four lie around the origin? Which of the keys has the largest dot product with a given query?",
        "The four follow each other clockwise in the order of the ring. A query is a word's vector times $W_Q$, and the key that reaches farthest in its direction wins. How must $W_Q$ move each arrow so that it points to the next word instead of its own?",
        "The rows of $W_Q$ are the queries of $(1, 0)$ and $(0, 1)$. Write down where a clockwise rotation by 90° takes each of them. If the right words win with too little weight, make all queries longer.",
    ),
    misconceptions=(
        Misconception(
            "too_short",
            "made all four attend to the right word, but with a weight below 0.9",
            "Multiply $W_Q$ by a larger number, so that the scores differ more.",
            _turned([[0.0, -1.0], [1.0, 0.0]]),
            also=tuple(_rotated(*turn) for turn in ((90, 2), (75, 2.0), (75, 3), (100, 1.5), (100, 2.5))),
            keeps=0.5,
        ),
        Misconception(
            "other_way",
            "made the ring run backwards, so each word attends to the one **before** it",
            "Check that you return $(W_Q, W_K)$ in this order, and that the query of $(1, 0)$ is the first **row** of $W_Q$. Otherwise rotate the queries in the other direction.",
            lambda: ref.choose_projections()[::-1],
        ),
        Misconception(
            "at_itself",
            "made every word attend to itself",
            "If a query equals its key, their score is a squared length, and these four vectors are the longest. The query must point away from its own key.",
            _turned([[12.0, 0.0], [0.0, 12.0]]),
        ),
        Misconception(
            "turned_too_little",
            "made some words attend to the next one while others still attend to themselves",
            "Take one of those words and write down its query. Compare its dot products with its own key and with the next word's key. In which direction must it move on?",
            _turned([[5.0, -5.0], [5.0, 5.0]]),
            also=tuple(_rotated(*turn) for turn in ((20, 5), (30, 5), (50, 1), (45, 2.5), (60, 1), (60, 2), (65, 2), (65, 5))),
        ),
        Misconception(
            "turned_too_far",
            "made some words attend to the next one while others attend to a word outside the ring or far along it",
            "Take one of those words and draw its query among the keys. Which key does it point to, and in which direction is the next word's key?",
            _rotated(110, 5),
            also=tuple(
                _rotated(*turn) for turn in ((110, 1), (110, 2), (110, 3), (125, 1), (125, 2), (125, 12), (150, 1), (150, 12))
            ),
        ),
        Misconception(
            "before_and_behind",
            "made some words attend to the next one and others to the one *before* them",
            "All four must move in the same sense around the origin. A rotation does that and a reflection doesn't. Compare the signs of the two entries off the diagonal.",
            _rotated(220, 5, mirrored=True),
            also=tuple(
                _rotated(*turn, mirrored=True)
                for turn in ((55, 1), (210, 1), (250, 1), (250, 2), (260, 5), (270, 5), (275, 5), (280, 1), (70, 5), (60, 5))
            )
            + tuple(_rotated(*turn, mirrored=True) for turn in ((50, 1), (50, 20), (85, 1.5), (90, 1), (90, 2))),
        ),
        Misconception(
            "some_at_themselves_some_elsewhere",
            "made only one or two words attend to the next one",
            "All four must move in the same sense around the origin. A rotation does that and a reflection doesn't. Compare the signs of the two entries off the diagonal.",
            _rotated(125, 1.5, mirrored=True),
            also=tuple(_rotated(*turn, mirrored=True) for turn in ((125, 1), (190, 1), (195, 5), (205, 2.5))),
        ),
        Misconception(
            "none_at_the_next",
            "made none of the four attend to the next word",
            "Take *ate*. Write down its query and its dot products with the four keys. Where must the query point so that the key of *pear* wins?",
            _rotated(205, 5),
            also=(
                *(_rotated(turn, 5) for turn in (222, 240, 293, 310, 337)),
                *(_rotated(turn, 5, mirrored=True) for turn in (0, 180, 330, 10)),
            ),
        ),
        Misconception(
            "half_a_turn",
            "made none of the four attend to the next word, to itself or to the one before it",
            "Half a turn takes the queries too far. If all scores are equal, no word wins at all.",
            _turned([[-12.0, 0.0], [0.0, -12.0]]),
        ),
        Misconception(
            "one_axis_unturned",
            "made *ate* attend to *pear* and *sweet* to *she*, but not the other two, with a symmetric $W_Q W_K^\\top$",
            "The rows $(0, c)$ and $(c, 0)$ reflect the plane. A rotation needs one of these two numbers with the opposite sign.",
            _turned([[0.0, 12.0], [12.0, 0.0]]),
        ),
    ),
    variants=(
        Variant("wider", _wide),
        Variant("keys_scaled_too", lambda: (torch.tensor([[0.0, -1.0], [1.0, 0.0]]), 12 * torch.eye(2))),
        Variant("both_turned", lambda: (6 * torch.tensor([[1.0, -1.0], [1.0, 1.0]]), torch.tensor([[1.0, 1.0], [-1.0, 1.0]]))),
    ),
)
