"""What lesson 04 is given: SmolLM2 reads the thread's sentence through the learner's attention and a mask, then writes on.

    found = read(masked_sdpa, causal_mask)    # a second or two
    found.loss, found.chances, found.goes_on, found.it_to_pear

Where the model is not installed, the numbers are those of `masked.json`, and a line says so.
`python -m attention_course.language_model.masked` makes that file again.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor

from attention_course.heads import CHOSEN
from attention_course.language_model.looking import in_heads, run
from attention_course.language_model.model import INSTALL, ModelMissingError, load_model
from attention_course.thread import INDEX, TOKENS

SENTENCE = " ".join(TOKENS)
WORDS = 8  # that the model writes
FILE = "masked.json"

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]  # (Q, K, V, keep) -> (O, A)
Mask = Callable[[int, int], Bool[Tensor, "query key"]]


@dataclass(frozen=True)
class Reading:
    """The `chances` that the model gives to each right next token, the mean `loss` (-ln of them), how it `goes_on` after the
    last, and `it_to_pear`: the weight from token 6 to token 4 (in the thread, from *it* to *pear*) in the head "coreference".
    """

    chances: list[float]
    loss: float
    goes_on: str
    it_to_pear: float


def read(attend: Attend, mask: Mask, text: str = SENTENCE) -> Reading:
    """The text, read with `attend(Q, K, V, mask(n, n))` in all 270 heads; then the likeliest tokens, one by one."""
    try:
        model = load_model("cpu")
    except ModelMissingError:
        kept = recorded(mask) if text == SENTENCE else None
        if kept is None:
            raise
        print(f"The model is not installed ({INSTALL}). These numbers were recorded with the course's functions.")
        tokens = torch.zeros(1, len(TOKENS), 1)
        if attend(tokens, tokens, tokens, mask(len(TOKENS), len(TOKENS)))[0].isnan().any():  # two layers on, all is NaN
            return Reading([math.nan] * len(kept.chances), math.nan, "", math.nan)
        return kept

    def layer(x: Tensor, W: Mapping[str, Any], turn: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        mixed, A = attend(*in_heads(x, W, turn), mask(len(x), len(x)))
        return mixed.transpose(0, 1).flatten(1) @ W["W_O"], A

    ids = model.ids(text)
    n, (at, head, _) = ids.shape[1], CHOSEN["coreference"]
    logits, looks = run(model, ids, layer, lambda A: A[:, INDEX["it"], INDEX["pear"]])
    surprise = F.cross_entropy(logits[:-1], ids[0, 1:], reduction="none")
    for written in range(WORDS):
        if written:
            logits, *_ = run(model, ids, layer)
        ids = torch.cat([ids, logits[-1:].argmax(-1, keepdim=True)], dim=1)
    chances, goes_on = (-surprise).exp().tolist(), model.text(ids[:, n:])
    return Reading(chances, surprise.mean().item(), goes_on, looks[at, head].item())


def recorded(mask: Mask) -> Reading | None:
    """What the file holds for a mask that is one of `MASKS`."""
    kept = json.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    known = (name for name, other in MASKS.items() if torch.equal(other(9, 9), mask(9, 9)))
    name = next(known, None)
    return None if name is None else Reading(**kept[name])


# ---------------------------------------------------------------------------------------------- recording

MASKS: dict[str, Mask] = {
    "causal": lambda n, m: torch.ones(n, m).tril(m - n).bool(),
    "one step too far": lambda n, m: torch.ones(n, m).tril(m - n + 1).bool(),
    "opposite": lambda n, m: torch.ones(n, m).triu(m - n + 1).bool(),
}


def _attend(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """PyTorch's own attention; with the identity as values it gives the weights."""
    eye = torch.eye(k.shape[-2]).expand(*k.shape[:-1], -1)
    return F.scaled_dot_product_attention(q, k, v, keep), F.scaled_dot_product_attention(q, k, eye, keep)


def main() -> None:
    """Write the file."""
    found = {name: asdict(read(_attend, mask)) for name, mask in MASKS.items()}
    for one in found.values():
        one["chances"] = [round(p, 4) for p in one["chances"]]
        one["loss"], one["it_to_pear"] = round(one["loss"], 4), round(one["it_to_pear"], 5)
    Path(__file__).with_name(FILE).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
