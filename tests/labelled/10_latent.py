# %% latent.mla_naive wrong single: divides by the root of the latent's width d_c instead of d
# true: scaled_by_latent
def mla_naive(X, W_Q, W_DKV, W_UK, W_UV, W_O):
    C = X @ W_DKV
    c = C.unsqueeze(-3)
    Q, K, V = X.unsqueeze(-3) @ W_Q, c @ W_UK, c @ W_UV
    A = causal_weights(Q @ K.mT / math.sqrt(C.shape[-1]))
    return (A @ V @ W_O).sum(-3), C

# %% latent.mla_naive wrong single: forgets the causal mask
# true: not_causal
def mla_naive(X, W_Q, W_DKV, W_UK, W_UV, W_O):
    C = X @ W_DKV
    Q = torch.einsum("...ne,hed->...hnd", X, W_Q)
    K = torch.einsum("...nc,hcd->...hnd", C, W_UK)
    V = torch.einsum("...nc,hcd->...hnd", C, W_UV)
    A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    return torch.einsum("...hnv,hve->...ne", A @ V, W_O), C

# %% latent.mla_naive wrong single: returns each head's output without the sum over heads
def mla_naive(X, W_Q, W_DKV, W_UK, W_UV, W_O):
    C = X @ W_DKV
    c = C.unsqueeze(-3)
    Q, K, V = X.unsqueeze(-3) @ W_Q, c @ W_UK, c @ W_UV
    A = causal_weights(Q @ K.mT / math.sqrt(Q.shape[-1]))
    return A @ V @ W_O, C

# %% latent.mla_naive wrong single: no head axis for the tokens: right for one sequence, wrong or an error for a batch
def mla_naive(X, W_Q, W_DKV, W_UK, W_UV, W_O):
    C = X @ W_DKV
    Q, K, V = X @ W_Q, C @ W_UK, C @ W_UV
    A = causal_weights(Q @ K.mT / math.sqrt(Q.shape[-1]))
    return (A @ V @ W_O).sum(-3), C

# %% latent.mla_naive wrong double: averages over heads instead of summing, and scales by the root of d_v
# true: ~mended; heads_averaged
def mla_naive(X, W_Q, W_DKV, W_UK, W_UV, W_O):
    C = X @ W_DKV
    Q, K, V = X[..., None, :, :] @ W_Q, C[..., None, :, :] @ W_UK, C[..., None, :, :] @ W_UV
    A = causal_weights(Q @ K.transpose(-1, -2) / math.sqrt(V.shape[-1]))
    return (A @ V @ W_O).mean(dim=-3), C

# %% latent.mla_naive wrong double public: multiplies by the root of d instead of dividing, and has no mask
def mla_naive(X, W_Q, W_DKV, W_UK, W_UV, W_O):
    C = X @ W_DKV
    Q, K, V = X.unsqueeze(-3) @ W_Q, C.unsqueeze(-3) @ W_UK, C.unsqueeze(-3) @ W_UV
    softmax_scale = Q.shape[-1] ** 0.5
    A = torch.softmax(Q @ K.mT * softmax_scale, dim=-1)
    return (A @ V @ W_O).sum(-3), C

# %% latent.mla_naive wrong single: returns the keys instead of the latents
# true: cached_keys
def mla_naive(X, W_Q, W_DKV, W_UK, W_UV, W_O):
    C = X @ W_DKV
    Q, K, V = X.unsqueeze(-3) @ W_Q, C.unsqueeze(-3) @ W_UK, C.unsqueeze(-3) @ W_UV
    A = causal_weights(Q @ K.mT / math.sqrt(Q.shape[-1]))
    return (A @ V @ W_O).sum(-3), K

# %% latent.mla_naive wrong single: makes the queries from the latent too (absorbing W_UK twice): asks with C W_UK W_UK^T
def mla_naive(X, W_Q, W_DKV, W_UK, W_UV, W_O):
    C = X @ W_DKV
    c = C.unsqueeze(-3)
    K, V = c @ W_UK, c @ W_UV
    A = causal_weights(K @ K.mT / math.sqrt(K.shape[-1]))
    return (A @ V @ W_O).sum(-3), C

