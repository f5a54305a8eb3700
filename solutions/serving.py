"""Workshop 07d: texts of unequal lengths in one step, shared pages, prefixes that are found again, and what a step holds.

`LeakyPages` and `CarelessCache` stand in the notebook's locked cells too: the learner is given them.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def batch_positions(
    lengths: Int[Tensor, " batch"], new: int, capacity: int
) -> tuple[Int[Tensor, "batch new"], Bool[Tensor, "batch new capacity"]]:
    """Return the positions of the next `new` tokens of each text, and the slots that
    they may attend to, in a batch of texts of unequal lengths.

    The token at position p of a text lies in slot p of its row. Row b held `lengths[b]`
    tokens, and the new ones have just been written behind them. `pos[b, i]` is the
    position of the i-th new token of text b. `keep[b, i, j]` is True where this token
    may attend to slot j.

    >>> pos, keep = batch_positions(torch.tensor([3, 1]), new=1, capacity=5)
    >>> pos.tolist(), keep.shape
    ([[3], [1]], torch.Size([2, 1, 5]))
    """
    pos = lengths[:, None] + torch.arange(new, device=lengths.device)
    slots = torch.arange(capacity, device=lengths.device)
    return pos, slots <= pos[..., None]


class LeakyPages:
    """The keys of several texts in one pool of pages."""

    def __init__(self, pages: int, size: int, d: int) -> None:
        self.pool = torch.zeros(pages, size, d)
        self.free = list(range(pages))
        self.table: dict[str, list[int]] = {}  # each text's pages, in order
        self.length: dict[str, int] = {}

    def start(self, text: str) -> None:
        self.table[text], self.length[text] = [], 0

    def fork(self, text: str, new: str) -> None:
        self.table[new] = list(self.table[text])
        self.length[new] = self.length[text]

    def append(self, text: str, k: Float[Tensor, "new d"]) -> None:
        for row in k:
            slot = self.length[text] % self.pool.shape[1]
            if slot == 0:
                self.table[text].append(self.free.pop(0))
            self.pool[self.table[text][-1], slot] = row
            self.length[text] += 1

    def read(self, text: str) -> Float[Tensor, "n d"]:
        return self.pool[self.table[text]].flatten(0, 1)[: self.length[text]]

    def used(self) -> int:
        return len(self.pool) - len(self.free)


class SharedPages(LeakyPages):
    """`LeakyPages` without the bug. Texts that begin alike share their pages.

    A text reads its parent's tokens from before the fork and its own after it, whatever
    others write. A full page is never copied. One that is not full may be copied at
    `fork`, or later when somebody writes.
    """

    def fork(self, text: str, new: str) -> None:
        """Begin a text `new` with all tokens of `text`."""
        super().fork(text, new)
        if self.length[text] % self.pool.shape[1]:
            # the last page has free slots: both would write into them
            mine = self.free.pop(0)
            self.pool[mine] = self.pool[self.table[text][-1]]
            self.table[new][-1] = mine

    def append(self, text: str, k: Float[Tensor, "new d"]) -> None:
        """Store the keys of new tokens behind those of `text`."""
        super().append(text, k)


class CarelessCache:
    """Which pages of earlier texts are stored, at most `room` of them."""

    def __init__(self, size: int, room: int) -> None:
        self.size, self.room = size, room
        self.pages: dict[Any, bool] = {}  # keys, the one used longest ago first

    def key(self, parent: Any, page: tuple[int, ...]) -> Any:
        return hash(page)

    def use(self, keys: list[Any]) -> None:
        for key in keys:
            self.pages.pop(key, None)
            self.pages[key] = True  # now the one used last
        while len(self.pages) > self.room:
            del self.pages[next(iter(self.pages))]

    def request(self, text: list[int]) -> int:
        keys, parent = [], None
        for start in range(0, len(text) - self.size, self.size):
            parent = self.key(parent, tuple(text[start : start + self.size]))
            keys.append(parent)
        found = 0
        while found < len(keys) and keys[found] in self.pages:
            found += 1
        self.use(keys)
        return found * self.size


class PrefixCache(CarelessCache):
    """`CarelessCache` without the bugs.

    `request` returns how many tokens at the beginning of a text are found in stored
    pages, and then stores the pages of this text.
    """

    def key(self, parent: Any, page: tuple[int, ...]) -> Any:
        """Return a page key for the tokens of a page; `parent` is the page key of the
        page before it, or None.

        Two pages get the same page key if attention stores the same keys and values for
        them.
        """
        return hash((parent, page))

    def use(self, keys: list[Any]) -> None:
        """Store the pages of one text, given from the first to the last, and drop those
        used longest ago that don't fit.

        Where only a part of a text's pages can stay, its first ones stay.
        """
        super().use(keys[::-1])


def plan_step(left: list[int], budget: int) -> list[int]:
    """Return how many tokens of each text the next step processes, at most `budget` in
    all.

    `left` says how many tokens of its prompt each text has not processed yet, in the
    order of arrival. A text with 0 is being answered, and a step can process only one
    token of it. `budget` is at least the number of texts. Three promises are kept.

    1. Nobody who reads an answer waits longer than one step for the next token.
    2. No part of the budget is lost while a text could use it.
    3. An earlier prompt never gets fewer tokens because of a later one.

    >>> plan_step([0, 0], budget=128)
    [1, 1]

    Source: Agrawal et al. (2023), "SARATHI", section 4.
    """
    plan = [0] * len(left)
    for answered in (True, False):
        for i, tokens in enumerate(left):
            if (tokens == 0) == answered:
                plan[i] = min(max(tokens, 1), budget)
                budget -= plan[i]
    return plan
