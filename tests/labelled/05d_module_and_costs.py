# %% module_and_costs.mha_as_sum wrong single public: the bias is added in every head: H times
# true: h_biases
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (Wq, Wk, Wv))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    d = Wv.shape[1] // H
    C = torch.stack([O[..., h, :, :] @ Wo[h * d : (h + 1) * d] + bo for h in range(H)], dim=-3)
    return C.sum(-3), C

# %% module_and_costs.mha_as_sum wrong single: no bias
# true: slip.lost.summand(bo)
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (Wq, Wk, Wv))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    C = O @ Wo.unflatten(0, (H, -1))
    return C.sum(-3), C

# %% module_and_costs.mha_as_sum wrong single: the bias is shared out: b/H in every summand
# true: bias_in_the_summands
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (Wq, Wk, Wv))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    C = O @ Wo.unflatten(0, (H, -1)) + bo / H
    return C.sum(-3), C

# %% module_and_costs.mha_as_sum wrong single: rows of Wo dealt like cards: every H-th row
# true: rows_interleaved
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (Wq, Wk, Wv))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    C = torch.stack([O[..., h, :, :] @ Wo[h::H] for h in range(H)], dim=-3)
    return C.sum(-3) + bo, C

# %% module_and_costs.mha_as_sum wrong single: head outputs before Wo returned as the summands
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (Wq, Wk, Wv))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    return merge_heads(O) @ Wo + bo, O

# %% module_and_costs.mha_as_sum wrong single public: the heads' axis stands in front of the batch
# true: summands_stacked_in_front
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    d, v = Wq.shape[1] // H, Wv.shape[1] // H
    C = []
    for h in range(H):
        q, k = X @ Wq[:, h * d : (h + 1) * d], X @ Wk[:, h * d : (h + 1) * d]
        o, _ = masked_sdpa(q, k, X @ Wv[:, h * v : (h + 1) * v], keep)
        C.append(o @ Wo[h * v : (h + 1) * v])
    C = torch.stack(C)
    return C.sum(0) + bo, C

# %% module_and_costs.mha_as_sum wrong double: bias in every head, and averaged instead of summed
# true: h_biases; heads_averaged
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (Wq, Wk, Wv))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    C = O @ Wo.unflatten(0, (H, -1)) + bo
    return C.mean(-3), C

# %% module_and_costs.mha_as_sum wrong single public: columns of Wo instead of rows (fits only where H d_v == d_model)
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (Wq, Wk, Wv))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    d = Wv.shape[1] // H
    C = torch.stack([O[..., h, :, :] @ Wo[:, h * d : (h + 1) * d].T for h in range(H)], dim=-3)
    return C.sum(-3) + bo, C

# %% module_and_costs.mha_as_sum wrong double: scaled by the full width, no bias
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (Wq, Wk, Wv))
    A = torch.softmax(Q @ K.mT / math.sqrt(Wq.shape[1]), dim=-1)
    C = (A @ V) @ Wo.unflatten(0, (H, -1))
    return C.sum(-3), C

# %% module_and_costs.mha_as_sum wrong double: head axis in front, bias in every head
# true: h_biases; summands_stacked_in_front
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    d, v = Wq.shape[1] // H, Wv.shape[1] // H
    C = []
    for h in range(H):
        q, k = X @ Wq[:, h * d : (h + 1) * d], X @ Wk[:, h * d : (h + 1) * d]
        o, _ = masked_sdpa(q, k, X @ Wv[:, h * v : (h + 1) * v], keep)
        C.append(o @ Wo[h * v : (h + 1) * v] + bo)
    C = torch.stack(C)
    return C.sum(0), C

# %% module_and_costs.mha_as_sum wrong single public: bare reshape for the split
# true: slip.call.reshaped(X.transpose(-3, -2))
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    *lead, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(*lead, H, n, -1) for W in (Wq, Wk, Wv))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    C = O @ Wo.unflatten(0, (H, -1))
    return C.sum(-3) + bo, C

