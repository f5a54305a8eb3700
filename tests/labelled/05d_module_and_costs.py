# %% module_and_costs.mha_as_sum wrong single public: the bias is added in every head: H times
# true: h_biases
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    d = W_V.shape[1] // H
    C = torch.stack([O[..., h, :, :] @ W_O[h * d : (h + 1) * d] + bo for h in range(H)], dim=-3)
    return C.sum(-3), C

# %% module_and_costs.mha_as_sum wrong single: no bias
# true: slip.lost.summand(bo)
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    C = O @ W_O.unflatten(0, (H, -1))
    return C.sum(-3), C

# %% module_and_costs.mha_as_sum wrong single: the bias is shared out: b/H in every summand
# true: bias_in_the_summands
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    C = O @ W_O.unflatten(0, (H, -1)) + bo / H
    return C.sum(-3), C

# %% module_and_costs.mha_as_sum wrong single: rows of W_O dealt like cards: every H-th row
# true: rows_interleaved
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    C = torch.stack([O[..., h, :, :] @ W_O[h::H] for h in range(H)], dim=-3)
    return C.sum(-3) + bo, C

# %% module_and_costs.mha_as_sum wrong single: head outputs before W_O returned as the summands
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    return merge_heads(O) @ W_O + bo, O

# %% module_and_costs.mha_as_sum wrong single public: the heads' axis stands in front of the batch
# true: summands_stacked_in_front
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    d, v = W_Q.shape[1] // H, W_V.shape[1] // H
    C = []
    for h in range(H):
        q, k = X @ W_Q[:, h * d : (h + 1) * d], X @ W_K[:, h * d : (h + 1) * d]
        o, _ = masked_sdpa(q, k, X @ W_V[:, h * v : (h + 1) * v], keep)
        C.append(o @ W_O[h * v : (h + 1) * v])
    C = torch.stack(C)
    return C.sum(0) + bo, C

# %% module_and_costs.mha_as_sum wrong double: bias in every head, and averaged instead of summed
# true: h_biases; heads_averaged
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    C = O @ W_O.unflatten(0, (H, -1)) + bo
    return C.mean(-3), C

# %% module_and_costs.mha_as_sum wrong single public: columns of W_O instead of rows (fits only where H d_v == d_model)
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    d = W_V.shape[1] // H
    C = torch.stack([O[..., h, :, :] @ W_O[:, h * d : (h + 1) * d].T for h in range(H)], dim=-3)
    return C.sum(-3) + bo, C

# %% module_and_costs.mha_as_sum wrong double: scaled by the full width, no bias
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    A = torch.softmax(Q @ K.mT / math.sqrt(W_Q.shape[1]), dim=-1)
    C = (A @ V) @ W_O.unflatten(0, (H, -1))
    return C.sum(-3), C

# %% module_and_costs.mha_as_sum wrong double: head axis in front, bias in every head
# true: h_biases; summands_stacked_in_front
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    d, v = W_Q.shape[1] // H, W_V.shape[1] // H
    C = []
    for h in range(H):
        q, k = X @ W_Q[:, h * d : (h + 1) * d], X @ W_K[:, h * d : (h + 1) * d]
        o, _ = masked_sdpa(q, k, X @ W_V[:, h * v : (h + 1) * v], keep)
        C.append(o @ W_O[h * v : (h + 1) * v] + bo)
    C = torch.stack(C)
    return C.sum(0), C

# %% module_and_costs.mha_as_sum wrong single public: bare reshape for the split
# true: slip.call.reshaped(X.transpose(-3, -2))
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    *lead, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(*lead, H, n, -1) for W in (W_Q, W_K, W_V))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    C = O @ W_O.unflatten(0, (H, -1))
    return C.sum(-3) + bo, C

