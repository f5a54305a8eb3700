"""The two little models that lesson 06 trains: one that reads three words, and one that copies with attention alone.

The reader's subclasses say how positions enter; the copier is made of the learner's own attention. Everything is seeded; on
two cores the reader trains in half a second, the copier in five.
"""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

NOUNS = ("dog", "man", "cat", "wasp", "horse", "boy")
WORDS = (*NOUNS, "bites", "sees", "hears")
WIDTH = 32

Attention = Callable[..., tuple[Tensor, Tensor]]


def seeded(seed: int) -> torch.Generator:
    """A generator with this seed."""
    return torch.Generator().manual_seed(seed)


# ---------------------------------------------------------------------------------------------- reader


def sentences(count: int, generator: torch.Generator) -> Tensor:
    """Random sentences noun, verb, other noun: word numbers, (count, 3). The first noun is the one who does it.

    >>> [WORDS[i] for i in sentences(1, seeded(0))[0]]
    ['cat', 'sees', 'wasp']
    """
    pair = torch.rand(count, len(NOUNS), generator=generator).argsort(-1)[:, :2]
    verb = torch.randint(len(NOUNS), len(WORDS), (count, 1), generator=generator)
    return torch.cat([pair[:, :1], verb, pair[:, 1:]], dim=1)


