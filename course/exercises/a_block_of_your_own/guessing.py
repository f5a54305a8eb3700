"""How low the loss can get with simple ways to guess the next character."""

import math

import numpy as np
import torch

from autograder import After, Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import a_block_of_your_own as ref


def _full(draw: Draw):
    """Every character follows every other one."""
    count = draw.integer(3, 6)
    return {"pairs": draw.rng.integers(1, 30, (count, count)).astype(float)}


def _never(draw: Draw):
    """Some pairs never occur, but each character comes before some other and after some other."""
    pairs = draw.rng.integers(1, 30, (5, 5)).astype(float)
    pairs[np.arange(5), draw.rng.permutation(5)] = 0.0
    pairs[0, 1:4] = 0.0
    pairs[0, 0] = pairs[0, 4] = 7.0
    return {"pairs": pairs}


def _unused(draw: Draw):
    """A character that occurs once, at the very end of the text, comes before nothing."""
    pairs = draw.rng.integers(1, 30, (4, 4)).astype(float)
    pairs[draw.integer(0, 3)] = 0.0
    return {"pairs": pairs}


def _losses(
    *,
    log=torch.log,
    axis=0,
    before=lambda pairs: pairs / pairs.sum(1, keepdim=True),
    weights=lambda pairs: pairs / pairs.sum(),
    known=lambda pairs: len(pairs),
    order=(0, 1, 2),
    sign=-1.0,
):
    """The three losses with one part replaced by a mistake."""

    def answer(pairs):
        guesses = (
            torch.full_like(pairs, 1 / known(pairs)),
            (pairs.sum(axis) / pairs.sum()).expand_as(pairs)
            if axis == 0
            else (pairs.sum(1, keepdim=True) / pairs.sum()).expand_as(pairs),
            before(pairs),
        )
        seen, share = pairs > 0, weights(pairs)
        losses = [sign * (share * log(guess))[seen].sum().item() for guess in guesses]
        return tuple(losses[i] for i in order)

    return answer


def _with_nan(pairs):
    share = pairs / pairs.sum()
    first, second, _ = ref.best_losses(pairs)
    return first, second, -(share * torch.log(pairs / pairs.sum(1, keepdim=True))).sum().item()


def _unweighted_rows(pairs):
    """The mean of the rows' losses, as if every character came before equally often."""
    first, second, _ = ref.best_losses(pairs)
    before = pairs / pairs.sum(1, keepdim=True)
    rows = torch.special.entr(before).sum(1)
    return first, second, rows[rows.isfinite()].mean().item()


def _unweighted_characters(pairs):
    """The mean surprise of the characters, as if they were equally frequent."""
    first, _, third = ref.best_losses(pairs)
    frequency = pairs.sum(0) / pairs.sum()
    return first, -torch.log(frequency).mean().item(), third


def _most_frequent_only(pairs):
    """The log of the largest probability instead of the mean log of the right one."""
    first, *_ = ref.best_losses(pairs)
    share = pairs / pairs.sum()
    largest = (pairs / pairs.sum(1, keepdim=True)).nan_to_num().amax(1)
    weight = share.sum(1)
    return first, -torch.log(share.sum(0).max()).item(), -(weight * torch.log(largest))[weight > 0].sum().item()


def _by_entropies(pairs):
    """The chain rule: what a pair says, less what its first character says."""
    share = pairs / pairs.sum()
    both, before, after = (torch.special.entr(p).sum().item() for p in (share, share.sum(1), share.sum(0)))
    return math.log(len(pairs)), after, both - before


def _by_loops(pairs):
    total, totals = pairs.sum().item(), [0.0, 0.0, 0.0]
    for i, row in enumerate(pairs.tolist()):
        for j, count in enumerate(row):
            if count:
                guesses = (1 / len(pairs), pairs[:, j].sum().item() / total, count / pairs[i].sum().item())
                totals = [t - count / total * math.log(p) for t, p in zip(totals, guesses, strict=True)]
    return tuple(totals)


