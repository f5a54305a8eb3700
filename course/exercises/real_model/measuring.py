"""How well it predicts."""

import math

import torch
import torch.nn.functional as F

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import real_model as ref


def _text(n, vocab):
    return lambda draw: {"logits": draw.normal(n, vocab, scale=1.5).round(2), "ids": draw.rng.integers(0, vocab, n)}


def _sized(draw: Draw):
    n, vocab = draw.sizes(2, low=5, high=13)
    return _text(n, vocab)(draw)


def _improbable(draw: Draw):
    """A token came whose probability is e^-120 and less, too small for a float32."""
    text = _text(17, 7)(draw)
    text["logits"][5, text["ids"][6]] -= 120.0
    return text


def _perplexity(
    *,
    logs=lambda z: z.log_softmax(-1),
    scored=lambda rows, ids: (rows[:-1], ids[1:]),
    average=torch.mean,
    sign=-1,
    power=torch.exp,
):
    """Log-probabilities, those of the tokens that came, their average, and a number of choices."""

    def answer(logits, ids):
        rows, tokens = scored(logs(logits), ids)
        return float(power(average(sign * rows.gather(-1, tokens[:, None])[:, 0])))

    return answer


def _all_rows_first(logits, ids):
    logp = torch.log_softmax(logits, dim=-1)
    return math.exp(-logp[torch.arange(len(ids) - 1), ids[1:]].mean().item())


def _loop(logits, ids):
    total = 0.0
    for row, token in zip(logits[:-1], ids[1:], strict=True):
        total += math.log(sum(math.exp(float(z)) for z in row)) - float(row[token])
    return math.exp(total / (len(ids) - 1))


PERPLEXITY = Exercise(
    "perplexity",
    title="Perplexity",
    points=1.5,
    minutes=7,
    reference=ref.perplexity,
    recipe=Made(_perplexity),
    tensors=True,
    cases=(
        Case("three tokens of four", _text(3, 4)),
        Case("other sizes", _sized),
        Case("a longer text", _text(17, 7)),
        Case("a token of probability e^-120", _improbable, edge=0.2),
    ),
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
            Instead(scored=lambda rows, ids: (rows, ids)),
            also=(Instead(scored=lambda rows, ids: (rows[:-1], ids[:-1])), Instead(scored=lambda rows, ids: (rows[1:], ids[1:]))),
        ),
        Misconception(
            "shifted_backwards",
            "scored each row against the token **before** it",
            "`logits[:-1]` against `ids[1:]`, not `logits[1:]` against `ids[:-1]`.",
            Instead(scored=lambda rows, ids: (rows[1:], ids[:-1])),
        ),
        Misconception(
            "wrapped_around",
            "scored the last row against the first token (`roll` wraps around)",
            "The last row's prediction cannot be scored: leave it out.",
            Instead(scored=lambda rows, ids: (rows, ids.roll(-1))),
        ),
        Misconception(
            "no_exponential",
            "returned the mean of minus the logarithms, without the exponential",
            "That is the cross-entropy. Perplexity is its `exp`.",
            Instead(power=lambda mean: mean),
        ),
        Misconception(
            "base_two",
            "took 2 to the power of natural logarithms",
            "Base and logarithm must fit: `exp` with `log`, or 2 with `log2`.",
            Instead(power=torch.exp2),
        ),
        Misconception(
            "mean_of_exponentials",
            "averaged 1/p over the tokens: a single improbable token rules it",
            "First the mean of the logarithms, then the exponential.",
            Instead(average=lambda x: x.exp().mean().log()),
            also=(Instead(average=lambda x: x.float().exp().mean().log()),),  # overflows
        ),
        Misconception(
            "mean_probability",
            "took one over the mean probability",
            "The mean is taken of the **logarithms**: a geometric mean of probabilities.",
            Instead(average=lambda x: -(-x).exp().mean().log()),
        ),
        Misconception(
            "softmax_twice",
            "took the softmax first, and then a function that takes it again",
            "`F.cross_entropy` and `log_softmax` want logits, as they are.",
            Instead(logs=lambda z: z.softmax(-1).log_softmax(-1)),
        ),
        Misconception(
            "softmax_then_log",
            "took the softmax and then its logarithm: a probability too small for a float32 becomes 0, and its logarithm minus infinity",
            "`log_softmax` never forms the probability, and `F.cross_entropy` uses it.",
            Instead(logs=lambda z: z.float().softmax(-1).log()),
        ),
        Misconception(
            "divided_by_n",
            "divided the sum by $n$, though only $n - 1$ predictions were scored",
            "Take the mean of what you have summed.",
            Instead(average=lambda x: x.sum() / (len(x) + 1)),
        ),
        Misconception(
            "sign_forgotten",
            "forgot the minus: what comes out is below 1, one over the perplexity",
            "Logarithms of probabilities are negative: take minus their mean.",
            Instead(sign=1),
        ),
        Misconception(
            "exponential_of_bits",
            "took logarithms to base 2, and then the exponential",
            "Base and logarithm must fit: `exp` with `log`, or 2 with `log2`.",
            Instead(power=lambda mean: (mean / math.log(2)).exp()),
        ),
        Misconception(
            "logits_for_logarithms",
            "took the logits themselves for log-probabilities",
            "Logits become log-probabilities by `log_softmax` over the vocabulary.",
            Instead(logs=lambda z: z),
        ),
        Misconception(
            "probabilities_for_logarithms",
            "averaged the probabilities themselves, without a logarithm",
            "`softmax` gives probabilities: take their logarithms, or `log_softmax` at once.",
            Instead(logs=lambda z: z.softmax(-1)),
        ),
        Misconception(
            "softmax_over_the_tokens",
            "took the softmax over the tokens of the text, not over the vocabulary",
            "Each row is a prediction of its own: `dim=-1`.",
            Instead(logs=lambda z: z.log_softmax(0)),
        ),
        Misconception(
            "summed",
            "summed over the tokens: the longer the text, the more it surprises",
            "Perplexity is of a token: take the **mean** of minus the logarithms.",
            Instead(average=torch.sum),
            also=(Instead(average=lambda x: x.float().sum()),),  # overflows
        ),
    ),
    variants=(
        Variant("log_softmax_and_gather", _perplexity()),
        Variant("a_loop", _loop),
        Variant("all_rows_first", _all_rows_first),
        Variant("nll_loss", lambda logits, ids: math.exp(F.nll_loss(logits[:-1].log_softmax(-1), ids[1:]))),
    ),
)
