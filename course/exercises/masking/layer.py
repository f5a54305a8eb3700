"""A whole layer that leaks although its mask is right."""

import math

import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import masking as ref


def _layer(draw: Draw, lead: tuple[int, ...], n: int, d_model: int, d_k: int):
    inputs = {"X": draw.normal(*lead, n, d_model) + draw.normal(d_model)}
    for name, width in (("W_Q", d_k), ("W_K", d_k), ("W_V", d_model)):
        inputs[name] = draw.normal(d_model, width) / math.sqrt(d_model)
    return inputs


def _three_tokens(draw: Draw):
    return _layer(draw, (), 3, 5, 2)


def _batch(draw: Draw):
    n, d_model, d_k = draw.sizes(3, low=3, high=7)
    return _layer(draw, (2,), n, d_model, d_k)


def _square(draw: Draw):
    n = draw.sizes(1, low=5, high=7)[0]
    return _layer(draw, (n,), n, n, n)


def _small(draw: Draw):
    """Variances of about 1e-5: as large as what is added to them."""
    inputs = _layer(draw, (), 3, 7, 5)
    return inputs | {"X": inputs["X"] * 0.003}


def _with(
    *,
    of=-1,
    axis=-1,
    correction=0,
    shift=0,
    values=True,
    add_normalised=False,
    outside=None,
    subtract=True,
    causal=True,
    divide=True,
    epsilon=1e-5,
    afterwards=False,
):
    """The layer with the mean over `of` and the variance over `axis` (None: over everything), or with the sum normalised `afterwards`."""

    def normalised(X):
        Z = X - X.mean(dim=of, keepdim=True) if subtract else X
        if divide:
            squares = Z.square()
            variance = squares.mean() if axis is None else squares.mean(dim=axis, keepdim=True)
            variance = variance * (X.shape[-1] / (X.shape[-1] - correction))
            Z = Z / ((variance + epsilon).sqrt() if outside is None else variance.sqrt() + outside)
        return Z

    def answer(X, W_Q, W_K, W_V):
        n = X.shape[-2]
        Z = X if afterwards else normalised(X)
        S = ref.scaled_scores(Z @ W_Q, Z @ W_K)
        if causal:
            S = S.masked_fill(~torch.ones(n, n).tril(shift).bool(), -math.inf)
        A = torch.softmax(S, dim=-1)
        Y = (Z if add_normalised else X) + A @ ((Z if values else X) @ W_V)
        return normalised(Y) if afterwards else Y

    return answer


def _running(X, W_Q, W_K, W_V):
    """Normalised over the tokens so far: it does not leak, and is not layer normalisation either."""
    past = [X[..., : i + 1, :] for i in range(X.shape[-2])]
    mean = torch.stack([x.mean(-2) for x in past], dim=-2)
    variance = torch.stack([x.var(-2, correction=0) for x in past], dim=-2)
    Z = (X - mean) / (variance + 1e-5).sqrt()
    S = ref.scaled_scores(Z @ W_Q, Z @ W_K)
    n = X.shape[-2]
    S = S.masked_fill(~ref.causal_mask(n, n), -math.inf)
    return X + torch.softmax(S, dim=-1) @ (Z @ W_V)


def _builtin_norm(X, W_Q, W_K, W_V):
    n = X.shape[-2]
    Z = torch.nn.functional.layer_norm(X, X.shape[-1:], eps=1e-5)
    return X + ref.masked_sdpa(Z @ W_Q, Z @ W_K, Z @ W_V, ref.causal_mask(n, n))[0]


