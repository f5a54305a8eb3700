"""How well it predicts, and what it caches."""

import math

import torch
import torch.nn.functional as F

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import real_model as ref


def _text(n, vocab):
    return lambda draw: {"logits": draw.normal(n, vocab, scale=1.5).round(2), "ids": draw.rng.integers(0, vocab, n)}


def _sized(draw: Draw):
    n, vocab = draw.sizes(2, low=5, high=13)
    return _text(n, vocab)(draw)


def _surprise(logits, ids):
    """Minus the log-probability of each token, by the row at the same place."""
    return -torch.log_softmax(logits, dim=-1).gather(-1, ids[:, None])[:, 0]


def _next(logits, ids):
    return _surprise(logits[:-1], ids[1:])


def _loop(logits, ids):
    total = 0.0
    for row, token in zip(logits[:-1], ids[1:], strict=True):
        total += math.log(sum(math.exp(float(z)) for z in row)) - float(row[token])
    return math.exp(total / (len(ids) - 1))


PERPLEXITY = Exercise(
    "perplexity",
    title="Perplexity",
    points=1.5,
    minutes=8,
    reference=ref.perplexity,
    tensors=True,
    cases=(Case("three tokens of four", _text(3, 4)), Case("other sizes", _sized), Case("a longer text", _text(17, 7))),
    hints=(
        "Row 0 of the logits has seen token 0. What does it predict, and against which entry of `ids` can it be scored? Which row "
        "has nothing to be scored against?",
        "Drop the last row and the first token. Take `log_softmax` over the vocabulary, pick the entries of the tokens that came, "
        "average, change the sign, `exp`.",
        "`F.cross_entropy(rows, tokens)` is the mean of minus the log-probabilities, and takes logits as they are. Which rows, which tokens, "
        "and what makes a number of choices of a mean of logarithms?",
    ),
    misconceptions=(
        Misconception(
            "not_shifted",
            "scored each row against the token that it had just read",
            "Row $t$ predicts token $t + 1$: `logits[:-1]` against `ids[1:]`.",
            lambda logits, ids: math.exp(_surprise(logits, ids).mean()),
        ),
        Misconception(
            "shifted_backwards",
            "scored each row against the token **before** it",
            "`logits[:-1]` against `ids[1:]`, not `logits[1:]` against `ids[:-1]`.",
            lambda logits, ids: math.exp(_surprise(logits[1:], ids[:-1]).mean()),
        ),
        Misconception(
            "wrapped_around",
            "scored the last row against the first token (`roll` wraps around)",
            "The last row's prediction cannot be scored: leave it out.",
            lambda logits, ids: math.exp(_surprise(logits, ids.roll(-1)).mean()),
        ),
        Misconception(
            "no_exponential",
            "returned the mean of minus the logarithms, without the exponential",
            "That is the cross-entropy. Perplexity is its `exp`.",
            lambda logits, ids: float(_next(logits, ids).mean()),
        ),
        Misconception(
            "base_two",
            "took 2 to the power of natural logarithms",
            "Base and logarithm must fit: `exp` with `log`, or 2 with `log2`.",
            lambda logits, ids: 2.0 ** float(_next(logits, ids).mean()),
        ),
        Misconception(
            "mean_of_exponentials",
            "averaged 1/p over the tokens: a single improbable token rules it",
            "First the mean of the logarithms, then the exponential.",
            lambda logits, ids: float(_next(logits, ids).exp().mean()),
        ),
        Misconception(
            "mean_probability",
            "took one over the mean probability",
            "The mean is taken of the **logarithms**: a geometric mean of probabilities.",
            lambda logits, ids: 1 / float((-_next(logits, ids)).exp().mean()),
        ),
        Misconception(
            "softmax_twice",
            "took the softmax first, and then a function that takes it again",
            "`F.cross_entropy` and `log_softmax` want logits, as they are.",
            lambda logits, ids: math.exp(_next(logits.softmax(-1), ids).mean()),
        ),
        Misconception(
            "divided_by_n",
            "divided the sum by $n$, though only $n - 1$ predictions were scored",
            "Take the mean of what you have summed.",
            lambda logits, ids: math.exp(_next(logits, ids).sum() / len(ids)),
        ),
    ),
    variants=(
        Variant("log_softmax_and_gather", lambda logits, ids: float(_next(logits, ids).mean().exp())),
        Variant("a_loop", _loop),
        Variant("nll_loss", lambda logits, ids: math.exp(F.nll_loss(logits[:-1].log_softmax(-1), ids[1:]))),
    ),
)


def _groups(draw: Draw):
    layers, d, element_bytes = draw.sizes(3, low=3, high=11)
    groups = [draw.integer(1, 3) for _ in range(layers - 1)]
    return {"groups": [*groups, 5], "d": d, "element_bytes": element_bytes}


