"""Chapter 06: rotary positions, heads that copy, and other ways to tell attention where a token is."""

import math

import torch
from jaxtyping import Float, Int, Num
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


def turned_score() -> float:
    r"""Return the raw score of one query and one key, each rotated to its position.

    Every token adds 30°, counter-clockwise. The query $q = (2, 0)$ is at position 5 and
    the key $k = (1, 1)$ at position 1. Do not divide the score by $\sqrt{d_k}$.
    """
    # The key points at 45°. Four tokens apart: the query is rotated 4 * 30° further.
    return 2 * math.sqrt(2) * math.cos(math.radians(4 * 30 - 45))


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


def interleave_permutation(d: int, heads: int = 1) -> Int[Tensor, " columns"]:
    r"""Return the indices `perm` for which `x[..., perm]` is `x` in the other layout.

    In the **half-split** layout of one head, features $i$ and $i + d/2$ form pair $i$.
    In the **interleaved** layout, features $2i$ and $2i + 1$ do. `perm` takes
    half-split to interleaved. It keeps the order of the pairs and of the members of
    each pair. With several `heads` the columns are those of all heads side by side, as
    a projection makes them, and each head is rearranged within itself. The result has
    `heads * d` integers.

    >>> interleave_permutation(6)
    tensor([0, 3, 1, 4, 2, 5])
    >>> x = torch.tensor([[10.0, 20.0, 30.0, -1.0, -2.0, -3.0]])
    >>> x[..., interleave_permutation(6)]
    tensor([[10., -1., 20., -2., 30., -3.]])

    Source: the scripts that convert weights between Meta's Llama (interleaved) and
    Hugging Face's (half-split).
    """
    return torch.arange(heads * d).view(heads, 2, d // 2).transpose(1, 2).flatten()


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


def rotary_mha(
    X: Float[Tensor, "... n d_model"],
    Wq: Float[Tensor, "d_model H_d_k"],
    Wk: Float[Tensor, "d_model H_d_k"],
    Wv: Float[Tensor, "d_model H_d_v"],
    Wo: Float[Tensor, "H_d_v d_model"],
    H: int,
    pos: Num[Tensor, " n"],
) -> tuple[Float[Tensor, "... n d_model"], Float[Tensor, "... head n n"]]:
    r"""Return output and weights $(Y, A)$ of causal multi-head attention with RoPE.

    Row `i` has the position `pos[i]` and attends to the rows up to `i`. The matrices
    `Wq`, `Wk` and `Wv` contain the heads side by side.

    >>> Wq, Wk, Wv, Wo = *(torch.randn(4, 10) for _ in "qkv"), torch.randn(10, 4)
    >>> Y, A = rotary_mha(torch.randn(7, 3, 4), Wq, Wk, Wv, Wo, 5, torch.arange(3))
    >>> Y.shape, A.shape
    (torch.Size([7, 3, 4]), torch.Size([7, 5, 3, 3]))

    Source: Su et al. (2021), section 3.2.2, and Vaswani et al. (2017), section 3.2.2.
    """
    heads = ((X @ W).unflatten(-1, (H, -1)).transpose(-3, -2) for W in (Wq, Wk, Wv))
    Q, K, V = heads  # each (..., H, n, d)
    S = apply_rope(Q, pos) @ apply_rope(K, pos).mT / math.sqrt(Q.shape[-1])
    later = torch.ones_like(S, dtype=torch.bool).triu(1)
    A = torch.softmax(S.masked_fill(later, -math.inf), dim=-1)
    return (A @ V).transpose(-3, -2).flatten(-2) @ Wo, A


def look_back(steps: int, d: int) -> tuple[Float[Tensor, " d"], Float[Tensor, " d"]]:
    r"""Return a query $q$ and a key $k$ with which each token attends `steps` back.

    **Every** token of the text has this same query and this same key, and only their
    rotations differ. Both have `d` features. The score of the tokens at $i$ and $j$ is
    $(R_i\,q) \cdot (R_j\,k)/\sqrt{d}$, where $R_i$ rotates a row to position $i$ as
    `apply_rope` does with base 10000. There is no mask. After the softmax each token
    must give more than half of its weight to the token `steps` places before it. The
    first `steps` tokens don't count.

    >>> q, k = look_back(3, 32)
    >>> q, k = (apply_rope(x.expand(20, 32), torch.arange(20)) for x in (q, k))
    >>> (q @ k.T)[10].argmax()
    tensor(7)
    """
    key = torch.full((1, d), 8.0)  # long, so that the softmax is sharp
    query = apply_rope(key, torch.tensor([-steps]))
    return query[0], key[0]


def head_roles(
    A: Float[Tensor, "head n n"],
    period: int,
) -> tuple[Float[Tensor, " head"], Float[Tensor, " head"]]:
    r"""Return two mean weights per head, for a text that repeats every `period` tokens.

    The first is the weight on the token just before, averaged over all rows except row
    0. The second is the weight on the token that **followed** the row's own token one
    period ago, averaged over the rows from `period` on, which have such a copy.

    >>> A = torch.zeros(1, 4, 4)
    >>> A[0, [1, 2, 3], [0, 0, 2]] = 1.0
    >>> head_roles(A, 3)
    (tensor([0.6667]), tensor([0.]))

    Source: Olsson et al. (2022), "In-context Learning and Induction Heads".
    """
    i = torch.arange(A.shape[-1], device=A.device)
    previous = A[:, i[1:], i[:-1]].mean(-1)
    induction = A[:, i[period:], i[period:] - period + 1].mean(-1)
    return previous, induction


def alibi_reach(slope: float, share: float) -> int:
    r"""Return how many of the nearest tokens hold at least `share` of the weight.

    ALiBi subtracts `slope` times the distance from each score. All tokens fit the query
    equally well, and the text before it is so long that you may treat it as endless.
    The current token, at distance 0, is counted too.

    >>> alibi_reach(1.0, 0.6)
    1
    >>> alibi_reach(1.0, 0.9)
    3

    Source: Press et al. (2022), "Train Short, Test Long", section 3.
    """
    return math.ceil(-math.log(1 - share) / slope)  # a geometric series