# %% module_and_costs.mha_as_sum wrong single: every head uses the whole W_O's first block
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    C = O @ W_O[: W_V.shape[1] // H]
    return C.sum(-3) + bo, C

# %% module_and_costs.mha_as_sum right: unflatten W_O
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    C = O @ W_O.unflatten(0, (H, -1))
    return C.sum(dim=-3) + bo, C

# %% module_and_costs.mha_as_sum right: loop
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    d, v = W_Q.shape[1] // H, W_V.shape[1] // H
    C = []
    for h in range(H):
        cols, vals = slice(h * d, (h + 1) * d), slice(h * v, (h + 1) * v)
        o, _ = masked_sdpa(X @ W_Q[:, cols], X @ W_K[:, cols], X @ W_V[:, vals], keep)
        C.append(o @ W_O[vals, :])
    return sum(C) + bo, torch.stack(C, dim=-3)

# %% module_and_costs.mha_as_sum wrong single: ignores the mask
# true: mask_ignored
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    q, k, v = (torch.einsum("...id,dha->...hia", X, W.unflatten(1, (H, -1))) for W in (W_Q, W_K, W_V))
    A = torch.softmax(torch.einsum("...hia,...hja->...hij", q, k) / math.sqrt(q.shape[-1]), -1)
    C = torch.einsum("...hij,...hja,had->...hid", A, v, W_O.unflatten(0, (H, -1)))
    return torch.einsum("...hid->...id", C) + bo, C

# %% module_and_costs.mha_as_sum right: concatenation for Y, blocks for C
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    blocks = torch.stack(W_O.chunk(H, dim=0))
    return torch.addmm(bo, merge_heads(O).reshape(-1, W_O.shape[0]), W_O).reshape(*X.shape[:-1], -1), O @ blocks

# %% module_and_costs.mha_as_sum wrong double: b/H in every summand, rows of W_O dealt like cards
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    C = torch.stack([O[..., h, :, :] @ W_O[h::H] for h in range(H)], dim=-3) + bo / H
    return C.sum(-3), C

# %% module_and_costs.mha_as_sum wrong double: summands before W_O, no bias
def mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    return merge_heads(O) @ W_O, O

# %% module_and_costs.MultiHead wrong single: no super().__init__()
# true: missing_super
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        self.H = H
        self.W_Q = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_K = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_V = nn.Linear(d_model, H * d_v, bias=bias)
        self.W_O = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q = split_heads(self.W_Q(Xq), self.H)
        K = split_heads(self.W_K(Xkv), self.H)
        V = split_heads(self.W_V(Xkv), self.H)
        if keep is not None:
            keep = keep.unsqueeze(-3)
        O, _ = masked_sdpa(Q, K, V, keep)
        return self.W_O(merge_heads(O))

# %% module_and_costs.MultiHead wrong single public: d_k and d_v ignored: d_model // H, one width for all
# true: ~exact
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        super().__init__()
        self.H, self.d_k = H, d_model // H
        self.W_Q = nn.Linear(d_model, d_model, bias=bias)
        self.W_K = nn.Linear(d_model, d_model, bias=bias)
        self.W_V = nn.Linear(d_model, d_model, bias=bias)
        self.W_O = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q = split_heads(self.W_Q(Xq), self.H)
        K = split_heads(self.W_K(Xkv), self.H)
        V = split_heads(self.W_V(Xkv), self.H)
        if keep is not None:
            keep = keep.unsqueeze(-3)
        O, _ = masked_sdpa(Q, K, V, keep)
        return self.W_O(merge_heads(O))

# %% module_and_costs.MultiHead wrong single: bias argument ignored: always with a bias
# true: ~exact
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        super().__init__()
        self.H = H
        self.W_Q = nn.Linear(d_model, H * d_k)
        self.W_K = nn.Linear(d_model, H * d_k)
        self.W_V = nn.Linear(d_model, H * d_v)
        self.W_O = nn.Linear(H * d_v, d_model)

    def forward(self, Xq, Xkv, keep=None):
        Q = split_heads(self.W_Q(Xq), self.H)
        K = split_heads(self.W_K(Xkv), self.H)
        V = split_heads(self.W_V(Xkv), self.H)
        if keep is not None:
            keep = keep.unsqueeze(-3)
        O, _ = masked_sdpa(Q, K, V, keep)
        return self.W_O(merge_heads(O))

# %% module_and_costs.MultiHead wrong single public: no bias in Q, K, V whatever is asked; one in the output
# true: ~exact
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        super().__init__()
        self.H = H
        self.W_Q = nn.Linear(d_model, H * d_k, bias=False)
        self.W_K = nn.Linear(d_model, H * d_k, bias=False)
        self.W_V = nn.Linear(d_model, H * d_v, bias=False)
        self.W_O = nn.Linear(H * d_v, d_model)

    def forward(self, Xq, Xkv, keep=None):
        Q = split_heads(self.W_Q(Xq), self.H)
        K = split_heads(self.W_K(Xkv), self.H)
        V = split_heads(self.W_V(Xkv), self.H)
        if keep is not None:
            keep = keep.unsqueeze(-3)
        O, _ = masked_sdpa(Q, K, V, keep)
        return self.W_O(merge_heads(O))

# %% module_and_costs.MultiHead wrong single: keys and values from the asking sequence
# true: self_attention_only
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.W_Q = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_K = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_V = nn.Linear(d_model, H * d_v, bias=bias)
        self.W_O = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = (split_heads(W(Xq), self.H) for W in (self.W_Q, self.W_K, self.W_V))
        O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
        return self.W_O(merge_heads(O))

# %% module_and_costs.MultiHead wrong single: mask without a head axis
# true: mask_without_head_axis
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.W_Q = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_K = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_V = nn.Linear(d_model, H * d_v, bias=bias)
        self.W_O = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = split_heads(self.W_Q(Xq), self.H), split_heads(self.W_K(Xkv), self.H), split_heads(self.W_V(Xkv), self.H)
        O, _ = masked_sdpa(Q, K, V, keep)
        return self.W_O(merge_heads(O))

# %% module_and_costs.MultiHead wrong single: mask accepted and ignored
# true: mask_ignored
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.W_Q = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_K = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_V = nn.Linear(d_model, H * d_v, bias=bias)
        self.W_O = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = split_heads(self.W_Q(Xq), self.H), split_heads(self.W_K(Xkv), self.H), split_heads(self.W_V(Xkv), self.H)
        O, _ = masked_sdpa(Q, K, V)
        return self.W_O(merge_heads(O))

# %% module_and_costs.MultiHead wrong single public: returns (output, weights)
# true: ~mended
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.W_Q = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_K = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_V = nn.Linear(d_model, H * d_v, bias=bias)
        self.W_O = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = split_heads(self.W_Q(Xq), self.H), split_heads(self.W_K(Xkv), self.H), split_heads(self.W_V(Xkv), self.H)
        O, A = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
        return self.W_O(merge_heads(O)), A

# %% module_and_costs.MultiHead wrong single public: other layer names (W_q, W_k, W_v, out_proj)
# true: ~exact
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        super().__init__()
        self.H = H
        self.W_q = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_k = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_v = nn.Linear(d_model, H * d_v, bias=bias)
        self.out_proj = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = split_heads(self.W_q(Xq), self.H), split_heads(self.W_k(Xkv), self.H), split_heads(self.W_v(Xkv), self.H)
        O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
        return self.out_proj(merge_heads(O))

# %% module_and_costs.MultiHead wrong double public: scaled by the full width, -1e20 for hidden pairs
# true: scaled_by_sqrt_d_model
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.W_Q = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_K = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_V = nn.Linear(d_model, H * d_v, bias=bias)
        self.W_O = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = split_heads(self.W_Q(Xq), self.H), split_heads(self.W_K(Xkv), self.H), split_heads(self.W_V(Xkv), self.H)
        energy = torch.einsum("...qd,...kd->...qk", Q, K)
        if keep is not None:
            energy = energy.masked_fill(keep.unsqueeze(-3) == 0, float("-1e20"))
        A = torch.softmax(energy / (Xq.shape[-1] ** (1 / 2)), dim=-1)
        return self.W_O(merge_heads(A @ V))

# %% module_and_costs.MultiHead wrong double public: bare view for the split, and for the merge
# true: split_without_transpose; merge_without_transpose
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.W_Q = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_K = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_V = nn.Linear(d_model, H * d_v, bias=bias)
        self.W_O = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        *lead, n, _ = Xq.shape
        m = Xkv.shape[-2]
        Q = self.W_Q(Xq).reshape(*lead, self.H, n, -1)
        K = self.W_K(Xkv).reshape(*lead, self.H, m, -1)
        V = self.W_V(Xkv).reshape(*lead, self.H, m, -1)
        O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
        return self.W_O(O.reshape(*lead, n, -1))

# %% module_and_costs.MultiHead wrong single public: keys and queries share one layer
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        super().__init__()
        self.H = H
        self.W_Q = self.W_K = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_V = nn.Linear(d_model, H * d_v, bias=bias)
        self.W_O = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q = split_heads(self.W_Q(Xq), self.H)
        K = split_heads(self.W_K(Xkv), self.H)
        V = split_heads(self.W_V(Xkv), self.H)
        if keep is not None:
            keep = keep.unsqueeze(-3)
        O, _ = masked_sdpa(Q, K, V, keep)
        return self.W_O(merge_heads(O))

# %% module_and_costs.MultiHead wrong double public: dropout of 0.1 on the output, active in training mode; bias ignored in the output layer
# true: ~exact
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        super().__init__()
        self.H = H
        self.W_Q = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_K = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_V = nn.Linear(d_model, H * d_v, bias=bias)
        self.W_O = nn.Linear(H * d_v, d_model)
        self.dropout = nn.Dropout(0.1)

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = split_heads(self.W_Q(Xq), self.H), split_heads(self.W_K(Xkv), self.H), split_heads(self.W_V(Xkv), self.H)
        O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
        return self.dropout(self.W_O(merge_heads(O)))

# %% module_and_costs.MultiHead wrong double public: three axes only, W_V as wide as W_K
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        super().__init__()
        self.H, self.d_k = H, d_k
        self.W_Q = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_K = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_V = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_O = nn.Linear(H * d_k, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        B = Xq.size(0)
        Q, K, V = (
            layer(x).view(B, -1, self.H, self.d_k).transpose(1, 2)
            for layer, x in ((self.W_Q, Xq), (self.W_K, Xkv), (self.W_V, Xkv))
        )
        if keep is not None:
            keep = keep.unsqueeze(1)
        O, _ = masked_sdpa(Q, K, V, keep)
        return self.W_O(O.transpose(1, 2).contiguous().view(B, -1, self.H * self.d_k))

# %% module_and_costs.MultiHead wrong double: raw parameters of shape (d_in, d_out) instead of Linear layers
# true: ~exact
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        super().__init__()
        self.H = H
        self.W_Q = nn.Parameter(torch.randn(d_model, H * d_k) / math.sqrt(d_model))
        self.W_K = nn.Parameter(torch.randn(d_model, H * d_k) / math.sqrt(d_model))
        self.W_V = nn.Parameter(torch.randn(d_model, H * d_v) / math.sqrt(d_model))
        self.W_O = nn.Parameter(torch.randn(H * d_v, d_model) / math.sqrt(H * d_v))

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = split_heads(Xq @ self.W_Q, self.H), split_heads(Xkv @ self.W_K, self.H), split_heads(Xkv @ self.W_V, self.H)
        O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
        return merge_heads(O) @ self.W_O

# %% module_and_costs.MultiHead right: four layers, split, attend, merge
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.W_Q = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_K = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_V = nn.Linear(d_model, H * d_v, bias=bias)
        self.W_O = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q = split_heads(self.W_Q(Xq), self.H)
        K = split_heads(self.W_K(Xkv), self.H)
        V = split_heads(self.W_V(Xkv), self.H)
        if keep is not None:
            keep = keep.unsqueeze(-3)
        O, _ = masked_sdpa(Q, K, V, keep)
        return self.W_O(merge_heads(O))

# %% module_and_costs.MultiHead right public: self-written split, builtin attention
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.W_Q = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_K = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_V = nn.Linear(d_model, H * d_v, bias=bias)
        self.W_O = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        def heads(t):
            return t.unflatten(-1, (self.H, -1)).transpose(-3, -2)

        Q, K, V = heads(self.W_Q(Xq)), heads(self.W_K(Xkv)), heads(self.W_V(Xkv))
        m = None if keep is None else keep[..., None, :, :]
        O = nn.functional.scaled_dot_product_attention(Q, K, V, attn_mask=m)
        return self.W_O(O.transpose(-3, -2).flatten(-2))

# %% module_and_costs.MultiHead right public: loop over heads with slices, positional bias argument
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        nn.Module.__init__(self)
        self.H, self.dk, self.dv = H, d_k, d_v
        self.W_Q, self.W_K = nn.Linear(d_model, H * d_k, bias), nn.Linear(d_model, H * d_k, bias)
        self.W_V, self.W_O = nn.Linear(d_model, H * d_v, bias), nn.Linear(H * d_v, d_model, bias)

    def forward(self, Xq, Xkv, keep=None):
        q, k, v = self.W_Q(Xq), self.W_K(Xkv), self.W_V(Xkv)
        parts = [
            masked_sdpa(a, b, c, keep)[0]
            for a, b, c in zip(q.split(self.dk, -1), k.split(self.dk, -1), v.split(self.dv, -1))
        ]
        return self.W_O(torch.cat(parts, dim=-1))

# %% module_and_costs.MultiHead right public: einsum, by hand
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.W_Q = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_K = nn.Linear(d_model, H * d_k, bias=bias)
        self.W_V = nn.Linear(d_model, H * d_v, bias=bias)
        self.W_O = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        q = self.W_Q(Xq).unflatten(-1, (self.H, -1))
        k = self.W_K(Xkv).unflatten(-1, (self.H, -1))
        v = self.W_V(Xkv).unflatten(-1, (self.H, -1))
        s = torch.einsum("...ihd,...jhd->...hij", q, k) / q.shape[-1] ** 0.5
        if keep is None:
            a = s.softmax(-1)
        else:
            keep = keep.unsqueeze(-3)
            a = torch.where(keep, s, torch.finfo(s.dtype).min).softmax(-1) * keep
        return self.W_O(torch.einsum("...hij,...jhd->...ihd", a, v).flatten(-2))
