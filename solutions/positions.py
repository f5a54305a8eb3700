"""Chapter 06: rotary positions, heads that copy, and other ways to tell attention where a token is.

The answers `rope_angles` and `apply_rope` are in `solutions.lib.rope`.
"""

import math

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from solutions.lib.rope import apply_rope as apply_rope
from solutions.lib.rope import rope_angles as rope_angles
from solutions.lib.rope import rotate_half_rope as rotate_half_rope


def turned_score() -> float:
    r"""Return the raw score of one query and one key, each rotated to its position.

    Every token adds 30°, counter-clockwise. The query $q = (2, 0)$ is at position 5 and
    the key $k = (1, 1)$ at position 1. Do not divide the score by $\sqrt{d_k}$.
    """
    # The key points at 45°. Four tokens apart: the query is rotated 4 * 30° further.
    return 2 * math.sqrt(2) * math.cos(math.radians(4 * 30 - 45))


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


def rotary_mha(
    X: Float[Tensor, "... n d_model"],
    W_Q: Float[Tensor, "d_model H_d_k"],
    W_K: Float[Tensor, "d_model H_d_k"],
    W_V: Float[Tensor, "d_model H_d_v"],
    W_O: Float[Tensor, "H_d_v d_model"],
    H: int,
    pos: Num[Tensor, " n"],
) -> tuple[Float[Tensor, "... n d_model"], Float[Tensor, "... head n n"]]:
    r"""Return output and weights $(Y, A)$ of causal multi-head attention with RoPE.

    Row `i` has the position `pos[i]` and attends to the rows up to `i`. The matrices
    `W_Q`, `W_K` and `W_V` contain the heads side by side.

    >>> W_Q, W_K, W_V, W_O = *(torch.randn(4, 10) for _ in "qkv"), torch.randn(10, 4)
    >>> Y, A = rotary_mha(torch.randn(7, 3, 4), W_Q, W_K, W_V, W_O, 5, torch.arange(3))
    >>> Y.shape, A.shape
    (torch.Size([7, 3, 4]), torch.Size([7, 5, 3, 3]))

    Source: Su et al. (2021), section 3.2.2, and Vaswani et al. (2017), section 3.2.2.
    """
    heads = ((X @ W).unflatten(-1, (H, -1)).transpose(-3, -2) for W in (W_Q, W_K, W_V))
    Q, K, V = heads  # each (..., H, n, d)
    S = apply_rope(Q, pos) @ apply_rope(K, pos).mT / math.sqrt(Q.shape[-1])
    later = torch.ones_like(S, dtype=torch.bool).triu(1)
    A = torch.softmax(S.masked_fill(later, -math.inf), dim=-1)
    return (A @ V).transpose(-3, -2).flatten(-2) @ W_O, A


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
