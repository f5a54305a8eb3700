"""The derivative of the softmax, and the backward pass of attention."""

import math

import numpy as np
import torch

from autograder import After, Case, Draw, Exercise, Instead, Misconception, Tolerance, Variant
from solutions import scaled_dot_product as ref


def _three_scores(draw: Draw):
    return {"s": draw.normal(3)}


def _more_scores(draw: Draw):
    return {"s": draw.normal(draw.sizes(1, low=5, high=7)[0])}


def _extreme_scores(draw: Draw):
    """Scores near 1000, in sixteenths, whose logsumexp float32 holds: $e^{s - \\mathrm{logsumexp}(s)}$ loses nothing there.

    Any other logsumexp near 1000 is rounded by up to 3e-5 in float32, which is more than the tolerance.
    """
    while True:
        s = (draw.normal(5) * 16).round() / 16 + 1000.0
        total = np.logaddexp.reduce(s)
        if abs(total - np.float32(total)) < 2e-7 and len(set(s)) == 5:
            return {"s": s}


def _weights(s):
    return torch.softmax(s, dim=-1)


def _plain(s):
    return torch.exp(s) / torch.exp(s).sum()


def _spread(a):
    return torch.diag(a * (1 - a))


def _on_the_diagonal(rule):
    """The right entries beside the diagonal, others on it."""

    def answer(s):
        a = _weights(s)
        beside = -torch.outer(a, a)
        return beside - torch.diag(beside.diagonal()) + torch.diag(rule(a))

    return answer


def _jacobian(s, *, weights=_weights, diagonal=torch.diag, product=torch.outer, sign=-1.0):
    a = weights(s)
    return diagonal(a) + sign * product(a, a)


def _entry_by_entry(s):
    a, m = _weights(s), len(s)
    return torch.stack([torch.stack([a[j] * (float(j == i) - a[i]) for i in range(m)]) for j in range(m)])


def _row_by_row(s):
    leaf = s.detach().clone().requires_grad_(True)
    with torch.enable_grad():
        a = torch.softmax(leaf, dim=-1)
        return torch.stack([torch.autograd.grad(weight, leaf, retain_graph=True)[0] for weight in a])