# %% module_and_costs.mha_as_sum wrong single: every head uses the whole Wo's first block
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (Wq, Wk, Wv))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    C = O @ Wo[: Wv.shape[1] // H]
    return C.sum(-3) + bo, C

# %% module_and_costs.mha_as_sum right: unflatten Wo
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (Wq, Wk, Wv))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    C = O @ Wo.unflatten(0, (H, -1))
    return C.sum(dim=-3) + bo, C

# %% module_and_costs.mha_as_sum right: loop
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    d, v = Wq.shape[1] // H, Wv.shape[1] // H
    C = []
    for h in range(H):
        cols, vals = slice(h * d, (h + 1) * d), slice(h * v, (h + 1) * v)
        o, _ = masked_sdpa(X @ Wq[:, cols], X @ Wk[:, cols], X @ Wv[:, vals], keep)
        C.append(o @ Wo[vals, :])
    return sum(C) + bo, torch.stack(C, dim=-3)

# %% module_and_costs.mha_as_sum wrong single: ignores the mask
# true: mask_ignored
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    q, k, v = (torch.einsum("...id,dha->...hia", X, W.unflatten(1, (H, -1))) for W in (Wq, Wk, Wv))
    A = torch.softmax(torch.einsum("...hia,...hja->...hij", q, k) / math.sqrt(q.shape[-1]), -1)
    C = torch.einsum("...hij,...hja,had->...hid", A, v, Wo.unflatten(0, (H, -1)))
    return torch.einsum("...hid->...id", C) + bo, C

# %% module_and_costs.mha_as_sum right: concatenation for Y, blocks for C
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (Wq, Wk, Wv))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    blocks = torch.stack(Wo.chunk(H, dim=0))
    return torch.addmm(bo, merge_heads(O).reshape(-1, Wo.shape[0]), Wo).reshape(*X.shape[:-1], -1), O @ blocks

# %% module_and_costs.mha_as_sum wrong double: b/H in every summand, rows of Wo dealt like cards
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (Wq, Wk, Wv))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    C = torch.stack([O[..., h, :, :] @ Wo[h::H] for h in range(H)], dim=-3) + bo / H
    return C.sum(-3), C

# %% module_and_costs.mha_as_sum wrong double: summands before Wo, no bias
def mha_as_sum(X, Wq, Wk, Wv, Wo, bo, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (Wq, Wk, Wv))
    O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    return merge_heads(O) @ Wo, O

# %% module_and_costs.MultiHead wrong single: no super().__init__()
# true: missing_super
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        self.H = H
        self.WQ = nn.Linear(d_model, H * d_k, bias=bias)
        self.WK = nn.Linear(d_model, H * d_k, bias=bias)
        self.WV = nn.Linear(d_model, H * d_v, bias=bias)
        self.WO = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q = split_heads(self.WQ(Xq), self.H)
        K = split_heads(self.WK(Xkv), self.H)
        V = split_heads(self.WV(Xkv), self.H)
        if keep is not None:
            keep = keep.unsqueeze(-3)
        O, _ = masked_sdpa(Q, K, V, keep)
        return self.WO(merge_heads(O))

# %% module_and_costs.MultiHead wrong single public: d_k and d_v ignored: d_model // H, one width for all
# true: ~exact
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        super().__init__()
        self.H, self.d_k = H, d_model // H
        self.WQ = nn.Linear(d_model, d_model, bias=bias)
        self.WK = nn.Linear(d_model, d_model, bias=bias)
        self.WV = nn.Linear(d_model, d_model, bias=bias)
        self.WO = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q = split_heads(self.WQ(Xq), self.H)
        K = split_heads(self.WK(Xkv), self.H)
        V = split_heads(self.WV(Xkv), self.H)
        if keep is not None:
            keep = keep.unsqueeze(-3)
        O, _ = masked_sdpa(Q, K, V, keep)
        return self.WO(merge_heads(O))

