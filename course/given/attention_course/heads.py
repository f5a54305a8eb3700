"""Heads of a trained model, to try one's own attention on: SmolLM2-135M-Instruct (30 layers of 9 heads; Apache-2.0).

Their queries, keys and values on three short texts travel with the course, so that NumPy is enough and no model is loaded.
`python -m attention_course.make_heads` makes the file again. Numbers are kept in float16: weights computed from them differ
from the model's own by at most 0.01.

>>> heads = load_heads()
>>> heads.tokens[6], heads.names[0]
(' it', 'previous_token')
>>> h = heads.head("coreference")
>>> h.q.shape, h.layer, h.head
((9, 64), 13, 8)
"""

import functools
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from typing import Any

import numpy as np

from attention_course.thread import TOKENS

Array = np.ndarray[Any, np.dtype[Any]]

FILE = "heads.npz"
BASE = 100_000.0  # of the model's rotary positions
TEXTS = {
    "thread": " ".join(TOKENS),
    "paragraph": (
        "A lighthouse keeper kept two clocks. One told the hour of the island, the other the hour of the mainland, and they "
        "never agreed. When a ship came in, the captain asked him which of them was right. The keeper thought about it for a "
        "while. Both, he said, but only one of them is wound by me."
    ),
    "repeat": (
        "the old map showed a red door behind the third mill. Years later she found the old map showed a red door behind the "
        "third mill"
    ),
}
CHOSEN = {  # layer, head, and what it does
    "previous_token": (16, 0, "looks at the token before: on average 0.79 of its weight on the thread"),
    "first_token": (18, 8, "looks at the first token whatever it asks, a place to rest: more than 0.99 of its weight"),
    "induction": (17, 5, "looks for what followed the same token last time: 0.74 of its weight where `repeat` repeats"),
    "coreference": (13, 8, "in the thread, `it` and `sweet` look at `pear`, with 0.55 and 0.44 of their weight"),
    "verb": (26, 2, "in the thread, `pear` looks at `ate`, with 0.57 of its weight"),
    "broad": (10, 7, "spreads its weight widely: on the thread its entropy is 0.91 of the most that is possible"),
}


@dataclass(frozen=True)
class Head:
    """One head on one text of n tokens. `q` and `k` are turned by their positions (RoPE); `q_raw` and `k_raw` are not.

    Shapes: q, k, v (n, 64), float32; W_O (64, 576), this head's rows of the layer's output matrix. `group` is the key-value
    head that it shares with two others.
    """

    name: str
    layer: int
    head: int
    note: str
    q_raw: Array
    k_raw: Array
    v: Array
    W_O: Array

    @property
    def group(self) -> int:
        """The number of its key-value head, 0 to 2."""
        return self.head // 3

    @functools.cached_property
    def q(self) -> Array:
        """Queries, turned by their positions."""
        return turn(self.q_raw)

    @functools.cached_property
    def k(self) -> Array:
        """Keys, turned by their positions."""
        return turn(self.k_raw)

    def weights(self) -> Array:
        """Where each token looks, (n, n): softmax of q k / 8 along the keys, none of them later than the query."""
        scores = self.q @ self.k.T / 8
        scores[~np.tri(len(scores), dtype=bool)] = -np.inf
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray(e / e.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class Heads:
    """The chosen heads on one text: `tokens`, `names`, and `head(name)`."""

    text: str
    tokens: tuple[str, ...]
    names: tuple[str, ...]
    arrays: dict[str, Array]

    def head(self, name: str) -> Head:
        """The head of that name. Raises ValueError for one that is not there, with the nearest."""
        if name not in self.names:
            raise ValueError(f"name: expected one of {', '.join(self.names)}, got {name!r}.{_near(name, self.names)}")
        layer, head, note = CHOSEN[name]
        q, k, v = (self.arrays[f"{self.text}/{name}/{letter}"].astype(np.float32) for letter in "qkv")
        return Head(name, layer, head, note, q, k, v, self.arrays[f"{name}/W_O"].astype(np.float32))


def load_heads(text: str = "thread") -> Heads:
    """The heads on the thread's sentence, on a "paragraph", or on "repeat", whose second half repeats its first."""
    if text not in TEXTS:
        raise ValueError(f"text: expected one of {', '.join(TEXTS)}, got {text!r}.{_near(text, tuple(TEXTS))}")
    arrays = _arrays()
    return Heads(text, tuple(str(token) for token in arrays[f"{text}/tokens"]), tuple(CHOSEN), arrays)


def turn(x: Array) -> Array:
    """RoPE as this model has it: features 2i and 2i + 1 of row p turn by p / base^(2i / 64). (n, 64) -> (n, 64)."""
    n, d = x.shape
    angle = np.arange(n)[:, None] * BASE ** (-np.arange(0, d, 2) / d)
    even, odd = x[:, 0::2], x[:, 1::2]
    out = np.empty_like(x)
    out[:, 0::2] = even * np.cos(angle) - odd * np.sin(angle)
    out[:, 1::2] = even * np.sin(angle) + odd * np.cos(angle)
    return out


@functools.cache
def _arrays() -> dict[str, Array]:
    with resources.files("attention_course").joinpath(FILE).open("rb") as file, np.load(file, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def _near(word: str, options: tuple[str, ...]) -> str:
    near = get_close_matches(word, options, 1)
    return f" Did you mean {near[0]!r}?" if near else ""
