"""Lesson 05: several attention heads side by side, as a concatenation, as a sum and as a module.

`masked_sdpa` and `merge_heads` stand in the lesson's locked cells too: the learner is given them.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


def masked_sdpa(
    Q: Float[Tensor, "... query d_k"],
    K: Float[Tensor, "... key d_k"],
    V: Float[Tensor, "... key d_v"],
    keep: Bool[Tensor, "... #query #key"] | None = None,
) -> tuple[Float[Tensor, "... query d_v"], Float[Tensor, "... query key"]]:
    r"""Output and weights $(O, A)$ of scaled dot-product attention where `keep` is true; all keys where it is None.

    A query that may look at no key gets zero weights and a zero output. Given in the lesson's first cell.

    >>> masked_sdpa(torch.zeros(1, 1), torch.zeros(2, 1), torch.tensor([[3.0], [5.0]]), torch.tensor([[True, False]]))
    (tensor([[3.]]), tensor([[1., 0.]]))
    """
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if keep is not None:
        S = S.masked_fill(~keep, torch.finfo(S.dtype).min)
    A = torch.softmax(S, dim=-1)
    if keep is not None:
        A = A * keep  # changes only the rows where nothing is left to look at
    return A @ V, A


def split_heads(
    X: Float[Tensor, "... n width"],
    H: int,
) -> Float[Tensor, "... head n d"]:
    r"""The features of each token cut into `H` runs, one for each head:
    $Y_{hia} = X_{i,\; h d + a}$.

    Head $h$ gets the $h$-th run of $d = \text{width} / H$ neighbouring features of
    **every** token (all counts from 0). `H` divides the width. Any number of leading
    axes, or none, is carried along.

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
    """`split_heads` undone: the heads of each token side by side again."""
    # (..., H, n, d) -> (..., n, H, d) -> (..., n, H d)
    return Y.transpose(-3, -2).flatten(-2)


def mha(
    X: Float[Tensor, "... n d_model"],
    Wq: Float[Tensor, "d_model H_d_k"],
    Wk: Float[Tensor, "d_model H_d_k"],
    Wv: Float[Tensor, "d_model H_d_v"],
    Wo: Float[Tensor, "H_d_v d_out"],
    H: int,
    keep: Bool[Tensor, "... n n"] | None = None,
) -> tuple[Float[Tensor, "... n d_out"], Float[Tensor, "... head n n"]]:
    r"""Output and weights $(Y, A)$ of multi-head self-attention.

    $Y = [\,O_0 \,|\, \cdots \,|\, O_{H-1}\,]\; W_O$, where
    $(O_h, A_h) = \mathrm{masked\_sdpa}(X W_Q^{(h)},\; X W_K^{(h)},\; X W_V^{(h)})$.
    Here $W_Q^{(h)}$ is the $h$-th run of $d_k$ columns of `Wq`, likewise `Wk`, and
    $W_V^{(h)}$ the $h$-th run of $d_v$ columns of `Wv`. $d_k$ and $d_v$ may differ, and
    $H d_k$ need not be the width of `X`.
    `keep` (True = may look) is None, or one mask per sequence, the **same for all its
    heads**: it has no head axis.

    >>> Wq, Wk, Wv, Wo = *(torch.randn(4, 10) for _ in "qkv"), torch.randn(10, 4)
    >>> Y, A = mha(torch.randn(7, 3, 4), Wq, Wk, Wv, Wo, H=5)
    >>> Y.shape, A.shape
    (torch.Size([7, 3, 4]), torch.Size([7, 5, 3, 3]))

    Source: Vaswani et al. (2017), section 3.2.2.
    """
    Q, K, V = (split_heads(X @ W, H) for W in (Wq, Wk, Wv))
    keep = None if keep is None else keep.unsqueeze(-3)  # the same for all heads
    outputs, A = masked_sdpa(Q, K, V, keep)  # (..., H, n, d_v), (..., H, n, n)
    return merge_heads(outputs) @ Wo, A


