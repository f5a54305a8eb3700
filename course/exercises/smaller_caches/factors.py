"""Notebook 12b: low rank for these inputs."""

import numpy as np
import torch

from autograder import After, Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import smaller_caches as ref

EIGENVECTORS = Tolerance(
    rtol=1e-3, atol=3e-4
)  # float32 eigenvectors whose eigenvalues differ by a fifth; mistakes are 0.03 and more


def draw_moment(draw: Draw, d):
    """A second moment with strong correlations: not near the identity."""
    root = draw.normal(d, d) * draw.uniform(d, 1, low=0.3, high=2.0)
    return root.T @ root / d + 0.1 * np.eye(d)


def clear(W, moment):
    """Whether float32 will find the directions: eigenvalues apart from one another."""
    values = np.linalg.eigvalsh(W.T @ moment @ W)
    return bool((values[1:] > 1.25 * values[:-1]).all() and values[0] > 0.02 * values[-1])


def _matrix(d_in, d_out):
    def make(draw: Draw):
        while True:
            W, moment = draw.normal(d_in, d_out).round(2), draw_moment(draw, d_in)
            if all(clear(W, other) for other in (moment, np.eye(d_in), moment @ moment)):
                return {"W": W, "moment": moment}

    return make


def _two_groups(draw: Draw):
    """Outputs of which the first has nothing in common with the others: most directions have an entry that is exactly 0."""
    while True:
        W, moment = np.zeros((5, 3)), np.zeros((5, 5))
        W[:2, :1], W[2:, 1:] = draw.normal(2, 1).round(2), draw.normal(3, 2).round(2)
        moment[:2, :2], moment[2:, 2:] = draw_moment(draw, 2), draw_moment(draw, 3)
        if all(clear(W, other) for other in (moment, np.eye(5), moment @ moment)):
            return {"W": W, "moment": moment}


def _factors(
    *,
    between=lambda moment: moment,
    first=lambda columns: columns.flip(-1),
    signed=lambda U: U,
    sized=lambda W, moment: W,
):
    """The eigenvectors of W^T `between` W, as columns from the largest eigenvalue, and what `sized` is in their directions."""

    def answer(W, moment):
        U = signed(first(torch.linalg.eigh(W.mT @ between(moment) @ W)[1]))
        return sized(W, moment) @ U, U.mT

    return answer


def identity(moment):
    return torch.eye(len(moment), dtype=moment.dtype)


def by_cholesky(W, moment):
    _, _, Vh = torch.linalg.svd(torch.linalg.cholesky(moment).mT @ W, full_matrices=False)
    return W @ Vh.mT, Vh


def _of_the_inputs(W, moment):
    U = torch.linalg.eigh(moment)[1].flip(-1)
    return U, U.mT @ W


def _of_the_inputs_transposed(W, moment):
    U = torch.linalg.eigh(moment)[1].flip(-1)
    return W.mT @ U, U.mT


def _of_some_inputs(W, moment):
    U = torch.linalg.eigh(moment)[1].flip(-1)[:, : W.shape[1]]
    return U, U.mT @ W


def _by_root_and_inverse(W, moment):
    """The textbook way: whiten the inputs, cut, and undo the whitening on the left."""
    values, Q = torch.linalg.eigh(moment)
    root = Q @ torch.diag(values.sqrt()) @ Q.mT
    U, S, Vh = torch.linalg.svd(root @ W, full_matrices=False)
    return torch.linalg.solve(root, U * S), Vh


def _moved_up(power, weighted=False):
    """So much of the sizes of the directions put into `up`: of `down` alone, or `weighted` by the moment, as a decomposition has them."""

    def change(out, moment, **_):
        down, up = out
        sizes = ((down * (moment @ down)).sum(0).sqrt() if weighted else down.norm(dim=0)) ** power
        return down / sizes, up * sizes[:, None]

    return After(change)