class Reader(nn.Module):
    """One head of attention over three words; from the **verb's** output it names the noun that does it.

    A subclass says how positions enter: through the tokens, or through the scores.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(WORDS), WIDTH)
        self.project = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.answer = nn.Linear(WIDTH, len(NOUNS))

    def tokens(self, ids: Tensor, pos: Tensor) -> Tensor:
        """The vectors of the words, (..., 3, width)."""
        return self.embed(ids)  # type: ignore[no-any-return]  # modules are untyped calls

    def scores(self, Q: Tensor, K: Tensor, pos: Tensor) -> Tensor:
        """What the softmax gets, (..., 3, 3)."""
        return Q @ K.mT / math.sqrt(WIDTH)

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        """The logits of the nouns for a sentence whose first word stands at position `start`."""
        pos = start + torch.arange(ids.shape[-1])
        Q, K, V = self.project(self.tokens(ids, pos)).chunk(3, dim=-1)
        A = torch.softmax(self.scores(Q, K, pos), dim=-1)
        return self.answer((A @ V)[:, 1])  # type: ignore[no-any-return]


def trained(kind: type[Reader], steps: int = 150) -> Reader:
    """A reader of this kind, trained on sentences that all begin at position 0."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = kind()
    optimizer, generator = torch.optim.AdamW(model.parameters(), lr=1e-2), seeded(0)
    for _ in range(steps):
        ids = sentences(64, generator)
        loss = cross_entropy(model(ids), ids[:, 0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.requires_grad_(False)


def dog_or_man(model: Reader, sentence: str, start: int = 0) -> tuple[float, float]:
    """The probabilities that the model gives to *dog* and to *man*, as the one who does it."""
    ids = torch.tensor([[WORDS.index(word) for word in sentence.split()]])
    dog, man = torch.softmax(model(ids, start), dim=-1)[0, :2].tolist()
    return dog, man


def share_right(model: Reader, start: int = 0) -> float:
    """The share of 2,000 new sentences, beginning at `start`, in which the model names the right noun."""
    ids = sentences(2000, seeded(1))
    return float((model(ids, start).argmax(-1) == ids[:, 0]).float().mean())


def sinusoidal(n: int, d: int, *, base: float = 10_000.0) -> Tensor:
    """The table (n, d) of Vaswani et al. (2017), section 3.5: sine and cosine of each clock side by side, positions from 0.

    >>> sinusoidal(2, 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    angle = torch.arange(n)[:, None] * base ** (-torch.arange(0, d, 2) / d)  # (n, d/2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


class Learned(Reader):
    """Adds a trained vector for each of 64 positions to the words."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(64, WIDTH))

    def tokens(self, ids: Tensor, pos: Tensor) -> Tensor:
        """The words, each with the vector of its position."""
        return super().tokens(ids, pos) + self.table[pos]


class Sinusoidal(Reader):
    """Adds the clocks to the words."""

    def tokens(self, ids: Tensor, pos: Tensor) -> Tensor:
        """The words, each with its row of the table."""
        return super().tokens(ids, pos) + sinusoidal(64, WIDTH)[pos]


class RelativeBias(Reader):
    """Adds a trained number for each offset from -2 to 2 to the scores."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(5))

    def scores(self, Q: Tensor, K: Tensor, pos: Tensor) -> Tensor:
        """The scores, each with the number of its offset."""
        return super().scores(Q, K, pos) + self.bias[pos[:, None] - pos + 2]


class ALiBi(Reader):
    """Subtracts the distance from the scores, with slope 1."""

    def scores(self, Q: Tensor, K: Tensor, pos: Tensor) -> Tensor:
        """The scores, lower the further apart."""
        return super().scores(Q, K, pos) - (pos[:, None] - pos).abs()


# ---------------------------------------------------------------------------------------------- copier


def repeating_texts(count: int, n: int, low: int, high: int, seed: int | torch.Generator) -> tuple[Tensor, Tensor]:
    """`count` texts of `n` random words of 64, each repeating after a period drawn from low to high; and the periods.

    >>> texts, period = repeating_texts(2, 9, 3, 4, 0)
    >>> [texts[b, p:].equal(texts[b, :-p]) for b, p in enumerate(period.tolist())]
    [True, True]
    """
    generator = seeded(seed) if isinstance(seed, int) else seed
    period = torch.randint(low, high + 1, (count,), generator=generator)
    once = torch.randint(64, (count, high), generator=generator)
    return once.gather(1, torch.arange(n) % period[:, None]), period


class Layer(nn.Module):
    """Adds to each token what attention found: X + attend(norm(X), Wq, Wk, Wv, Wo, H, pos)."""

    def __init__(self, attend: Attention, d: int, H: int) -> None:
        super().__init__()
        self.attend, self.H, self.norm = attend, H, nn.LayerNorm(d)
        self.W = nn.ParameterList(torch.empty(d, d).uniform_(-1, 1) / math.sqrt(d) for _ in "qkvo")

    def forward(self, X: Tensor, pos: Tensor, off: int | None = None) -> tuple[Tensor, Tensor]:
        """The tokens with what the heads wrote, and the weights. Head `off` writes nothing: its rows of Wo are zero."""
        Wq, Wk, Wv, Wo = self.W
        if off is not None:
            head = torch.arange(len(Wo)) // (len(Wo) // self.H)
            Wo = Wo.masked_fill((head == off)[:, None], 0.0)
        Y, A = self.attend(self.norm(X), Wq, Wk, Wv, Wo, self.H, pos)
        return X + Y, A


class Copier(nn.Module):
    """Words -> vectors -> layers of attention and nothing else -> logits of the next word."""

    def __init__(self, attend: Attention, layers: int = 2, d: int = 64, H: int = 4, seed: int = 2) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.embed, self.norm = nn.Embedding(64, d), nn.LayerNorm(d)
            self.layers = nn.ModuleList(Layer(attend, d, H) for _ in range(layers))
            self.guess = nn.Linear(d, 64, bias=False)

    def forward(self, ids: Tensor, off: tuple[int, int] | None = None, scale: float = 1.0) -> tuple[Tensor, list[Tensor]]:
        """Logits, and each layer's weights. `off = (layer, head)` is switched off; positions are multiplied by `scale`."""
        X, pos, weights = self.embed(ids), scale * torch.arange(ids.shape[-1]), []
        for number, layer in enumerate(self.layers):
            X, A = layer(X, pos, off[1] if off is not None and off[0] == number else None)
            weights.append(A)
        return self.guess(self.norm(X)), weights

    def learn(self, low: int, high: int, steps: int, seed: int = 2) -> Iterator[int]:
        """Train on new texts of 64 words, 32 at a time, whose periods lie from low to high; yields before each step."""
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
    def examine(
        self, texts: Tensor, period: Tensor, off: tuple[int, int] | None = None, scale: float = 1.0
    ) -> tuple[float, list[Tensor]]:
        """The mean loss where the word just read stood one period before, so that the next can be known; the weights."""
        logits, weights = self(texts[:, :-1], off, scale)
        losses = cross_entropy(logits.mT, texts[:, 1:], reduction="none")
        return float(losses[torch.arange(losses.shape[1]) >= period[:, None]].mean()), weights


def watched(
    model: Copier,
    roles: Callable[[Tensor, Tensor], Tensor],
    exam: tuple[Tensor, Tensor],
    steps: int,
    low: int = 8,
    high: int = 32,
) -> list[tuple[int, float, list[Tensor], list[Tensor]]]:
    """Train; of every 25th step its number, the loss on the copies of `exam`, the `roles` of each layer's heads, and the
    weights on one text of 48 words that repeats after 12.
    """
    shown, history = repeating_texts(1, 48, 12, 12, seed=7)[0], []
    for step in model.learn(low, high, steps):
        if step % 25 == 0:
            loss, weights = model.examine(*exam)
            with torch.no_grad():
                history.append((step, loss, [roles(A, exam[1]) for A in weights], model(shown)[1]))
    return history
