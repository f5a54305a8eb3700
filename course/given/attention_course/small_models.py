"""The small model of workshop 06b, which learns to copy with attention alone, for notebooks that train it again.

It is built from an attention function that it is given. Everything is seeded, and 450 steps take half a minute on one core.
"""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

Attention = Callable[..., tuple[Tensor, Tensor]]


def seeded(seed: int) -> torch.Generator:
    """Return a generator with this seed."""
    return torch.Generator().manual_seed(seed)


def repeating_texts(count: int, n: int, low: int, high: int, seed: int | torch.Generator) -> tuple[Tensor, Tensor]:
    """Return `count` texts of `n` random words of 64 that repeat after periods drawn from low to high, and the periods.

    >>> texts, period = repeating_texts(2, 9, 3, 4, 0)
    >>> [texts[b, p:].equal(texts[b, :-p]) for b, p in enumerate(period.tolist())]
    [True, True]
    """
    generator = seeded(seed) if isinstance(seed, int) else seed
    period = torch.randint(low, high + 1, (count,), generator=generator)
    once = torch.randint(64, (count, high), generator=generator)
    return once.gather(1, torch.arange(n) % period[:, None]), period


class Layer(nn.Module):
    """A layer without an MLP: X + attend(norm(X), W_Q, W_K, W_V, W_O, H, pos)."""

    def __init__(self, attend: Attention, d: int, H: int) -> None:
        super().__init__()
        self.attend, self.H, self.norm = attend, H, nn.LayerNorm(d)
        self.W = nn.ParameterList(torch.empty(d, d).uniform_(-1, 1) / math.sqrt(d) for _ in "qkvo")

    def forward(self, X: Tensor, pos: Tensor, off: int | None = None) -> tuple[Tensor, Tensor]:
        """Return the tokens plus the output of attention, and the weights. The rows of W_O of head `off` are set to zero."""
        W_Q, W_K, W_V, W_O = self.W
        if off is not None:
            head = torch.arange(len(W_O)) // (len(W_O) // self.H)
            W_O = W_O.masked_fill((head == off)[:, None], 0.0)
        Y, A = self.attend(self.norm(X), W_Q, W_K, W_V, W_O, self.H, pos)
        return X + Y, A


class Copier(nn.Module):
    """Words -> vectors -> layers of attention -> logits of the next word."""

    def __init__(self, attend: Attention, layers: int = 2, d: int = 64, H: int = 4, seed: int = 2) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.embed, self.norm = nn.Embedding(64, d), nn.LayerNorm(d)
            self.layers = nn.ModuleList(Layer(attend, d, H) for _ in range(layers))
            self.guess = nn.Linear(d, 64, bias=False)

    def forward(self, ids: Tensor, off: tuple[int, int] | None = None) -> tuple[Tensor, list[Tensor]]:
        """Return logits and the weights of each layer. `off = (layer, head)` removes one head."""
        X, pos, weights = self.embed(ids), torch.arange(ids.shape[-1]), []
        for number, layer in enumerate(self.layers):
            X, A = layer(X, pos, off[1] if off is not None and off[0] == number else None)
            weights.append(A)
        return self.guess(self.norm(X)), weights

    def learn(self, low: int, high: int, steps: int, seed: int = 2) -> Iterator[int]:
        """Train on new texts of 64 words, 32 at a time, with periods from low to high. Yield before each step."""
        optimizer, generator = torch.optim.AdamW(self.parameters(), lr=3e-3), seeded(seed)
        for step in range(steps):
            yield step
            texts, _ = repeating_texts(32, 65, low, high, generator)
            loss = cross_entropy(self(texts[:, :-1])[0].mT, texts[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        yield steps

    @torch.no_grad()
    def examine(self, texts: Tensor, period: Tensor, off: tuple[int, int] | None = None) -> tuple[float, list[Tensor]]:
        """Return the mean loss where the word just read has an earlier copy, and the weights."""
        logits, weights = self(texts[:, :-1], off)
        losses = cross_entropy(logits.mT, texts[:, 1:], reduction="none")
        return float(losses[torch.arange(losses.shape[1]) >= period[:, None]].mean()), weights
