"""What workshop 05b is given: the language model reads random tokens twice, and heads can be knocked out of it.

    found = read(attend, measure, length=40)                        # the model runs, a second or two
    found.measured, found.loss
    read(attend, measure, length=40, without=[(16, 0)], fill="zero")
    copying_scores(score, length=65)                                # `score` of each of the 270 heads
    knock_outs()                                                    # the recorded effect of each head on those that copy

If the model is not installed, the numbers are those of `repeats.npz`, and a line says so.
`python -m attention_course.language_model.repeats` makes that file again.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_course.language_model.looking import Attend, in_heads, run
from attention_course.language_model.model import INSTALL, LanguageModel, ModelMissingError, load_model
from attention_course.language_model.reference import _turn, hidden_with

FILE = "repeats.npz"
LENGTHS = (40, 65)  # tokens of one reading
LEAST, MOST = 1_000, 20_000  # the tokens that are drawn: neither bytes and other special ones nor the rarest
COPYING = (
    (17, 3),
    (17, 4),
    (17, 5),
    (18, 6),
    (18, 7),
    (23, 2),
)  # more than half of their weight on what followed, at each length
DEPTH = 1 + COPYING[-1][0]  # as many layers as decide what these attend to
HEADS, WIDTH = 9, 64  # of each layer, of each head
NAMED: dict[str, tuple[tuple[int, int], ...]] = {  # what the workshop knocks out with the learner's functions
    "none": (),
    "16.0": ((16, 0),),
    "11.1, 2.1, 1.2": ((11, 1), (2, 1), (1, 2)),
    "16.3": ((16, 3),),
    "17.4": ((17, 4),),
    "18.6": ((18, 6),),
}
FILLS = ("zero", "mean")

Head = tuple[int, int]
Score = Callable[[Tensor, Tensor, Tensor, Tensor], Any]


@dataclass(frozen=True)
class Reading:
    """What was `measured`, stacked (layer, ...), and the mean `loss` at a token in the first and in the second reading."""

    measured: Tensor
    loss: tuple[float, float]


@dataclass(frozen=True)
class KnockOuts:
    """The mean weight on what followed of each head in `COPYING`: `whole`, and `without` each head of the layers below.

    A head that is taken out writes its mean output instead. All are averages over `LENGTHS`.
    """

    whole: Float[Tensor, " copier"]
    without: Float[Tensor, "copier layer head"]


def random_tokens(length: int) -> Int[Tensor, " n"]:
    """`length` random tokens, and the same ones again."""
    once = torch.randint(LEAST, MOST, (length,), generator=torch.Generator().manual_seed(length))
    return once.repeat(2)


def read(
    attend: Attend,
    measure: Callable[[Tensor], Tensor],
    length: int,
    without: Sequence[Head] = (),
    fill: str = "mean",
) -> Reading:
    """The model reads `length` random tokens twice with `attend` in every layer; `measure(A)` of each layer's weights is kept.

    Each head in `without`, (layer, head), writes nothing (`fill="zero"`) or its mean over other random tokens (`fill="mean"`).
    `attend(x, W, turn)` is as in `looking`. Raises ValueError for another `fill`.
    """
    if fill not in FILLS:
        raise ValueError(f"fill: expected one of {', '.join(FILLS)}, got {fill!r}.")
    model = _model()
    if model is None:
        return _recorded_reading(length, without, fill)
    ids = random_tokens(length)[None]
    logits, measured = run(model, ids, _with_heads_out(attend, without, fill), measure)
    surprise = -logits[:-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]  # at tokens 1, 2, ...
    return Reading(measured, (float(surprise[: length - 1].mean()), float(surprise[length:].mean())))


def copying_scores(score: Score, length: int) -> Float[Tensor, "layer head"]:
    """`score(X, W_V, W_O, E)` of all heads, over the first of two readings.

    `X` (n, 576) is what enters the layer's attention at each token, `W_V` (576, 64) and `W_O` (64, 576) are the head's, and `E`
    (n, 576) turns an output into the logits of these n tokens: `output @ E.T`. Row j of `E` belongs to token j.
    """
    model = _model()
    if model is None:
        return torch.tensor(recorded()["scores"]).float()
    ids, entering = random_tokens(length)[:length], list[Tensor]()

    def watch(x: Tensor, W: Mapping[str, Any], turn: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        entering.append(x)
        return attention(x, W, turn)

    run(model, ids[None], watch)
    E = model.weights["embed"][ids] * model.weights["norm"]  # the last norm's scale of a token is the same for all logits
    found = torch.zeros(len(entering), HEADS)
    for layer, (X, W) in enumerate(zip(entering, model.weights["layers"], strict=True)):
        W_O = W["W_O"].unflatten(0, (HEADS, -1))
        W_V = W["W_V"].unflatten(1, (-1, WIDTH)).repeat_interleave(HEADS // W["G"], dim=1)
        for head in range(HEADS):
            found[layer, head] = float(score(X, W_V[:, head], W_O[head], E))
    return found


def knock_outs() -> KnockOuts:
    """What was recorded of the heads in `COPYING` without each other head. A head above or beside one of them changes nothing."""
    kept = recorded()
    return KnockOuts(torch.tensor(kept["whole"]).float(), torch.tensor(kept["without"]).float())


@functools.cache
def recorded() -> dict[str, Any]:
    """What `repeats.npz` holds."""
    with resources.files(__package__).joinpath(FILE).open("rb") as file, np.load(file, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def _model() -> LanguageModel | None:
    try:
        return load_model("cpu")
    except ModelMissingError:
        print(f"The model is not installed ({INSTALL}). These numbers were recorded with the course's functions.")
        return None


def _recorded_reading(length: int, without: Sequence[Head], fill: str) -> Reading:
    """Raises ModelMissingError for what was not recorded."""
    for name, heads in NAMED.items():
        key = f"{name}/{fill}/{length}"
        if sorted(heads) == sorted(without) and f"{key}/shares" in recorded():
            first, second = recorded()[f"{key}/loss"].tolist()
            return Reading(torch.tensor(recorded()[f"{key}/shares"]).float(), (first, second))
    raise ModelMissingError(f"expected the model for heads that were not recorded, {list(without)}. Install it: {INSTALL}")


def _with_heads_out(attend: Attend, heads: Sequence[Head], fill: str) -> Attend:
    means = torch.tensor(recorded()["means"]).float() if heads and fill == "mean" else None

    def knocked_out(x: Tensor, W: Mapping[str, Any], turn: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        out = [head for layer, head in heads if layer == W["layer"]]
        if not out:
            return attend(x, W, turn)
        W_O = W["W_O"].unflatten(0, (HEADS, -1))
        less = W_O.clone()
        less[out] = 0.0
        Y, A = attend(x, {**W, "W_O": less.flatten(0, 1)}, turn)
        if means is not None:
            Y = Y + sum(means[W["layer"], head] @ W_O[head] for head in out)
        return Y, A

    return knocked_out


# ---------------------------------------------------------------------------------------------- recording


def attention(x: Tensor, W: Mapping[str, Any], turn: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """A layer's outputs and weights, as the workshop has it in other words."""
    q, k, v = in_heads(x, W, turn)
    A = (q @ k.mT / q.shape[-1] ** 0.5 + torch.full((len(x), len(x)), -torch.inf).triu(1)).softmax(-1)
    return (A @ v).transpose(0, 1).flatten(1) @ W["W_O"], A


