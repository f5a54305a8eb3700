"""How long SmolLM2 takes for a step of several tokens: what workshops 07d and 07e reckon with.

    times = step_times()    # seconds by number of tokens, each list beside times["tokens"]

A step is one call of the model. Its tokens either follow one another in one text ("one text") or are the newest tokens of as
many texts ("many texts"). `python -m attention_course.language_model.step_times` makes `step_times.json` again, in about two
minutes. It counts the processor time of one thread and keeps the least of some rounds, so other work on the machine hardly
shows.
"""

import functools
import json
import time
from importlib import resources
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_course.language_model.model import load_model
from attention_course.language_model.parts import KVCache
from attention_course.language_model.reference import logits_with
from attention_course.toy_decoder import Remembering

FILE = "step_times.json"
PAST = (256, 1280)  # tokens that are in the cache when the step begins
ONE_TEXT = (1, 2, 3, 5, 9, 17, 33, 65, 129, 257, 513)
MANY_TEXTS = (1, 2, 4, 8, 16, 32)
ROUNDS = 3


@functools.cache
def step_times() -> dict[str, Any]:
    """The recorded seconds: `"one text"` and `"many texts"`, each with `"tokens"` and a list for each past."""
    found: dict[str, Any] = json.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    return found


def attend_newest(q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """Causal attention of the newest tokens, by PyTorch's own kernel."""
    new, n = q.shape[-2], K.shape[-2]
    keep = torch.ones(new, n, dtype=torch.bool, device=q.device).tril(n - new) if new > 1 else None
    return F.scaled_dot_product_attention(q, K, V, attn_mask=keep)


def _layers(weights: dict[str, Any], texts: int, past: int, capacity: int) -> list[Remembering]:
    """The model's layers with `past` random keys and values in each cache; what they hold takes the same time."""
    layers = []
    for W in weights["layers"]:
        cache, width = KVCache(capacity), W["W_K"].shape[1] // W["G"]
        cache.append(*torch.randn(2, texts, W["G"], past, width))
        layers.append(Remembering(W, cache, attend_newest))
    return layers


def _least_seconds(weights: dict[str, Any], texts: int, new: int, past: int) -> float:
    """The least processor time of a step of `new` tokens in each of some texts."""
    layers, ids = _layers(weights, texts, past, past + new), torch.full((texts, new), 300)
    found = []
    for _ in range(ROUNDS + 1):
        for layer in layers:
            layer.cache.length = past
        began = time.process_time()
        logits_with(weights, ids, layers)
        found.append(time.process_time() - began)
    return round(min(found[1:]), 4)  # the first round warms up


def main() -> None:
    """Write the file."""
    torch.set_num_threads(1)
    weights = load_model("cpu").weights
    kept: dict[str, Any] = {}
    with torch.inference_mode():
        for name, counts in (("one text", ONE_TEXT), ("many texts", MANY_TEXTS)):
            kept[name] = {"tokens": list(counts)}
            for past in PAST:
                shapes = [(1, count) if name == "one text" else (count, 1) for count in counts]
                kept[name][f"{past} before"] = [_least_seconds(weights, texts, new, past) for texts, new in shapes]
                print(name, past, kept[name][f"{past} before"], flush=True)
    Path(__file__).with_name(FILE).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
