"""Merging attention over two sets of keys by their log-sum-exp."""

import numpy as np
import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import attention_without_the_matrix as ref


def _by_hand(draw: Draw):
    level = float(draw.normal(1)[0])
    return {"o1": draw.normal(1), "lse1": np.array(level), "o2": draw.normal(1), "lse2": np.array(level + np.log(3.0))}


def _around(spread: float, level: float, *lead: int):
    def make(draw: Draw):
        queries = draw.sizes(1, low=3, high=6)[0]
        shape = (*lead, queries)
        return {
            "o1": draw.normal(*shape, 2),
            "lse1": level + spread * draw.normal(*shape),
            "o2": draw.normal(*shape, 2),
            "lse2": level + spread * draw.normal(*shape),
        }

    return make


def _levels_apart(draw: Draw):
    """Queries around −1,000, 0 and 1,000: below a common maximum the lowest ones vanish, in float64 too."""
    level = draw.rng.permutation([-1000.0, 0.0, 1000.0])
    return {
        "o1": draw.normal(3, 2),
        "lse1": level + draw.normal(3),
        "o2": draw.normal(3, 2),
        "lse2": level + draw.normal(3),
    }


def _one_part_empty(draw: Draw):
    """Of the first query the first part has no keys, of the second query the second part."""
    lse1, lse2 = draw.normal(3), draw.normal(3)
    lse1[0], lse2[1] = -np.inf, -np.inf
    o1, o2 = draw.normal(3, 2), draw.normal(3, 2)
    o1[0], o2[1] = 0.0, 0.0
    return {"o1": o1, "lse1": lse1, "o2": o2, "lse2": lse2}


def _each(lse1, lse2):
    return torch.maximum(lse1, lse2)


def _of_all(lse1, lse2):
    return torch.maximum(lse1, lse2).max().expand_as(lse1)


def _merge(
    *,
    shift=_each,
    lse=lambda top, total, lse1, lse2: top + torch.log(total),
    weights=lambda w1, w2: (w1, w2),
    total=lambda w1, w2: w1 + w2,
    joined=lambda w1, o1, w2, o2, total: (w1[..., None] * o1 + w2[..., None] * o2) / total[..., None],
    pair=lambda o, lse: (o, lse),
):
    """The merge with one part replaced by a mistake."""

    def answer(o1, lse1, o2, lse2):
        top = shift(lse1, lse2)
        w1, w2 = weights(torch.exp(lse1 - top), torch.exp(lse2 - top))
        whole = total(w1, w2)
        return pair(joined(w1, o1, w2, o2, whole), lse(top, whole, lse1, lse2))

    return answer


def _as_in_the_formula(o1, lse1, o2, lse2):
    """Both formulas of the text, typed as they stand."""
    lse = torch.log(torch.exp(lse1) + torch.exp(lse2))
    return torch.exp(lse1 - lse)[..., None] * o1 + torch.exp(lse2 - lse)[..., None] * o2, lse


def _with_logaddexp(o1, lse1, o2, lse2):
    lse = torch.logaddexp(lse1, lse2)
    return torch.exp(lse1 - lse)[..., None] * o1 + torch.exp(lse2 - lse)[..., None] * o2, lse


def _with_sigmoid(o1, lse1, o2, lse2):
    share = torch.sigmoid(lse1 - lse2)[..., None]
    return share * o1 + (1 - share) * o2, torch.logsumexp(torch.stack([lse1, lse2]), dim=0)


