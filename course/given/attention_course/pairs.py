"""The little model of lesson 03: it reads eight pairs of a letter and a digit, is asked for one letter, and names its digit.

Everything is seeded. One run of 200 steps takes about a second at 4 or 64 features, three at 1,024.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

LETTERS, DIGITS, PAIRS, WIDTH = 16, 8, 8, 32
STEPS, BATCH = 200, 64

Backward = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


def learn(d_k: int, divide_by: float = 1.0, learning_rate: float = 0.01, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Train it with queries and keys `d_k` wide: the share of right answers, and the entropy of the weights, at each step.

    >>> right, entropy = learn(4)
    >>> len(right), bool(right[-1] > 0.9)
    (200, True)
    """
    g = torch.Generator().manual_seed(seed)
    E = torch.randn(LETTERS + DIGITS, WIDTH, generator=g)  # the embeddings
    shapes = ((WIDTH, d_k), (WIDTH, d_k), (WIDTH, WIDTH), (WIDTH, DIGITS))
    W = [torch.randn(shape, generator=g) / math.sqrt(WIDTH) for shape in shapes]
    leaves = [x.requires_grad_() for x in (E, *W)]
    adam = torch.optim.Adam(leaves, lr=learning_rate)
    right, entropy = [], []
    for _ in range(STEPS):  # new questions at each step; the first pair is asked for
        letters = torch.rand(BATCH, LETTERS, generator=g).argsort(-1)[:, :PAIRS]
        digits = torch.randint(DIGITS, (BATCH, PAIRS), generator=g)
        X = (E[letters] + E[LETTERS + digits]) / math.sqrt(2)
        Q, K, V = E[letters[:, :1]] @ W[0], X @ W[1], X @ W[2]
        A = torch.softmax(Q @ K.mT / divide_by, dim=-1)
        guess = (A @ V)[:, 0] @ W[3]
        adam.zero_grad()
        F.cross_entropy(guess, digits[:, 0]).backward()
        adam.step()
        right.append((guess.argmax(-1) == digits[:, 0]).double().mean().item())
        entropy.append(torch.special.entr(A).sum(-1).mean().item())
    return torch.tensor(right), torch.tensor(entropy)


def gradient_lengths(backward: Backward, d_k: int, divide_by: float) -> Tensor:
    """How long the gradient of each of 2,000 queries is, where the raw scores are divided by `divide_by`.

    Queries and keys are as at initialisation: independent entries of variance 1. There are 200 sets of 32 keys with
    random values of width 8, and 10 queries to each set; the gradient of each output has a random direction and length 1.
    `backward(Q, K, V, dO)` is that of attention divided by the root of d_k. Any other divisor is the same attention of a
    longer or shorter query, whose gradient the chain rule multiplies by the same factor.
    """
    g = torch.Generator().manual_seed(0)
    shapes = ((200, 10, d_k), (200, 32, d_k), (200, 32, 8), (200, 10, 8))
    Q, K, V, dO = (torch.randn(shape, generator=g, dtype=torch.float64) for shape in shapes)
    factor = math.sqrt(d_k) / divide_by
    dQ, _, _ = backward(factor * Q, K, V, dO / dO.norm(dim=-1, keepdim=True))
    lengths: Tensor = (factor * dQ).norm(dim=-1).flatten()
    return lengths
