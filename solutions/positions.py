"""Lesson 06: order in attention: equivariance, clocks added and clocks turned (RoPE), and heads that copy."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor


def permutation_gap(
    f: Callable[[Tensor], Tensor],
    X: Float[Tensor, "n d"],
    order: Int[Tensor, " n"],
) -> float:
    r"""How far `f` is from permutation equivariance: the largest entry of
    $|f(PX) - P f(X)|$, as a number.

    $P$ puts the rows of a matrix into the given `order`: row $i$ of $PX$ is row
    `order[i]` of $X$. `order` holds each of $0, \dots, n-1$ once. `f` maps (n, d) to
    (n, anything), one output row per input row. The gap is 0, up to rounding, where `f`
    treats its rows alike wherever they stand.

    >>> X, order = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([2, 0, 1])
    >>> permutation_gap(torch.square, X, order)
    0.0
    >>> permutation_gap(lambda X: X - X[0], X, order)
    3.0

    Source: Zaheer et al. (2017), "Deep Sets", section 2.2, for the term; Lee et al.
    (2019), "Set Transformer", section 3.
    """
    return float((f(X[order]) - f(X)[order]).abs().max())


def rope_angles(
    pos: Num[Tensor, "... n"],
    d: int,
    base: float = 10_000.0,
) -> Float[Tensor, "... n pairs"]:
    r"""The angles $\varphi_{p,i} = p\, \theta_i$ in radians, with
    $\theta_i = b^{-2i/d}$, $i = 0, \dots, d/2 - 1$, `base` $b$.

    One row per entry $p$ of `pos`, which may be any positions in any order; one column
    per clock, `d` even. Angles are not reduced modulo $2\pi$. They lie on the device of
    `pos` and are float32, or float64 where `pos` is. Positions in a 16-bit format are
    converted to float32 first.

    >>> rope_angles(torch.tensor([5, 0, 300]), 4)
    tensor([[5.0000e+00, 5.0000e-02],
            [0.0000e+00, 0.0000e+00],
            [3.0000e+02, 3.0000e+00]])

    Source: Vaswani et al. (2017), section 3.5; Su et al. (2021), "RoFormer", section
    3.2.2, whose $i$ starts at 1: $\theta_i = 10000^{-2(i-1)/d}$.
    """
    dtype = torch.promote_types(pos.dtype, torch.float32)
    theta = base ** (-torch.arange(0, d, 2, dtype=dtype, device=pos.device) / d)
    return pos[..., None].to(dtype) * theta


def turned_score() -> float:
    r"""The raw score of one query and one key of width 2, each turned to its position.

    A turn of $30°$ per token, counter-clockwise. The query $q = (2, 0)$ stands at
    position 5, the key $k = (1, 1)$ at position 1. Not divided by $\sqrt{d_k}$, and
    without a unit.
    """
    # The key lies at 45°. Four tokens apart: the query is turned 4 * 30° further.
    return 2 * math.sqrt(2) * math.cos(math.radians(4 * 30 - 45))


def full_turn() -> float:
    r"""How many tokens the slowest pair of a head needs for one full turn.

    The head has width $d = 128$, the base is 10,000. In tokens.
    """
    return 2 * math.pi * float(10_000 ** (126 / 128))


def apply_rope(
    x: Float[Tensor, "... n d"],
    pos: Num[Tensor, "... n"],
    base: float = 10_000.0,
) -> Float[Tensor, "... n d"]:
    r"""Each row of `x` rotated to its position, pair by pair, in the **interleaved**
    layout: neighbours form a pair.

    With $\varphi_i = p\,\theta_i$ (see `rope_angles`) for the row at position $p$, pair
    $i$ becomes

    $$y_{2i} = x_{2i} \cos\varphi_i - x_{2i+1} \sin\varphi_i, \qquad
    y_{2i+1} = x_{2i} \sin\varphi_i + x_{2i+1} \cos\varphi_i.$$

    `pos` broadcasts against the leading axes of `x`: shape (n,) for positions that all
    share, (batch, 1, n) for a (batch, head, n, d) input whose sequences start at
    different positions. The result has the dtype of `x`; the angles are never computed
    in less than float32. `x` itself stays as it is.

    >>> apply_rope(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))
    tensor([[1.0000, 0.0000],
            [0.5403, 0.8415]])

    Source: Su et al. (2021), sections 3.2.2 and 3.4.2, equation 34.
    """
    angles = rope_angles(pos, x.shape[-1], base)
    cos, sin = angles.cos(), angles.sin()
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = even * cos - odd * sin, even * sin + odd * cos
    rotated = torch.stack(turned, dim=-1)  # (..., n, d/2, 2)
    return rotated.flatten(-2).to(x.dtype)


def interleave_permutation(d: int, heads: int = 1) -> Int[Tensor, " columns"]:
    r"""The index tensor `perm` for which `x[..., perm]` is `x`, taken from the
    half-split into the interleaved layout.

    In the **half-split** layout of one head, entries $i$ and $i + d/2$ form pair $i$;
    in the **interleaved** one, entries $2i$ and $2i + 1$ do. The order of the pairs,
    and which of its two comes first, stay. With several `heads` the columns are those
    of all heads side by side, (head, d) flattened, as a projection makes them: each
    head is rearranged within itself. The result has `heads * d` integers.

    >>> interleave_permutation(6)
    tensor([0, 3, 1, 4, 2, 5])
    >>> x = torch.tensor([[10.0, 20.0, 30.0, -1.0, -2.0, -3.0]])
    >>> x[..., interleave_permutation(6)]
    tensor([[10., -1., 20., -2., 30., -3.]])

    Source: the weight conversion between Meta's Llama (interleaved) and Hugging Face's
    (half-split) does this, or undoes it.
    """
    return torch.arange(heads * d).view(heads, 2, d // 2).transpose(1, 2).flatten()


def rotate_half_rope(
    x: Float[Tensor, "... n d"],
    pos: Num[Tensor, "... n"],
    base: float = 10_000.0,
) -> Float[Tensor, "... n d"]:
    r"""Each row of `x` rotated to its position in the **half-split** layout: entries
    $i$ and $i + d/2$ form pair $i$.

    The same angles as `apply_rope`, the same rotation, other partners. Input and output
    are both half-split:

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
    turned = first * cos - second * sin, first * sin + second * cos
    return torch.cat(turned, dim=-1).to(x.dtype)