OUTPUT_FACTORS = Exercise(
    "output_factors",
    title="The best matrix of a lower rank, for these inputs",
    points=2.5,
    difficulty=3,
    minutes=10,
    reference=ref.output_factors,
    recipe=Made(_factors),
    tensors=True,
    tolerance=EIGENVECTORS,
    behaviour="attention_course.designs:best_of_each_rank",
    cases=(
        Case("three inputs, two outputs", _matrix(3, 2)),
        Case("seven and three", _matrix(7, 3)),
        Case("outputs in two groups that share no input", _two_groups),
    ),
    hints=(
        "In the plane you kept one direction of the outputs. Which matrix tells you how much the outputs vary in each direction, and how "
        "do you get it from $W$ and $\\Sigma$?",
        "The directions are the eigenvectors of $W^\\top \\Sigma W$. `torch.linalg.eigh` returns them as columns, with the smallest eigenvalue "
        "first. In which order do you need them?",
        "Call the sorted columns $U$. The rows of `up` are these directions. What does `down` have to be, so that `down @ up` is $W$, if you "
        "remember that $U U^\\top = I$?",
    ),
    misconceptions=(
        Misconception(
            "activations_ignored",
            "used the singular vectors of $W$ alone, which are best for inputs that vary equally in all directions",
            "Use the eigenvectors of $W^\\top \\Sigma W$.",
            Instead(between=identity),
        ),
        Misconception(
            "features_taken_for_uncorrelated",
            "used only the diagonal of $\\Sigma$, as if the features of $x$ were uncorrelated",
            "It also matters how two features vary together, so use all of $\\Sigma$.",
            Instead(between=lambda moment: moment.diagonal().diag()),
        ),
        Misconception(
            "smallest_first",
            "put the least important direction first, because `eigh` sorts eigenvalues in ascending order",
            "Reverse the order of the columns.",
            Instead(first=lambda columns: columns),
        ),
        Misconception(
            "rows_turned_round",
            "reversed the rows of the matrix of eigenvectors, so every direction has its entries in reverse order",
            "The directions are columns. Flip the last axis.",
            Instead(first=lambda columns: columns.flip(0)),
        ),
        Misconception(
            "sign_of_zero",
            "multiplied each direction by the sign of one of its entries, which erases the direction where that entry is exactly 0",
            "The signs are free, so you can leave them as they are. `up @ up.mT` has to be the identity.",
            Instead(signed=lambda U: U * U[:1].sign()),
        ),
        Misconception(
            "not_unwhitened",
            "decomposed the whitened matrix without undoing the whitening, so `down @ up` is not $W$",
            "`down` is $W U$, the weights times the directions and nothing else.",
            Instead(sized=lambda W, moment: torch.linalg.cholesky(moment).mT @ W),
        ),
        Misconception(
            "moment_squared",
            "used $\\Sigma$ twice, as in $W^\\top \\Sigma \\Sigma W$",
            "The second moment of the outputs contains $\\Sigma$ once. Before an SVD, multiply $W$ by a square root of $\\Sigma$.",
            Instead(between=lambda moment: moment @ moment),
        ),
        Misconception(
            "scale_in_up",
            "put the sizes into `up`, so its rows don't have length 1",
            "`up` contains directions of length 1, and the sizes belong to `down`, which is $W U$.",
            _moved_up(1.0),
            also=(_moved_up(1.0, weighted=True),),
        ),
        Misconception(
            "sizes_shared",
            "gave each side a square root of the sizes, so the rows of `up` don't have length 1",
            "`up` contains directions of length 1, and the sizes belong to `down`, which is $W U$.",
            _moved_up(0.5),
            also=(_moved_up(0.5, weighted=True),),
        ),
        Misconception(
            "not_transposed",
            "returned the directions as columns of `up`",
            "`eigh` returns eigenvectors as columns, and `up` needs them as rows.",
            After(lambda out, **_: (out[0], out[1].mT)),
        ),
        Misconception(
            "rows_of_eigh",
            "used the rows of what `eigh` returns as directions, although eigenvectors are its columns",
            "Eigenvector $i$ is `U[:, i]`. Check what that means for `down` and for `up`.",
            Instead(first=lambda columns: columns.flip(-1).mT),
            also=(Instead(first=lambda columns: columns.mT.flip(-1)),),
        ),
        Misconception(
            "inputs_directions",
            "used the principal directions of the inputs, the eigenvectors of $\\Sigma$, instead of those of the outputs",
            "The outputs have the second moment $W^\\top \\Sigma W$, with as many directions as $W$ has columns.",
            _of_the_inputs,
            also=(_of_the_inputs_transposed, _of_some_inputs),
            raises=True,
        ),
        Misconception(
            "moment_inverted",
            "used the inverse of $\\Sigma$, so the inputs that vary least count most",
            "The second moment of the outputs contains $\\Sigma$ itself.",
            Instead(between=torch.linalg.inv),
        ),
        Misconception(
            "inputs_weighted",
            "multiplied the weights by $\\Sigma$ in `down`, so `down @ up` is $\\Sigma W$ instead of $W$",
            "$\\Sigma$ only chooses the directions. `down` is $W U$.",
            Instead(sized=lambda W, moment: moment @ W),
        ),
    ),
    variants=(
        Variant("cholesky_and_svd", by_cholesky),
        Variant("root_and_inverse", _by_root_and_inverse),
        Variant("other_signs", _factors(signed=lambda U: -U)),
        Variant("signs_by_where", _factors(signed=lambda U: torch.where(U[:1] < 0, -U, U))),
    ),
)