MERGE = Exercise(
    "merge",
    title="Find the bug: merging",
    kind="bug",
    points=1.5,
    difficulty=3,
    minutes=8,
    tensors=True,
    tolerance=Tolerance(rtol=5e-4, atol=5e-4),  # float32 rounds a log-sum-exp of 1,500 by 1e-4
    reference=ref.merge,
    recipe=Made(_merge),
    cases=(
        Case("a sum of 1 and a sum of 3", _by_hand),
        Case("several queries", _around(2.0, 0.5)),
        Case("log-sum-exps near 1,500", _around(2.0, 1500.0), edge=0.2),
        Case("queries around −1,000, 0 and 1,000", _levels_apart, edge=0.2),
        Case("one part without keys", _one_part_empty, edge=0.15),
        Case("leading axes", _around(1.0, -1.0, 2, 3), edge=0.15),
    ),
    hints=(
        "After one merge the output is right. Which other result of the first merge does the second merge use?",
        "Take ℓ₁ = ℓ₂ = 5. What should the merged ℓ be, and what does the draft return?",
        "`total` is the sum of `exp(lse - top)`, so its logarithm is ℓ − top. What is missing in the last line?",
    ),
    misconceptions=(
        Misconception(
            "as_shown",
            "returned a log-sum-exp that is too small by the larger of the two inputs, as the draft does",
            "`total` was summed after subtracting `top`, so add `top` back to its logarithm.",
            Instead(lse=lambda top, total, lse1, lse2: torch.log(total)),
        ),
        Misconception(
            "top_subtracted",
            "subtracted the maximum from the logarithm of the sum",
            "`log(total)` is ℓ − top, so ℓ = top + log(total).",
            Instead(lse=lambda top, total, lse1, lse2: torch.log(total) - top),
        ),
        Misconception(
            "maximum_returned",
            "returned the larger of the two log-sum-exps",
            "Two equal parts have a sum twice as large, so ℓ has to grow by ln 2.",
            Instead(lse=lambda top, total, lse1, lse2: top),
        ),
        Misconception(
            "logarithms_added",
            "added the two log-sum-exps",
            "Adding logarithms multiplies the two sums. The sums themselves are added: ln(e^ℓ₁ + e^ℓ₂).",
            Instead(lse=lambda top, total, lse1, lse2: lse1 + lse2),
        ),
        Misconception(
            "logarithms_averaged",
            "averaged the two log-sum-exps",
            "The sums of both parts are added: ln(e^ℓ₁ + e^ℓ₂).",
            Instead(lse=lambda top, total, lse1, lse2: (lse1 + lse2) / 2),
        ),
        Misconception(
            "common_maximum",
            "subtracted one maximum from all queries, so queries with low scores vanish",
            "Each query has its own maximum: `torch.maximum(lse1, lse2)` compares entry by entry, while `.max()` takes one of all.",
            Instead(shift=_of_all),
        ),
        Misconception(
            "no_shift",
            "took the exponentials without subtracting a maximum first, so they overflow",
            "In float32 exp overflows above 88, in the weights and in the new log-sum-exp alike. Keep the draft's `top`, and add it back to `log(total)`.",
            Instead(shift=lambda lse1, lse2: torch.zeros_like(lse1)),
            also=(
                Instead(lse=lambda top, total, lse1, lse2: torch.log(torch.exp(lse1) + torch.exp(lse2))),
                _as_in_the_formula,
            ),
        ),
        Misconception(
            "smaller_shift",
            "subtracted the smaller of the two log-sum-exps",
            "Subtract the larger one, so that no exponential exceeds 1.",
            Instead(shift=lambda lse1, lse2: torch.minimum(lse1, lse2)),
        ),
        Misconception(
            "parts_averaged",
            "took the mean of both outputs, whatever their log-sum-exps are",
            "The part with the larger sum counts for more. The weights are e^(ℓ₁ − ℓ) and e^(ℓ₂ − ℓ).",
            Instead(joined=lambda w1, o1, w2, o2, total: (o1 + o2) / 2),
        ),
        Misconception(
            "outputs_added",
            "added the weighted outputs without dividing by the sum of the weights",
            "Divide by `total`, so that the two weights sum to 1.",
            Instead(joined=lambda w1, o1, w2, o2, total: w1[..., None] * o1 + w2[..., None] * o2),
        ),
        Misconception(
            "weights_swapped",
            "gave each output the weight of the other part",
            "The output of a part belongs with the log-sum-exp of the same part.",
            Instead(joined=lambda w1, o1, w2, o2, total: (w2[..., None] * o1 + w1[..., None] * o2) / total[..., None]),
        ),
        Misconception(
            "lse_first",
            "returned the log-sum-exp before the output",
            "Return the output first and the log-sum-exp second.",
            Instead(pair=lambda o, lse: (lse, o)),
        ),
    ),
    variants=(Variant("logaddexp", _with_logaddexp), Variant("sigmoid", _with_sigmoid)),
)
