"""Notebook 12: how much of a difference between two caches is chance."""

import math

import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Prediction, Variant
from solutions import smaller_caches as ref

PREDICT_PAIRS = Prediction(
    "predict_pairs",
    title="Predict: the same tokens",
    points=0.5,
    difficulty=2,
    minutes=1,
    choices={
        "a": "about as wide, because it rests on the same 512 tokens",
        "b": "about two thirds as wide, because two errors add up before and only one remains",
        "c": "a tenth as wide or less, because hard tokens are hard for both caches",
    },
    holds="c",
    reveal="**c.** A hard token is hard for both caches. The loss has a standard deviation of 2.8 from token to token, but the "
    "difference of the two losses only 0.25. Subtracting token by token removes most of the spread before anything is averaged.",
)

CHOOSE_CACHE = Prediction(
    "choose_cache",
    title="Decide: which cache ships?",
    points=1,
    difficulty=2,
    minutes=2,
    choices={
        "a": "the 8-bit float, because no other cache of 8 bits takes fewer bytes",
        "b": "8 bits with one group for three heads, because it fits and its intervals are the narrowest",
        "c": "4 bits rotated, because it leaves half of the budget free for 2 to 6 %",
        "d": "the window, because it takes 2.9 MB in all and costs no more than 4 bits",
    },
    holds="b",
    reveal="**b.** Its 11,760 bytes fit into 12,207, and all its intervals end below 1.01. The 8-bit float fits as well, but "
    "it saves 240 bytes that nobody needs, and its intervals are wider. Four bits pay a price for room that the budget doesn't ask for, "
    "and the window forgets. With half the budget, rotated 4 bits would be the choice.",
)

RESAMPLES = 81  # the quantiles of 2.5 % and 97.5 % are then two of the means, and nothing is interpolated


def _losses(blocks: int, size: int):
    """Losses of two caches. Neighbours are alike, and the new losses are a little larger than the old ones."""

    def make(draw: Draw):
        old = draw.normal(blocks * size, scale=1.5) ** 2 + 0.2
        along = draw.normal(blocks, 1, scale=0.3) + draw.normal(blocks, size, scale=0.2)
        new = old + along.ravel() + 0.15
        return {"new": new, "old": old, "picks": draw.rng.integers(0, blocks, (RESAMPLES, blocks)), "size": size}

    return make


def _difference(new, old):
    return new - old


def _in_blocks(difference, size):
    return difference.reshape(-1, size).mean(1)


def _quantiles(means, share):
    return torch.quantile(means, means.new_tensor([share, 1 - share]))


def _interval(
    *,
    difference=_difference,
    blocks=_in_blocks,
    share=0.025,
    middle=lambda whole, means: whole.mean(),
    ends=None,
    out=torch.exp,
):
    """The interval with one part replaced by a mistake."""

    def answer(new, old, picks, size):
        whole = difference(new, old)
        means = blocks(whole, size)[picks].mean(1)
        low, high = _quantiles(means, share) if ends is None else ends(means)
        return float(out(middle(whole, means))), float(out(low)), float(out(high))

    return answer


def _unpaired(new, old, picks, size):
    low, high = _quantiles(_in_blocks(new, size)[picks].mean(1) - old.mean(), 0.025).exp().tolist()
    return float((new.mean() - old.mean()).exp()), low, high


def _two_draws(new, old, picks, size):
    means = _in_blocks(new, size)[picks].mean(1) - _in_blocks(old, size)[picks.flip(0)].mean(1)
    low, high = _quantiles(means, 0.025).exp().tolist()
    return float((new.mean() - old.mean()).exp()), low, high


def _mean_of_ratios(new, old, picks, size):
    ratios = (new - old).exp()
    low, high = _quantiles(_in_blocks(ratios, size)[picks].mean(1), 0.025).tolist()
    return float(ratios.mean()), low, high


def _ratio_of_losses(new, old, picks, size):
    means = _in_blocks(new, size)[picks].mean(1) / _in_blocks(old, size)[picks].mean(1)
    low, high = _quantiles(means, 0.025).tolist()
    return float(new.mean() / old.mean()), low, high


def _by_perplexities(new, old, picks, size):
    """Two perplexities of each resampled text, and their ratio."""
    ratios = _in_blocks(new, size)[picks].mean(1).exp() / _in_blocks(old, size)[picks].mean(1).exp()
    low, high = _quantiles(ratios, 0.025).tolist()
    return float(new.mean().exp() / old.mean().exp()), low, high


