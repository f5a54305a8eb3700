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
    title="Self-attention",
    points=1,
    difficulty=1,
    minutes=3,
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
        "One sequence, three roles. What do you have to make from `X` before you can call `sdpa`?",
        "Rows are tokens, so a projection is a product with the matrix on the **right**. Values are projected too.",
        "Make `Q`, `K` and `V`, each with its own matrix and one `@`; hand the three to `sdpa` and return both of its results.",
    ),
    misconceptions=(
        Misconception(
            "values_not_projected",
            "handed over the tokens themselves: `W_V` has no effect",
            "What a token is found by and what it hands over are two things: the values are `X @ W_V`.",
            Instead(v=""),
        ),
        Misconception(
            "values_are_the_matrix",
            "handed over `W_V` itself as the values",
            "Values are made from the tokens: `X @ W_V`.",
            lambda X, W_Q, W_K, W_V: ref.sdpa(X @ W_Q, X @ W_K, W_V),
            raises=True,
        ),
        Misconception(
            "keys_not_projected",
            "used the tokens themselves as keys",
            "Keys are `X @ W_K`: what a token offers to be found by.",
            Instead(k=""),
        ),
        Misconception(
            "no_projections",
            "took Q = K = V = X: the scores are symmetric, and nothing can be learned",
            "Project `X` three times, by `W_Q`, `W_K` and `W_V`.",
            Instead(q="", k="", v=""),
        ),
        Misconception(
            "one_matrix_for_both",
            "used `W_Q` for the queries and for the keys: the scores are symmetric",
            "Keys have their own matrix, `W_K`. Only so can one token look at another that does not look back.",
            Instead(k="Q"),
        ),
        Misconception(
            "roles_swapped",
            "swapped the roles of `W_Q` and `W_K`: each token looks at those that should look at it",
            "Queries are made by `W_Q` and stand on the left of the product, so that there is a row for each query.",
            Instead(q="K", k="Q"),
        ),
        Misconception(
            "transposed_weights",
            "multiplied by the transposed matrices, as `nn.Linear` stores them",
            "Here a matrix has the shape (d_in, d_out) and acts from the right: `X @ W`.",
            Before(lambda W_Q, W_K, W_V, **_: {"W_Q": W_Q.T, "W_K": W_K.T, "W_V": W_V.T}),
        ),
        Misconception(
            "scaled_by_the_model_width",
            "scaled by $\\sqrt{d_{model}}$, the width of the tokens",
            "The dot product sums over the $d_k$ features of query and key: that is the width that counts. `sdpa` reads it off.",
            Instead(scale=Of(lambda X, **_: X.shape[-1] ** -0.5)),
        ),
        Misconception(
            "scaled_by_the_model_width_too",
            "divided the scores by $\\sqrt{d_{model}}$ as well: your weights are too even",
            "`sdpa` divides already, by the root of the one width that counts. Hand the projections to it as they are.",
            Instead(scale=Of(lambda X, W_Q, **_: (X.shape[-1] * W_Q.shape[1]) ** -0.5)),
        ),
        Misconception(
            "scaled_twice",
            "divided by $\\sqrt{d_k}$ twice: `sdpa` does it already",
            "Hand the projections to `sdpa` as they are.",
            Instead(scale=Of(lambda W_Q, **_: 1 / W_Q.shape[1])),
        ),
        Misconception(
            "unscaled",
            "left out the scale $1/\\sqrt{d_k}$",
            "`sdpa` does it: hand the three projections to it.",
            Instead(scale=1.0),
        ),
        Misconception(
            "softmax_over_queries",
            "normalised over the queries: the columns sum to 1",
            "Each token that asks shares out a total of 1: `dim=-1`. Or call `sdpa`.",
            Instead(axis=-2),
        ),
        Misconception(
            "queries_not_projected",
            "used the tokens themselves as queries",
            "Queries are `X @ W_Q`: what a token looks for.",
            Instead(q=""),
        ),
        Misconception(
            "one_matrix_for_keys_and_values",
            "made the values by `W_K`, the matrix of the keys",
            "What a token is found by and what it hands over are two things: the values are `X @ W_V`.",
            Instead(v="K"),
        ),
        Misconception(
            "weights_first",
            "returned the weights first and the outputs second",
            "The docstring says $(O, A)$, as `sdpa` returns them.",
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
    title="Measure a trained head",
    points=2,
    kind="use",
    difficulty=2,
    minutes=7,
    reference=ref.head_statistics,
    recipe=Made(_statistics),
    tensors=True,
    cases=(
        Case("two queries, three keys", _two_queries),
        Case("a batch", _a_batch_of_heads),
        Case("equal sizes", _square_heads),
        Case("scores far apart", _saturated, edge=0.1),
        Case("one key far behind the others", _one_far_behind, edge=0.1),
    ),
    hints=(
        "Both numbers belong to one query, so both come from one row: which axis do you reduce?",
        "You have a function for the scores and one for the weights. `torch.std` has an argument `correction`. In the entropy, look "
        "at what `a * log(a)` gives for a weight that has underflowed to 0.",
        "`torch.special.entr(a)` is $-a \\ln a$ with the value 0 at 0. Sum it over the keys; and take the standard deviation of the "
        "**scores** over the keys with the divisor $m$ (`correction=0`).",
    ),
    misconceptions=(
        Misconception(
            "nan_where_a_weight_is_zero",
            "computed `a * log(a)`, which is NaN for a weight that has underflowed to 0",
            "Its limit is 0. Use `torch.special.entr`, or take the logarithm by `log_softmax`.",
            Instead(entropy=lambda A: -(A * A.log()).sum(-1)),
        ),
        Misconception(
            "nan_replaced_after_the_sum",
            "replaced NaN behind the sum: a query that gives some key a weight of 0 gets the entropy 0, whatever its other weights are",
            "The term of such a key is 0, and the others stay: replace NaN in each term, **before** the sum, or use `torch.special.entr`.",
            Instead(entropy=lambda A: torch.nan_to_num(-(A * A.log()).sum(-1))),
        ),
        Misconception(
            "unstable_softmax",
            "took `exp` of the scores as they are, which overflows for scores in the thousands: the weights are NaN before you measure them",
            "Use `torch.softmax`, or the weights that your `sdpa` returns.",
            Instead(softmax=_plain_softmax),
        ),
        Misconception(
            "small_number_in_the_logarithm",
            "added a small number inside the logarithm, which shifts the entropy a little",
            "No need to add anything: `torch.special.entr` is 0 at 0.",
            Instead(entropy=lambda A: -(A * (A + 1e-3).log()).sum(-1)),
        ),
        Misconception(
            "bits",
            "measured the entropy in bits (`log2`)",
            "Take the natural logarithm. Uniform weights on $m$ keys then have $\\ln m$.",
            Instead(entropy=lambda A: torch.special.entr(A).sum(-1) / math.log(2)),
        ),
        Misconception(
            "divisor_one_less",
            "divided by $m - 1$, the default of `torch.std`",
            "The exercise asks for the divisor $m$: `correction=0`.",
            Instead(spread=lambda S: S.std(dim=-1)),
        ),
        Misconception(
            "variance",
            "returned the variance of the scores",
            "The standard deviation is its square root.",
            Instead(spread=lambda S: S.var(dim=-1, correction=0)),
        ),
        Misconception(
            "spread_of_the_weights",
            "took the standard deviation of the **weights**",
            "It is the scores whose spread the scale should keep at 1: take it before the softmax.",
            Instead(spread=lambda S: torch.softmax(S, dim=-1).std(dim=-1, correction=0)),
        ),
        Misconception(
            "unscaled",
            "left out the scale",
            "Begin with `scaled_scores(Q, K)`.",
            Instead(scores=lambda Q, K: Q @ K.mT),
        ),
        Misconception(
            "over_the_queries",
            "reduced over the queries: there is one number for each **key**",
            "One query is one row, and its keys are the last axis: `dim=-1`.",
            Instead(spread=lambda S: S.std(dim=-2, correction=0), entropy=lambda A: torch.special.entr(A).sum(-2)),
        ),
        Misconception(
            "sign_forgotten",
            "forgot the minus sign of the entropy",
            "$\\ln a$ is negative for weights below 1: the entropy is $-\\sum_j a_j \\ln a_j$.",
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
    title="Four words in a ring",
    points=3,
    kind="design",
    difficulty=3,
    minutes=15,
    reference=ref.choose_projections,
    behaviour="attention_course.designs:looks_in_a_ring",
    tensors=True,
    cases=(Case("the sentence", lambda draw: {}),),
    hints=(
        "With $W_K = I$ the keys are the words' vectors, as drawn. In which order do the four lie around the origin? And of all keys, "
        "which has the largest dot product with a query?",
        "They lie clockwise in the order of the ring. The query of a word is its vector times $W_Q$: an arrow, and the key that lies "
        "farthest along it wins. How should $W_Q$ move each arrow, so that it points at the next word rather than at its own?",
        "The rows of $W_Q$ are the queries of $(1, 0)$ and $(0, 1)$. Write down where a clockwise turn by a right angle takes each. If the "
        "right words win but with too little weight, make all queries longer.",
    ),
    misconceptions=(
        Misconception(
            "too_short",
            "made the scores too small: all four look at the right word, but not each of them with a weight of 0.9 (the 1s)",
            "Multiply $W_Q$ by a larger number: the differences of the scores grow with it.",
            _turned([[0.0, -1.0], [1.0, 0.0]]),
            also=tuple(_rotated(*turn) for turn in ((90, 2), (75, 2.0), (75, 3), (100, 1.5), (100, 2.5))),
        ),
        Misconception(
            "other_way",
            "made the ring go the other way round: each word looks at the one **before** it (the -2s)",
            "Return $(W_Q, W_K)$ in this order. Rows are tokens: the query of $(1, 0)$ is the first **row** of $W_Q$. Or turn the queries "
            "the other way.",
            lambda: ref.choose_projections()[::-1],
        ),
        Misconception(
            "at_itself",
            "made every word look at itself (the -1s)",
            "With queries equal to keys the score of a word with itself is its squared length, and these four are the longest. The query "
            "must point elsewhere than the key.",
            _turned([[12.0, 0.0], [0.0, 12.0]]),
        ),
        Misconception(
            "turned_too_little",
            "made some words look at the next one, but others still at themselves (the -1s): the queries of these point too near to "
            "their own keys",
            "Take such a word. Write down its query, and the dot products with its own key and with the next word's. Which way must it go on?",
            _turned([[5.0, -5.0], [5.0, 5.0]]),
            also=tuple(_rotated(*turn) for turn in ((20, 5), (30, 5), (50, 1), (45, 2.5), (60, 1), (60, 2), (65, 2), (65, 5))),
        ),
        Misconception(
            "turned_too_far",
            "made some words look at the next one, but others at a word that is neither they themselves nor next to them in the ring (the 0s)",
            "Take such a word, and draw its query among the keys. Which key does it point at, and which way back is the next word's?",
            _rotated(110, 5),
            also=tuple(
                _rotated(*turn) for turn in ((110, 1), (110, 2), (110, 3), (125, 1), (125, 2), (125, 12), (150, 1), (150, 12))
            ),
        ),
        Misconception(
            "before_and_behind",
            "made some words look at the next one, and others at the one *before* them (the -2s)",
            "All four have to be moved the same way round. A turn does that, and a mirror does not: what signs do its two numbers "
            "off the diagonal have?",
            _rotated(220, 5, mirrored=True),
            also=tuple(
                _rotated(*turn, mirrored=True)
                for turn in ((55, 1), (210, 1), (250, 1), (250, 2), (260, 5), (270, 5), (275, 5), (280, 1), (70, 5), (60, 5))
            )
            + tuple(_rotated(*turn, mirrored=True) for turn in ((50, 1), (50, 20), (85, 1.5), (90, 1), (90, 2))),
        ),
        Misconception(
            "some_at_themselves_some_elsewhere",
            "made only one or two words look at the next one, and others at themselves (the -1s) or at a word elsewhere (the 0s)",
            "All four have to be moved the same way round. A turn does that, and a mirror does not: what signs do its two numbers "
            "off the diagonal have?",
            _rotated(125, 1.5, mirrored=True),
            also=tuple(_rotated(*turn, mirrored=True) for turn in ((125, 1), (190, 1), (195, 5), (205, 2.5))),
        ),
        Misconception(
            "none_at_the_next",
            "made none of the four look at the next word",
            "Take *ate*: write down its query, and its dot products with the four keys. Where must the query point, so that "
            "*pear* has the largest?",
            _rotated(205, 5),
            also=(
                *(_rotated(turn, 5) for turn in (222, 240, 293, 310, 337)),
                *(_rotated(turn, 5, mirrored=True) for turn in (0, 180, 330, 10)),
            ),
        ),
        Misconception(
            "half_a_turn",
            "made none of the four look at the next word, at itself or at the one before it (the 0s)",
            "Half a turn takes the queries too far: half of that is enough. And if all scores are alike, no word is chosen.",
            _turned([[-12.0, 0.0], [0.0, -12.0]]),
        ),
        Misconception(
            "one_axis_unturned",
            "made *ate* look at *pear* and *sweet* at *she*, but not the other two at theirs: a symmetric $W_Q W_K^\\top$ can make no ring",
            "The matrix $W_Q W_K^\\top$ with the rows $(0, c)$ and $(c, 0)$ mirrors the plane. A turn has one of the two with the other sign.",
            _turned([[0.0, 12.0], [12.0, 0.0]]),
        ),
    ),
    variants=(
        Variant("wider", _wide),
        Variant("keys_scaled_too", lambda: (torch.tensor([[0.0, -1.0], [1.0, 0.0]]), 12 * torch.eye(2))),
        Variant("both_turned", lambda: (6 * torch.tensor([[1.0, -1.0], [1.0, 1.0]]), torch.tensor([[1.0, 1.0], [-1.0, 1.0]]))),
    ),
)