# %% latent.mla_naive right: matmul with a head axis
def mla_naive(X, W_Q, W_DKV, W_UK, W_UV, W_O):
    C = X @ W_DKV
    c = C.unsqueeze(-3)
    Q, K, V = X.unsqueeze(-3) @ W_Q, c @ W_UK, c @ W_UV
    A = causal_weights(Q @ K.mT / math.sqrt(Q.shape[-1]))
    return (A @ V @ W_O).sum(-3), C

# %% latent.mla_naive right: loop over heads
def mla_naive(X, W_Q, W_DKV, W_UK, W_UV, W_O):
    C = X @ W_DKV
    Y = torch.zeros_like(X)
    for h in range(len(W_Q)):
        q, k, v = X @ W_Q[h], C @ W_UK[h], C @ W_UV[h]
        Y = Y + causal_weights(q @ k.mT / math.sqrt(W_Q.shape[-1])) @ v @ W_O[h]
    return Y, C

# %% latent.mla_naive right: F.scaled_dot_product_attention
import torch.nn.functional as F

def mla_naive(X, W_Q, W_DKV, W_UK, W_UV, W_O):
    C = X @ W_DKV
    Q = torch.einsum("...ne,hed->...hnd", X, W_Q)
    K = torch.einsum("...nc,hcd->...hnd", C, W_UK)
    V = torch.einsum("...nc,hcv->...hnv", C, W_UV)
    O = F.scaled_dot_product_attention(Q, K, V, is_causal=True)
    return torch.einsum("...hnv,hve->...ne", O, W_O), C

# %% latent.mla_naive right: heads flattened side by side, one output matrix, float64 inside
def mla_naive(X, W_Q, W_DKV, W_UK, W_UV, W_O):
    C = X @ W_DKV
    H, _, d = W_Q.shape
    x, c = X.double().unsqueeze(-3), C.double().unsqueeze(-3)
    q, k, v = x @ W_Q.double(), c @ W_UK.double(), c @ W_UV.double()
    n = X.shape[-2]
    s = q @ k.mT / d**0.5 + torch.full((n, n), -torch.inf, dtype=torch.float64).triu(1)
    o = (s.softmax(-1) @ v).transpose(-3, -2).flatten(-2)
    return (o @ W_O.double().flatten(0, 1)).to(X.dtype), C

# %% latent.mla_naive wrong double: scales by the root of d_c, and returns the keys instead of the latents
# true: cached_keys; scaled_by_latent
def mla_naive(X, W_Q, W_DKV, W_UK, W_UV, W_O):
    C = X @ W_DKV
    Q, K, V = X.unsqueeze(-3) @ W_Q, C.unsqueeze(-3) @ W_UK, C.unsqueeze(-3) @ W_UV
    A = causal_weights(Q @ K.mT / math.sqrt(C.shape[-1]))
    return (A @ V @ W_O).sum(-3), K

# %% latent.gqa_as_mla wrong single: picks group h mod G
# true: group_by_remainder
def gqa_as_mla(W_K, W_V, H):
    G, d_model, d = W_K.shape
    d_v = W_V.shape[-1]
    W_DKV = torch.cat([*W_K, *W_V], dim=-1)
    W_UK = W_K.new_zeros(H, G * (d + d_v), d)
    W_UV = W_K.new_zeros(H, G * (d + d_v), d_v)
    for h in range(H):
        g = h % G
        W_UK[h, g * d:(g + 1) * d] = torch.eye(d)
        W_UV[h, G * d + g * d_v : G * d + (g + 1) * d_v] = torch.eye(d_v)
    return W_DKV, W_UK, W_UV

