# %% multi_query.mqa wrong single public: forgets the causal mask
# true: future_visible
def mqa(X, W_Q, W_K, W_V, W_O, H):
    Q, K, V = split_heads(X @ W_Q, H), X @ W_K, X @ W_V
    S = Q @ K.unsqueeze(-3).mT / math.sqrt(Q.shape[-1])
    O = torch.softmax(S, dim=-1) @ V.unsqueeze(-3)
    return merge_heads(O) @ W_O, K, V

# %% multi_query.mqa wrong single: makes heads by reshape to (H, n, d) without a transpose: tokens and heads get mixed
# true: split_without_transpose
def mqa(X, W_Q, W_K, W_V, W_O, H):
    Q = X @ W_Q
    Q = Q.reshape(*Q.shape[:-2], H, Q.shape[-2], Q.shape[-1] // H)
    K, V = X @ W_K, X @ W_V
    O = causal_attention(Q, K.unsqueeze(-3), V.unsqueeze(-3))
    return merge_heads(O) @ W_O, K, V

# %% multi_query.mqa wrong single: no head axis for K and V: right for one sequence, wrong or an error for a batch
# true: no_head_axis
def mqa(X, W_Q, W_K, W_V, W_O, H):
    Q, K, V = split_heads(X @ W_Q, H), X @ W_K, X @ W_V
    return merge_heads(causal_attention(Q, K, V)) @ W_O, K, V

# %% multi_query.mqa wrong single public: returns keys and values expanded to H heads, as no cache should hold them
# true: repeated_in_cache
def mqa(X, W_Q, W_K, W_V, W_O, H):
    Q = split_heads(X @ W_Q, H)
    K = (X @ W_K).unsqueeze(-3).expand(*Q.shape[:-1], -1)
    V = (X @ W_V).unsqueeze(-3).expand(*Q.shape[:-1], -1)
    Y = merge_heads(causal_attention(Q, K, V)) @ W_O
    return Y, K, V

# %% multi_query.mqa wrong double: deals the columns to the heads like cards (head h gets columns h, h + H, ...) and forgets the mask
# true: future_visible; heads_in_turn
def mqa(X, W_Q, W_K, W_V, W_O, H):
    Q = (X @ W_Q).unflatten(-1, (-1, H)).movedim(-1, -3)
    K, V = X @ W_K, X @ W_V
    A = torch.softmax(Q @ K.unsqueeze(-3).mT / math.sqrt(K.shape[-1]), -1)
    return merge_heads(A @ V.unsqueeze(-3)) @ W_O, K, V

# %% multi_query.mqa wrong double: scales by the root of all heads' width together, and returns (Y, V, K)
# true: ~mended
def mqa(X, W_Q, W_K, W_V, W_O, H):
    q, K, V = X @ W_Q, X @ W_K, X @ W_V
    Q = split_heads(q, H)
    n = X.shape[-2]
    S = Q @ K.unsqueeze(-3).transpose(-1, -2) / math.sqrt(q.shape[-1])
    S = S + torch.full((n, n), -math.inf, dtype=S.dtype).triu(1)
    Y = merge_heads(S.softmax(-1) @ V.unsqueeze(-3)) @ W_O
    return Y, V, K

# %% multi_query.mqa wrong single: flattens the heads' outputs without moving the head axis back
# true: merged_without_transpose
def mqa(X, W_Q, W_K, W_V, W_O, H):
    Q, K, V = split_heads(X @ W_Q, H), X @ W_K, X @ W_V
    O = causal_attention(Q, K.unsqueeze(-3), V.unsqueeze(-3))
    O = O.contiguous().view(*X.shape[:-1], -1)
    return O @ W_O, K, V

# %% multi_query.mqa wrong single: scales by the root of d_v instead of d_k
# true: slip.name(V, Q)
def mqa(X, W_Q, W_K, W_V, W_O, H):
    Q, K, V = split_heads(X @ W_Q, H), X @ W_K, X @ W_V
    n = X.shape[-2]
    keep = torch.ones(n, n, dtype=torch.bool).tril()
    S = torch.einsum("...hid,...jd->...hij", Q, K) / math.sqrt(V.shape[-1])
    A = S.masked_fill(~keep, -math.inf).softmax(-1)
    return merge_heads(torch.einsum("...hij,...jd->...hid", A, V)) @ W_O, K, V

# %% multi_query.mqa right: helpers and unsqueeze
def mqa(X, W_Q, W_K, W_V, W_O, H):
    K, V = X @ W_K, X @ W_V
    O = causal_attention(split_heads(X @ W_Q, H), K.unsqueeze(-3), V.unsqueeze(-3))
    return merge_heads(O) @ W_O, K, V

# %% multi_query.mqa right: loop over heads and torch.cat
def mqa(X, W_Q, W_K, W_V, W_O, H):
    K, V = X @ W_K, X @ W_V
    d_k = W_K.shape[1]
    outs = [causal_attention(X @ W_Q[:, h * d_k:(h + 1) * d_k], K, V) for h in range(H)]
    return torch.cat(outs, dim=-1) @ W_O, K, V

# %% multi_query.mqa right: F.scaled_dot_product_attention with expanded keys
def mqa(X, W_Q, W_K, W_V, W_O, H):
    import torch.nn.functional as F
    K, V = X @ W_K, X @ W_V
    Q = split_heads(X @ W_Q, H)
    k = K.unsqueeze(-3).expand(*Q.shape[:-2], *K.shape[-2:])
    v = V.unsqueeze(-3).expand(*Q.shape[:-2], *V.shape[-2:])
    O = F.scaled_dot_product_attention(Q, k, v, is_causal=True)
    return merge_heads(O) @ W_O, K, V

# %% multi_query.mqa right public: Shazeer's einsums with weights viewed per head
def mqa(X, W_Q, W_K, W_V, W_O, H):
    P_q = W_Q.reshape(W_Q.shape[0], H, -1)
    P_o = W_O.reshape(H, -1, W_O.shape[1])
    Q = torch.einsum("...nd,dhk->...hnk", X, P_q)
    K = torch.einsum("...md,dk->...mk", X, W_K)
    V = torch.einsum("...md,dv->...mv", X, W_V)
    logits = torch.einsum("...hnk,...mk->...hnm", Q, K) / math.sqrt(K.shape[-1])
    n = X.shape[-2]
    mask = torch.ones(n, n, dtype=torch.bool, device=X.device).triu(1)
    weights = torch.softmax(logits.masked_fill(mask, float("-inf")), dim=-1)
    O = torch.einsum("...hnm,...mv->...hnv", weights, V)
    return torch.einsum("...hnv,hvd->...nd", O, P_o), K, V

# %% multi_query.mqa wrong double public: no causal mask, and returns keys and values expanded to H heads
# true: repeated_in_cache; future_visible
def mqa(X, W_Q, W_K, W_V, W_O, H):
    Q = split_heads(X @ W_Q, H)
    K = (X @ W_K).unsqueeze(-3).expand(*Q.shape[:-2], -1, -1)
    V = (X @ W_V).unsqueeze(-3).expand(*Q.shape[:-2], -1, -1)
    scores = torch.matmul(Q, K.transpose(-2, -1)) / Q.size(-1) ** 0.5
    out = torch.matmul(torch.softmax(scores, dim=-1), V)
    return merge_heads(out) @ W_O, K, V

# %% multi_query.mqa_step wrong single: gives the heads' queries to causal_attention as if they were successive tokens: heads mask each other
# true: heads_masked_as_tokens
def mqa_step(x, W_Q, W_K, W_V, W_O, H, K, V):
    K = torch.cat([K, (x @ W_K).unsqueeze(-2)], dim=-2)
    V = torch.cat([V, (x @ W_V).unsqueeze(-2)], dim=-2)
    q = (x @ W_Q).unflatten(-1, (H, -1))
    O = causal_attention(q, K, V)
    return O.flatten(-2) @ W_O, K, V

# %% multi_query.mqa_step wrong single: puts the new token before the old ones
# true: prepended
def mqa_step(x, W_Q, W_K, W_V, W_O, H, K, V):
    K = torch.cat([(x @ W_K).unsqueeze(-2), K], dim=-2)
    V = torch.cat([(x @ W_V).unsqueeze(-2), V], dim=-2)
    q = (x @ W_Q).unflatten(-1, (H, -1))
    A = torch.softmax(q @ K.mT / math.sqrt(K.shape[-1]), dim=-1)
    return (A @ V).flatten(-2) @ W_O, K, V

# %% multi_query.mqa_step wrong single: attends to the old tokens only and appends afterwards: the new token does not see itself
# true: attended_before_append
def mqa_step(x, W_Q, W_K, W_V, W_O, H, K, V):
    q = (x @ W_Q).unflatten(-1, (H, -1))
    A = torch.softmax(q @ K.mT / math.sqrt(K.shape[-1]), dim=-1)
    y = (A @ V).flatten(-2) @ W_O
    K = torch.cat([K, (x @ W_K).unsqueeze(-2)], dim=-2)
    V = torch.cat([V, (x @ W_V).unsqueeze(-2)], dim=-2)
    return y, K, V

# %% multi_query.mqa_step wrong single: keeps the token axis: y has the shape (..., 1, d_model)
# true: slip.call.method((merge_heads(O) @ W_O).squeeze(-2), .squeeze(…))
def mqa_step(x, W_Q, W_K, W_V, W_O, H, K, V):
    x = x.unsqueeze(-2)
    K, V = torch.cat([K, x @ W_K], dim=-2), torch.cat([V, x @ W_V], dim=-2)
    O = causal_attention(split_heads(x @ W_Q, H), K.unsqueeze(-3), V.unsqueeze(-3))
    return merge_heads(O) @ W_O, K, V

# %% multi_query.mqa_step wrong double: concatenates along axis 0 (right without a batch only), and forgets the scale
# true: slip.call.axis(cat, 0, -2); no_scale
def mqa_step(x, W_Q, W_K, W_V, W_O, H, K, V):
    K = torch.cat([K, (x @ W_K)[None]], dim=0)
    V = torch.cat([V, (x @ W_V)[None]], dim=0)
    q = (x @ W_Q).reshape(*x.shape[:-1], H, -1)
    A = torch.softmax(q @ K.mT, dim=-1)
    return (A @ V).flatten(-2) @ W_O, K, V

# %% multi_query.mqa_step wrong double: deals the query's columns out like cards, and scales by the root of d_v
def mqa_step(x, W_Q, W_K, W_V, W_O, H, K, V):
    k, v = (x @ W_K)[..., None, :], (x @ W_V)[..., None, :]
    K, V = torch.cat((K, k), -2), torch.cat((V, v), -2)
    q = (x @ W_Q).unflatten(-1, (-1, H)).mT
    A = torch.softmax(q @ K.mT / V.shape[-1] ** 0.5, -1)
    return (A @ V).flatten(-2) @ W_O, K, V

# %% multi_query.mqa_step wrong single: writes the new key and value over the last place of K and V in place instead of adding a row
# true: overwrote_the_last
def mqa_step(x, W_Q, W_K, W_V, W_O, H, K, V):
    if K.shape[-2] == 0:
        K, V = (x @ W_K).unsqueeze(-2), (x @ W_V).unsqueeze(-2)
    else:
        K[..., -1, :] = x @ W_K
        V[..., -1, :] = x @ W_V
    q = (x @ W_Q).unflatten(-1, (H, -1))
    A = torch.softmax(q @ K.mT / math.sqrt(K.shape[-1]), dim=-1)
    return (A @ V).flatten(-2) @ W_O, K, V

# %% multi_query.mqa_step wrong single public: returns the new key and value only, not the cache with them in it
# true: returned_the_new
def mqa_step(x, W_Q, W_K, W_V, W_O, H, K, V):
    k, v = (x @ W_K).unsqueeze(-2), (x @ W_V).unsqueeze(-2)
    keys, values = torch.cat([K, k], -2), torch.cat([V, v], -2)
    q = (x @ W_Q).unflatten(-1, (H, -1))
    o = torch.softmax(q @ keys.mT / math.sqrt(k.shape[-1]), -1) @ values
    return o.flatten(-2) @ W_O, k, v

# %% multi_query.mqa_step right: heads as rows
def mqa_step(x, W_Q, W_K, W_V, W_O, H, K, V):
    K = torch.cat([K, (x @ W_K).unsqueeze(-2)], dim=-2)
    V = torch.cat([V, (x @ W_V).unsqueeze(-2)], dim=-2)
    q = (x @ W_Q).unflatten(-1, (H, -1))
    A = torch.softmax(q @ K.mT / math.sqrt(K.shape[-1]), dim=-1)
    return (A @ V).flatten(-2) @ W_O, K, V

# %% multi_query.mqa_step right public: Shazeer's incremental einsums
def mqa_step(x, W_Q, W_K, W_V, W_O, H, K, V):
    q = torch.einsum("...d,dhk->...hk", x, W_Q.reshape(W_Q.shape[0], H, -1))
    K = torch.cat([K, torch.einsum("...d,dk->...k", x, W_K)[..., None, :]], dim=-2)
    V = torch.cat([V, torch.einsum("...d,dv->...v", x, W_V)[..., None, :]], dim=-2)
    logits = torch.einsum("...hk,...mk->...hm", q, K) * K.shape[-1] ** -0.5
    o = torch.einsum("...hm,...mv->...hv", logits.softmax(-1), V)
    return torch.einsum("...hv,hvd->...d", o, W_O.reshape(H, -1, W_O.shape[1])), K, V

# %% multi_query.mqa_step right: a token axis, causal_attention, and the axis removed again
def mqa_step(x, W_Q, W_K, W_V, W_O, H, K, V):
    row = x[..., None, :]
    K, V = torch.cat((K, row @ W_K), dim=-2), torch.cat((V, row @ W_V), dim=-2)
    O = causal_attention(split_heads(row @ W_Q, H), K[..., None, :, :], V[..., None, :, :])
    return (merge_heads(O) @ W_O).squeeze(-2), K, V

# %% multi_query.mqa_step right: new buffers filled, loop over heads
def mqa_step(x, W_Q, W_K, W_V, W_O, H, K, V):
    n = K.shape[-2]
    keys = K.new_empty(*K.shape[:-2], n + 1, K.shape[-1])
    values = V.new_empty(*V.shape[:-2], n + 1, V.shape[-1])
    keys[..., :n, :], values[..., :n, :] = K, V
    keys[..., n, :], values[..., n, :] = x @ W_K, x @ W_V
    d = keys.shape[-1]
    outs = []
    for h in range(H):
        q = x @ W_Q[:, h * d : (h + 1) * d]
        w = ((keys * q[..., None, :]).sum(-1) / math.sqrt(d)).softmax(-1)
        outs.append((w[..., None] * values).sum(-2))
    return torch.cat(outs, -1) @ W_O, keys, values

# %% multi_query.mqa_step wrong double: new token before the old ones, and the heads mask each other
# true: heads_masked_as_tokens; prepended
def mqa_step(x, W_Q, W_K, W_V, W_O, H, K, V):
    K = torch.cat([(x @ W_K).unsqueeze(-2), K], dim=-2)
    V = torch.cat([(x @ W_V).unsqueeze(-2), V], dim=-2)
    O = causal_attention((x @ W_Q).unflatten(-1, (H, -1)), K, V)
    return O.flatten(-2) @ W_O, K, V
