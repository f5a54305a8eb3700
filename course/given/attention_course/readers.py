"""What lesson 04 is given: lesson 03's scores, and two little models.

One model reads texts through a mask, the other learns to translate four words. Both are seeded. The first trains in about a
second, the second in half of that.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

WIDTH = 64
Draw = Callable[[int, torch.Generator], Tensor]
Attention = Callable[..., tuple[Tensor, Tensor]]


def scaled_scores(Q: Float[Tensor, "... query d_k"], K: Float[Tensor, "... key d_k"]) -> Float[Tensor, "... query key"]:
    """The scores of lesson 03: S[i, j] = q_i · k_j / sqrt(d_k)."""
    return Q @ K.mT / math.sqrt(Q.shape[-1])


class Reader:
    """One layer of self-attention with learned embeddings of tokens and positions; it guesses the next token everywhere.

    A query may look `ahead` tokens beyond its own position.
    """

    def __init__(self, words: int, length: int, ahead: int, generator: torch.Generator) -> None:
        shapes = {"E": (words, WIDTH), "P": (length, WIDTH)}
        shapes |= dict.fromkeys(("W_Q", "W_K", "W_V"), (WIDTH, WIDTH)) | {"W_O": (WIDTH, words)}
        self.parameters = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
        for name, x in self.parameters.items():
            self.parameters[name] = (x if name in "EP" else x / math.sqrt(WIDTH)).requires_grad_()
        self.keep = torch.ones(length, length).tril(ahead).bool()

    def guess(self, text: Tensor) -> tuple[Tensor, Tensor]:
        """Guesses (batch, position, word) and weights (batch, query, key)."""
        p, n = self.parameters, text.shape[-1]
        X = p["E"][text] + p["P"][:n]
        S = (X @ p["W_Q"]) @ (X @ p["W_K"]).mT / math.sqrt(WIDTH)
        A = torch.softmax(S.masked_fill(~self.keep[:n, :n], -math.inf), dim=-1)
        return A @ X @ p["W_V"] @ p["W_O"], A

    @torch.no_grad()
    def loss(self, texts: Tensor) -> float:
        """The mean loss at all positions, each text read at once."""
        return F.cross_entropy(self.guess(texts[:, :-1])[0].mT, texts[:, 1:]).item()

    @torch.no_grad()
    def loss_without_future(self, texts: Tensor) -> float:
        """The same where the model is given the first t tokens only and asked for the next, for each t."""
        steps = range(1, texts.shape[1])
        losses = [F.cross_entropy(self.guess(texts[:, :t])[0][:, -1], texts[:, t]).item() for t in steps]
        return sum(losses) / len(losses)

    @torch.no_grad()
    def weight_on_next(self, texts: Tensor) -> float:
        """The mean weight that a query gives to the token after its own."""
        return self.guess(texts[:, :-1])[1].diagonal(1, -2, -1).mean().item()


def train_reader(draw: Draw, ahead: int, words: int = 17, steps: int = 300) -> Reader:
    """A reader trained on texts that `draw(count, generator)` makes, (count, length + 1)."""
    g = torch.Generator().manual_seed(0)
    length = draw(1, torch.Generator().manual_seed(0)).shape[1] - 1
    reader = Reader(words, length, ahead, g)
    adam = torch.optim.Adam(reader.parameters.values(), lr=0.01)
    for _ in range(steps):
        text = draw(32, g)
        guess, _ = reader.guess(text[:, :-1])
        adam.zero_grad()
        F.cross_entropy(guess.mT, text[:, 1:]).backward()
        adam.step()
    return reader


# ---------------------------------------------------------------------------------------------- translator

ENGLISH = ("the", "a", "my", "black", "white", "red", "cat", "dog", "bird", "sleeps", "eats", "sings")
FRENCH = ("le", "un", "mon", "noir", "blanc", "rouge", "chat", "chien", "oiseau", "dort", "mange", "chante")
REAL = torch.tensor([True] * 4 + [False] * 2)  # four words and two blanks


class Translator:
    """Four learned queries, one for each place of the English sentence, look at four French words and two blanks.

    It is trained at once, by `cross_attention` on 64 random sentences a step; their French words come in random order.
    """

    def __init__(self, cross_attention: Attention, steps: int = 300) -> None:
        self.attend = cross_attention
        g = torch.Generator().manual_seed(0)
        self.places, self.table = torch.randn(4, 16, generator=g), torch.randn(12, 16, generator=g)
        self.W = [torch.randn(16, 16, generator=g) / 4 for _ in range(3)]
        self.U = torch.randn(16, 12, generator=g) / 4
        leaves = [x.requires_grad_() for x in (self.places, self.table, *self.W, self.U)]
        adam = torch.optim.Adam(leaves, lr=0.01)
        for _ in range(steps):
            words = 3 * torch.arange(4) + torch.randint(3, (64, 4), generator=g)
            order = torch.rand(64, 4, generator=g).argsort(-1)
            output, _ = self.read(words.gather(1, order))
            adam.zero_grad()
            F.cross_entropy((output @ self.U).mT, words).backward()
            adam.step()

    def read(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """What the four places get back, and their weights on the words of `source` (..., 4) and two blanks."""
        padded = torch.cat([self.table[source], torch.zeros(*source.shape[:-1], 2, 16)], dim=-2)
        return self.attend(self.places, padded, *self.W, REAL)

    @torch.no_grad()
    def translate(self, french: str) -> tuple[list[str], Tensor]:
        """The English words, and the weights (4, 6)."""
        output, weights = self.read(torch.tensor([FRENCH.index(word) for word in french.split()]))
        return [ENGLISH[i] for i in (output @ self.U).argmax(-1).tolist()], weights