def _by_tokens(new, old, picks, size):
    """Each resampled text is put together token by token, and its means are sorted."""
    tokens = (picks[..., None] * size + torch.arange(size)).flatten(1)
    means = (new - old)[tokens].mean(1).sort().values
    cut = round(0.025 * (len(means) - 1))
    return math.exp((new - old).mean()), float(means[cut].exp()), float(means[-1 - cut].exp())


PAIRED_INTERVAL = Exercise(
    "paired_interval",
    title="A paired interval",
    points=2,
    difficulty=3,
    minutes=9,
    tensors=True,
    reference=ref.paired_interval,
    recipe=Made(_interval),
    cases=(
        Case("five blocks of two", _losses(5, 2)),
        Case("seven blocks of three", _losses(7, 3)),
        Case("eleven blocks of five", _losses(11, 5)),
    ),
    hints=(
        "Which single number per token contains all that you want to know about the two caches? Compute it before you average anything.",
        "The mean of a resampled text is the mean of its blocks' means. If you have one mean per block in a vector, what does indexing the "
        "vector with `picks` give, and along which axis is one text?",
        "The mean difference is the logarithm of a ratio of perplexities. `torch.quantile` accepts a tensor of two shares, if its dtype is that of "
        "the means, and the exponential can come before or after it.",
    ),
    misconceptions=(
        Misconception(
            "unpaired",
            "resampled only the new losses and compared them with the fixed mean of the old ones, so hard and easy tokens widen the interval",
            "Subtract the two losses at each token first, and resample the differences.",
            _unpaired,
        ),
        Misconception(
            "two_draws",
            "drew one resampled text for the new losses and another one for the old losses, so the two are not compared on the same tokens",
            "Use the same row of `picks` for both, which is the same as resampling the differences.",
            _two_draws,
        ),
        Misconception(
            "single_tokens",
            "used `picks` as numbers of tokens, so only the first few tokens are ever drawn",
            "`picks` counts blocks. Block b consists of the tokens from b · size up to (b + 1) · size.",
            Instead(blocks=lambda difference, size: difference),
        ),
        Misconception(
            "blocks_of_tokens_apart",
            "made blocks of tokens that are far apart, so the neighbours that resemble each other are in different blocks",
            "A block is `size` consecutive tokens, so the last axis after `reshape` has to be `size` long.",
            Instead(blocks=lambda difference, size: difference.reshape(size, -1).mean(0)),
        ),
        Misconception(
            "mean_of_ratios",
            "took the exponential at each token and averaged the results, so a few bad tokens dominate",
            "Perplexity is e to the mean loss. Average the differences first, and take the exponential last.",
            _mean_of_ratios,
        ),
        Misconception(
            "ratio_of_losses",
            "divided mean losses by each other, which is not the ratio of two perplexities",
            "Dividing perplexities means subtracting mean losses, because e to the a over e to the b is e to the a − b.",
            _ratio_of_losses,
        ),
        Misconception(
            "logarithms",
            "returned mean differences of losses, which are the logarithms of the ratios",
            "Take the exponential of all three numbers.",
            Instead(out=lambda number: number),
        ),
        Misconception(
            "ninety_percent",
            "cut off 5 % at each end, which leaves an interval of 90 %",
            "An interval of 95 % leaves out 2.5 % at each end.",
            Instead(share=0.05),
        ),
        Misconception(
            "everything",
            "took the least and the largest resampled ratio as the ends",
            "The interval contains 95 % of the resampled texts, so use quantiles.",
            Instead(ends=lambda means: (means.min(), means.max())),
        ),
        Misconception(
            "normal_ends",
            "went 1.96 standard deviations of the resampled means to each side instead of taking their quantiles",
            "Use `torch.quantile`. It doesn't assume that the means are normally distributed.",
            Instead(ends=lambda means: (means.mean() - 1.96 * means.std(), means.mean() + 1.96 * means.std())),
        ),
        Misconception(
            "exchanged",
            "divided the old perplexity by the new one, so a loss looks like a gain",
            "Subtract the old losses from the new ones.",
            Instead(difference=lambda new, old: old - new),
        ),
        Misconception(
            "resampled_middle",
            "returned the average of the resampled texts as the ratio",
            "The ratio comes from the text as it is. Resampling is only needed for the two ends.",
            Instead(middle=lambda whole, means: means.mean()),
        ),
    ),
    variants=(Variant("by_perplexities", _by_perplexities), Variant("by_tokens", _by_tokens)),
)