SOFTMAX_JACOBIAN = Exercise(
    "softmax_jacobian",
    title="The Jacobian of the softmax",
    points=2,
    difficulty=3,
    minutes=10,
    reference=ref.softmax_jacobian,
    recipe=_jacobian,
    tensors=True,
    forbid=("torch.autograd", "autograd.", "jacobian(", "jacrev(", "jacfwd(", ".backward("),
    cases=(
        Case("three scores", _three_scores, by_hand=True),
        Case("more scores", _more_scores, by_hand=True),
        Case("scores near 1000", _extreme_scores, edge=0.25, by_hand=True),
    ),
    hints=(
        "Raise one score a little. Its own weight grows, all others shrink, and the total stays 1. Which entries of $J$ are positive, and what does each column sum to?",
        "Write $a_j = e^{s_j}/Z$ with $Z = \\sum_i e^{s_i}$. For $j = l$ the score is in the numerator and in the denominator, and the quotient rule gives two terms. One of them is the term you already have for $j \\ne l$. Write the two terms as two matrices.",
        "The first matrix is diagonal and holds $a$, which is `torch.diag`. The second has the entry $a_j a_l$ everywhere, which is `torch.outer`.",
    ),
    misconceptions=(
        Misconception(
            "asked_autograd",
            "asked PyTorch for the derivative, which is switched off during this check",
            "Write the two parts of $J$ with your own formula.",
            lambda s: torch.autograd.functional.jacobian(lambda x: torch.softmax(x, dim=-1), s),
            also=(_row_by_row,),
            raises=True,
        ),
        Misconception(
            "diagonal_only",
            "kept $\\mathrm{diag}(a)$ and left out the derivative of the denominator",
            "Every score is also in the denominator, which contributes $-a_j a_l$ to every entry.",
            Instead(sign=0.0),
        ),
        Misconception(
            "sigmoid_rule",
            "used the rule for a sigmoid, with $a_j (1 - a_j)$ on the diagonal and 0 elsewhere",
            "A softmax couples its weights. Raising $s_l$ lowers every other weight $a_j$ by $a_j a_l$.",
            Instead(diagonal=_spread, sign=0.0),
        ),
        Misconception(
            "square_twice_on_the_diagonal",
            "subtracted $a_j^2$ twice on the diagonal",
            "$a_j (1 - a_j)$ contains it once, and so does the outer product. Put $a_j$ on the diagonal, then subtract.",
            Instead(diagonal=_spread),
        ),
        Misconception(
            "one_minus_everywhere",
            "wrote $a_j (1 - a_l)$ in every entry",
            "The 1 belongs only on the diagonal. Elsewhere the entry is $-a_j a_l$.",
            Instead(diagonal=lambda a: a[:, None]),
        ),
        Misconception(
            "diagonal_in_every_row",
            "added the diagonal's term to every row",
            "PyTorch adds a vector to each row of a matrix. Make a diagonal matrix first. As a check, each column must sum to 0.",
            Instead(diagonal=lambda a: a * (1 - a)),
            also=(Instead(diagonal=lambda a: a),),
        ),
        Misconception(
            "no_diagonal",
            "wrote $-a_j a_l$ in every entry, including the diagonal",
            "This rule holds for $j \\ne l$. For $j = l$ the numerator depends on the score as well, so work out $\\partial a_j / \\partial s_j$ separately.",
            Instead(diagonal=torch.zeros_like),
        ),
        Misconception(
            "another_diagonal",
            "put something on the diagonal that doesn't follow from the rule for $j = l$",
            "On the diagonal the score is in the numerator *and* in the denominator. Work out $\\partial a_j / \\partial s_j$ with both. As a check, each column must sum to 0.",
            _on_the_diagonal(lambda a: a),
            also=(
                _on_the_diagonal(lambda a: 1 - a),
                _on_the_diagonal(torch.ones_like),
                _on_the_diagonal(torch.zeros_like),
                _on_the_diagonal(torch.square),
            ),
        ),
        Misconception(
            "identity_for_diagonal",
            "subtracted $a_j a_l$ from the identity matrix",
            "The first part is $\\mathrm{diag}(a)$, with $a_j$ on the diagonal instead of 1.",
            Instead(diagonal=lambda a: torch.eye(len(a)).to(a)),
        ),
        Misconception(
            "inner_product",
            "subtracted the number $\\sum_j a_j^2$ from every entry, because `a @ a.T` of two vectors is their inner product",
            "Each entry needs its own $a_j a_l$, which is an **outer** product.",
            Instead(product=torch.dot),
        ),
        Misconception(
            "wrong_sign",
            "got every sign the wrong way round, as in $a a^\\top - \\mathrm{diag}(a)$",
            "Raising a score raises its own weight, so the diagonal is positive.",
            After(lambda out, **_: -out),
        ),
        Misconception(
            "unstable_softmax",
            "took `exp` of the raw scores, which overflows above 88 in float32 and above 709 in float64",
            "Subtract the largest score first, or use `torch.softmax`.",
            Instead(weights=_plain),
        ),
        Misconception(
            "product_added",
            "added $a_j a_l$ instead of subtracting it, so the columns no longer sum to 0",
            "The other weights lose what one weight gains, so the entries off the diagonal are negative.",
            Instead(sign=1.0),
        ),
        Misconception(
            "scores_for_weights",
            "put the scores where the weights belong",
            "The rule is written in terms of the weights, so start with $a = \\mathrm{softmax}(s)$.",
            Instead(weights=lambda s: s),
        ),
        Misconception(
            "weights_not_normalised",
            "used the exponentials of the scores without dividing by their sum",
            "The rule is written in terms of the weights, which sum to 1.",
            Instead(weights=torch.exp),
        ),
    ),
    variants=(
        Variant("delta_times", lambda s: _weights(s)[:, None] * (torch.eye(len(s)).to(s) - _weights(s)[None, :])),
        Variant("entry_by_entry", _entry_by_entry),
        Variant("by_logsumexp", lambda s: _jacobian(s, weights=lambda s: torch.exp(s - torch.logsumexp(s, dim=0)))),
    ),
)


# ---------------------------------------------------------------------------------------------- backward


def _tiny(draw: Draw):
    return {"Q": draw.normal(2, 5), "K": draw.normal(3, 5), "V": draw.normal(3, 7), "dO": draw.normal(2, 7)}


def _batch(draw: Draw):
    n, m, d_k, d_v = draw.sizes(4, high=7)
    shapes = {"Q": (3, n, d_k), "K": (3, m, d_k), "V": (3, m, d_v), "dO": (3, n, d_v)}
    return {name: draw.normal(*shape) for name, shape in shapes.items()}


