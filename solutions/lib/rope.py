"""Rotary positions: the angles, and the rotation in both layouts of a head's features.

`rope_angles` and `apply_rope` are also the answers of chapter 06.
"""

import torch
from jaxtyping import Float, Num
from torch import Tensor


def rope_angles(
    pos: Num[Tensor, "... n"],
    d: int,
    base: float = 10_000.0,
) -> Float[Tensor, "... n pairs"]:
    r"""Return the angles, in radians, by which rows at the positions `pos` are rotated.

    A row has `d` features in d/2 pairs. Pair 0 rotates by 1 radian per token. Every
    later pair is slower than the one before it by the same factor, and pair d/2, which
    does not exist any more, would rotate by 1/`base` radians per token.

    The result has one row for each entry of `pos`, which may be any positions in any
    order, and one column for each pair. Angles include full turns. They are on the
    device of `pos` and in float32, or in float64 if `pos` is. Positions in a 16-bit
    format are converted to float32 first.

    >>> rope_angles(torch.tensor([5, 0, 300]), 4)
    tensor([[5.0000e+00, 5.0000e-02],
            [0.0000e+00, 0.0000e+00],
            [3.0000e+02, 3.0000e+00]])

    Source: Vaswani et al. (2017), section 3.5; Su et al. (2021), "RoFormer", section
    3.2.2, which counts the pairs from 1.
    """
    dtype = torch.promote_types(pos.dtype, torch.float32)
    theta = base ** (-torch.arange(0, d, 2, dtype=dtype, device=pos.device) / d)
    return pos[..., None].to(dtype) * theta


def apply_rope(
    x: Float[Tensor, "... n d"],
    pos: Num[Tensor, "... n"],
    base: float = 10_000.0,
) -> Float[Tensor, "... n d"]:
    r"""Rotate each row of `x` to its position, pair by pair.

    Features $2i$ and $2i + 1$ form pair $i$, and its angle is in column $i$ of
    `rope_angles`. A rotation by $\varphi$ takes the pair (1, 0) to
    $(\cos\varphi, \sin\varphi)$ and the pair (0, 1) to
    $(-\sin\varphi, \cos\varphi)$.

    `pos` broadcasts against the leading axes of `x`. It has the shape (n,) if all
    sequences share their positions, and (batch, 1, n) for an `x` of shape
    (batch, head, n, d) whose sequences start at different positions. The result has
    the dtype of `x`, while the angles are never computed in less than float32. `x`
    itself is not changed.

    >>> apply_rope(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))
    tensor([[1.0000, 0.0000],
            [0.5403, 0.8415]])

    Source: Su et al. (2021), sections 3.2.2 and 3.4.2, equation 34.
    """
    angles = rope_angles(pos, x.shape[-1], base)
    cos, sin = angles.cos(), angles.sin()
    even, odd = x[..., 0::2], x[..., 1::2]
    both = even * cos - odd * sin, even * sin + odd * cos
    rotated = torch.stack(both, dim=-1)  # (..., n, d/2, 2)
    return rotated.flatten(-2).to(x.dtype)


def rotate_half_rope(
    x: Float[Tensor, "... n d"],
    pos: Num[Tensor, "... n"],
    base: float = 10_000.0,
) -> Float[Tensor, "... n d"]:
    r"""Rotate each row of `x` to its position in the **half-split** layout.

    Features $i$ and $i + d/2$ form pair $i$, and the angles are those of `apply_rope`.
    Input and output are both half-split:

    $$y_{i} = x_{i} \cos\varphi_i - x_{i+d/2} \sin\varphi_i, \qquad
    y_{i+d/2} = x_{i} \sin\varphi_i + x_{i+d/2} \cos\varphi_i.$$

    With `perm = interleave_permutation(d)`, `rotate_half_rope(x, pos)[..., perm]`
    equals `apply_rope(x[..., perm], pos)`.

    >>> rotate_half_rope(torch.tensor([[1.0, 5.0, 0.0, 0.0]]), torch.tensor([1]))
    tensor([[0.5403, 4.9998, 0.8415, 0.0500]])

    Source: Black et al. (2022), "GPT-NeoX-20B", and `rotate_half` in Hugging Face's
    Llama.
    """
    angles = rope_angles(pos, x.shape[-1], base)
    cos, sin = angles.cos(), angles.sin()
    first, second = x.chunk(2, dim=-1)
    both = first * cos - second * sin, first * sin + second * cos
    return torch.cat(both, dim=-1).to(x.dtype)
