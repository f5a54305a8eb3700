"""The derivative of the softmax, and the backward pass of attention."""

import math

import torch

from autograder import Case, Draw, Exercise, Misconception, Tolerance, Variant
from solutions import scaled_dot_product as ref


def _three_scores(draw: Draw):
    return {"s": draw.normal(3)}


def _more_scores(draw: Draw):
    return {"s": draw.normal(draw.sizes(1, low=5, high=7)[0])}


def _extreme_scores(draw: Draw):
    return {"s": draw.normal(5) + 1000.0}


def _weights(s):
    return torch.softmax(s, dim=-1)


def _naive(s):
    a = torch.exp(s) / torch.exp(s).sum()
    return torch.diag(a) - torch.outer(a, a)


def _entry_by_entry(s):
    a, m = _weights(s), len(s)
    return torch.stack([torch.stack([a[j] * (float(j == i) - a[i]) for i in range(m)]) for j in range(m)])


SOFTMAX_JACOBIAN = Exercise(
    "softmax_jacobian",
    title="The Jacobian of the softmax",
    points=2,
    difficulty=3,
    minutes=9,
    reference=ref.softmax_jacobian,
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
        ),
        Misconception(
            "diagonal_only",
            "kept $\\mathrm{diag}(a)$ and forgot that every score also sits in the denominator",
            "Subtract $a_j a_l$ everywhere: the derivative of the denominator.",
            lambda s: torch.diag(_weights(s)),
        ),
        Misconception(
            "sigmoid_rule",
            "used the rule for a sigmoid, $a_j (1 - a_j)$, on the diagonal and left the rest 0",
            "A softmax couples the weights: raising $s_l$ lowers every other $a_j$ by $a_j a_l$.",
            lambda s: torch.diag(_weights(s) * (1 - _weights(s))),
        ),
        Misconception(
            "square_twice_on_the_diagonal",
            "subtracted $a_j^2$ twice on the diagonal",
            "$a_j (1 - a_j)$ holds it already, and so does the outer product: put $a_j$ on the diagonal, then subtract.",
            lambda s: torch.diag(_weights(s) * (1 - _weights(s))) - torch.outer(_weights(s), _weights(s)),
        ),
        Misconception(
            "one_minus_everywhere",
            "wrote $a_j (1 - a_l)$ in every entry",
            "The 1 belongs on the diagonal only. Off the diagonal the entry is $-a_j a_l$.",
            lambda s: torch.outer(_weights(s), 1 - _weights(s)),
        ),
        Misconception(
            "identity_for_diagonal",
            "subtracted $a_j a_l$ from the identity matrix",
            "The first part is $\\mathrm{diag}(a)$: $a_j$ on the diagonal, not 1.",
            lambda s: torch.eye(len(s)).to(s) - torch.outer(_weights(s), _weights(s)),
        ),
        Misconception(
            "inner_product",
            "subtracted one number, $\\sum_j a_j^2$, from every entry: `a @ a.T` of two vectors is their inner product",
            "The entry needs $a_j a_l$, an **outer** product: `torch.outer(a, a)`.",
            lambda s: torch.diag(_weights(s)) - _weights(s) @ _weights(s),
        ),
        Misconception(
            "wrong_sign",
            "have every sign the wrong way round: $a a^\\top - \\mathrm{diag}(a)$",
            "Raising a score raises its own weight, so the diagonal is positive.",
            lambda s: torch.outer(_weights(s), _weights(s)) - torch.diag(_weights(s)),
        ),
        Misconception(
            "unstable_softmax",
            "took `exp` of the scores as they are, which overflows beyond 88 in float32 and 709 in float64",
            "Subtract the largest score first, or use `torch.softmax`.",
            _naive,
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


def _backward(softmax_rule, *, scale_q=None, scale_k=None, transpose=True):
    """A backward pass with its own rule `(A, dA) -> dS` for the softmax and its own scales for dQ and dK."""

    def answer(Q, K, V, dO):
        scale = 1 / math.sqrt(Q.shape[-1])
        _, A = ref.sdpa(Q, K, V)
        dS = softmax_rule(A, dO @ V.mT)
        dQ = dS @ K * (scale if scale_q is None else scale_q(scale))
        dK = dS.mT @ Q * (scale if scale_k is None else scale_k(scale))
        return dQ, dK, (A.mT if transpose else A) @ dO

    return answer


def _right(A, dA):
    return A * (dA - (A * dA).sum(-1, keepdim=True))


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
    minutes=20,
    reference=ref.sdpa_backward,
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
        "With rule 1, $dV = A^\\top dO$ and $dA = dO\\,V^\\top$. With rule 2, row by row, $dS_i = J_i\\, dA_i$. Put "
        "$J_i = \\mathrm{diag}(A_i) - A_i A_i^\\top$ in and multiply out: what is $A_i^\\top dA_i$? One number per row.",
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
            _backward(_right, scale_q=lambda s: 1.0, scale_k=lambda s: 1.0),
        ),
        Misconception(
            "scale_forgotten_in_dk",
            "scaled `dQ` but not `dK`",
            "Both pass through the same scaled score. Scale `dS` by $1/\\sqrt{d_k}$ once, before either product.",
            _backward(_right, scale_k=lambda s: 1.0),
        ),
        Misconception(
            "scaled_twice",
            "divided by $d_k$ in all: by its root twice, or without the root",
            "The scores were divided by $\\sqrt{d_k}$ once on the way forward, so their gradient is once on the way back: in `dS`, or in `dQ` and "
            "`dK`, not in both.",
            _backward(_right, scale_q=lambda s: s * s, scale_k=lambda s: s * s),
        ),
        Misconception(
            "softmax_skipped",
            "passed `dA` on as if it were `dS`: the softmax is missing from the way back",
            "Between the weights and the scores stands the softmax. Row by row, multiply `dA` by its Jacobian.",
            _backward(lambda A, dA: dA),
        ),
        Misconception(
            "diagonal_of_the_jacobian",
            "used the diagonal of the softmax's Jacobian only: `A * (1 - A) * dA`",
            "Every weight depends on every score of its row: the entries $-A_{ij} A_{il}$ off the diagonal count too.",
            _backward(lambda A, dA: A * (1 - A) * dA),
        ),
        Misconception(
            "row_sum_forgotten",
            "multiplied `dA` by `A` and stopped: the part of the Jacobian with the outer product is missing",
            "Subtract $\\sum_l A_{il}\\,dA_{il}$ from each row of `dA` before multiplying by `A`.",
            _backward(lambda A, dA: A * dA),
        ),
        Misconception(
            "row_sum_unweighted",
            "subtracted the plain row sum of `dA`",
            "The sum is weighted: $\\sum_l A_{il}\\,dA_{il}$, that is `(A * dA).sum(-1, keepdim=True)`.",
            _backward(lambda A, dA: A * (dA - dA.sum(-1, keepdim=True))),
        ),
        Misconception(
            "summed_over_queries",
            "summed $A \\odot dA$ over the queries instead of the keys",
            "The softmax works within one query's row, so does its Jacobian: sum over the last axis.",
            _backward(lambda A, dA: A * (dA - (A * dA).sum(-2, keepdim=True))),
        ),
        Misconception(
            "dv_without_transpose",
            "multiplied `dO` by $A$ where `dV` needs $A^\\top$",
            "Value $j$ collects from all queries that looked at it, a sum over $i$: $dV_j = \\sum_i A_{ij}\\,dO_i$.",
            _backward(_right, transpose=False),
        ),
    ),
    variants=(
        Variant("row_sum_from_the_output", _from_output),
        Variant("with_explicit_jacobians", _with_jacobians),
    ),
)
