"""Which mistake does a decoder make? Its logits on one sentence, beside those of the right attention and of known mistakes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_course.language_model.reference import FLAWS, reference_logits

SENTENCE = "The capital of France is Paris. The keys are rotated, 3 times 147 is 441, and"
CLOSE = 1e-3  # logits reach 33; float32 and another order of sums make differences of 5e-5, a mistake 5 and more


@dataclass(frozen=True)
class Diagnosis:
    """How far logits are from the right ones (`difference`, at a `scale`), and the `flaw` that they are equal to, if any."""

    difference: float
    scale: float
    flaw: str = ""

    @property
    def right(self) -> bool:
        """Whether they agree."""
        return self.difference < CLOSE

    def __str__(self) -> str:
        if self.right:
            return f"Your logits agree with the reference: they differ by less than {CLOSE:g}, and reach {self.scale:.0f}."
        size = f"Your logits differ from the reference by up to {self.difference:.1f}, and reach {self.scale:.0f}."
        if self.flaw:
            return f"{size}\nThey are those of a known mistake, {self.flaw}. Your attention {FLAWS[self.flaw]}."
        return f"{size}\nThey are not those of a mistake known here. Do your checks above pass?"


def diagnose(
    logits_of: Callable[[Int[Tensor, "batch n"]], Float[Tensor, "batch n vocab"]], weights: Mapping[str, Any], ids: Any
) -> Diagnosis:
    """Compare `logits_of(ids)` with the reference, and, where they differ, with each of the known flaws.

    `ids` is a batch with a text of 20 tokens or so. Shapes that differ raise ValueError.
    """
    with torch.inference_mode():
        theirs, right = logits_of(ids), reference_logits(weights, ids)
        if theirs.shape != right.shape:
            expected, got = tuple(right.shape), tuple(theirs.shape)
            raise ValueError(f"logits: expected (batch, n, vocab) = {expected}, got {got}. One row for each token of each text.")
        scale, difference = float(right.abs().max()), _distance(theirs, right)
        if difference < CLOSE:
            return Diagnosis(difference, scale)
        for flaw in FLAWS:
            if _distance(theirs, reference_logits(weights, ids, flaw)) < CLOSE:
                return Diagnosis(difference, scale, flaw)
        return Diagnosis(difference, scale)


def _distance(one: Tensor, two: Tensor) -> float:
    return float((one - two).abs().nan_to_num(nan=torch.inf).max())
