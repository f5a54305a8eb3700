"""The derivative of the softmax, and the backward pass of attention."""

import math

import torch

from autograder import After, Case, Draw, Exercise, Instead, Misconception, Tolerance, Variant
from solutions import scaled_dot_product as ref


def _three_scores(draw: Draw):
    return {"s": draw.normal(3)}


def _more_scores(draw: Draw):
    return {"s": draw.normal(draw.sizes(1, low=5, high=7)[0])}


def _extreme_scores(draw: Draw):
    return {"s": draw.normal(5) + 1000.0}


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
        "Raise one score a little. Its own weight grows, all the others shrink, and the total stays 1. So which entries of $J$ "
        "are positive, and what does each column sum to?",
        "With $a_j = e^{s_j}/Z$ and $Z = \\sum_i e^{s_i}$, the quotient rule gives "
        "$\\partial a_j/\\partial s_l = a_j\\,(\\delta_{jl} - a_l)$, "
        "where $\\delta_{jl}$ is 1 for $j = l$ and 0 otherwise. Write the two parts as two matrices.",
        "The first part is a diagonal matrix that holds $a$ (`torch.diag`), the second has the entry $a_j a_l$ everywhere "
        "(`torch.outer`).",
    ),
    misconceptions=(
        Misconception(
            "asked_autograd",
            "asked PyTorch for the derivative: autograd is switched off while this exercise is checked",
            "Write the two parts of $J$ by hand: the exercise is their rule.",
            lambda s: torch.autograd.functional.jacobian(lambda x: torch.softmax(x, dim=-1), s),
            also=(_row_by_row,),
            raises=True,
        ),
        Misconception(
            "diagonal_only",
            "kept $\\mathrm{diag}(a)$ and forgot that every score also sits in the denominator",
            "Subtract $a_j a_l$ everywhere: the derivative of the denominator.",
            Instead(sign=0.0),
        ),
        Misconception(
            "sigmoid_rule",
            "used the rule for a sigmoid, $a_j (1 - a_j)$, on the diagonal and left the rest 0",
            "A softmax couples the weights: raising $s_l$ lowers every other $a_j$ by $a_j a_l$.",
            Instead(diagonal=_spread, sign=0.0),
        ),
        Misconception(
            "square_twice_on_the_diagonal",
            "subtracted $a_j^2$ twice on the diagonal",
            "$a_j (1 - a_j)$ holds it already, and so does the outer product: put $a_j$ on the diagonal, then subtract.",
            Instead(diagonal=_spread),
        ),
        Misconception(
            "one_minus_everywhere",
            "wrote $a_j (1 - a_l)$ in every entry",
            "The 1 belongs on the diagonal only. Off the diagonal the entry is $-a_j a_l$.",
            Instead(diagonal=lambda a: a[:, None]),
        ),
        Misconception(
            "diagonal_in_every_row",
            "put the term of the diagonal into every row: each entry of column $l$ has what belongs to $j = l$ alone",
            "A vector added to a matrix is added to each of its rows. Make a matrix of it first, with zeros beside the diagonal. "
            "Then each column must sum to 0.",
            Instead(diagonal=lambda a: a * (1 - a)),
            also=(Instead(diagonal=lambda a: a),),
        ),
        Misconception(
            "no_diagonal",
            "have $-a_j a_l$ in every entry: nothing is added on the diagonal",
            "That is the rule for $j \\ne l$. For $j = l$ the numerator depends on the score as well: work out "
            "$\\partial a_j / \\partial s_j$ on its own.",
            Instead(diagonal=torch.zeros_like),
        ),
        Misconception(
            "another_diagonal",
            "did not put on the diagonal what the rule for $j = l$ gives",
            "On the diagonal the score stands in the numerator *and* in the denominator: work out $\\partial a_j / \\partial s_j$ "
            "with both. Each column must sum to 0.",
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
            "The first part is $\\mathrm{diag}(a)$: $a_j$ on the diagonal, not 1.",
            Instead(diagonal=lambda a: torch.eye(len(a)).to(a)),
        ),
        Misconception(
            "inner_product",
            "subtracted one number, $\\sum_j a_j^2$, from every entry: `a @ a.T` of two vectors is their inner product",
            "The entry needs $a_j a_l$, an **outer** product: `torch.outer(a, a)`.",
            Instead(product=torch.dot),
        ),
        Misconception(
            "wrong_sign",
            "have every sign the wrong way round: $a a^\\top - \\mathrm{diag}(a)$",
            "Raising a score raises its own weight, so the diagonal is positive.",
            After(lambda out, **_: -out),
        ),
        Misconception(
            "unstable_softmax",
            "took `exp` of the scores as they are, which overflows beyond 88 in float32 and 709 in float64",
            "Subtract the largest score first, or use `torch.softmax`.",
            Instead(weights=_plain),
        ),
        Misconception(
            "product_added",
            "added $a_j a_l$ where it is subtracted: the columns no longer sum to 0",
            "The other weights lose what one gains: off the diagonal the entries are negative.",
            Instead(sign=1.0),
        ),
        Misconception(
            "scores_for_weights",
            "put the scores where the weights belong",
            "The rule is written in the weights: begin with $a = \\mathrm{softmax}(s)$.",
            Instead(weights=lambda s: s),
        ),
        Misconception(
            "weights_not_normalised",
            "used the exponentials of the scores and did not divide by their sum",
            "The rule is written in the weights, which sum to 1: `torch.softmax(s, dim=-1)`.",
            Instead(weights=torch.exp),
        ),
    ),
    variants=(
        Variant("delta_times", lambda s: _weights(s)[:, None] * (torch.eye(len(s)).to(s) - _weights(s)[None, :])),
        Variant("entry_by_entry", _entry_by_entry),
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
    forbid=("torch.autograd", "autograd.grad", ".backward(", "jacobian("),
    tolerance=Tolerance(rtol=1e-4, atol=1e-5),  # float32 through two products and a softmax; mistakes are 1e-1 and more
    cases=(
        Case("two queries, three keys", _tiny, by_hand=True),
        Case("a batch", _batch, by_hand=True),
        Case("square self-attention", _square, by_hand=True),
    ),
    hints=(
        "Walk along the arrows of the drawing, from the right: $O = AV$, then the softmax of each row, then the scores. Every "
        "gradient has the shape of the thing it belongs to: use that to check each product.",
        "With rule 1, $dV = A^\\top dO$ and $dA = dO\\,V^\\top$. With rule 2, $dS_{il} = \\sum_j dA_{ij} J_{jl}$: every $J_{jl}$ has "
        "$-A_{ij} A_{il}$, and the one with $j = l$ also $A_{il}$. Multiply out: which factor have all terms in common? What remains of "
        "the sum is one number per row.",
        "$dS_{ij} = A_{ij}\\,(dA_{ij} - r_i)$ with $r_i = \\sum_l A_{il}\\, dA_{il}$ (`keepdim=True`). Rule 3 puts $1/\\sqrt{d_k}$ on it. "
        "Then $dQ = dS\\,K$; for $dK$ the sum runs over the queries.",
    ),
    misconceptions=(
        Misconception(
            "asked_autograd",
            "asked PyTorch for the gradients: autograd is switched off while this exercise is checked",
            "Walk back by hand: three products and the softmax's rule.",
            _autograd,
            raises=True,
        ),
        Misconception(
            "scale_forgotten",
            "left the factor $1/\\sqrt{d_k}$ out of `dQ` and `dK`; `dV` is right",
            "The scores were divided by $\\sqrt{d_k}$ on the way forward, so their gradient is too on the way back.",
            Instead(of_q=0.0, of_k=0.0),
        ),
        Misconception(
            "scale_forgotten_in_dk",
            "scaled `dQ` but not `dK`",
            "Both pass through the same scaled score. Scale `dS` by $1/\\sqrt{d_k}$ once, before either product.",
            Instead(of_k=0.0),
        ),
        Misconception(
            "scaled_twice",
            "divided by $d_k$ in all: by its root twice, or without the root",
            "The scores were divided by $\\sqrt{d_k}$ once on the way forward, so their gradient is once on the way back: in `dS`, or in `dQ` and "
            "`dK`, not in both.",
            Instead(of_q=-1.0, of_k=-1.0),
        ),
        Misconception(
            "softmax_skipped",
            "passed `dA` on as if it were `dS`: the softmax is missing from the way back",
            "Between the weights and the scores stands the softmax. Row by row, multiply `dA` by its Jacobian.",
            Instead(times=torch.ones_like, minus=_nothing),
        ),
        Misconception(
            "diagonal_of_the_jacobian",
            "used the diagonal of the softmax's Jacobian only: `A * (1 - A) * dA`",
            "Every weight depends on every score of its row: the entries $-A_{ij} A_{il}$ off the diagonal count too.",
            Instead(times=lambda A: A * (1 - A), minus=_nothing),
        ),
        Misconception(
            "row_sum_forgotten",
            "multiplied `dA` by `A` and stopped: the part of the Jacobian with the outer product is missing",
            "Subtract $\\sum_l A_{il}\\,dA_{il}$ from each row of `dA` before multiplying by `A`.",
            Instead(minus=_nothing),
        ),
        Misconception(
            "row_sum_unweighted",
            "subtracted the plain row sum of `dA`",
            "In rule 2 of the lesson, take the part $-A_{ij} A_{il}$ of each $J_{jl}$, and $A_{il}$ out of the sum: which factor is left on each $dA_{ij}$?",
            Instead(minus=lambda A, dA: dA.sum(-1, keepdim=True)),
        ),
        Misconception(
            "row_mean_unweighted",
            "subtracted the plain mean of `dA` over the keys",
            "A plain mean gives every key the same weight. In rule 2 of the lesson, take the part $-A_{ij} A_{il}$ of each $J_{jl}$, and $A_{il}$ out of the sum: which factor is left on each $dA_{ij}$?",
            Instead(minus=lambda A, dA: dA.mean(-1, keepdim=True)),
        ),
        Misconception(
            "row_sum_not_multiplied",
            "multiplied `dA` by $A$, but not the row sum that is subtracted from it",
            "The Jacobian has an $A_{ij}$ in both of its parts: take the row sum from `dA` first, then multiply the difference by $A$.",
            Instead(minus=lambda A, dA: _row_sum(A, dA) / A),
        ),
        Misconception(
            "keys_first",
            "have the keys on the rows of `dA`: it is the transpose of what $A$ has room for",
            "`dA` has the shape of $A$, a row for each query: `dO` stands on the left of that product.",
            Instead(keys_first=True),
        ),
        Misconception(
            "own_partner",
            "multiplied `dS` by $Q$ where `dQ` is made, and by $K$ where `dK` is made",
            "A score is a product of a query and a key. Its derivative with respect to the one is the *other*.",
            Instead(other=True),
        ),
        Misconception(
            "summed_over_queries",
            "summed $A \\odot dA$ over the queries instead of the keys",
            "The softmax works within one query's row, so does its Jacobian: sum over the last axis.",
            Instead(minus=lambda A, dA: (A * dA).sum(-2, keepdim=True)),
        ),
        Misconception(
            "dv_without_transpose",
            "multiplied `dO` by $A$ where `dV` needs $A^\\top$",
            "Value $j$ collects from all queries that looked at it, a sum over $i$: $dV_j = \\sum_i A_{ij}\\,dO_i$.",
            Instead(turn=lambda A: A),
        ),
        Misconception(
            "scale_forgotten_in_dq",
            "scaled `dK` but not `dQ`",
            "Both pass through the same scaled score. Scale `dS` by $1/\\sqrt{d_k}$ once, before either product.",
            Instead(of_q=0.0),
        ),
        Misconception(
            "multiplied_by_the_root",
            "multiplied by $\\sqrt{d_k}$ on the way back",
            "The derivative of $s / \\sqrt{d_k}$ is $1 / \\sqrt{d_k}$: the factor is the same in both directions.",
            Instead(of_q=0.5, of_k=0.5),
        ),
        Misconception(
            "weights_of_unscaled_scores",
            "made the weights anew from scores without the scale $1/\\sqrt{d_k}$",
            "Take the weights that `sdpa` returns: the way back starts where the way forward ended.",
            Instead(forward=0.0),
        ),
        Misconception(
            "row_sum_added",
            "added the row sum $\\sum_l A_{il}\\,dA_{il}$ instead of subtracting it",
            "The outer product stands behind a minus: $dS_{ij} = A_{ij}\\,(dA_{ij} - r_i)$.",
            Instead(minus=lambda A, dA: -_row_sum(A, dA)),
        ),
        Misconception(
            "mean_for_the_sum",
            "subtracted the mean of $A \\odot dA$ over the keys",
            "It is a sum: the weights are in it already, and they sum to 1.",
            Instead(minus=lambda A, dA: (A * dA).mean(-1, keepdim=True)),
        ),
        Misconception(
            "in_the_order_of_the_walk",
            "returned `dV` first, as the way back meets it",
            "The docstring says $(dQ, dK, dV)$.",
            After(lambda out, **_: (out[2], out[0], out[1])),
        ),
        Misconception(
            "in_another_order",
            "returned the three gradients in another order than they are asked for",
            "The docstring says $(dQ, dK, dV)$.",
            After(lambda out, **_: (out[2], out[1], out[0])),
            also=(After(lambda out, **_: (out[0], out[2], out[1])), After(lambda out, **_: (out[1], out[2], out[0]))),
        ),
        Misconception(
            "queries_and_keys_exchanged",
            "returned the gradient of $K$ first and that of $Q$ second",
            "$dQ = dS\\,K$ has a row for each query, and comes first.",
            After(lambda out, **_: (out[1], out[0], out[2])),
        ),
    ),
    variants=(
        Variant("row_sum_from_the_output", _from_output),
        Variant("with_explicit_jacobians", _with_jacobians),
    ),
)
