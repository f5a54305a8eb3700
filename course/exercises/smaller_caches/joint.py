"""One latent for keys and values."""

import numpy as np
import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from course.exercises.smaller_caches.factors import EIGENVECTORS, by_cholesky, clear, draw_moment, identity
from solutions import smaller_caches as ref


def _keys_and_values(d_model, keys, values, r):
    """Values much smaller than keys, so that balancing matters."""

    def make(draw: Draw):
        while True:
            W_K, W_V, moment = (
                draw.normal(d_model, keys).round(2),
                draw.normal(d_model, values, scale=0.3).round(2),
                draw_moment(draw, d_model),
            )
            parts = [_scaled(W, np.sqrt(np.trace(W.T @ moment @ W))) for W in (W_K, W_V)]
            if all(clear(np.concatenate(pair, 1), moment) for pair in ((W_K, W_V), parts)):
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
    minutes=14,
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
            "chose the directions without $\\Sigma$: the plain decomposition looks at the weights alone",
            "Hand `moment` to `output_factors`: what counts is the outputs that the weights make.",
            Instead(factors=lambda W, moment: ref.output_factors(W, identity(moment))),
        ),
        Misconception(
            "features_taken_for_uncorrelated",
            "measured the sizes with the diagonal of $\\Sigma$ alone, as if the features of $x$ were uncorrelated",
            "$\\kappa^2 = \\mathbb{E} \\lVert x W_K \\rVert^2$ is the trace of $W_K^\\top \\Sigma W_K$, with all of $\\Sigma$: the sum of `W_K * (moment @ W_K)`.",
            Instead(sizes=lambda W_K, W_V, moment: _sizes(W_K, W_V, moment.diagonal().diag())),
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
        Variant("cholesky_and_svd", _latent(factors=by_cholesky)),
    ),
)
