# %% without_copies.gqa_grouped wrong single: masks the folded rows as if they were successive tokens
# true: mask_of_the_first_head
def gqa_grouped(Q, K, V):
    (*lead, H, n, d), (G, m) = Q.shape, K.shape[-3:-1]
    r = H // G
    folded = Q.reshape(*lead, G, r * n, d)
    keep = torch.ones(r * n, m, dtype=torch.bool, device=Q.device).tril(m - n)
    S = folded @ K.mT / math.sqrt(d)
    A = torch.softmax(S.masked_fill(~keep, -math.inf), dim=-1)
    O = (A @ V).reshape(*lead, H, n, -1)
    return O, A.reshape(*lead, G, r, n, m)

# %% without_copies.gqa_grouped wrong single: repeats each row of the mask r times instead of the whole mask: rows of the folded matrix get the wrong token's mask
# true: mask_interleaved
def gqa_grouped(Q, K, V):
    (*lead, H, n, d), (G, m) = Q.shape, K.shape[-3:-1]
    r = H // G
    keep = torch.ones(n, m, dtype=torch.bool, device=Q.device).tril(m - n).repeat_interleave(r, dim=0)
    S = Q.reshape(*lead, G, r * n, d) @ K.mT / math.sqrt(d)
    A = S.masked_fill(~keep, -math.inf).softmax(-1)
    return (A @ V).reshape(*lead, H, n, -1), A.reshape(*lead, G, r, n, m)

# %% without_copies.gqa_grouped wrong single public: folds heads h, h + G, ... into one group (h mod G)
# true: heads_modulo_groups
def gqa_grouped(Q, K, V):
    (*lead, H, n, d), (G, m) = Q.shape, K.shape[-3:-1]
    r = H // G
    q = Q.unflatten(-3, (r, G)).transpose(-4, -3)
    keep = torch.ones(n, m, dtype=torch.bool, device=Q.device).tril(m - n)
    S = torch.einsum("...grnd,...gmd->...grnm", q, K) / math.sqrt(d)
    A = S.masked_fill(~keep, -math.inf).softmax(-1)
    O = torch.einsum("...grnm,...gmd->...grnd", A, V)
    return O.transpose(-4, -3).flatten(-4, -3), A

# %% without_copies.gqa_grouped wrong single: mask aligned at the upper left
# true: mask_upper_left
def gqa_grouped(Q, K, V):
    G = K.shape[-3]
    q = Q.unflatten(-3, (G, -1))
    n, m = q.shape[-2], K.shape[-2]
    S = q @ K.unsqueeze(-3).mT / math.sqrt(q.shape[-1])
    keep = torch.tril(torch.ones(n, m, dtype=torch.bool, device=Q.device))
    A = torch.softmax(S.masked_fill(~keep, float("-inf")), dim=-1)
    return (A @ V.unsqueeze(-3)).flatten(-4, -3), A

