"""What the cases of this lesson draw, weights that keep scores of unit size, and the slips that two exercises know.

Cases of a step have so many keys that the cache is the largest of their tensors, and $H d > d_c$: then `tells_copies` tells
keys and values made for all heads, and copies of the latents, from a fold.
"""

import math

import torch

from autograder import Draw
from solutions import latent as ref


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


def heads_as_tokens(S):
    """The mask of H * new successive tokens on the folded rows."""
    return ref.causal_weights(S.flatten(-3, -2)).unflatten(-2, S.shape[-3:-1])


def unfolded_as_new_by_head(S):
    """Folded head by head, unfolded token by token: scores of other queries."""
    heads, new = S.shape[-3:-1]
    return S.flatten(-3, -2).unflatten(-2, (new, heads)).transpose(-3, -2)


def folded_as_new_by_head(S):
    """Folded token by token, unfolded head by head: scores of other queries, too."""
    return S.transpose(-3, -2).flatten(-3, -2).unflatten(-2, S.shape[-3:-1])


def folded(left, cached):
    """All heads' rows times what is cached, as rows of one matrix."""
    return (left.flatten(-3, -2) @ cached).unflatten(-2, left.shape[-3:-1])


def broadcast(left, cached):
    """The same by a head axis of length 1, which `torch.matmul` copies for each head as soon as there is a batch."""
    return left @ cached.unsqueeze(-3)