def shares(A: Tensor, length: int) -> Float[Tensor, "place head"]:
    """The mean weights on the token before, on the first token, and on what followed the same token."""
    before = A.diagonal(-1, 1, 2)[:, : length - 1].mean(-1)
    after = A.diagonal(1 - length, 1, 2)[:, 1:].mean(-1)  # queries length, length + 1, ...: keys 1, 2, ...
    return torch.stack([before, A[:, 1:length, 0].mean(-1), after])


def beaten(X: Tensor, W_V: Tensor, W_O: Tensor, E: Tensor) -> Tensor:
    """Of the other tokens, the share whose logit the head raises less than that of the token it attends to."""
    logits = X @ W_V @ W_O @ E.T
    own = logits.diagonal()[:, None]
    return (logits < own).sum() / (len(X) * (len(X) - 1))


def mean_outputs(model: LanguageModel) -> Float[Tensor, "layer head d"]:
    """Each head's mean output over 300 random tokens that do not repeat, without the first, at which many heads rest."""
    ids, found = torch.randint(LEAST, MOST, (1, 300), generator=torch.Generator().manual_seed(0)), list[Tensor]()

    def watch(x: Tensor, W: Mapping[str, Any], turn: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        Y, A = attention(x, W, turn)
        found.append((A @ in_heads(x, W, turn)[2])[:, 1:].mean(1))
        return Y, A

    run(model, ids, watch)
    return torch.stack(found)


def shares_without_each(model: LanguageModel, length: int, means: Tensor) -> Float[Tensor, "copier layer head"]:
    """The share of each copying head, "what followed", with each head of the layers below `DEPTH` replaced by its mean."""
    ids, found = random_tokens(length).repeat(HEADS, 1), torch.zeros(len(COPYING), DEPTH, HEADS)
    pos = torch.arange(ids.shape[1])
    weights = {**model.weights, "layers": model.weights["layers"][:DEPTH]}
    for out in range(DEPTH):

        def layer(i: int, x: Tensor, out: int = out) -> Tensor:  # row h of the batch lacks head h of layer `out`
            W, rows = {**weights["layers"][i], "layer": i}, []
            for h, tokens in enumerate(x):
                q, k, v = in_heads(tokens, W, lambda X: _turn(X[None], pos, W["base"], "")[0])
                A = (q @ k.mT / WIDTH**0.5 + torch.full((len(pos), len(pos)), -torch.inf).triu(1)).softmax(-1)
                mixed = A @ v
                if i == out:
                    mixed[h] = means[out, h]
                for c, (at, copier) in enumerate(COPYING):
                    if i == at:
                        found[c, out, h] = shares(A, length)[2, copier]
                rows.append(mixed.transpose(0, 1).flatten(1) @ W["W_O"])
            return torch.stack(rows)

        with torch.no_grad():
            hidden_with(weights, ids, [partial(layer, i) for i in range(DEPTH)])
    return found


def main() -> None:
    """Write the file."""
    model, path = load_model("cpu"), Path(__file__).with_name(FILE)
    kept: dict[str, Any] = {"means": mean_outputs(model).numpy()}
    np.savez_compressed(path, **kept)  # `read` takes the means from it
    recorded.cache_clear()
    for name, heads in NAMED.items():
        for fill in FILLS:
            for length in LENGTHS:
                found = read(attention, partial(shares, length=length), length, heads, fill)
                kept[f"{name}/{fill}/{length}/shares"] = found.measured.numpy().astype(np.float16)
                kept[f"{name}/{fill}/{length}/loss"] = np.array(found.loss)
    kept["scores"] = copying_scores(beaten, LENGTHS[1]).numpy()
    whole = [read(attention, partial(shares, length=length), length).measured for length in LENGTHS]
    kept["whole"] = np.array([np.mean([w[layer, 2, head] for w in whole]) for layer, head in COPYING])
    means = torch.tensor(kept["means"])
    each = [shares_without_each(model, length, means) for length in LENGTHS]
    kept["without"] = torch.stack(each).mean(0).numpy().astype(np.float16)
    np.savez_compressed(path, **kept)
    print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
