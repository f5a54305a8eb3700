"""The game of notebook 10: a model with one layer of attention sees pairs and finds the numbers of two letters at once."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def draw_games(g: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """16 games: letters and numbers of 16 pairs, 8 questions of two letters each, and their answers."""
    letters = torch.rand(16, 26, generator=g).argsort(-1)[:, :16]
    numbers = torch.randint(32, (16, 16), generator=g)
    two = torch.rand(16, 8, 16, generator=g).argsort(-1)[..., :2]  # of the pairs
    asked, answers = (x[:, None].expand(-1, 8, -1).gather(2, two) for x in (letters, numbers))
    return letters, numbers, asked, answers


def train(attend: Callable[..., Tensor], *shapes: tuple[int, ...], seed: int = 0, steps: int = 250) -> Tensor:
    """Train a model whose only layer is `attend`, with weights of these shapes. Return each step's share of right answers."""
    g = torch.Generator().manual_seed(seed)

    def matrix(*shape: int, size: float = 1.0) -> Tensor:
        return (size * torch.randn(shape, generator=g)).requires_grad_()

    letter, number, first, second = (matrix(n, 64) for n in (26, 32, 26, 26))
    weights = [matrix(*s, size=s[-2] ** -0.5) for s in shapes]
    W_out = matrix(64, 2 * 32, size=1 / 8)
    adam = torch.optim.Adam([letter, number, first, second, *weights, W_out], lr=0.005)
    right = []
    for _ in range(steps):
        letters, numbers, asked, answers = draw_games(g)
        pairs = letter[letters] + number[numbers]
        questions = first[asked[..., 0]] + second[asked[..., 1]]
        X = F.rms_norm(torch.cat([pairs, questions], dim=1), (64,))
        guess = (attend(X, *weights)[:, 16:] @ W_out).unflatten(-1, (2, 32))  # from what the questions received
        loss = F.cross_entropy(guess.flatten(0, 2), answers.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
        right.append((guess.argmax(-1) == answers).float().mean())
    return torch.stack(right)
