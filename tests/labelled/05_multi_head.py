# %% multi_head.mha wrong single: mask without a head axis: its batch axis meets the heads
# true: mask_on_head_axis
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, A = masked_sdpa(Q, K, V, keep)
    return merge_heads(O) @ W_O, A

# %% multi_head.mha wrong single public: bare reshape for the split
# true: split_without_transpose
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    *lead, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(*lead, H, n, -1) for W in (W_Q, W_K, W_V))
    if keep is not None:
        keep = keep.unsqueeze(-3)
    O, A = masked_sdpa(Q, K, V, keep)
    return merge_heads(O) @ W_O, A

# %% multi_head.mha wrong single public: bare reshape for the merge
# true: merge_without_transpose
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    *lead, n, _ = X.shape
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, A = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    return O.reshape(*lead, n, -1) @ W_O, A

# %% multi_head.mha wrong double public: bare reshape for the split and for the merge
# true: split_and_merge_without_transpose
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    *lead, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(*lead, H, n, -1) for W in (W_Q, W_K, W_V))
    O, A = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    return O.reshape(*lead, n, -1) @ W_O, A

# %% multi_head.mha wrong single public: scaled by the width of all heads together (H d_k), not d_k
# true: scaled_by_all_heads
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    S = Q @ K.mT / math.sqrt(W_Q.shape[1])
    if keep is not None:
        S = S.masked_fill(~keep.unsqueeze(-3), torch.finfo(S.dtype).min)
    A = torch.softmax(S, dim=-1)
    if keep is not None:
        A = A * keep.unsqueeze(-3)
    return merge_heads(A @ V) @ W_O, A

# %% multi_head.mha wrong double public: scaled by sqrt(d_model), -1e20 for hidden pairs
# true: scaled_by_sqrt_d_model; nothing_gives_the_mean
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    embed_size = X.shape[-1]
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    energy = torch.einsum("...qd,...kd->...qk", Q, K)
    if keep is not None:
        energy = energy.masked_fill(keep.unsqueeze(-3) == 0, float("-1e20"))
    attention = torch.softmax(energy / (embed_size ** (1 / 2)), dim=-1)
    return merge_heads(attention @ V) @ W_O, attention

# %% multi_head.mha wrong single public: weights averaged over the heads
# true: weights_averaged_over_heads
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, A = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    return merge_heads(O) @ W_O, A.mean(dim=-3)

# %% multi_head.mha wrong single public: output matrix forgotten
# true: slip.lost.product(W_O)
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, A = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    return merge_heads(O), A

# %% multi_head.mha wrong single: one wide head: H only shows in the shape of the weights
# true: one_wide_head
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    O, A = masked_sdpa(X @ W_Q, X @ W_K, X @ W_V, keep)
    return O @ W_O, A.unsqueeze(-3).expand(*A.shape[:-2], H, *A.shape[-2:])

# %% multi_head.mha wrong single public: mask given a head axis for exactly one batch axis (keep[:, None])
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    if keep is not None:
        keep = keep[:, None]
    O, A = masked_sdpa(Q, K, V, keep)
    return merge_heads(O) @ W_O, A

# %% multi_head.mha wrong double: inverted mask, and no projection at the end
# true: slip.lost.product(W_O); mask_inverted
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    if keep is not None:
        keep = ~keep.unsqueeze(-3)
    O, A = masked_sdpa(Q, K, V, keep)
    return merge_heads(O), A

# %% multi_head.mha wrong single public: values split as wide as the keys (assumes d_v == d_k)
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    d = W_Q.shape[1] // H
    *lead, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(*lead, n, H, d).transpose(-3, -2) for W in (W_Q, W_K, W_V))
    O, A = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    return merge_heads(O) @ W_O, A

# %% multi_head.mha wrong single public: head by head with slices of width d_model // H (assumes H d_k == d_model)
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    d = X.shape[-1] // H
    outs, weights = [], []
    for h in range(H):
        c = slice(h * d, (h + 1) * d)
        o, a = masked_sdpa(X @ W_Q[:, c], X @ W_K[:, c], X @ W_V[:, c], keep)
        outs.append(o)
        weights.append(a)
    return torch.cat(outs, dim=-1) @ W_O, torch.stack(weights, dim=-3)

# %% multi_head.mha wrong single: mask ignored
# true: mask_ignored
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, A = masked_sdpa(Q, K, V)
    return merge_heads(O) @ W_O, A