KV_BYTES_PER_TOKEN = Exercise(
    "kv_bytes_per_token",
    title="Bytes for a token",
    points=1,
    difficulty=1,
    minutes=3,
    reference=ref.kv_bytes_per_token,
    cases=(
        Case(
            "two layers",
            lambda draw: {"groups": [3, 1], "d": draw.choice((16, 32, 64, 128)), "element_bytes": draw.choice((2, 4))},
        ),
        Case("layers of several kinds", _groups),
    ),
    hints=(
        "What does one token add to the cache of one layer with three groups? And to that of all layers?",
        "A key and a value for each group of each layer; each has `d` numbers of `element_bytes` bytes.",
        "Take one layer with 3 groups of width 10 and 2 bytes a number: 120 bytes. Which factors are in that, and over what do you add?",
    ),
    misconceptions=(
        Misconception(
            "factor_two",
            "counted keys, or values, but not both",
            "Each group keeps a key **and** a value: a factor of 2.",
            lambda groups, d, element_bytes: sum(groups) * d * element_bytes,
        ),
        Misconception(
            "layers_as_the_first",
            "took all layers to be like the first",
            "Add up `groups`: layers may differ.",
            lambda groups, d, element_bytes: 2 * len(groups) * groups[0] * d * element_bytes,
        ),
        Misconception(
            "layers_forgotten",
            "counted the first layer alone",
            "Each layer has a cache of its own: sum over `groups`.",
            lambda groups, d, element_bytes: 2 * groups[0] * d * element_bytes,
        ),
        Misconception(
            "groups_forgotten",
            "counted one head of keys and values in each layer",
            "Layer $i$ has `groups[i]` of them.",
            lambda groups, d, element_bytes: 2 * len(groups) * d * element_bytes,
        ),
        Misconception(
            "elements",
            "counted numbers, not bytes",
            "Multiply by `element_bytes`.",
            lambda groups, d, element_bytes: 2 * sum(groups) * d,
        ),
    ),
    variants=(Variant("layer_by_layer", lambda groups, d, element_bytes: sum(2 * G * d * element_bytes for G in groups)),),
)


def _speed(weights=134.5e6 * 2, cache=4096 * 11_520 * 2):
    return lambda: 100e9 / (weights + cache)


BEST_SPEED = Exercise(
    "best_speed",
    title="Estimate: how fast can it be at best?",
    points=1,
    kind="estimate",
    difficulty=2,
    minutes=5,
    reference=ref.best_speed,
    recipe=Made(_speed),
    tolerance=Tolerance(rtol=1e-3),
    cases=(Case("tokens per second", lambda draw: {}),),
    hints=(
        "How many bytes does one step read? Two things have to be read, and one of them grows with the text.",
        "The weights: 134.5 million numbers of two bytes. The cache: 4,096 tokens with 11,520 numbers of two bytes each. Seconds for a step "
        "are bytes divided by bytes per second.",
        "269 MB and 94.4 MB are read in a step. How many such steps fit into a second that reads 100,000 MB?",
    ),
    misconceptions=(
        Misconception(
            "cache_forgotten",
            "left the cache out: that is the speed of the very first token",
            "Each step reads all keys and values, too: 4,096 · 11,520 numbers.",
            Instead(cache=0),
        ),
        Misconception(
            "weights_forgotten",
            "left the weights out: they are read in each step",
            "Add 134.5 million numbers.",
            Instead(weights=0),
        ),
        Misconception(
            "four_bytes",
            "took four bytes a number",
            "bfloat16 takes two.",
            Instead(weights=134.5e6 * 4, cache=4096 * 11_520 * 4),
        ),
        Misconception(
            "one_byte",
            "took numbers for bytes",
            "bfloat16 takes two bytes a number.",
            Instead(weights=134.5e6, cache=4096 * 11_520),
        ),
        Misconception(
            "four_bytes_in_the_cache",
            "took four bytes a number in the cache: 11,520 numbers are keys and values already",
            "11,520 numbers of two bytes.",
            Instead(cache=4096 * 11_520 * 4),
        ),
        Misconception(
            "seconds",
            "returned the seconds of one step",
            "Tokens per second: one divided by that.",
            lambda: 1 / _speed()(),
        ),
        Misconception(
            "flop_for_bytes",
            "counted 2 FLOP a weight, and 100 billion of them a second",
            "The memory is the limit: count bytes.",
            lambda: 100e9 / (2 * 134.5e6 + 4 * 4096 * 9 * 64 * 30),
        ),
    ),
    variants=(Variant("in_milliseconds", lambda: 1000 / (2.69 + 0.9437184)),),
)