BEST_LOSSES = Exercise(
    "best_losses",
    title="Estimate: how far do simple guesses get?",
    kind="estimate",
    points=2,
    difficulty=3,
    minutes=9,
    tensors=True,
    search=0.4,
    reference=ref.best_losses,
    recipe=Made(_losses),
    tolerance=Tolerance(rtol=1e-4, atol=1e-6),  # sums of logarithms in float32; mistakes are off by a per cent and more
    cases=(
        Case("every pair occurs", _full),
        Case("some pairs never occur", _never),
        Case("a character that comes before nothing", _unused, edge=0.1),
    ),
    hints=(
        "The best probability to give a character is its share among the characters that can come here. Of which counts is that the "
        "share in each of the three cases?",
        "In the second case take the share of each column's sum. In the third, divide each row by its own sum. Then average "
        "−ln p over all pairs of the text, where a pair that occurs 20 times counts 20 times.",
        "With `share = pairs / pairs.sum()`, the third loss is `-(share * torch.log(pairs / pairs.sum(1, keepdim=True)))` summed over "
        "the entries where `pairs > 0`. The others differ only in what stands inside the logarithm.",
    ),
    misconceptions=(
        Misconception(
            "bits_for_nats",
            "took the logarithm to base 2",
            "`F.cross_entropy` uses the natural logarithm, so its losses are in nats. Use `torch.log`.",
            Instead(log=torch.log2),
        ),
        Misconception(
            "frequency_before",
            "counted how often each character comes *before* another one",
            "The second guesser names the next character, so it needs the sums of the columns, over `before`.",
            Instead(axis=1),
        ),
        Misconception(
            "columns_normalised",
            "divided each column by its sum, which tells how likely the character *before* is",
            "The third guesser knows the character before, which is the row. The probabilities of each row sum to 1.",
            Instead(before=lambda pairs: pairs / pairs.sum(0, keepdim=True)),
        ),
        Misconception(
            "pairs_predicted",
            "measured how hard it is to guess both characters of a pair",
            "The third guesser already knows the first character of the pair. Divide each row by its own sum.",
            Instead(before=lambda pairs: pairs / pairs.sum()),
        ),
        Misconception(
            "zero_times_infinity",
            "got NaN where a pair never occurs, because 0 · ln 0 is not a number in floating point",
            "A pair that never occurs adds nothing. Sum only over the entries where `pairs > 0`.",
            _with_nan,
        ),
        Misconception(
            "rows_unweighted",
            "averaged over the characters before as if all of them were equally frequent",
            "In a text most pairs begin with a frequent character. Weight each pair by how often it occurs.",
            _unweighted_rows,
        ),
        Misconception(
            "characters_unweighted",
            "averaged over the characters as if all of them were equally frequent",
            "A frequent character is asked for more often. Weight −ln p by how often the character occurs.",
            _unweighted_characters,
        ),
        Misconception(
            "always_the_favourite",
            "took the probability of the most likely character instead of the one that really comes next",
            "The loss looks up the probability of the right character, however unlikely it was.",
            _most_frequent_only,
        ),
        Misconception(
            "sign_forgotten",
            "returned the mean of ln p, which is negative",
            "The loss is −ln p.",
            Instead(sign=1.0),
        ),
        Misconception(
            "sums_for_means",
            "added up the losses of all pairs",
            "Divide by the number of pairs in the text, `pairs.sum()`.",
            Instead(weights=lambda pairs: pairs),
        ),
        Misconception(
            "mean_over_the_table",
            "divided by the number of entries in the table",
            "The mean runs over the pairs of the text, so divide by `pairs.sum()`.",
            Instead(weights=lambda pairs: pairs / pairs.numel()),
        ),
        Misconception(
            "pairs_for_characters",
            "gave every *pair* the same probability in the first case",
            "The first guesser chooses among `len(pairs)` characters.",
            Instead(known=lambda pairs: pairs.numel()),
        ),
        Misconception(
            "perplexities",
            "returned the exponentials of the losses, which are perplexities",
            "Leave out the exponential. The loss is the mean of −ln p.",
            After(lambda out, **_: tuple(math.exp(x) for x in out)),
        ),
    ),
    variants=(Variant("entropies", _by_entropies), Variant("loops", _by_loops)),
)
