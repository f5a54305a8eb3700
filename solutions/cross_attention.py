"""Workshop 04d: the masks of an encoder and a decoder, and what a decoder reads in training."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from solutions.masking import causal_mask


def three_masks(
    source: Int[Tensor, "batch source"],
    n: int,
) -> tuple[Bool[Tensor, "..."], Bool[Tensor, "..."], Bool[Tensor, "..."]]:
    r"""Return the masks of the encoder's self-attention, the decoder's self-attention
    and the cross-attention, in this order. True means keep.

    The encoder reads `source`, where 0 is a blank. The decoder reads the `n` characters
    written so far, none of them blank, and attends from these to the source. Each mask
    broadcasts to (batch, query, key).

    >>> masks = three_masks(torch.tensor([[4, 7, 0]]), n=2)
    >>> [mask.dtype for mask in masks]
    [torch.bool, torch.bool, torch.bool]

    Source: Vaswani et al. (2017), section 3.2.3.
    """
    real = (source != 0)[:, None, :]
    return real, causal_mask(n, n).to(source.device), real


def shifted(
    targets: Int[Tensor, "batch position"],
    start: int,
) -> tuple[Int[Tensor, "batch position"], Int[Tensor, "batch position"]]:
    r"""Return what the decoder reads in training, and what it has to answer at each
    position.

    At every position it has read `start` and all earlier characters of the target, just
    as when it writes by itself.

    >>> inputs, answers = shifted(torch.tensor([[5, 6, 7]]), start=1)
    >>> inputs.shape == answers.shape
    True

    Source: Vaswani et al. (2017), section 3.1: "offset by one position".
    """
    first = torch.full_like(targets[:, :1], start)
    return torch.cat([first, targets[:, :-1]], dim=1), targets