# %% latent.gqa_as_mla right: lays the latent out group by group, [K0 | V0 | K1 | V1]
def gqa_as_mla(W_K, W_V, H):
    G, d_model, d = W_K.shape
    d_v = W_V.shape[-1]
    W_DKV = torch.cat([torch.cat([k, v], dim=1) for k, v in zip(W_K, W_V)], dim=1)
    W_UK = W_K.new_zeros(H, G * (d + d_v), d)
    W_UV = W_K.new_zeros(H, G * (d + d_v), d_v)
    for h in range(H):
        start = (h // (H // G)) * (d + d_v)
        W_UK[h, start : start + d] = torch.eye(d)
        W_UV[h, start + d : start + d + d_v] = torch.eye(d_v)
    return W_DKV, W_UK, W_UV

# %% latent.gqa_as_mla wrong single: reshapes (group, d_model, d) to (d_model, G d) without moving the group axis
# true: reshaped
def gqa_as_mla(W_K, W_V, H):
    G, d_model, d = W_K.shape
    d_v = W_V.shape[-1]
    W_DKV = torch.cat([W_K.reshape(d_model, G * d), W_V.reshape(d_model, G * d_v)], dim=1)
    W_UK = W_K.new_zeros(H, G * (d + d_v), d)
    W_UV = W_K.new_zeros(H, G * (d + d_v), d_v)
    for h in range(H):
        g = h // (H // G)
        W_UK[h, g * d:(g + 1) * d] = torch.eye(d)
        W_UV[h, G * d + g * d_v : G * d + (g + 1) * d_v] = torch.eye(d_v)
    return W_DKV, W_UK, W_UV

# %% latent.gqa_as_mla wrong single: W_UV picks from the keys' columns: the offset G d is missing
# true: values_from_the_keys
def gqa_as_mla(W_K, W_V, H):
    G, _, d = W_K.shape
    d_v = W_V.shape[-1]
    W_DKV = torch.cat([*W_K, *W_V], dim=1)
    W_UK = W_K.new_zeros(H, W_DKV.shape[1], d)
    W_UV = W_K.new_zeros(H, W_DKV.shape[1], d_v)
    for h in range(H):
        g = h * G // H
        W_UK[h, g * d:(g + 1) * d] = torch.eye(d)
        W_UV[h, g * d_v:(g + 1) * d_v] = torch.eye(d_v)
    return W_DKV, W_UK, W_UV

# %% latent.gqa_as_mla wrong single: h mod G; the latent laid out group by group
# true: group_by_remainder
def gqa_as_mla(W_K, W_V, H):
    G, _, d = W_K.shape
    d_v = W_V.shape[-1]
    W_DKV = torch.cat([W_K, W_V], dim=-1).transpose(0, 1).flatten(1)
    I = torch.eye(G * (d + d_v), dtype=W_K.dtype).view(-1, G, d + d_v)
    picks = I[:, [h % G for h in range(H)]].transpose(0, 1)
    return W_DKV, picks[..., :d], picks[..., d:]

# %% latent.gqa_as_mla wrong double: pickers hold 1/r instead of 1, and are float32 whatever the weights are
# true: ~mended
def gqa_as_mla(W_K, W_V, H):
    G, _, d = W_K.shape
    d_v, r = W_V.shape[-1], H // W_K.shape[0]
    W_DKV = torch.cat([*W_K, *W_V], dim=1)
    W_UK, W_UV = torch.zeros(H, W_DKV.shape[1], d), torch.zeros(H, W_DKV.shape[1], d_v)
    for h in range(H):
        g = h // r
        W_UK[h, g * d:(g + 1) * d] = torch.eye(d) / r
        W_UV[h, G * d + g * d_v : G * d + (g + 1) * d_v] = torch.eye(d_v) / r
    return W_DKV, W_UK, W_UV

# %% latent.gqa_as_mla wrong single: returns one picker per group instead of one per head
def gqa_as_mla(W_K, W_V, H):
    G, _, d = W_K.shape
    d_v = W_V.shape[-1]
    W_DKV = torch.cat([*W_K, *W_V], dim=1)
    eye = torch.eye(W_DKV.shape[1], dtype=W_K.dtype)
    W_UK = torch.stack(eye[:, : G * d].split(d, dim=1))
    W_UV = torch.stack(eye[:, G * d :].split(d_v, dim=1))
    return W_DKV, W_UK, W_UV

# %% latent.gqa_as_mla wrong single: pickers are float32 even where the weights are float64
# true: ~mended
def gqa_as_mla(W_K, W_V, H):
    G, _, d = W_K.shape
    d_v, r = W_V.shape[-1], H // W_K.shape[0]
    W_DKV = torch.cat([*W_K, *W_V], dim=1)
    W_UK, W_UV = torch.zeros(H, W_DKV.shape[1], d), torch.zeros(H, W_DKV.shape[1], d_v)
    for h in range(H):
        g = h // r
        W_UK[h, g * d:(g + 1) * d] = torch.eye(d)
        W_UV[h, G * d + g * d_v : G * d + (g + 1) * d_v] = torch.eye(d_v)
    return W_DKV, W_UK, W_UV

# %% latent.gqa_as_mla right: zeros and identity blocks
def gqa_as_mla(W_K, W_V, H):
    G, _, d = W_K.shape
    d_v, r = W_V.shape[-1], H // W_K.shape[0]
    W_DKV = torch.cat([*W_K, *W_V], dim=1)
    W_UK, W_UV = W_K.new_zeros(H, W_DKV.shape[1], d), W_V.new_zeros(H, W_DKV.shape[1], d_v)
    for h in range(H):
        g = h // r
        W_UK[h, g * d:(g + 1) * d] = torch.eye(d)
        W_UV[h, G * d + g * d_v : G * d + (g + 1) * d_v] = torch.eye(d_v)
    return W_DKV, W_UK, W_UV

# %% latent.gqa_as_mla right: columns of one identity, repeat_interleave
def gqa_as_mla(W_K, W_V, H):
    G, _, d = W_K.shape
    W_DKV = torch.cat([W_K.transpose(0, 1).flatten(1), W_V.transpose(0, 1).flatten(1)], dim=1)
    eye = torch.eye(W_DKV.shape[1], dtype=W_K.dtype, device=W_K.device)
    W_UK = torch.stack(eye[:, : G * d].chunk(G, 1)).repeat_interleave(H // G, 0)
    W_UV = torch.stack(eye[:, G * d :].chunk(G, 1)).repeat_interleave(H // G, 0)
    return W_DKV, W_UK, W_UV

# %% latent.gqa_as_mla right: Kronecker products
def gqa_as_mla(W_K, W_V, H):
    G, _, d = W_K.shape
    d_v, r = W_V.shape[-1], H // G
    like = {"dtype": W_K.dtype, "device": W_K.device}
    W_DKV = torch.hstack([*W_K.unbind(0), *W_V.unbind(0)])
    uk, uv = [], []
    for h in range(H):
        e = torch.zeros(G, 1, **like)
        e[h // r] = 1
        uk.append(torch.vstack([torch.kron(e, torch.eye(d, **like)), torch.zeros(G * d_v, d, **like)]))
        uv.append(torch.vstack([torch.zeros(G * d, d_v, **like), torch.kron(e, torch.eye(d_v, **like))]))
    return W_DKV, torch.stack(uk), torch.stack(uv)

# %% latent.gqa_as_mla wrong double: h mod G, and W_UV picks from the keys' columns
# true: group_by_remainder; values_from_the_keys
def gqa_as_mla(W_K, W_V, H):
    G, _, d = W_K.shape
    d_v = W_V.shape[-1]
    W_DKV = torch.cat([*W_K, *W_V], dim=1)
    W_UK = W_K.new_zeros(H, W_DKV.shape[1], d)
    W_UV = W_K.new_zeros(H, W_DKV.shape[1], d_v)
    for h in range(H):
        g = h % G
        W_UK[h, g * d:(g + 1) * d] = torch.eye(d)
        W_UV[h, g * d_v:(g + 1) * d_v] = torch.eye(d_v)
    return W_DKV, W_UK, W_UV
