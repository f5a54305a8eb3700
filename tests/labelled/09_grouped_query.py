# %% grouped_query.gqa wrong single public: heads are dealt to groups by h mod G
# true: repeat_for_repeat_interleave
def gqa(X, W_Q, W_K, W_V, W_O, H, G):
    Q, K, V = split_heads(X @ W_Q, H), split_heads(X @ W_K, G), split_heads(X @ W_V, G)
    k = torch.cat([K] * (H // G), dim=-3)
    v = torch.cat([V] * (H // G), dim=-3)
    return merge_heads(causal_attention(Q, k, v)) @ W_O, K, V

# %% grouped_query.gqa wrong single: returns the repeated keys and values (H heads) as the cache
# true: cached_after_repeat
def repeat_kv(x, r):
    return x.repeat_interleave(r, dim=-3)


def gqa(X, W_Q, W_K, W_V, W_O, H, G):
    Q, K, V = split_heads(X @ W_Q, H), split_heads(X @ W_K, G), split_heads(X @ W_V, G)
    K, V = repeat_kv(K, H // G), repeat_kv(V, H // G)
    return merge_heads(causal_attention(Q, K, V)) @ W_O, K, V

# %% grouped_query.gqa wrong single: hands G instead of H / G to repeat_kv: right only where H = G * G
def repeat_kv(x, r):
    return x.repeat_interleave(r, dim=-3)


def gqa(X, W_Q, W_K, W_V, W_O, H, G):
    Q, K, V = split_heads(X @ W_Q, H), split_heads(X @ W_K, G), split_heads(X @ W_V, G)
    return merge_heads(causal_attention(Q, repeat_kv(K, G), repeat_kv(V, G))) @ W_O, K, V

# %% grouped_query.gqa wrong single: the builtin with enable_gqa but without is_causal
# true: future_visible
import torch.nn.functional as F

def gqa(X, W_Q, W_K, W_V, W_O, H, G):
    Q, K, V = split_heads(X @ W_Q, H), split_heads(X @ W_K, G), split_heads(X @ W_V, G)
    O = F.scaled_dot_product_attention(Q, K, V, enable_gqa=True)
    return merge_heads(O) @ W_O, K, V

# %% grouped_query.gqa wrong double: h mod G and no causal mask
# true: repeat_for_repeat_interleave; future_visible
import math

def gqa(X, W_Q, W_K, W_V, W_O, H, G):
    Q, K, V = split_heads(X @ W_Q, H), split_heads(X @ W_K, G), split_heads(X @ W_V, G)
    r = H // G
    Qg = Q.unflatten(-3, (r, G))
    A = torch.softmax(Qg @ K.unsqueeze(-4).mT / math.sqrt(Q.shape[-1]), dim=-1)
    O = (A @ V.unsqueeze(-4)).flatten(-4, -3)
    return merge_heads(O) @ W_O, K, V

# %% grouped_query.gqa wrong double public: returns K and V with the token axis before the groups, and scales by the root of d_model
import math

def gqa(X, W_Q, W_K, W_V, W_O, H, G):
    K = (X @ W_K).unflatten(-1, (G, -1))
    V = (X @ W_V).unflatten(-1, (G, -1))
    Q = split_heads(X @ W_Q, H)
    k, v = (t.transpose(-3, -2).repeat_interleave(H // G, dim=-3) for t in (K, V))
    n = X.shape[-2]
    S = Q @ k.mT / math.sqrt(X.shape[-1])
    S = S.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -math.inf)
    return merge_heads(S.softmax(-1) @ v) @ W_O, K, V

# %% grouped_query.gqa wrong single: splits keys and values into H heads instead of G: the widths do not fit (an error)
def gqa(X, W_Q, W_K, W_V, W_O, H, G):
    Q, K, V = (split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    r = H // G
    return merge_heads(causal_attention(Q, K, V)) @ W_O, K[..., ::r, :, :], V[..., ::r, :, :]

# %% grouped_query.gqa wrong single: flattens heads without the transpose
# true: merge_without_transpose
import torch.nn.functional as F

def gqa(X, W_Q, W_K, W_V, W_O, H, G):
    Q, K, V = split_heads(X @ W_Q, H), split_heads(X @ W_K, G), split_heads(X @ W_V, G)
    O = F.scaled_dot_product_attention(Q, K, V, is_causal=True, enable_gqa=True)
    return O.reshape(*X.shape[:-1], -1) @ W_O, K, V

# %% grouped_query.gqa right: repeat_kv
def repeat_kv(x, r):
    return x.repeat_interleave(r, dim=-3)


def gqa(X, W_Q, W_K, W_V, W_O, H, G):
    Q, K, V = split_heads(X @ W_Q, H), split_heads(X @ W_K, G), split_heads(X @ W_V, G)
    r = H // G
    return merge_heads(causal_attention(Q, repeat_kv(K, r), repeat_kv(V, r))) @ W_O, K, V

# %% grouped_query.gqa right: the builtin
import torch.nn.functional as F

def gqa(X, W_Q, W_K, W_V, W_O, H, G):
    Q, K, V = split_heads(X @ W_Q, H), split_heads(X @ W_K, G), split_heads(X @ W_V, G)
    O = F.scaled_dot_product_attention(Q, K, V, is_causal=True, enable_gqa=True)
    return merge_heads(O) @ W_O, K, V

# %% grouped_query.gqa right: loop over heads, slices of the weights
def gqa(X, W_Q, W_K, W_V, W_O, H, G):
    d_k, d_v = W_K.shape[1] // G, W_V.shape[1] // G
    K = torch.stack([X @ W_K[:, g * d_k:(g + 1) * d_k] for g in range(G)], dim=-3)
    V = torch.stack([X @ W_V[:, g * d_v:(g + 1) * d_v] for g in range(G)], dim=-3)
    Y = 0
    for h in range(H):
        g = h * G // H
        O = causal_attention(X @ W_Q[:, h * d_k:(h + 1) * d_k], K[..., g, :, :], V[..., g, :, :])
        Y = Y + O @ W_O[h * d_v:(h + 1) * d_v]
    return Y, K, V

# %% grouped_query.gqa right: einsum with a group and a size axis
import math

def gqa(X, W_Q, W_K, W_V, W_O, H, G):
    r = H // G
    q = torch.einsum("...ne,egrd->...grnd", X, W_Q.unflatten(1, (G, r, -1)))
    K = torch.einsum("...ne,egd->...gnd", X, W_K.unflatten(1, (G, -1)))
    V = torch.einsum("...ne,egd->...gnd", X, W_V.unflatten(1, (G, -1)))
    n = X.shape[-2]
    S = torch.einsum("...grid,...gjd->...grij", q, K) / math.sqrt(K.shape[-1])
    A = S.masked_fill(torch.ones(n, n, dtype=torch.bool, device=X.device).triu(1), -torch.inf).softmax(-1)
    O = torch.einsum("...grij,...gjd->...grid", A, V)
    return torch.einsum("...grnd,grde->...ne", O, W_O.unflatten(0, (G, r, -1))), K, V

# %% grouped_query.gqa wrong double: h mod G, and returns the copies as the cache
# true: repeat_for_repeat_interleave; cached_after_repeat
import torch.nn.functional as F

def gqa(X, W_Q, W_K, W_V, W_O, H, G):
    Q, K, V = split_heads(X @ W_Q, H), split_heads(X @ W_K, G), split_heads(X @ W_V, G)
    K = torch.cat([K] * (H // G), dim=-3)
    V = torch.cat([V] * (H // G), dim=-3)
    O = F.scaled_dot_product_attention(Q, K, V, is_causal=True)
    return merge_heads(O) @ W_O, K, V