# %% module_and_costs.MultiHead wrong single: bias argument ignored: always with a bias
# true: ~exact
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        super().__init__()
        self.H = H
        self.WQ = nn.Linear(d_model, H * d_k)
        self.WK = nn.Linear(d_model, H * d_k)
        self.WV = nn.Linear(d_model, H * d_v)
        self.WO = nn.Linear(H * d_v, d_model)

    def forward(self, Xq, Xkv, keep=None):
        Q = split_heads(self.WQ(Xq), self.H)
        K = split_heads(self.WK(Xkv), self.H)
        V = split_heads(self.WV(Xkv), self.H)
        if keep is not None:
            keep = keep.unsqueeze(-3)
        O, _ = masked_sdpa(Q, K, V, keep)
        return self.WO(merge_heads(O))

# %% module_and_costs.MultiHead wrong single public: no bias in Q, K, V whatever is asked; one in the output
# true: ~exact
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        super().__init__()
        self.H = H
        self.WQ = nn.Linear(d_model, H * d_k, bias=False)
        self.WK = nn.Linear(d_model, H * d_k, bias=False)
        self.WV = nn.Linear(d_model, H * d_v, bias=False)
        self.WO = nn.Linear(H * d_v, d_model)

    def forward(self, Xq, Xkv, keep=None):
        Q = split_heads(self.WQ(Xq), self.H)
        K = split_heads(self.WK(Xkv), self.H)
        V = split_heads(self.WV(Xkv), self.H)
        if keep is not None:
            keep = keep.unsqueeze(-3)
        O, _ = masked_sdpa(Q, K, V, keep)
        return self.WO(merge_heads(O))

# %% module_and_costs.MultiHead wrong single: keys and values from the asking sequence
# true: self_attention_only
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.WQ = nn.Linear(d_model, H * d_k, bias=bias)
        self.WK = nn.Linear(d_model, H * d_k, bias=bias)
        self.WV = nn.Linear(d_model, H * d_v, bias=bias)
        self.WO = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = (split_heads(W(Xq), self.H) for W in (self.WQ, self.WK, self.WV))
        O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
        return self.WO(merge_heads(O))

# %% module_and_costs.MultiHead wrong single: mask without a head axis
# true: mask_without_head_axis
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.WQ = nn.Linear(d_model, H * d_k, bias=bias)
        self.WK = nn.Linear(d_model, H * d_k, bias=bias)
        self.WV = nn.Linear(d_model, H * d_v, bias=bias)
        self.WO = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = split_heads(self.WQ(Xq), self.H), split_heads(self.WK(Xkv), self.H), split_heads(self.WV(Xkv), self.H)
        O, _ = masked_sdpa(Q, K, V, keep)
        return self.WO(merge_heads(O))

# %% module_and_costs.MultiHead wrong single: mask accepted and ignored
# true: mask_ignored
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.WQ = nn.Linear(d_model, H * d_k, bias=bias)
        self.WK = nn.Linear(d_model, H * d_k, bias=bias)
        self.WV = nn.Linear(d_model, H * d_v, bias=bias)
        self.WO = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = split_heads(self.WQ(Xq), self.H), split_heads(self.WK(Xkv), self.H), split_heads(self.WV(Xkv), self.H)
        O, _ = masked_sdpa(Q, K, V)
        return self.WO(merge_heads(O))

# %% module_and_costs.MultiHead wrong single public: returns (output, weights)
# true: ~mended
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.WQ = nn.Linear(d_model, H * d_k, bias=bias)
        self.WK = nn.Linear(d_model, H * d_k, bias=bias)
        self.WV = nn.Linear(d_model, H * d_v, bias=bias)
        self.WO = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = split_heads(self.WQ(Xq), self.H), split_heads(self.WK(Xkv), self.H), split_heads(self.WV(Xkv), self.H)
        O, A = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
        return self.WO(merge_heads(O)), A

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
        self.WQ = nn.Linear(d_model, H * d_k, bias=bias)
        self.WK = nn.Linear(d_model, H * d_k, bias=bias)
        self.WV = nn.Linear(d_model, H * d_v, bias=bias)
        self.WO = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = split_heads(self.WQ(Xq), self.H), split_heads(self.WK(Xkv), self.H), split_heads(self.WV(Xkv), self.H)
        energy = torch.einsum("...qd,...kd->...qk", Q, K)
        if keep is not None:
            energy = energy.masked_fill(keep.unsqueeze(-3) == 0, float("-1e20"))
        A = torch.softmax(energy / (Xq.shape[-1] ** (1 / 2)), dim=-1)
        return self.WO(merge_heads(A @ V))