def mha_as_sum(
    X: Float[Tensor, "... n d_model"],
    Wq: Float[Tensor, "d_model H_d_k"],
    Wk: Float[Tensor, "d_model H_d_k"],
    Wv: Float[Tensor, "d_model H_d_v"],
    Wo: Float[Tensor, "H_d_v d_out"],
    bo: Float[Tensor, " d_out"],
    H: int,
    keep: Bool[Tensor, "... n n"] | None = None,
) -> tuple[Float[Tensor, "... n d_out"], Float[Tensor, "... head n d_out"]]:
    r"""Output and summands $(Y, C)$ of multi-head self-attention as a sum:
    $Y = \sum_h C_h + b_O$.

    $C_h = O_h\, W_O^{(h)}$, where $O_h$ is the output of head $h$ as in `mha`, with the
    same mask `keep`, and $W_O^{(h)}$ the $h$-th run of $d_v$ **rows** of `Wo`, those
    that meet head $h$ in the concatenation. The bias is in no $C_h$.

    >>> Wq, Wk, Wv, Wo = *(torch.randn(4, 10) for _ in "qkv"), torch.randn(10, 4)
    >>> Y, C = mha_as_sum(torch.randn(3, 4), Wq, Wk, Wv, Wo, torch.zeros(4), H=5)
    >>> Y.shape, C.shape
    (torch.Size([3, 4]), torch.Size([5, 3, 4]))

    Source: Elhage et al. (2021), "A Mathematical Framework for Transformer Circuits",
    "Attention Heads are Independent and Additive".
    """
    Q, K, V = (split_heads(X @ W, H) for W in (Wq, Wk, Wv))
    keep = None if keep is None else keep.unsqueeze(-3)  # the same for all heads
    outputs, _ = masked_sdpa(Q, K, V, keep)
    blocks = Wo.reshape(H, -1, Wo.shape[-1])  # (H, d_v, d_model)
    C = outputs @ blocks  # (..., H, n, d_v) @ (H, d_v, d_model)
    return C.sum(-3) + bo, C


def head_shares(
    A: Float[Tensor, "... n n"],
    length: int,
) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."], Float[Tensor, "..."]]:
    r"""Three mean weights of each head, `(before, first, after)`, on a text read twice.

    Tokens 0 to `length - 1` are the first reading, the next `length` the second, word
    for word the same: $n$ is twice `length`. Row $i$ of `A` says what token $i$ looks
    at. In the **first** reading, over all its tokens but token 0, `before` is the mean
    weight on the token one place back, and `first` that on token 0 of the text.
    In the **second**, over all its tokens, `after` is the mean weight on the token that
    *followed* the same token in the first reading. (After the last token of the first
    reading came the first token of the second.) Leading axes of `A` are kept: each head
    has its own three numbers.

    >>> A = torch.eye(6)[[0, 0, 1, 2, 3, 4]]  # looks one back
    >>> head_shares(A, 3)
    (tensor(1.), tensor(0.5000), tensor(0.))

    Source: Olsson et al. (2022), "In-context Learning and Induction Heads".
    """
    i, j = torch.arange(1, length), torch.arange(length, 2 * length)  # who asks
    before = A[..., i, i - 1]  # (..., length - 1): one row with one column each
    after = A[..., j, j - length + 1]  # (..., length)
    return before.mean(-1), A[..., 1:length, 0].mean(-1), after.mean(-1)


