"""Workshop 04e: filling in a blank without a causal mask, and images as sequences of patches."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def best_possible() -> tuple[float, float]:
    """Return the largest share of blanks that a model can fill in correctly, first
    without a mask and then with a causal mask.

    Every one of the five places is left blank equally often.

    >>> without, causal = best_possible()
    >>> 0 < causal <= without < 1
    True
    """
    adjective = adverb = 1 / 4
    without = (1 + adjective + 1 + adverb + 1) / 5
    causal = (1 + adjective + 1 / 8 + adverb + 1) / 5
    return without, causal


def hide(
    texts: Int[Tensor, "text place"],
    blank: Bool[Tensor, "text place"],
) -> tuple[Int[Tensor, "text place"], Int[Tensor, "text place"]]:
    """Return inputs and targets for training a model to fill in blanks.

    The inputs are the texts with 0 wherever `blank` is True. The targets are the words
    that are missing there, and -100, which `F.cross_entropy` ignores, everywhere else.
    `texts` itself does not change.

    >>> texts = torch.tensor([[1, 7, 5]])
    >>> hide(texts, torch.tensor([[False, True, False]]))
    (tensor([[1, 0, 5]]), tensor([[-100,    7, -100]]))

    Source: Devlin et al. (2018), "BERT", section 3.1, without its random replacements.
    """
    return torch.where(blank, 0, texts), torch.where(blank, texts, -100)


def patches(
    images: Float[Tensor, "image side side"],
    size: int,
) -> Float[Tensor, "image patch pixel"]:
    """Cut square images into square patches of `size` by `size` pixels.

    `size` divides the side. Patches come row by row from the top left, and so do the
    pixels of each patch.

    >>> image = torch.arange(16.0).reshape(1, 4, 4)
    >>> patches(image, 2)[0, 1]
    tensor([2., 3., 6., 7.])

    Source: Dosovitskiy et al. (2020), "An Image is Worth 16x16 Words", section 3.1.
    """
    across = images.shape[-1] // size
    grid = images.reshape(-1, across, size, across, size)
    return grid.transpose(2, 3).reshape(len(images), across**2, size**2)