# %% module_and_costs.MultiHead wrong double public: bare view for the split, and for the merge
# true: split_without_transpose; merge_without_transpose
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.WQ = nn.Linear(d_model, H * d_k, bias=bias)
        self.WK = nn.Linear(d_model, H * d_k, bias=bias)
        self.WV = nn.Linear(d_model, H * d_v, bias=bias)
        self.WO = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        *lead, n, _ = Xq.shape
        m = Xkv.shape[-2]
        Q = self.WQ(Xq).reshape(*lead, self.H, n, -1)
        K = self.WK(Xkv).reshape(*lead, self.H, m, -1)
        V = self.WV(Xkv).reshape(*lead, self.H, m, -1)
        O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
        return self.WO(O.reshape(*lead, n, -1))

# %% module_and_costs.MultiHead wrong single public: keys and queries share one layer
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        super().__init__()
        self.H = H
        self.WQ = self.WK = nn.Linear(d_model, H * d_k, bias=bias)
        self.WV = nn.Linear(d_model, H * d_v, bias=bias)
        self.WO = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q = split_heads(self.WQ(Xq), self.H)
        K = split_heads(self.WK(Xkv), self.H)
        V = split_heads(self.WV(Xkv), self.H)
        if keep is not None:
            keep = keep.unsqueeze(-3)
        O, _ = masked_sdpa(Q, K, V, keep)
        return self.WO(merge_heads(O))

# %% module_and_costs.MultiHead wrong double public: dropout of 0.1 on the output, active in training mode; bias ignored in the output layer
# true: ~exact
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        super().__init__()
        self.H = H
        self.WQ = nn.Linear(d_model, H * d_k, bias=bias)
        self.WK = nn.Linear(d_model, H * d_k, bias=bias)
        self.WV = nn.Linear(d_model, H * d_v, bias=bias)
        self.WO = nn.Linear(H * d_v, d_model)
        self.dropout = nn.Dropout(0.1)

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = split_heads(self.WQ(Xq), self.H), split_heads(self.WK(Xkv), self.H), split_heads(self.WV(Xkv), self.H)
        O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
        return self.dropout(self.WO(merge_heads(O)))