# %% multi_head.mha wrong double public: X is split before the projections' shared use: heads see only their slice of the features (mask ignored)
# true: split_before_projection; slip.input.all_true(keep)
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    d = X.shape[-1] // H
    k, v = W_Q.shape[1] // H, W_V.shape[1] // H
    outs, weights = [], []
    for h in range(H):
        x = X[..., h * d : (h + 1) * d]
        rows = slice(h * d, (h + 1) * d)
        o, a = masked_sdpa(
            x @ W_Q[rows, h * k : (h + 1) * k], x @ W_K[rows, h * k : (h + 1) * k], x @ W_V[rows, h * v : (h + 1) * v]
        )
        outs.append(o)
        weights.append(a)
    return torch.cat(outs, dim=-1) @ W_O, torch.stack(weights, dim=-3)

# %% multi_head.mha wrong double: the pair is swapped, weights averaged
# true: weights_averaged_over_heads; slip.returned.reversed()
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    O, A = masked_sdpa(Q, K, V, None if keep is None else keep.unsqueeze(-3))
    return A.mean(-3), merge_heads(O) @ W_O

# %% multi_head.mha right: split, attend, merge, project
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    Q, K, V = split_heads(X @ W_Q, H), split_heads(X @ W_K, H), split_heads(X @ W_V, H)
    if keep is not None:
        keep = keep.unsqueeze(-3)
    O, A = masked_sdpa(Q, K, V, keep)
    return merge_heads(O) @ W_O, A

# %% multi_head.mha right public: loop over heads, cat
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    k, v = W_Q.shape[1] // H, W_V.shape[1] // H
    outs, weights = [], []
    for h in range(H):
        q_cols, v_cols = slice(h * k, (h + 1) * k), slice(h * v, (h + 1) * v)
        o, a = masked_sdpa(X @ W_Q[:, q_cols], X @ W_K[:, q_cols], X @ W_V[:, v_cols], keep)
        outs.append(o)
        weights.append(a)
    return torch.cat(outs, dim=-1) @ W_O, torch.stack(weights, dim=-3)

# %% multi_head.mha right: einsum with three-axis weights
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    q = torch.einsum("...id,dhk->...hik", X, W_Q.unflatten(1, (H, -1)))
    k = torch.einsum("...id,dhk->...hik", X, W_K.unflatten(1, (H, -1)))
    v = torch.einsum("...id,dhv->...hiv", X, W_V.unflatten(1, (H, -1)))
    s = torch.einsum("...hik,...hjk->...hij", q, k) * q.shape[-1] ** -0.5
    if keep is not None:
        m = keep.unsqueeze(-3)
        a = s.masked_fill(~m, torch.finfo(s.dtype).min).softmax(-1) * m
    else:
        a = s.softmax(-1)
    o = torch.einsum("...hij,...hjv->...hiv", a, v)
    return torch.einsum("...hiv,hvd->...id", o, W_O.unflatten(0, (H, -1))), a

# %% multi_head.mha right: builtin for the output, weights by hand
from torch import nn

def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    m = None if keep is None else keep[..., None, :, :]
    O = nn.functional.scaled_dot_product_attention(Q, K, V, attn_mask=m)
    _, A = masked_sdpa(Q, K, V, m)
    return merge_heads(O) @ W_O, A

# %% multi_head.mha right: sum over heads through blocks of W_O
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    k, v = W_Q.shape[1] // H, W_V.shape[1] // H
    Y, weights = 0.0, []
    for h in range(H):
        q_cols, v_cols = slice(h * k, (h + 1) * k), slice(h * v, (h + 1) * v)
        o, a = masked_sdpa(X @ W_Q[:, q_cols], X @ W_K[:, q_cols], X @ W_V[:, v_cols], keep)
        Y = Y + o @ W_O[v_cols]
        weights.append(a)
    return Y, torch.stack(weights, dim=-3)

# %% multi_head.mha wrong double: bare reshape split, mask without head axis
# true: split_without_transpose; mask_on_head_axis
def mha(X, W_Q, W_K, W_V, W_O, H, keep=None):
    *lead, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(*lead, H, n, -1) for W in (W_Q, W_K, W_V))
    O, A = masked_sdpa(Q, K, V, keep)
    return merge_heads(O) @ W_O, A
