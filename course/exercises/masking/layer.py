"""A layer that leaks although its mask is right."""

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
    title="Find the bug: a layer that leaks",
    points=2,
    kind="bug",
    difficulty=3,
    minutes=8,
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
        "The mask is right, so look for another step that combines several tokens.",
        "For each line, ask whether its result for the first token changes if you change the **last** token. `leakage(normalised)` measures "
        "the part before the attention.",
        "The mean and the variance of a token must come from that token. Write down the shapes of both. One of them is not "
        "(..., query, 1).",
    ),
    misconceptions=(
        Misconception(
            "nothing_repaired",
            "still divided by one variance for all tokens of all sequences, which contains the future",
            "Each token has its own mean but not its own variance, because `mean()` without an axis averages over everything.",
            Instead(axis=None),
        ),
        Misconception(
            "variance_of_the_sequence",
            "divided by one variance for all tokens of a sequence, which contains the future",
            "Normalise each token by itself, over the last axis only.",
            Instead(axis=(-2, -1)),
        ),
        Misconception(
            "variance_over_the_tokens",
            "took the variance over the tokens, which contains the future",
            "Normalise each token by its own features, over the last axis.",
            Instead(axis=-2),
        ),
        Misconception(
            "normalised_over_the_tokens",
            "took mean and variance over the tokens, so both contain the future",
            "Normalise each token by its own features, over the last axis.",
            Instead(of=-2, axis=-2),
        ),
        Misconception(
            "normalisation_removed",
            "removed the normalisation. Nothing leaks now, but it is a different layer",
            "Keep the normalisation, and let it run over the features of each token.",
            Instead(subtract=False, divide=False),
        ),
        Misconception(
            "normalised_over_the_past",
            "normalised over the tokens so far. That does not leak, but the first token becomes 0, and the task asks for another normalisation",
            "Normalise each token by its own features, over the last axis.",
            _running,
        ),
        Misconception(
            "itself_hidden",
            "also moved the diagonal of the mask, so a token does not see itself and the first token sees nothing",
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
            "The mask was right, and the layer still needs it.",
            Instead(causal=False),
        ),
        Misconception(
            "divisor_one_less",
            "divided by $d_{model} - 1$ in the variance",
            "Use `correction=0`, as the original layer does.",
            Instead(correction=1),
        ),
        Misconception(
            "added_to_the_deviation",
            "added 1e-5 to the standard deviation instead of the variance",
            "It belongs under the root, as in `(variance + 1e-5).sqrt()`. For tokens with a small variance the two are very different.",
            Instead(outside=1e-5),
        ),
        Misconception(
            "another_epsilon",
            "added something other than 1e-5 to the variance, or nothing, or added a number to the standard deviation",
            "Use `(variance + 1e-5).sqrt()`, as in the original. For tokens with a small variance the difference is large.",
            Instead(epsilon=1e-6),
            also=(Instead(outside=1e-6), Instead(epsilon=1e-8), Instead(epsilon=0.0)),
        ),
        Misconception(
            "not_centred",
            "divided each token by the root of its mean square without subtracting its mean",
            "Each token should have mean 0 **and** variance 1, so subtract the mean first.",
            Instead(subtract=False),
        ),
        Misconception(
            "normalised_afterwards",
            "normalised the sum at the end instead of the tokens before the attention",
            "Queries, keys and values come from normalised tokens, and the result is added to $X$ itself.",
            Instead(afterwards=True),
        ),
        Misconception(
            "added_to_the_normalised_token",
            "added the result to the normalised token",
            "Add the output of attention to `X` itself.",
            Instead(add_normalised=True),
        ),
        Misconception(
            "values_not_normalised",
            "made the values from `X` itself",
            "Queries, keys **and** values are made from the normalised tokens.",
            Instead(values=False),
        ),
    ),
    variants=(Variant("layer_norm", _builtin_norm), Variant("axis_minus_one", _with())),
)
