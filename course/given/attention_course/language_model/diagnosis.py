"""Where does a decoder go wrong? Its logits beside those of known mistakes; what each layer gives; where each head looks."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_course.language_model.reference import FLAWS, GroupedAttention, Llama, reference_logits

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


def attention_inputs(weights: Mapping[str, Any], ids: Int[Tensor, "batch n"]) -> list[Tensor]:
    """What the attention of each layer of a model is given on a text, (batch, n, d_model) each."""
    return [x for x, _ in _heard(Llama, GroupedAttention, weights, ids)]


def attention_outputs(decoder: Any, attention: Any, weights: Mapping[str, Any], ids: Int[Tensor, "batch n"]) -> list[Tensor]:
    """What the attention of each layer gives on a text, (batch, n, d_model) each, in `decoder(weights, capacity, attention)`."""
    return [y for _, y in _heard(decoder, attention, weights, ids)]


def second_moments(decoder: Any, attention: Any, weights: Mapping[str, Any], ids: Int[Tensor, "1 n"]) -> list[Tensor]:
    """The mean of x^T x over the rows x that the attention of each layer is given, (d_model, d_model) each."""
    rows = [x.flatten(0, 1) for x, _ in _heard(decoder, attention, weights, ids)]
    return [x.mT @ x / len(x) for x in rows]


def _heard(decoder: Any, attention: Any, weights: Mapping[str, Any], ids: Int[Tensor, "batch n"]) -> list[tuple[Tensor, Tensor]]:
    """What the attention of each layer is given, and what it gives."""
    heard: list[tuple[Tensor, Tensor]] = []

    class Heard:
        """An attention that is listened to."""

        def __init__(self, layer: Mapping[str, Any], capacity: int) -> None:
            self.inner = attention(layer, capacity)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def __call__(self, x: Tensor) -> Tensor:
            y: Tensor = self.inner(x)
            heard.append((x, y))
            return y

    with torch.no_grad():
        decoder(weights, ids.shape[1], Heard).extend(ids)
    return heard


def attention_maps(
    decoder: Any, attention: Any, weights: Mapping[str, Any], ids: Int[Tensor, "1 n"]
) -> Float[Tensor, "layer head query key"]:
    """The weights of all heads on a text, by an `attention` that calls `gqa_grouped(Q, K, V)`, which returns them.

    `attention` finds that function by its name each time it is called. While the text is read, one stands in its place that
    keeps what it returns.
    """
    seen: list[Tensor] = []
    home = inspect.unwrap(attention.__call__).__globals__  # the names that its code looks up
    own = home["gqa_grouped"]

    def watching(Q: Tensor, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        outputs, A = own(Q, K, V)
        seen.append(A.flatten(1, -3)[0].cpu())  # (H, query, key)
        return outputs, A

    home["gqa_grouped"] = watching
    try:
        with torch.no_grad():
            decoder(weights, ids.shape[1], attention).extend(ids)
    finally:
        home["gqa_grouped"] = own
    if not seen:
        raise RuntimeError("expected an attention that calls gqa_grouped, got one that does not.")
    return torch.stack(seen)


def _distance(one: Tensor, two: Tensor) -> float:
    return float((one - two).abs().nan_to_num(nan=torch.inf).max())
