"""Low rank, with an eye on the activations."""

import numpy as np
import torch

from autograder import After, Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import smaller_caches as ref

EIGENVECTORS = Tolerance(
    rtol=1e-3, atol=3e-4
)  # float32 eigenvectors whose eigenvalues differ by a fifth; mistakes are 0.03 and more


def _moment(draw: Draw, d):
    """A second moment with strong correlations: not near the identity."""
    root = draw.normal(d, d) * draw.uniform(d, 1, low=0.3, high=2.0)
    return root.T @ root / d + 0.1 * np.eye(d)


def _clear(W, moment):
    """Whether float32 will find the directions: eigenvalues apart from one another."""
    values = np.linalg.eigvalsh(W.T @ moment @ W)
    return bool((values[1:] > 1.25 * values[:-1]).all() and values[0] > 0.02 * values[-1])


def _matrix(d_in, d_out):
    def make(draw: Draw):
        while True:
            W, moment = draw.normal(d_in, d_out).round(2), _moment(draw, d_in)
            if all(_clear(W, other) for other in (moment, np.eye(d_in), moment @ moment)):
                return {"W": W, "moment": moment}

    return make


def _two_groups(draw: Draw):
    """Outputs of which the first has nothing in common with the others: most directions have an entry that is exactly 0."""
    while True:
        W, moment = np.zeros((5, 3)), np.zeros((5, 5))
        W[:2, :1], W[2:, 1:] = draw.normal(2, 1).round(2), draw.normal(3, 2).round(2)
        moment[:2, :2], moment[2:, 2:] = _moment(draw, 2), _moment(draw, 3)
        if all(_clear(W, other) for other in (moment, np.eye(5), moment @ moment)):
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


def _identity(moment):
    return torch.eye(len(moment), dtype=moment.dtype)


def _by_cholesky(W, moment):
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


def _sizes_in_up(out, **_):
    down, up = out
    norms = down.norm(dim=0)
    return down / norms, up * norms[:, None]


OUTPUT_FACTORS = Exercise(
    "output_factors",
    title="The best matrix of a lower rank, for these inputs",
    points=2.5,
    difficulty=4,
    minutes=15,
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
        "You want to keep what matters of $y = xW$. Which matrix says how much the outputs vary in each direction, and how is it made "
        "of $W$ and $\\Sigma$?",
        "$\\mathbb{E}[y^\\top y] = W^\\top \\Sigma W$. Its eigenvectors are the directions; `torch.linalg.eigh` gives them as columns, the smallest "
        "eigenvalue first. Turn the order round.",
        "`torch.linalg.eigh(W.mT @ moment @ W)` gives the directions as columns $U$. Flip their order. `up` is $U$ transposed. What must "
        "`down` be, so that `down @ up` is $W$? Remember that $U U^\\top = I$.",
    ),
    misconceptions=(
        Misconception(
            "activations_ignored",
            "took the singular vectors of $W$ alone: the best for inputs that are alike in all directions, which these are not",
            "Put $\\Sigma$ between: the eigenvectors of $W^\\top \\Sigma W$.",
            Instead(between=_identity),
        ),
        Misconception(
            "smallest_first",
            "put the **least** important direction first (`eigh` sorts ascending)",
            "Turn the columns round: `V.flip(-1)`.",
            Instead(first=lambda columns: columns),
        ),
        Misconception(
            "sign_of_zero",
            "multiplied each direction by the sign of an entry: where that entry is exactly 0, so is its sign, and the direction is erased",
            "The signs are free, so leave them. (If you want one rule for all: `torch.where(entry < 0, -1, 1)`.) `up @ up.mT` must be $I$.",
            Instead(signed=lambda U: U * U[:1].sign()),
        ),
        Misconception(
            "not_unwhitened",
            "decomposed the whitened matrix and never undid the whitening: `down @ up` is not $W$",
            "`down` is $W U$: multiply the weights by the directions, nothing else.",
            Instead(sized=lambda W, moment: torch.linalg.cholesky(moment).mT @ W),
        ),
        Misconception(
            "moment_squared",
            "used $\\Sigma$ twice: $W^\\top \\Sigma \\Sigma W$",
            "$\\mathbb{E}[y^\\top y] = W^\\top \\Sigma W$ has it once. (Multiply $W$ by a root of $\\Sigma$, not by $\\Sigma$, before an SVD.)",
            Instead(between=lambda moment: moment @ moment),
        ),
        Misconception(
            "scale_in_up",
            "put the sizes into `up`: its rows are not of length 1",
            "`up` holds the directions, `down` the sizes: $W U$.",
            After(_sizes_in_up),
        ),
        Misconception(
            "not_transposed",
            "returned the directions as columns: `up` is the transpose of what is asked for",
            "`eigh` gives eigenvectors as columns; `up` has them as rows: transpose.",
            After(lambda out, **_: (out[0], out[1].mT)),
        ),
        Misconception(
            "rows_of_eigh",
            "took the rows of what `eigh` returns for the directions; they are its columns",
            "Eigenvector $i$ is `U[:, i]`. So `down` is `W @ U`, and `up` is $U$ transposed.",
            Instead(first=lambda columns: columns.flip(-1).mT),
            also=(Instead(first=lambda columns: columns.mT.flip(-1)),),
        ),
        Misconception(
            "inputs_directions",
            "took the principal directions of the **inputs**, the eigenvectors of $\\Sigma$; what is to be kept are those of the outputs",
            "The outputs' second moment is $W^\\top \\Sigma W$, with as many directions as $W$ has columns.",
            _of_the_inputs,
            also=(_of_the_inputs_transposed, _of_some_inputs),
            raises=True,
        ),
        Misconception(
            "moment_inverted",
            "put the inverse of $\\Sigma$ between, so that what varies least counts most",
            "$\\mathbb{E}[y^\\top y] = W^\\top \\Sigma W$: with $\\Sigma$ itself.",
            Instead(between=torch.linalg.inv),
        ),
        Misconception(
            "inputs_weighted",
            "multiplied the weights by $\\Sigma$ in `down`: `down @ up` is $\\Sigma W$, not $W$",
            "$\\Sigma$ chooses the directions, and that is all: `down` is $W U$.",
            Instead(sized=lambda W, moment: moment @ W),
        ),
    ),
    variants=(
        Variant("cholesky_and_svd", _by_cholesky),
        Variant("root_and_inverse", _by_root_and_inverse),
        Variant("other_signs", _factors(signed=lambda U: -U)),
        Variant("signs_by_where", _factors(signed=lambda U: torch.where(U[:1] < 0, -U, U))),
    ),
)