def rotary_mha(
    X: Float[Tensor, "... n d_model"],
    Wq: Float[Tensor, "d_model H_d_k"],
    Wk: Float[Tensor, "d_model H_d_k"],
    Wv: Float[Tensor, "d_model H_d_v"],
    Wo: Float[Tensor, "H_d_v d_model"],
    H: int,
    pos: Num[Tensor, " n"],
) -> tuple[Float[Tensor, "... n d_model"], Float[Tensor, "... head n n"]]:
    r"""Output and weights $(Y, A)$ of causal multi-head attention, that of lesson 05,
    with the rotary positions of this lesson.

    Row `i` stands at `pos[i]` and looks at the rows up to `i`. Weights of the heads
    stand side by side, as in lesson 05.

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
    r"""A query $q$ and a key $k$ of width `d`: their head looks `steps` tokens back.

    **Every** token of the text has this same query and this same key; only their turns
    differ. The score of the tokens at $i$ and $j$ is
    $(R_i\,q) \cdot (R_j\,k)/\sqrt{d}$, where $R_i$ turns a row to position $i$ as
    `apply_rope` does (base 10000, no mask). After the softmax each token must give more
    than half of its weight to the token `steps` places before it. The first `steps`
    tokens, which have none there, do not count.

    >>> q, k = look_back(3, 32)
    >>> q, k = (apply_rope(x.expand(20, 32), torch.arange(20)) for x in (q, k))
    >>> (q @ k.T)[10].argmax()
    tensor(7)
    """
    key = torch.full((1, d), 8.0)  # long, so that the softmax decides
    query = apply_rope(key, torch.tensor([-steps]))
    return query[0], key[0]


def head_roles(
    A: Float[Tensor, "head n n"],
    period: int,
) -> tuple[Float[Tensor, " head"], Float[Tensor, " head"]]:
    r"""What each head looks at in a text that repeats itself every `period` tokens:
    `(previous, induction)`, one mean weight per head each.

    `previous`: the weight on the token just before, averaged over all rows but the
    first. `induction`: the weight on the token that **followed** the row's own token
    one period ago, averaged over the rows that have an earlier copy, from row `period`.

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
