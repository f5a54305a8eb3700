"""The hidden texts: passages whose next words are predicted, and one in which codes are hidden and asked for.

The passages come from Python's own language reference and from *Alice's Adventures in Wonderland*. Which ones is drawn from a
seed. A submitted cache never sees a token, only keys and values.
"""

import importlib
import re
from importlib import resources
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attention_course.capstone.rules import TOKENS

TOPICS = ("compound", "types", "specialnames", "formatstrings", "string-methods", "typesseq", "debugger")
NAMES = (
    "Anna",
    "Boris",
    "Clara",
    "David",
    "Emma",
    "Frank",
    "Grace",
    "Henry",
    "Irene",
    "James",
    "Kate",
    "Louis",
    "Maria",
    "Peter",
)
NEEDLES = 12


def passages(model: Any, seed: int, count: int = 3, tokens: int = TOKENS) -> list[Tensor]:
    """`count` passages of `tokens` tokens each, as batches of one: the last one is from a novel, the others from a manual."""
    rng = np.random.default_rng(seed)
    topics = rng.choice(TOPICS, size=count - 1, replace=False).tolist()
    found = []
    for text in [*map(_manual, topics), _novel()]:
        ids = model.ids(text)
        first = int(rng.integers(0, ids.shape[1] - tokens))
        found.append(ids[:, first : first + tokens])
    return found


def haystack(model: Any, seed: int, tokens: int = TOKENS, needles: int = NEEDLES) -> tuple[Tensor, list[slice]]:
    """A text with codes hidden in it, which ends by repeating them in another order; and where these answers stand.

    "The code of Anna is 4821." The positions are those of the digits in the repetition. The text has at most `tokens` tokens.
    """
    rng = np.random.default_rng(seed + 1000)
    names = rng.choice(NAMES, size=needles, replace=False).tolist()
    codes = {name: "".join(map(str, rng.integers(0, 10, 4))) for name in names}

    def encoded(text: str) -> list[int]:
        ids: list[int] = model.ids(text)[0].tolist()
        return ids

    asked = rng.permutation(names).tolist()
    end: list[int] = encoded("\n\nThese were the codes.")
    answers = []
    for name in asked:
        end += encoded(f" The code of {name} is ")
        digits = encoded(codes[name])
        answers.append(slice(len(end), len(end) + len(digits)))
        end += digits + encoded(".")
    facts = [encoded(f" The code of {name} is ") + encoded(codes[name]) + encoded(".") for name in names]
    filler = model.ids(_manual(str(rng.choice(TOPICS))))[0].tolist()
    between = (tokens - len(end) - sum(map(len, facts))) // (needles + 1)
    hay: list[int] = []
    for i, fact in enumerate(facts):
        hay += filler[i * between : (i + 1) * between] + fact
    hay += filler[needles * between : (needles + 1) * between]
    places = [slice(len(hay) + a.start, len(hay) + a.stop) for a in answers]
    return torch.tensor([hay + end], device=model.device), places


def _manual(topic: str) -> str:
    text = importlib.import_module("pydoc_data.topics").topics[topic]
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text))


def _novel() -> str:
    return resources.files("attention_course").joinpath("alice.txt").read_text(encoding="utf-8")
