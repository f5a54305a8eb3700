"""What the cases of this lesson draw, weights that keep scores of unit size, and the wrong mask that two exercises know."""

import math

import torch

from autograder import Draw


def weight(draw: Draw, *shape: int, size: float = 1.0):
    """A matrix, or one per head, that gives outputs of about `size` from inputs of size 1."""
    return draw.normal(*shape, scale=size / math.sqrt(shape[-2]))


def content(draw: Draw, heads: int, d_model: int, d: int, d_c: int, d_v: int):
    """The weights of latent attention, by name."""
    return {
        "W_Q": weight(draw, heads, d_model, d, size=1.5),
        "W_DKV": weight(draw, d_model, d_c),
        "W_UK": weight(draw, heads, d_c, d, size=1.5),
        "W_UV": weight(draw, heads, d_c, d_v),
        "W_O": weight(draw, heads, d_v, d_model),
    }


def top_left_weights(S):
    """The softmax under a causal mask aligned to the first token: what the builtin's `is_causal` does."""
    keep = torch.ones(S.shape[-2:], dtype=torch.bool).tril()
    return torch.softmax(S.masked_fill(~keep, -math.inf), dim=-1)
