# %% a_decoder_in_chunks.attend_cached wrong single public: is_causal=True of the builtin: the mask is aligned at the upper left
# true: top_left
def attend_cached(q, K, V):
    return F.scaled_dot_product_attention(q, K, V, is_causal=True)

# %% a_decoder_in_chunks.attend_cached wrong single public: masks with is_causal only when there is more than one query: right for a step and a prompt, upper left for a chunk
# true: top_left
def attend_cached(q, K, V):
    return F.scaled_dot_product_attention(q, K, V, is_causal=q.shape[-2] > 1)

# %% a_decoder_in_chunks.attend_cached wrong single: no mask at all: new tokens see the later ones of their chunk
# true: mask_skipped
def attend_cached(q, K, V):
    if q.shape[-2] > K.shape[-2]:
        raise ValueError("more queries than keys")
    A = torch.softmax(q @ K.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1)
    return A @ V

# %% a_decoder_in_chunks.attend_cached wrong single: lower-right mask, but shifted by one: each token sees the next one too
# true: sees_one_ahead
def attend_cached(q, K, V):
    new, n = q.shape[-2], K.shape[-2]
    if new > n:
        raise ValueError
    keep = torch.ones(new, n, dtype=torch.bool).tril(n - new + 1)
    return attention(q, K, V, keep)

# %% a_decoder_in_chunks.attend_cached wrong single public: pads the chunk's triangle on the right instead of the left: the triangle lies on the first keys and the rest is open
# true: ~exact
def attend_cached(q, K, V):
    new, n = q.shape[-2], K.shape[-2]
    mask = torch.full((new, new), float("-inf"), dtype=q.dtype).triu(1)
    mask = torch.hstack([mask, torch.zeros(new, n - new, dtype=q.dtype)])
    scores = q @ K.transpose(-2, -1) / math.sqrt(q.shape[-1]) + mask
    return torch.softmax(scores, dim=-1) @ V

# %% a_decoder_in_chunks.attend_cached wrong double: a token does not see itself, and the scores are divided by the root of d_v
# true: ~mended; scaled_by_sqrt_d_v
def attend_cached(q, K, V):
    new, n = q.shape[-2], K.shape[-2]
    if new > n:
        raise ValueError
    keep = torch.ones(new, n, dtype=torch.bool, device=q.device).tril(n - new - 1)
    s = (q @ K.mT) / math.sqrt(V.shape[-1])
    A = s.masked_fill(~keep, -1e9).softmax(-1)
    return A @ V

# %% a_decoder_in_chunks.attend_cached wrong double: multiplies scores by the 0/1 mask instead of -inf, with the mask at the upper left
# true: top_left; hidden_scores_of_zero
def attend_cached(q, K, V):
    scores = torch.matmul(q, K.transpose(-1, -2)) / q.size(-1) ** 0.5
    mask = torch.tril(torch.ones(q.size(-2), K.size(-2), dtype=q.dtype))
    return torch.softmax(scores * mask, dim=-1) @ V

# %% a_decoder_in_chunks.attend_cached wrong single: applies the (right) mask after the softmax without normalising again
# true: hidden_after_the_softmax
def attend_cached(q, K, V):
    new, n = q.shape[-2], K.shape[-2]
    if new > n:
        raise ValueError("more queries than keys")
    A = torch.softmax(q @ K.mT / math.sqrt(q.shape[-1]), dim=-1)
    return A.tril(n - new) @ V

# %% a_decoder_in_chunks.attend_cached right: tril with an offset, given attention
def attend_cached(q, K, V):
    new, n = q.shape[-2], K.shape[-2]
    if new > n:
        raise ValueError(f"{new} queries, {n} keys")
    keep = torch.ones(new, n, dtype=torch.bool, device=q.device).tril(n - new)
    return attention(q, K, V, keep)

# %% a_decoder_in_chunks.attend_cached right: builtin with an explicit mask made of indices
def attend_cached(q, K, V):
    new, n = q.size(-2), K.size(-2)
    if new > n:
        raise ValueError("more queries than keys")
    i = torch.arange(n - new, n, device=q.device)[:, None]
    j = torch.arange(n, device=q.device)[None, :]
    return F.scaled_dot_product_attention(q, K, V, attn_mask=j <= i)

# %% a_decoder_in_chunks.attend_cached right: row by row, with shorter keys
def attend_cached(q, K, V):
    new, n = q.shape[-2], K.shape[-2]
    if new > n:
        raise ValueError("too many queries")
    rows = []
    for i in range(new):
        m = n - new + i + 1
        s = (q[..., i, None, :] @ K[..., :m, :].mT) / math.sqrt(q.shape[-1])
        rows.append(s.softmax(-1) @ V[..., :m, :])
    return torch.cat(rows, dim=-2)

# %% a_decoder_in_chunks.attend_cached right public: additive mask, hstack as in Meta's Llama
def attend_cached(q, K, V):
    new, n = q.shape[-2], K.shape[-2]
    if new > n:
        raise ValueError
    mask = torch.full((new, new), float("-inf"), dtype=q.dtype, device=q.device)
    mask = torch.triu(mask, diagonal=1)
    mask = torch.hstack([torch.zeros((new, n - new), dtype=q.dtype, device=q.device), mask])
    scores = torch.einsum("...qd,...kd->...qk", q, K) * q.shape[-1] ** -0.5 + mask
    return torch.einsum("...qk,...kd->...qd", scores.softmax(dim=-1), V)

# %% a_decoder_in_chunks.attend_cached right: float64 upcast, then back
def attend_cached(q, K, V):
    new, n = q.shape[-2], K.shape[-2]
    if new > n:
        raise ValueError
    s = q.double() @ K.double().transpose(-2, -1) / math.sqrt(q.shape[-1])
    s = s + torch.where(torch.ones(new, n, device=q.device).tril(n - new) == 1, 0.0, -torch.inf)
    return (s.softmax(-1) @ V.double()).to(V.dtype)

# %% a_decoder_in_chunks.attend_cached wrong double: is_causal at the upper left, and the scores are not scaled
# true: top_left; unscaled
def attend_cached(q, K, V):
    if q.shape[-2] > K.shape[-2]:
        raise ValueError("more queries than keys")
    return F.scaled_dot_product_attention(q, K, V, is_causal=True, scale=1.0)