# %% module_and_costs.MultiHead wrong double public: three axes only, WV as wide as WK
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        super().__init__()
        self.H, self.d_k = H, d_k
        self.WQ = nn.Linear(d_model, H * d_k, bias=bias)
        self.WK = nn.Linear(d_model, H * d_k, bias=bias)
        self.WV = nn.Linear(d_model, H * d_k, bias=bias)
        self.WO = nn.Linear(H * d_k, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        B = Xq.size(0)
        Q, K, V = (
            layer(x).view(B, -1, self.H, self.d_k).transpose(1, 2)
            for layer, x in ((self.WQ, Xq), (self.WK, Xkv), (self.WV, Xkv))
        )
        if keep is not None:
            keep = keep.unsqueeze(1)
        O, _ = masked_sdpa(Q, K, V, keep)
        return self.WO(O.transpose(1, 2).contiguous().view(B, -1, self.H * self.d_k))

# %% module_and_costs.MultiHead wrong double: raw parameters of shape (d_in, d_out) instead of Linear layers
# true: ~exact
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        super().__init__()
        self.H = H
        self.WQ = nn.Parameter(torch.randn(d_model, H * d_k) / math.sqrt(d_model))
        self.WK = nn.Parameter(torch.randn(d_model, H * d_k) / math.sqrt(d_model))
        self.WV = nn.Parameter(torch.randn(d_model, H * d_v) / math.sqrt(d_model))
        self.WO = nn.Parameter(torch.randn(H * d_v, d_model) / math.sqrt(H * d_v))

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = split_heads(Xq @ self.WQ, self.H), split_heads(Xkv @ self.WK, self.H), split_heads(Xkv @ self.WV, self.H)
        O, _ = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
        return merge_heads(O) @ self.WO

# %% module_and_costs.MultiHead right: four layers, split, attend, merge
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.WQ = nn.Linear(d_model, H * d_k, bias=bias)
        self.WK = nn.Linear(d_model, H * d_k, bias=bias)
        self.WV = nn.Linear(d_model, H * d_v, bias=bias)
        self.WO = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        Q = split_heads(self.WQ(Xq), self.H)
        K = split_heads(self.WK(Xkv), self.H)
        V = split_heads(self.WV(Xkv), self.H)
        if keep is not None:
            keep = keep.unsqueeze(-3)
        O, _ = masked_sdpa(Q, K, V, keep)
        return self.WO(merge_heads(O))

# %% module_and_costs.MultiHead right public: self-written split, builtin attention
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.WQ = nn.Linear(d_model, H * d_k, bias=bias)
        self.WK = nn.Linear(d_model, H * d_k, bias=bias)
        self.WV = nn.Linear(d_model, H * d_v, bias=bias)
        self.WO = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        def heads(t):
            return t.unflatten(-1, (self.H, -1)).transpose(-3, -2)

        Q, K, V = heads(self.WQ(Xq)), heads(self.WK(Xkv)), heads(self.WV(Xkv))
        m = None if keep is None else keep[..., None, :, :]
        O = nn.functional.scaled_dot_product_attention(Q, K, V, attn_mask=m)
        return self.WO(O.transpose(-3, -2).flatten(-2))

# %% module_and_costs.MultiHead right public: loop over heads with slices, positional bias argument
class MultiHead(nn.Module):
    def __init__(self, d_model, H, d_k, d_v, bias=True):
        nn.Module.__init__(self)
        self.H, self.dk, self.dv = H, d_k, d_v
        self.WQ, self.WK = nn.Linear(d_model, H * d_k, bias), nn.Linear(d_model, H * d_k, bias)
        self.WV, self.WO = nn.Linear(d_model, H * d_v, bias), nn.Linear(H * d_v, d_model, bias)

    def forward(self, Xq, Xkv, keep=None):
        q, k, v = self.WQ(Xq), self.WK(Xkv), self.WV(Xkv)
        parts = [
            masked_sdpa(a, b, c, keep)[0]
            for a, b, c in zip(q.split(self.dk, -1), k.split(self.dk, -1), v.split(self.dv, -1))
        ]
        return self.WO(torch.cat(parts, dim=-1))

# %% module_and_costs.MultiHead right public: einsum, by hand
class MultiHead(nn.Module):
    def __init__(self, d_model: int, H: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        self.H = H
        self.WQ = nn.Linear(d_model, H * d_k, bias=bias)
        self.WK = nn.Linear(d_model, H * d_k, bias=bias)
        self.WV = nn.Linear(d_model, H * d_v, bias=bias)
        self.WO = nn.Linear(H * d_v, d_model, bias=bias)

    def forward(self, Xq, Xkv, keep=None):
        q = self.WQ(Xq).unflatten(-1, (self.H, -1))
        k = self.WK(Xkv).unflatten(-1, (self.H, -1))
        v = self.WV(Xkv).unflatten(-1, (self.H, -1))
        s = torch.einsum("...ihd,...jhd->...hij", q, k) / q.shape[-1] ** 0.5
        if keep is None:
            a = s.softmax(-1)
        else:
            keep = keep.unsqueeze(-3)
            a = torch.where(keep, s, torch.finfo(s.dtype).min).softmax(-1) * keep
        return self.WO(torch.einsum("...hij,...jhd->...ihd", a, v).flatten(-2))