def _square(draw: Draw):
    """As many queries as keys, d_k = d_v: a transpose forgotten raises no error here."""
    n, d = draw.sizes(2, low=3, high=7)
    return {name: draw.normal(n, d) for name in ("Q", "K", "V", "dO")}


def _row_sum(A, dA):
    return (A * dA).sum(-1, keepdim=True)


def _walked_back(
    Q, K, V, dO, *, forward=-0.5, of_q=-0.5, of_k=-0.5, minus=_row_sum, times=lambda A: A, turn=lambda A: A.mT, keys_first=False,
    other=False,
):  # fmt: skip
    """The scores were multiplied by `d_k ** forward`, and their gradient by `of_q` and `of_k` on the way to dQ and dK."""
    d_k = Q.shape[-1]
    A = torch.softmax(Q @ K.mT * d_k**forward, dim=-1)
    dA = V @ dO.mT if keys_first else dO @ V.mT
    dS = times(A) * (dA - minus(A, dA))
    for_q, for_k = (Q, K) if other else (K, Q)
    return dS @ for_q * d_k**of_q, dS.mT @ for_k * d_k**of_k, turn(A) @ dO


def _nothing(A, dA):
    return 0.0


def _from_output(Q, K, V, dO):
    O, A = ref.sdpa(Q, K, V)
    dS = A * (dO @ V.mT - (dO * O).sum(-1, keepdim=True)) * Q.shape[-1] ** -0.5
    return torch.einsum("...ij,...jk->...ik", dS, K), torch.einsum("...ij,...ik->...jk", dS, Q), A.mT @ dO


def _with_jacobians(Q, K, V, dO):
    _, A = ref.sdpa(Q, K, V)
    J = torch.diag_embed(A) - A[..., :, None] * A[..., None, :]  # (..., query, key, key)
    dS = (J @ (dO @ V.mT)[..., None])[..., 0] / math.sqrt(Q.shape[-1])
    return dS @ K, dS.mT @ Q, A.mT @ dO


def _autograd(Q, K, V, dO):
    leaves = [x.clone().requires_grad_() for x in (Q, K, V)]
    O, _ = ref.sdpa(*leaves)
    return torch.autograd.grad(O, leaves, dO)


