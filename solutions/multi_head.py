"""Chapter 05: several attention heads side by side, what trained heads do, and multi-head attention as a sum and as a module.

`masked_sdpa`, `split_heads` and `merge_heads` are in locked cells of the notebooks too, because the learner is given them.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from solutions.lib import sdpa
from solutions.lib.heads import merge_heads, split_heads


def masked_sdpa(
    Q: Float[Tensor, "... query d_k"],
    K: Float[Tensor, "... key d_k"],
    V: Float[Tensor, "... key d_v"],
    keep: Bool[Tensor, "... #query #key"] | None = None,
) -> tuple[Float[Tensor, "... query d_v"], Float[Tensor, "... query key"]]:
    r"""Output and weights $(O, A)$ of `solutions.lib.sdpa.masked_sdpa`, where the mask may also be None, which keeps all keys.

    Given in the notebook's first cell, because chapter 04 asks for it with a mask alone.

    >>> masked_sdpa(torch.zeros(1, 1), torch.zeros(2, 1), torch.tensor([[3.0], [5.0]]))
    (tensor([[4.]]), tensor([[0.5000, 0.5000]]))
    """
    if keep is None:
        keep = torch.ones(1, 1, dtype=torch.bool, device=Q.device)
    return sdpa.masked_sdpa(Q, K, V, keep)


def one_head_errors(
    a: Float[Tensor, "..."],
) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]:
    r"""Return the errors of *who* and *what* for one head with the best factors.

    The head returns $z = a x + (1 - a) y$, where $x$ and $y$ are independent with mean
    0 and variance 1. The error of *who* is the mean of $(u z - x)^2$ with the best $u$
    for this $a$, and the error of *what* is the mean of $(v z - y)^2$ with the best
    $v$. The weight `a` lies between 0 and 1, both included, and may have any shape.

    >>> who, what = one_head_errors(torch.tensor([0.0, 1.0]))
    >>> who, what
    (tensor([1., 0.]), tensor([0., 1.]))
    """
    size = a**2 + (1 - a) ** 2  # the variance of z
    return (1 - a) ** 2 / size, a**2 / size  # 1 - (share of x in z)^2 / variance of z


def mha(
    X: Float[Tensor, "... n d_model"],
    W_Q: Float[Tensor, "d_model H_d_k"],
    W_K: Float[Tensor, "d_model H_d_k"],
    W_V: Float[Tensor, "d_model H_d_v"],
    W_O: Float[Tensor, "H_d_v d_out"],
    H: int,
    keep: Bool[Tensor, "... n n"] | None = None,
) -> tuple[Float[Tensor, "... n d_out"], Float[Tensor, "... head n n"]]:
    r"""Return the outputs and weights $(Y, A)$ of multi-head self-attention.

    $Y = [\,O_0 \,|\, \cdots \,|\, O_{H-1}\,]\; W_O$, where
    $(O_h, A_h) = \mathrm{masked\_sdpa}(X W_Q^{(h)},\; X W_K^{(h)},\; X W_V^{(h)})$.
    Here $W_Q^{(h)}$ is the $h$-th block of $d_k$ columns of `W_Q`, likewise for `W_K`,
    and $W_V^{(h)}$ is the $h$-th block of $d_v$ columns of `W_V`. The widths $d_k$ and
    $d_v$ may differ, and $H d_k$ need not be the width of `X`.
    `keep` is True where a query may attend to a key. It is None, which keeps all, or
    one mask per sequence, which **all heads share**, so it has no head axis.

    >>> W_Q, W_K, W_V, W_O = *(torch.randn(4, 10) for _ in "qkv"), torch.randn(10, 4)
    >>> Y, A = mha(torch.randn(7, 3, 4), W_Q, W_K, W_V, W_O, H=5)
    >>> Y.shape, A.shape
    (torch.Size([7, 3, 4]), torch.Size([7, 5, 3, 3]))

    Source: Vaswani et al. (2017), section 3.2.2.
    """
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    keep = None if keep is None else keep.unsqueeze(-3)  # the same for all heads
    outputs, A = masked_sdpa(Q, K, V, keep)  # (..., H, n, d_v), (..., H, n, n)
    return merge_heads(outputs) @ W_O, A


def mha_as_sum(
    X: Float[Tensor, "... n d_model"],
    W_Q: Float[Tensor, "d_model H_d_k"],
    W_K: Float[Tensor, "d_model H_d_k"],
    W_V: Float[Tensor, "d_model H_d_v"],
    W_O: Float[Tensor, "H_d_v d_out"],
    bo: Float[Tensor, " d_out"],
    H: int,
    keep: Bool[Tensor, "... n n"] | None = None,
) -> tuple[Float[Tensor, "... n d_out"], Float[Tensor, "... head n d_out"]]:
    r"""Return output and summands $(Y, C)$ of multi-head self-attention as a sum,
    $Y = \sum_h C_h + b_O$.

    Head $h$ writes $C_h = O_h\, W_O^{(h)}$. Here $O_h$ is the output of head $h$ as in
    `mha`, with the same mask `keep`, and $W_O^{(h)}$ is the $h$-th block of $d_v$
    **rows** of `W_O`, which are those that meet head $h$ in the concatenation. The bias
    is in no $C_h$.

    >>> W_Q, W_K, W_V, W_O = *(torch.randn(4, 10) for _ in "qkv"), torch.randn(10, 4)
    >>> Y, C = mha_as_sum(torch.randn(3, 4), W_Q, W_K, W_V, W_O, torch.zeros(4), H=5)
    >>> Y.shape, C.shape
    (torch.Size([3, 4]), torch.Size([5, 3, 4]))

    Source: Elhage et al. (2021), "A Mathematical Framework for Transformer Circuits",
    "Attention Heads are Independent and Additive".
    """
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    keep = None if keep is None else keep.unsqueeze(-3)  # the same for all heads
    outputs, _ = masked_sdpa(Q, K, V, keep)
    blocks = W_O.reshape(H, -1, W_O.shape[-1])  # (H, d_v, d_model)
    C = outputs @ blocks  # (..., H, n, d_v) @ (H, d_v, d_model)
    return C.sum(-3) + bo, C


def probe_text() -> list[int]:
    """Return a text whose tests a head passes if it copies, and not if it only counts.

    A token is a number, and the text has at most 60 of them. A place counts as a test
    if its token occurred exactly once before, and if the next token is the same at both
    places. There, a head that copies attends to the token behind the first of the two
    places, and a head that counts attends k tokens back, with the same k everywhere.

    The text needs at least 20 tests. At no more than a quarter of them may a head that
    counts attend to the right token, whatever its k is.

    >>> len(probe_text()) <= 60
    True

    Source: Olsson et al. (2022), "In-context Learning and Induction Heads", for the
    heads that a text has to tell apart.
    """
    blocks = [[5 * b + i for i in range(5)] for b in range(5)]
    return [token for block in blocks + blocks[::-1] for token in block]


def fall_beyond_controls(
    whole: Float[Tensor, "..."],
    without: Float[Tensor, "... layer head"],
) -> Float[Tensor, "... layer head"]:
    r"""Return how much further a share falls without each head than without any other
    head of the same layer.

    The share is `whole` in the whole model, and `without[..., l, h]` if head $h$ of
    layer $l$ is knocked out. The fall is the difference of the two. From the fall of
    each head, subtract the **largest** fall among the *other* heads of its layer, which
    are its matched controls. A positive number therefore means that no other head of
    the layer matters as much. Leading axes are kept.

    >>> fall_beyond_controls(torch.tensor(0.75), torch.tensor([[0.25, 0.5, 1.0]]))
    tensor([[ 0.2500, -0.2500, -0.7500]])
    """
    falls = whole[..., None, None] - without
    largest, second = falls.topk(2, dim=-1).values.split(1, dim=-1)  # (..., layer, 1)
    return falls - torch.where(falls == largest, second, largest)


def copying_score(
    X: Float[Tensor, "token d_model"],
    W_V: Float[Tensor, "d_model d_v"],
    W_O: Float[Tensor, "d_v d_model"],
    E: Float[Tensor, "token d_model"],
) -> Float[Tensor, ""]:
    r"""Return how often a head raises the logit of the token that it attends to by more
    than the logits of other tokens.

    The rows of `X` are $n$ tokens as they enter the head's layer. If a query attends
    only to token $j$, the head writes $x_j W_V W_O$, which adds `output @ E.T` to the
    logits of the same $n$ tokens, in the same order. For each $j$, take the share of
    the $n - 1$ **other** tokens whose logit is raised less than the logit of token $j$.
    Return the mean over all $j$. A head that copies scores 1, and chance is 1/2.

    >>> copying_score(torch.eye(3), torch.eye(3), torch.eye(3), torch.eye(3))
    tensor(1.)

    Source: Elhage et al. (2021), "A Mathematical Framework for Transformer Circuits",
    on the OV circuit.
    """
    logits = X @ W_V @ W_O @ E.mT  # (attended token, raised token)
    own = logits.diagonal()[:, None]  # (n, 1)
    n = len(X)
    return (logits < own).sum() / (n * (n - 1))


def who_and_what() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Return `(W_Q, W_K, W_V, W_O)` of **two** heads that find who acts and what is
    acted on.

    A token has 12 features. Features 0 to 2 are flags (verb, acts, acted on), features
    3 to 5 its own meaning, and 6 to 8 and 9 to 11 are the places *who* and *what*. Your
    heads must write the meaning of the word that acts into the verb's place *who* and
    the meaning of the word that is acted on into *what*. They must write nothing into
    the verb's own meaning. Each number must be right to within 0.005, so 1 % of the
    weight on each other word is already too much.
    In every sentence each flag belongs to one word, in any order, and other words have
    no flag. The heads are side by side as in `mha`, with any widths $d_k$ and $d_v$.

    >>> [W.shape[0] for W in who_and_what()[:3]]
    [12, 12, 12]
    """
    W_Q, W_K = torch.zeros(12, 2), torch.zeros(12, 2)  # H = 2, d_k = 1
    W_V, W_O = torch.zeros(12, 6), torch.zeros(6, 12)  # d_v = 3
    W_Q[0] = 30.0  # the verb asks loudly in both heads
    W_K[1, 0] = W_K[2, 1] = 1.0  # head 0 finds who acts, head 1 what is acted on
    W_V[3:6, 0:3] = W_V[3:6, 3:6] = torch.eye(3)  # both pass on the meaning
    W_O[0:3, 6:9] = W_O[3:6, 9:12] = torch.eye(3)  # and write it into their own places
    return W_Q, W_K, W_V, W_O