CAUSAL_LAYER = Exercise(
    "causal_layer",
    title="Find the leak",
    points=2,
    kind="bug",
    difficulty=3,
    minutes=7,
    reference=ref.causal_layer,
    recipe=Made(_with),
    tensors=True,
    tolerance=Tolerance(rtol=1e-4, atol=1e-5),  # float32 through a normalisation; mistakes are 1e-1 and more
    cases=(
        Case("three tokens", _three_tokens, grad=("X",)),
        Case("a batch", _batch),
        Case("equal sizes", _square),
        Case("small tokens", _small, edge=0.1),
    ),
    hints=(
        "The weights are right, so the future does not come in through them. What else in the layer might combine several tokens?",
        "Ask of each line: if I change the **last** token, does this number change for the first one? `leakage(normalised)` measures the "
        "part before the attention.",
        "One token's mean and variance must come from that token. Write down the shape of each of the two numbers: one of them is not "
        "(..., query, 1).",
    ),
    misconceptions=(
        Misconception(
            "nothing_repaired",
            "still divide by one variance for all tokens, of all sequences: it contains the future",
            "The mean is each token's own, the variance is not: `mean()` without an axis runs over everything.",
            Instead(axis=None),
        ),
        Misconception(
            "variance_of_the_sequence",
            "divide by one variance for all tokens of a sequence: it contains the future",
            "Each token by itself: the last axis only.",
            Instead(axis=(-2, -1)),
        ),
        Misconception(
            "variance_over_the_tokens",
            "take the variance over the tokens: it contains the future",
            "Each token by its own features: the last axis.",
            Instead(axis=-2),
        ),
        Misconception(
            "normalised_over_the_tokens",
            "take mean and variance over the tokens: both contain the future",
            "Each token is normalised by its own features: the last axis.",
            Instead(of=-2, axis=-2),
        ),
        Misconception(
            "normalisation_removed",
            "removed the normalisation: nothing leaks, but it is another layer",
            "Keep it, and let it run over the features of each token.",
            Instead(subtract=False, divide=False),
        ),
        Misconception(
            "normalised_over_the_past",
            "normalise over the tokens so far: that does not leak, but the first token becomes 0, and it is not what is asked",
            "Each token by its own features: the last axis.",
            _running,
        ),
        Misconception(
            "itself_hidden",
            "moved the diagonal of the mask as well: a token does not see itself, and the first sees nothing",
            "The mask was right. Put it back.",
            lambda X, W_Q, W_K, W_V: (
                X
                + ref.masked_sdpa(
                    *(
                        (X - X.mean(-1, keepdim=True)) / (X.var(-1, keepdim=True, correction=0) + 1e-5).sqrt() @ W
                        for W in (W_Q, W_K, W_V)
                    ),
                    torch.ones(X.shape[-2], X.shape[-2]).tril(-1).bool(),
                )[0]
            ),
        ),
        Misconception(
            "mask_removed",
            "lost the causal mask",
            "The mask was right, and is still needed.",
            Instead(causal=False),
        ),
        Misconception(
            "divisor_one_less",
            "divide by $d_{model} - 1$ in the variance",
            "`correction=0`, as in the original.",
            Instead(correction=1),
        ),
        Misconception(
            "added_to_the_deviation",
            "added 1e-5 to the standard deviation, not to the variance",
            "It belongs under the root: `(variance + 1e-5).sqrt()`. For tokens with a small variance the two differ much.",
            Instead(outside=1e-5),
        ),
        Misconception(
            "another_epsilon",
            "did not add 1e-5 to the variance: another number, or none, or one that was added to the standard deviation",
            "`(variance + 1e-5).sqrt()`, as in the original. For tokens with a small variance it differs much.",
            Instead(epsilon=1e-6),
            also=(Instead(outside=1e-6), Instead(epsilon=1e-8), Instead(epsilon=0.0)),
        ),
        Misconception(
            "not_centred",
            "divided each token by the root of its mean square, without taking off its mean",
            "Normalised to mean 0 **and** variance 1: take the mean off first.",
            Instead(subtract=False),
        ),
        Misconception(
            "normalised_afterwards",
            "normalised the sum at the end, and not the tokens before the attention",
            "Queries, keys and values are made from normalised tokens, and what comes out is added to $X$ as it is.",
            Instead(afterwards=True),
        ),
        Misconception(
            "added_to_the_normalised_token",
            "add the result to the normalised token",
            "It is `X` itself to which the attention is added.",
            Instead(add_normalised=True),
        ),
        Misconception(
            "values_not_normalised",
            "make the values from `X` itself",
            "Queries, keys **and** values are made from the normalised tokens.",
            Instead(values=False),
        ),
    ),
    variants=(Variant("layer_norm", _builtin_norm), Variant("axis_minus_one", _with())),
)