def who_and_what() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""`(Wq, Wk, Wv, Wo)` of **two** heads: who acts, and what is acted on.

    A token has 12 features: three flags (0: a verb, 1: acts, 2: is acted on), its own
    meaning (3 to 5), and two free places (6 to 8: *who*, 9 to 11: *what*). Your heads
    must write the meaning of the word that acts into the verb's place *who*, and that
    of the word acted on into *what*, and nothing into its own meaning: all to within
    0.005 (1 % of the weight on each other word is already too much).
    In every sentence one word has each flag, in any order; other words have none.
    Weights stand side by side as in `mha`; the widths $d_k$ and $d_v$ are up to you.

    >>> [W.shape[0] for W in who_and_what()[:3]]
    [12, 12, 12]
    """
    Wq, Wk = torch.zeros(12, 2), torch.zeros(12, 2)  # H = 2, d_k = 1
    Wv, Wo = torch.zeros(12, 6), torch.zeros(6, 12)  # d_v = 3
    Wq[0] = 30.0  # a verb asks, loudly, in both heads
    Wk[1, 0] = Wk[2, 1] = 1.0  # head 0 finds who acts, head 1 what is acted on
    Wv[3:6, 0:3] = Wv[3:6, 3:6] = torch.eye(3)  # both hand over the meaning
    Wo[0:3, 6:9] = Wo[3:6, 9:12] = torch.eye(3)  # and write it into places of their own
    return Wq, Wk, Wv, Wo


class MultiHead(nn.Module):
    r"""Multi-head attention from one sequence to another, or to itself; its weights are
    parameters.

    The layers are four `nn.Linear`, by name: `WQ` and `WK` from `d_model` to `H * d_k`,
    `WV` from `d_model` to `H * d_v`, and `WO` back from `H * d_v` to `d_model`; all
    with a bias, or all without. (`nn.Linear` keeps the **transpose** of our $W$ in
    `weight`, of shape (out, in), and applies it the right way round.)

    >>> module = MultiHead(d_model=6, H=2, d_k=5, d_v=7)
    >>> module(torch.randn(3, 4, 6), torch.randn(3, 11, 6)).shape
    torch.Size([3, 4, 6])
    >>> [tuple(p.shape) for p in module.parameters()]
    [(10, 6), (10,), (10, 6), (10,), (14, 6), (14,), (6, 14), (6,)]

    Source: Vaswani et al. (2017), section 3.2.2; with biases as in
    `torch.nn.MultiheadAttention`.
    """

    def __init__(
        self,
        d_model: int,
        H: int,
        d_k: int,
        d_v: int,
        bias: bool = True,
    ) -> None:
        """Make the four layers. How their weights begin is yours to choose."""
        super().__init__()
        self.H = H
        self.WQ = nn.Linear(d_model, H * d_k, bias=bias)
        self.WK = nn.Linear(d_model, H * d_k, bias=bias)
        self.WV = nn.Linear(d_model, H * d_v, bias=bias)
        self.WO = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(
        self,
        Xq: Float[Tensor, "... query d_model"],
        Xkv: Float[Tensor, "... key d_model"],
        keep: Bool[Tensor, "... query key"] | None = None,
    ) -> Float[Tensor, "... query d_model"]:
        """The output for each token of `Xq`, which asks; `Xkv` offers keys and values.

        Self-attention where both are the same. `keep` (True = may look) is one mask per
        pair of sequences, the same for all heads, or None.
        """
        projected = self.WQ(Xq), self.WK(Xkv), self.WV(Xkv)
        Q, K, V = (split_heads(X, self.H) for X in projected)
        outputs, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
        Y: Tensor = self.WO(merge_heads(outputs))
        return Y


def from_torch_mha(module: nn.MultiheadAttention) -> MultiHead:
    """A `MultiHead` that computes what `module` computes in evaluation: its weights, device and dtype, copied.

    Differences in calling: `MultiHead` is batch first whatever `module.batch_first` says, `keep` is the negation of torch's
    boolean `attn_mask`, and no weights are returned (torch averages them over heads by default).

    Raises ValueError for what `MultiHead` has no place for: other key or value widths, `bias_k`, `add_zero_attn`.

    >>> theirs = nn.MultiheadAttention(6, 2, batch_first=True).eval()
    >>> x = torch.randn(3, 5, 6)
    >>> torch.allclose(from_torch_mha(theirs)(x, x), theirs(x, x, x)[0], atol=1e-5)
    True
    """
    d_model, H = module.embed_dim, module.num_heads
    if module.in_proj_weight is None:
        raise ValueError(f"expected kdim = vdim = embed_dim = {d_model}, got kdim = {module.kdim}, vdim = {module.vdim}.")
    if module.bias_k is not None or module.add_zero_attn:
        raise ValueError("expected add_bias_kv=False and add_zero_attn=False: MultiHead has no extra key.")
    biased = module.in_proj_bias is not None
    ours = MultiHead(d_model, H, d_model // H, d_model // H, bias=biased).to(module.in_proj_weight)
    names, parts = ("WQ", "WK", "WV"), module.in_proj_weight.chunk(3)  # rows: all queries' weights, then keys', then values'
    state = {f"{name}.weight": part for name, part in zip(names, parts, strict=True)} | {"WO.weight": module.out_proj.weight}
    if biased:
        state |= {f"{name}.bias": part for name, part in zip(names, module.in_proj_bias.chunk(3), strict=True)}
        state["WO.bias"] = module.out_proj.bias
    ours.load_state_dict(state)
    return ours