class MultiHead(nn.Module):
    r"""Multi-head attention from one sequence to another, or to itself, with its
    weights as parameters.

    The layers are four `nn.Linear`. `W_Q` and `W_K` lead from `d_model` to `H * d_k`
    features, `W_V` from `d_model` to `H * d_v`, and `W_O` from `H * d_v` back to
    `d_model`. Either all of them have a bias or none has. `nn.Linear` stores the
    **transpose** of our $W$ in `weight`, with shape (out, in), and applies it the right
    way round.

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
        """Make the four layers. You may initialise their weights as you like."""
        super().__init__()
        self.H = H
        self.W_Q = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_K = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_V = nn.Linear(d_model, H * d_v, bias=bias)
        self.W_O = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(
        self,
        Xq: Float[Tensor, "... query d_model"],
        Xkv: Float[Tensor, "... key d_model"],
        keep: Bool[Tensor, "... query key"] | None = None,
    ) -> Float[Tensor, "... query d_model"]:
        """Return the output for each token of `Xq`. Keys and values come from `Xkv`.

        If both are the same, this is self-attention. `keep` is True where a query may
        attend to a key. It is one mask per pair of sequences, which all heads share, or
        None.
        """
        projected = self.W_Q(Xq), self.W_K(Xkv), self.W_V(Xkv)
        Q, K, V = (split_heads(X, self.H) for X in projected)
        outputs, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
        Y: Tensor = self.W_O(merge_heads(outputs))
        return Y


def break_even(
    d_model: int,
    H: int,
    G: int,
    d_head: int,
    hidden: int,
) -> int:
    """The shortest context in which scores and sums cost as much as a layer's matrices.

    A layer reads one more token. Each parameter of attention and of the MLP then takes
    part in one multiplication. Attention has `H` heads of queries but only `G` heads of
    keys and of values, all with `d_head` features, and the MLP has three matrices
    between `d_model` and `hidden` features. Each query head also compares its query
    with the keys of all tokens in the context, the new one included, and adds up the
    weighted values of all of them. Norms and the softmax don't count.

    Return the smallest number of tokens in the context for which the scores and the
    weighted sums need at least as many multiplications as the matrices.

    >>> break_even(d_model=4, H=2, G=1, d_head=3, hidden=5)
    11

    Source: Kaplan et al. (2020), "Scaling Laws for Neural Language Models", table 1.
    """
    matrices = d_model * d_head * (2 * H + 2 * G) + 3 * d_model * hidden
    each = 2 * H * d_head  # for each token of the context, a score and a weighted value
    return -(-matrices // each)  # rounded up


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
    names, parts = ("W_Q", "W_K", "W_V"), module.in_proj_weight.chunk(3)  # rows: all queries' weights, then keys', then values'
    state = {f"{name}.weight": part for name, part in zip(names, parts, strict=True)} | {"W_O.weight": module.out_proj.weight}
    if biased:
        state |= {f"{name}.bias": part for name, part in zip(names, module.in_proj_bias.chunk(3), strict=True)}
        state["W_O.bias"] = module.out_proj.bias
    ours.load_state_dict(state)
    return ours
