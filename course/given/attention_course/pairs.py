"""How long the gradients of random queries are: the measurement of notebook 03c."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Backward = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


def gradient_lengths(backward: Backward, d_k: int, divide_by: float) -> Tensor:
    """Return the length of the gradient of each of 2,000 queries, if the raw scores are divided by `divide_by`.

    All entries of queries and keys are independent and standard normal. There are 200 sets of 32 keys with random values of
    width 8, and ten queries meet each set. The gradient of each output has a random direction and length 1.
    `backward(Q, K, V, dO)` belongs to attention that divides by the root of d_k. Another divisor is the same as a longer or
    shorter query, and the chain rule multiplies its gradient by the same factor.
    """
    g = torch.Generator().manual_seed(0)
    shapes = ((200, 10, d_k), (200, 32, d_k), (200, 32, 8), (200, 10, 8))
    Q, K, V, dO = (torch.randn(shape, generator=g, dtype=torch.float64) for shape in shapes)
    factor = math.sqrt(d_k) / divide_by
    dQ, _, _ = backward(factor * Q, K, V, dO / dO.norm(dim=-1, keepdim=True))
    lengths: Tensor = (factor * dQ).norm(dim=-1).flatten()
    return lengths
