"""Notebook 12b: one latent for keys and values."""

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
    title="Find the bug: one latent for keys and values",
    points=1.5,
    kind="bug",
    difficulty=3,
    minutes=6,
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
        "The draft's sizes belong to the weights. Which inputs does it assume when it takes the norm of $W_K$ for the size of the keys?",
        "You know the second moment of the keys, $W_K^\\top \\Sigma W_K$. Where in this matrix do you find the mean square of each key "
        "feature?",
        "$\\kappa^2$ is the trace of $W_K^\\top \\Sigma W_K$, which is also the sum of `W_K * (moment @ W_K)`. The same holds for the values.",
    ),
    misconceptions=(
        Misconception(
            "not_balanced",
            "factored keys and values without balancing them, so the larger of the two gets nearly all directions",
            "Divide each by the root mean square of its outputs first, and multiply by it again afterwards.",
            Instead(sizes=lambda W_K, W_V, moment: (1.0, 1.0)),
        ),
        Misconception(
            "sizes_not_undone",
            "divided by the sizes without multiplying by them again",
            "At full rank `W_DKV @ W_UK` has to be $W_K$, so multiply `W_UK` by $\\kappa$ and `W_UV` by $\\nu$.",
            Instead(back=lambda *both: (1.0, 1.0)),
        ),
        Misconception(
            "sizes_squared",
            "divided by $\\kappa^2$ and $\\nu^2$",
            "Take the square roots of the mean squares first.",
            Instead(sizes=lambda *given: [size**2 for size in _sizes(*given)]),
        ),
        Misconception(
            "sizes_of_weights",
            "measured the sizes of the weights instead of the keys and values that they produce, as the draft does",
            "$\\kappa^2 = \\mathbb{E} \\lVert x W_K \\rVert^2$ is the trace of $W_K^\\top \\Sigma W_K$.",
            Instead(sizes=lambda W_K, W_V, moment: (W_K.norm(), W_V.norm())),
        ),
        Misconception(
            "activations_ignored",
            "chose the directions without $\\Sigma$, from the weights alone",
            "Pass `moment` to `output_factors`, because the error of the outputs is what counts.",
            Instead(factors=lambda W, moment: ref.output_factors(W, identity(moment))),
        ),
        Misconception(
            "features_taken_for_uncorrelated",
            "measured the sizes with only the diagonal of $\\Sigma$, as if the features of $x$ were uncorrelated",
            "$\\kappa^2$ is the trace of $W_K^\\top \\Sigma W_K$, with all of $\\Sigma$.",
            Instead(sizes=lambda W_K, W_V, moment: _sizes(W_K, W_V, moment.diagonal().diag())),
        ),
        Misconception(
            "second_moment_twice",
            "measured the sizes as norms of $\\Sigma W_K$ and $\\Sigma W_V$",
            "$\\kappa^2 = \\mathbb{E} \\lVert x W_K \\rVert^2$ is the trace of $W_K^\\top \\Sigma W_K$, which contains $\\Sigma$ once.",
            Instead(sizes=lambda W_K, W_V, moment: [(moment @ W).norm() for W in (W_K, W_V)]),
        ),
        Misconception(
            "sizes_exchanged",
            "exchanged $\\kappa$ and $\\nu$",
            "Divide the keys by the size of the keys and the values by the size of the values, and multiply each by its own size again.",
            Instead(sizes=lambda *given: _sizes(*given)[::-1]),
            also=(Instead(back=lambda *both: both[::-1]),),
        ),
        Misconception(
            "not_cut",
            "kept all directions, although the latent has to be `r` wide",
            "Keep `r` columns of `down` and `r` rows of `up`.",
            Instead(kept=lambda r, full: slice(0, full)),
            raises=True,
        ),
        Misconception(
            "cut_elsewhere",
            "split the rows of `up` in the wrong place, although keys and values may have different widths",
            "The first `W_K.shape[-1]` columns belong to the keys and the rest to the values.",
            Instead(border=lambda W_K, full: full // 2),
            also=(Instead(border=lambda W_K, full: len(W_K) // 2),),
            raises=True,
        ),
        Misconception(
            "last_directions",
            "kept the last `r` directions, which matter least",
            "`output_factors` puts the most important part first, so keep the first `r`.",
            Instead(kept=lambda r, full: slice(full - r, full)),
        ),
        Misconception(
            "one_half_each",
            "gave half of the latent to the keys and half to the values, each factored separately",
            "Factor them together, so that a direction can serve both.",
            _apart,
        ),
    ),
    variants=(
        Variant("trace", _latent(sizes=lambda W_K, W_V, moment: [torch.trace(W.mT @ moment @ W).sqrt() for W in (W_K, W_V)])),
        Variant("cholesky_and_svd", _latent(factors=by_cholesky)),
    ),
)