def _keys_and_values(d_model, keys, values, r):
    """Values much smaller than keys, so that balancing matters."""

    def make(draw: Draw):
        while True:
            W_K, W_V, moment = (
                draw.normal(d_model, keys).round(2),
                draw.normal(d_model, values, scale=0.3).round(2),
                _moment(draw, d_model),
            )
            parts = [_scaled(W, np.sqrt(np.trace(W.T @ moment @ W))) for W in (W_K, W_V)]
            if all(_clear(np.concatenate(pair, 1), moment) for pair in ((W_K, W_V), parts)):
                return {"W_K": W_K, "W_V": W_V, "moment": moment, "r": r}

    return make


def _scaled(W, by):
    return W / by


def _sizes(W_K, W_V, moment):
    return [(W * (moment @ W)).sum().sqrt() for W in (W_K, W_V)]


def _latent(
    *,
    sizes=_sizes,
    back=lambda *both: both,
    kept=lambda r, full: slice(0, r),
    factors=ref.output_factors,
    border=lambda W_K, full: W_K.shape[1],
):
    """An answer with its own sizes to divide by, its own choice of directions, or its own factors."""

    def answer(W_K, W_V, moment, r):
        kappa, nu = sizes(W_K, W_V, moment)
        down, up = factors(torch.cat([W_K / kappa, W_V / nu], dim=-1), moment)
        rows, keys = kept(r, up.shape[0]), border(W_K, up.shape[1])
        kappa, nu = back(kappa, nu)
        return down[:, rows], up[rows, :keys] * kappa, up[rows, keys:] * nu

    return answer


def _apart(W_K, W_V, moment, r):
    (down_k, up_k), (down_v, up_v) = ref.output_factors(W_K, moment), ref.output_factors(W_V, moment)
    half, rest = r - r // 2, r // 2
    W_UK = torch.cat([up_k[:half], up_k.new_zeros(rest, W_K.shape[1])])
    W_UV = torch.cat([up_v.new_zeros(half, W_V.shape[1]), up_v[:rest]])
    return torch.cat([down_k[:, :half], down_v[:, :rest]], dim=1), W_UK, W_UV