# %% without_copies.gqa_grouped wrong single: returns the weights flat, one per head, without the group structure
# true: weights_per_head
def gqa_grouped(Q, K, V):
    (*lead, H, n, d), (G, m) = Q.shape, K.shape[-3:-1]
    keep = torch.ones(n, m, dtype=torch.bool, device=Q.device).tril(m - n).repeat(H // G, 1)
    S = Q.reshape(*lead, G, -1, d) @ K.mT / math.sqrt(d)
    A = S.masked_fill(~keep, -math.inf).softmax(-1)
    return (A @ V).reshape(*lead, H, n, -1), A.reshape(*lead, H, n, m)

# %% without_copies.gqa_grouped wrong double: h mod G, and the mask aligned at the upper left
# true: heads_modulo_groups; mask_upper_left
def gqa_grouped(Q, K, V):
    (*lead, H, n, d), (G, m) = Q.shape, K.shape[-3:-1]
    r = H // G
    q = Q.reshape(*lead, r, G, n, d)
    S = q @ K.unsqueeze(-4).mT / math.sqrt(d)
    S = S.masked_fill(torch.ones(n, m, dtype=torch.bool, device=Q.device).triu(1), -math.inf)
    A = S.softmax(dim=-1)
    O = A @ V.unsqueeze(-4)
    return O.reshape(*lead, H, n, V.shape[-1]), A.transpose(-4, -3)

# %% without_copies.gqa_grouped wrong double: no mask, and the output stays folded (G, r n, d_v)
def gqa_grouped(Q, K, V):
    (*lead, H, n, d), (G, m) = Q.shape, K.shape[-3:-1]
    q = Q.reshape(*lead, G, H // G * n, d)
    A = torch.softmax(q @ K.mT / math.sqrt(d), dim=-1)
    return A @ V, A.reshape(*lead, G, H // G, n, m)

# %% without_copies.gqa_grouped wrong single: builds the rows query by query but unfolds them head by head: heads and queries are mixed up
# true: ~mended; mask_interleaved
def gqa_grouped(Q, K, V):
    (*lead, H, n, d), (G, m) = Q.shape, K.shape[-3:-1]
    r = H // G
    q = Q.reshape(*lead, G, r, n, d).transpose(-3, -2).reshape(*lead, G, n * r, d)
    keep = torch.ones(n, m, dtype=torch.bool, device=Q.device).tril(m - n).repeat_interleave(r, 0)
    A = (q @ K.mT / math.sqrt(d)).masked_fill(~keep, -math.inf).softmax(-1)
    return (A @ V).reshape(*lead, H, n, -1), A.reshape(*lead, G, r, n, m)

# %% without_copies.gqa_grouped right: fold, mask repeated
def gqa_grouped(Q, K, V):
    (*lead, H, n, d), (G, m) = Q.shape, K.shape[-3:-1]
    r = H // G
    keep = torch.ones(n, m, dtype=torch.bool, device=Q.device).tril(m - n).repeat(r, 1)
    S = Q.reshape(*lead, G, r * n, d) @ K.mT / math.sqrt(d)
    A = S.masked_fill(~keep, -math.inf).softmax(-1)
    return (A @ V).reshape(*lead, H, n, -1), A.reshape(*lead, G, r, n, m)

# %% without_copies.gqa_grouped right: einsum over g and r
def gqa_grouped(Q, K, V):
    G, (n, m) = K.shape[-3], (Q.shape[-2], K.shape[-2])
    q = Q.unflatten(-3, (G, Q.shape[-3] // G))
    S = torch.einsum("...gsid,...gjd->...gsij", q, K) / math.sqrt(Q.shape[-1])
    hidden = torch.ones(n, m, dtype=torch.bool, device=Q.device).triu(m - n + 1)
    A = torch.softmax(S.masked_fill(hidden, -torch.inf), dim=-1)
    return torch.einsum("...gsij,...gjd->...gsid", A, V).flatten(-4, -3), A

# %% without_copies.gqa_grouped right: loop over groups and their heads
def gqa_grouped(Q, K, V):
    H, n, d = Q.shape[-3:]
    G, m = K.shape[-3:-1]
    r = H // G
    keep = (torch.arange(m)[None, :] <= torch.arange(n)[:, None] + (m - n)).to(Q.device)
    outs, weights = [], []
    for g in range(G):
        group = []
        for s in range(r):
            S = Q[..., g * r + s, :, :] @ K[..., g, :, :].transpose(-1, -2) / d**0.5
            A = torch.softmax(torch.where(keep, S, torch.full_like(S, -math.inf)), -1)
            group.append(A)
            outs.append(A @ V[..., g, :, :])
        weights.append(torch.stack(group, dim=-3))
    return torch.stack(outs, dim=-3), torch.stack(weights, dim=-4)

# %% without_copies.gqa_grouped wrong single: the builtin copies keys and values for every head
def gqa_grouped(Q, K, V):
    n, m, G = Q.shape[-2], K.shape[-2], K.shape[-3]
    keep = torch.ones(n, m, dtype=torch.bool, device=Q.device).tril(diagonal=m - n)
    O = F.scaled_dot_product_attention(Q, K, V, attn_mask=keep, enable_gqa=True)
    S = Q.reshape(*Q.shape[:-3], G, -1, Q.shape[-1]) @ K.mT / math.sqrt(Q.shape[-1])
    S = S.unflatten(-2, (-1, n)).masked_fill(keep.logical_not(), -math.inf)
    return O, S.softmax(-1)

# %% without_copies.gqa_grouped wrong double: masks the folded rows as successive tokens, at the upper left
# true: mask_of_the_first_head
def gqa_grouped(Q, K, V):
    (*lead, H, n, d), (G, m) = Q.shape, K.shape[-3:-1]
    q = Q.reshape(*lead, G, -1, d)
    keep = torch.ones(q.shape[-2], m, dtype=torch.bool, device=Q.device).tril()
    A = (q @ K.mT / d**0.5).masked_fill(~keep, -math.inf).softmax(-1)
    return (A @ V).reshape(*lead, H, n, -1), A.reshape(*lead, G, H // G, n, m)