SDPA_BACKWARD = Exercise(
    "sdpa_backward",
    title="The backward pass",
    points=4,
    difficulty=5,
    minutes=25,
    reference=ref.sdpa_backward,
    recipe=_walked_back,
    tensors=True,
    outputs=(0.25, 0.25, 0.25),
    forbid=("torch.autograd", "autograd.grad", ".backward(", "jacobian("),
    tolerance=Tolerance(rtol=1e-4, atol=1e-5),  # float32 through two products and a softmax; mistakes are 1e-1 and more
    cases=(
        Case("two queries, three keys", _tiny, by_hand=True),
        Case("a batch", _batch, by_hand=True),
        Case("square self-attention", _square, by_hand=True),
    ),
    hints=(
        "Follow the dashed arrows from the right, first through $O = AV$, then through the softmax of each row, then through the scores. Every gradient has the shape of its matrix, and you can check each product with that.",
        "Rule 1 gives $dV = A^\\top dO$ and $dA = dO\\,V^\\top$. Rule 2 gives $dS_{il} = \\sum_j dA_{ij} J_{jl}$, where every $J_{jl}$ contains $-A_{ij} A_{il}$ and the one with $j = l$ also contains $A_{il}$. Multiply out. Which factor do all terms share? What is left of the sum is one number per row.",
        "$dS_{ij} = A_{ij}\\,(dA_{ij} - r_i)$ with $r_i = \\sum_l A_{il}\\, dA_{il}$, which needs `keepdim=True`. Rule 3 multiplies it by $1/\\sqrt{d_k}$. Then $dQ = dS\\,K$, and for $dK$ the sum runs over the queries.",
    ),
    misconceptions=(
        Misconception(
            "asked_autograd",
            "asked PyTorch for the gradients, which is switched off during this check",
            "Use the three rules of the notebook instead.",
            _autograd,
            raises=True,
        ),
        Misconception(
            "scale_forgotten",
            "left the factor $1/\\sqrt{d_k}$ out of `dQ` and `dK`",
            "The forward pass divides the scores by $\\sqrt{d_k}$. The backward pass has the same factor.",
            Instead(of_q=0.0, of_k=0.0),
            keeps=0.75,
        ),
        Misconception(
            "scale_forgotten_in_dk",
            "scaled `dQ` but not `dK`",
            "Both gradients pass through the same scaled score. Multiply `dS` by $1/\\sqrt{d_k}$ once, before either product.",
            Instead(of_k=0.0),
            keeps=0.75,
        ),
        Misconception(
            "scaled_twice",
            "divided by $d_k$ in total, where $\\sqrt{d_k}$ is needed",
            "The forward pass divides the scores by $\\sqrt{d_k}$ once, so the backward pass does it once as well, either in `dS` or in `dQ` and `dK`.",
            Instead(of_q=-1.0, of_k=-1.0),
        ),
        Misconception(
            "softmax_skipped",
            "passed `dA` on as if it were `dS`, without the softmax",
            "The softmax comes between the weights and the scores. Multiply each row of `dA` by its Jacobian.",
            Instead(times=torch.ones_like, minus=_nothing),
        ),
        Misconception(
            "diagonal_of_the_jacobian",
            "used only the diagonal of the softmax's Jacobian, as in `A * (1 - A) * dA`",
            "Every weight depends on every score of its row, so the entries $-A_{ij} A_{il}$ off the diagonal count as well.",
            Instead(times=lambda A: A * (1 - A), minus=_nothing),
        ),
        Misconception(
            "row_sum_forgotten",
            "multiplied `dA` by `A` and stopped there, without the outer product of the Jacobian",
            "Multiply out $\\sum_j dA_{ij} J_{jl}$ with both parts of $J$. A sum over the row is still missing.",
            Instead(minus=_nothing),
        ),
        Misconception(
            "row_sum_unweighted",
            "subtracted the plain row sum of `dA`",
            "In rule 2, insert $-A_{ij} A_{il}$ and take $A_{il}$ out of the sum. Which factor stays with each $dA_{ij}$?",
            Instead(minus=lambda A, dA: dA.sum(-1, keepdim=True)),
        ),
        Misconception(
            "row_mean_unweighted",
            "subtracted the plain mean of `dA` over the keys",
            "A plain mean treats all keys alike. In rule 2, insert $-A_{ij} A_{il}$ and take $A_{il}$ out of the sum. Which factor stays with each $dA_{ij}$?",
            Instead(minus=lambda A, dA: dA.mean(-1, keepdim=True)),
        ),
        Misconception(
            "row_sum_not_multiplied",
            "multiplied `dA` by $A$, but not the row sum that is subtracted from it",
            "Both parts of the Jacobian contain $A$. Subtract the row sum from `dA` first, then multiply the difference by $A$.",
            Instead(minus=lambda A, dA: _row_sum(A, dA) / A),
        ),
        Misconception(
            "keys_first",
            "put the keys on the rows of `dA`",
            "`dA` has the shape of $A$, with one row per query, so `dO` comes first in the product.",
            Instead(keys_first=True),
        ),
        Misconception(
            "own_partner",
            "multiplied `dS` by $Q$ to get `dQ`, and by $K$ to get `dK`",
            "A score is the product of a query and a key. Its derivative with respect to one of them is the *other*.",
            Instead(other=True),
        ),
        Misconception(
            "summed_over_queries",
            "summed $A \\odot dA$ over the queries instead of the keys",
            "Each query has its own softmax and its own Jacobian, so the sum runs along the row.",
            Instead(minus=lambda A, dA: (A * dA).sum(-2, keepdim=True)),
        ),
        Misconception(
            "dv_without_transpose",
            "multiplied `dO` by $A$ where `dV` needs $A^\\top$",
            "A value collects gradients from all queries that attend to it, $dV_j = \\sum_i A_{ij}\\,dO_i$.",
            Instead(turn=lambda A: A),
        ),
        Misconception(
            "scale_forgotten_in_dq",
            "scaled `dK` but not `dQ`",
            "Both gradients pass through the same scaled score. Multiply `dS` by $1/\\sqrt{d_k}$ once, before either product.",
            Instead(of_q=0.0),
            keeps=0.75,
        ),
        Misconception(
            "multiplied_by_the_root",
            "multiplied by $\\sqrt{d_k}$ in the backward pass",
            "The derivative of $s / \\sqrt{d_k}$ is $1 / \\sqrt{d_k}$, so the factor is the same in both directions.",
            Instead(of_q=0.5, of_k=0.5),
        ),
        Misconception(
            "weights_of_unscaled_scores",
            "recomputed the weights from scores without the factor $1/\\sqrt{d_k}$",
            "Use the weights that `sdpa` returns, because the backward pass starts where the forward pass ended.",
            Instead(forward=0.0),
        ),
        Misconception(
            "row_sum_added",
            "added the row sum $\\sum_l A_{il}\\,dA_{il}$ instead of subtracting it",
            "The outer product has a minus sign in the Jacobian, and it keeps that sign here.",
            Instead(minus=lambda A, dA: -_row_sum(A, dA)),
        ),
        Misconception(
            "mean_for_the_sum",
            "took the mean of $A \\odot dA$ over the keys where a sum is needed",
            "The weights already sum to 1, so this sum is already a weighted mean.",
            Instead(minus=lambda A, dA: (A * dA).mean(-1, keepdim=True)),
        ),
        Misconception(
            "in_the_order_of_the_walk",
            "returned `dV` first",
            "The docstring asks for the order $(dQ, dK, dV)$.",
            After(lambda out, **_: (out[2], out[0], out[1])),
        ),
        Misconception(
            "in_another_order",
            "returned the three gradients in the wrong order",
            "The docstring asks for the order $(dQ, dK, dV)$.",
            After(lambda out, **_: (out[2], out[1], out[0])),
            also=(After(lambda out, **_: (out[0], out[2], out[1])), After(lambda out, **_: (out[1], out[2], out[0]))),
        ),
        Misconception(
            "queries_and_keys_exchanged",
            "returned the gradient of $K$ first and the gradient of $Q$ second",
            "The docstring asks for the order $(dQ, dK, dV)$. The gradient $dQ = dS\\,K$ has one row per query.",
            After(lambda out, **_: (out[1], out[0], out[2])),
        ),
    ),
    variants=(
        Variant("row_sum_from_the_output", _from_output),
        Variant("with_explicit_jacobians", _with_jacobians),
    ),
)


