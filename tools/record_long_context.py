"""Record what SmolLM2 makes of 16,384 tokens: `python -m tools.record_long_context [way ...]`.

Writes `long_context.json` beside `attention_course.language_model.long_context`, which describes it. A way takes at least
ten minutes of one core, and what was recorded for other ways stays. The way `short` records the losses of a short text, for
all ways, in a few seconds.
"""

import json
import math
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from attention_course.language_model import load_model, long_context
from attention_course.language_model.long_context import ENDS, RUN, TOKENS, Reader, frequencies, haystack, short_losses
from torch import Tensor

from solutions.long_context import by_parts, factor_needed, stretched_base, yarn_scale

FACTOR, TRAINED, D, BASE = 2.0, 8192, 64, 1e5
THETA = frequencies()
WAYS: dict[str, tuple[Tensor, float]] = {  # frequencies, and what dot products are multiplied by
    "as trained": (THETA, D**-0.5),
    "interpolation": (THETA / FACTOR, D**-0.5),
    "NTK-aware": (frequencies(stretched_base(D, BASE, FACTOR)), D**-0.5),
    "NTK-aware, larger": (frequencies(stretched_base(D, BASE, factor_needed(D, BASE, TRAINED, TOKENS))), D**-0.5),
    "YaRN": (by_parts(THETA, FACTOR, TRAINED, slow=1, fast=32), yarn_scale(D, FACTOR)),
    "Llama 3.1": (by_parts(THETA, FACTOR, TRAINED, slow=1, fast=4), D**-0.5),
    "slow pairs off": (THETA * (2 * math.pi <= TRAINED * THETA), D**-0.5),
}
PARTIAL = {  # measured on a short text only
    "a quarter rotated": (THETA * (torch.arange(D // 2) < D // 8), D**-0.5),
    "none rotated": (0 * THETA, D**-0.5),
}


def measured(theta: Tensor, scale: float) -> dict[str, Any]:
    """The mean loss of the book's tokens in each run, and how each question was answered at each of `ENDS`."""
    model = load_model("cpu")
    ids, of_book, needles = haystack(model)
    reader = Reader(model, theta, scale, TOKENS + 64)
    losses: list[float] = []
    asked: dict[str, list[list[float]]] = {}
    for start in range(0, TOKENS, RUN):
        stop = start + RUN
        loss = reader.losses(reader.extend(ids[start:stop]), ids[start + 1 : stop + 1])
        losses.append(round(float(loss[of_book[start + 1 : stop + 1]].mean()), 4))
        if stop in ENDS:
            found = (reader.answer(needle) for place, needle in needles if place < stop)
            asked[str(stop)] = [[right, round(loss, 4)] for right, loss in found]
    return {"losses": losses, "asked": asked}


def main(ways: list[str]) -> None:
    """Measure and write."""
    file = Path(str(resources.files(long_context.__package__).joinpath(long_context.FILE)))

    def keep(short: dict[str, float], long: dict[str, Any]) -> None:
        kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"short": {}, "long": {}}
        long = kept["long"] | long
        kept = {"short": kept["short"] | short, "long": {way: long[way] for way in WAYS if way in long}}
        file.write_text(json.dumps(kept) + "\n", encoding="utf-8")

    for name in ways or ["short", *WAYS]:
        if name == "short":
            found = {way: round(loss, 4) for way, loss in short_losses(WAYS | PARTIAL).items()}
            keep(found, {})
        else:
            found = measured(*WAYS[name])
            keep({}, {name: found})
        print(name, found, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(2)
    main(sys.argv[1:])
