"""The head axis: cut features into heads, put them side by side again, and multiply each head by its own matrix."""

from jaxtyping import Float
from torch import Tensor


def split_heads(
    X: Float[Tensor, "... n width"],
    H: int,
) -> Float[Tensor, "... head n d"]:
    r"""Cut the features of each token into `H` blocks, one for each head, so that
    $Y_{hia} = X_{i,\; h d + a}$.

    Head $h$ gets the $h$-th block of $d = \text{width} / H$ neighbouring features of
    **every** token, counted from 0. `H` divides the width. Any number of leading
    axes, or none, is carried along.

    >>> import torch
    >>> split_heads(torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]), 2)
    tensor([[[1., 2.],
             [5., 6.]],
    <BLANKLINE>
            [[3., 4.],
             [7., 8.]]])

    Source: Vaswani et al. (2017), "Attention Is All You Need", section 3.2.2.
    """
    X = X.reshape(*X.shape[:-1], H, X.shape[-1] // H)  # (..., n, H, d)
    return X.transpose(-3, -2)  # (..., H, n, d)


def merge_heads(Y: Float[Tensor, "... head n d"]) -> Float[Tensor, "... n width"]:
    """Place the features of all heads of a token side by side again."""
    # (..., H, n, d) -> (..., n, H, d) -> (..., n, H d)
    return Y.transpose(-3, -2).flatten(-2)


def per_head(x: Float[Tensor, "... #head n d_in"], W: Float[Tensor, "head d_in d_out"]) -> Float[Tensor, "... head n d_out"]:
    """Each head's rows times that head's matrix; a head axis of length 1 serves all heads. No weight is copied.

    `x @ W` is the same, but with a batch in front `torch.matmul` first copies all of `W` for each sequence of it.

    >>> import torch
    >>> per_head(torch.ones(2, 1, 3), torch.tensor([1.0, 5.0])[:, None, None].expand(2, 3, 1)).flatten()
    tensor([ 3., 15.])
    """
    rows = x.movedim(-3, 0)  # (head, ..., n, d_in): one matrix product per head, for the rows of all sequences
    out: Tensor = (rows.flatten(1, -2) @ W).unflatten(1, rows.shape[1:-1])
    return out.movedim(0, -3)