LATENT_WEIGHTS = Exercise(
    "latent_weights",
    title="One latent for keys and values",
    points=2,
    difficulty=3,
    minutes=10,
    reference=ref.latent_weights,
    recipe=Made(_latent),
    tensors=True,
    tolerance=EIGENVECTORS,
    behaviour="attention_course.designs:products_of_a_latent",
    cases=(
        Case("two keys, one value, rank 2", _keys_and_values(4, 2, 1, 2)),
        Case("three keys, one value, rank 2", _keys_and_values(5, 3, 1, 2)),
        Case("full rank", _keys_and_values(6, 2, 2, 4), edge=0.2),
    ),
    hints=(
        "One latent must serve keys and values. Into which single matrix can you put both, and what would happen if keys were ten "
        "times as large as values?",
        "Divide each by its size, $\\kappa$ and $\\nu$; factor `[W_K / kappa | W_V / nu]`; keep `r` columns of `down` and `r` rows of `up`; split "
        "these rows at the keys' width and multiply by the sizes.",
        "$\\kappa^2$ is the sum of `W_K * (moment @ W_K)`, $\\nu^2$ alike. `torch.cat([..., ...], dim=-1)` makes the wide matrix; its first "
        "`W_K.shape[-1]` columns are the keys', so these columns of `up` get $\\kappa$ back and the others $\\nu$.",
    ),
    misconceptions=(
        Misconception(
            "not_balanced",
            "factored keys and values as they are: the larger of the two gets nearly all directions",
            "Divide each by its root mean square output first, and undo it in the ups.",
            Instead(sizes=lambda W_K, W_V, moment: (1.0, 1.0)),
        ),
        Misconception(
            "sizes_not_undone",
            "divided by the sizes and never multiplied by them again",
            "`W_DKV @ W_UK` must be $W_K$ at full rank: multiply the ups by $\\kappa$ and $\\nu$.",
            Instead(back=lambda *both: (1.0, 1.0)),
        ),
        Misconception(
            "sizes_squared",
            "divided by $\\kappa^2$ and $\\nu^2$",
            "Take the roots.",
            Instead(sizes=lambda *given: [size**2 for size in _sizes(*given)]),
        ),
        Misconception(
            "sizes_of_weights",
            "measured the sizes of the weights, not of the keys and values that they make",
            "$\\kappa^2 = \\mathbb{E} \\lVert x W_K \\rVert^2$ is the trace of $W_K^\\top \\Sigma W_K$: the sum of `W_K * (moment @ W_K)`.",
            Instead(sizes=lambda W_K, W_V, moment: (W_K.norm(), W_V.norm())),
        ),
        Misconception(
            "activations_ignored",
            "balanced with $\\Sigma$, but factored without it",
            "Hand the same `moment` to `output_factors`.",
            Instead(factors=lambda W, moment: ref.output_factors(W, _identity(moment))),
        ),
        Misconception(
            "second_moment_twice",
            "measured the sizes as norms of $\\Sigma W_K$ and $\\Sigma W_V$",
            "$\\kappa^2 = \\mathbb{E} \\lVert x W_K \\rVert^2$ is the trace of $W_K^\\top \\Sigma W_K$: the sum of `W_K * (moment @ W_K)`.",
            Instead(sizes=lambda W_K, W_V, moment: [(moment @ W).norm() for W in (W_K, W_V)]),
        ),
        Misconception(
            "sizes_exchanged",
            "exchanged $\\kappa$ and $\\nu$",
            "Divide keys by the keys' size, values by the values', and multiply each by its own again.",
            Instead(sizes=lambda *given: _sizes(*given)[::-1]),
            also=(Instead(back=lambda *both: both[::-1]),),
        ),
        Misconception(
            "not_cut",
            "kept all directions: the latent is to be `r` wide",
            "`down[:, :r]` and `up[:r]`.",
            Instead(kept=lambda r, full: slice(0, full)),
            raises=True,
        ),
        Misconception(
            "cut_elsewhere",
            "split the rows of `up` elsewhere than behind the columns of the keys, which need not be as wide as the values",
            "The keys have the first `W_K.shape[-1]` columns, the values the rest.",
            Instead(border=lambda W_K, full: full // 2),
            also=(Instead(border=lambda W_K, full: len(W_K) // 2),),
            raises=True,
        ),
        Misconception(
            "last_directions",
            "kept the last `r` directions, which matter least",
            "The most important part comes first: `[:, :r]` and `[:r]`.",
            Instead(kept=lambda r, full: slice(full - r, full)),
        ),
        Misconception(
            "one_half_each",
            "gave half of the latent to keys and half to values, each factored alone",
            "Factor them **together**: the directions go where they are needed, and serve both.",
            _apart,
        ),
    ),
    variants=(
        Variant("trace", _latent(sizes=lambda W_K, W_V, moment: [torch.trace(W.mT @ moment @ W).sqrt() for W in (W_K, W_V)])),
        Variant("cholesky_and_svd", _latent(factors=_by_cholesky)),
    ),
)