# ---------------------------------------------------------------------------------------------- design

MOST_SENSITIVE_SCORES = Exercise(
    "most_sensitive_scores",
    title="Design: the most sensitive softmax",
    points=2,
    kind="design",
    difficulty=2,
    minutes=8,
    reference=ref.most_sensitive_scores,
    behaviour="attention_course.designs:sensitivity",
    tensors=True,
    cases=(Case("your scores", lambda draw: {}),),
    hints=(
        "The norm depends only on the weights. Try a few in your head. What is $J$ if one weight is 1? What is the entry $a_j (1 - a_j)$ "
        "at its largest?",
        "$a_j (1 - a_j)$ is largest at $a_j = 1/2$, and the weights sum to 1. How many of them can be 1/2, and what must the others be?",
        "Two scores are equal, and the other six are far below them.",
    ),
    misconceptions=(
        Misconception(
            "all_alike",
            "made all weights equal",
            "Uniform weights give a norm of $\\sqrt{7}/8 = 0.33$. Each weight is 1/8 there, and $a_j (1 - a_j)$ is far from its largest value.",
            lambda: torch.zeros(8),
        ),
        Misconception(
            "one_winner",
            "gave one key almost all of the weight, where the softmax hardly reacts",
            "With one weight at 1 and the others at 0, every entry $a_j (1 - a_j)$ and $-a_j a_l$ is 0.",
            lambda: 30.0 * torch.eye(8)[0],
            also=(lambda: torch.tensor([1.0, 5.0, 9.0, 13.0, 17.0, 21.0, 25.0, 29.0]),),
        ),
        Misconception(
            "too_many_tied",
            "tied three keys or more at the top",
            "Three tied keys give a norm of $\\sqrt{2}/3 = 0.47$. Fewer would do better.",
            lambda: torch.tensor([30.0, 30.0, 30.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        ),
        Misconception(
            "others_too_near",
            "tied two keys at the top but left too much weight to the other six",
            "Lower the other scores, or raise the two.",
            lambda: torch.tensor([2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        ),
    ),
    variants=(
        Variant("others_negative", lambda: torch.tensor([-50.0, -50.0, 0.0, -50.0, -50.0, 0.0, -50.0, -50.0])),
        Variant("nearly_tied", lambda: torch.tensor([20.0, 20.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])),
    ),
)
