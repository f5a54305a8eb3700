# %% padding_and_packing.padding_mask wrong single: off by one: <= keeps one blank
# true: one_too_many
def padding_mask(lengths, m):
    return (torch.arange(m, device=lengths.device) <= lengths[:, None])[:, None, :]

# %% padding_and_packing.padding_mask wrong single public: no query axis: shape (batch, key)
# true: no_query_axis
def padding_mask(lengths, m):
    seq_range = torch.arange(m, dtype=lengths.dtype, device=lengths.device)
    return seq_range.unsqueeze(0) < lengths.unsqueeze(1)

# %% padding_and_packing.padding_mask wrong single public: inverted: True marks the padding
# true: polarity_flipped
def padding_mask(lengths, m):
    return (torch.arange(m, device=lengths.device)[None, :] >= lengths[:, None]).unsqueeze(1)

# %% padding_and_packing.padding_mask wrong single: the size-1 axis stands last: (batch, key, 1)
# true: masked_queries
def padding_mask(lengths, m):
    mask = torch.arange(m, device=lengths.device)[None, :] < lengths[:, None]
    return mask.unsqueeze(-1)

# %% padding_and_packing.padding_mask wrong single: padding on the left
# true: padded_on_the_left
def padding_mask(lengths, m):
    pos = torch.arange(m, device=lengths.device)
    return (pos[None, :] >= (m - lengths)[:, None])[:, None, :]

# %% padding_and_packing.padding_mask wrong single: m ignored: as wide as the longest sequence
# true: ~mended
def padding_mask(lengths, m):
    max_len = int(lengths.max())
    mask = torch.arange(max_len, device=lengths.device)[None, :] < lengths[:, None]
    return mask[:, None, :]

# %% padding_and_packing.padding_mask wrong double public: inverted, and no query axis
# true: polarity_flipped; no_query_axis
def padding_mask(lengths, m):
    mask = torch.arange(0, m).type_as(lengths).repeat(len(lengths), 1)
    return mask >= lengths.unsqueeze(1)

# %% padding_and_packing.padding_mask wrong double public: numbers 1.0 / 0.0 instead of truth values, two head axes
# true: ones_and_zeros; slip.returned.axis.third()
def padding_mask(lengths, m):
    mask = torch.arange(m, device=lengths.device)[None, :] < lengths[:, None]
    return mask.float()[:, None, None, :]

# %% padding_and_packing.padding_mask wrong single: positions counted from 1 and strict <: one real token is lost
# true: one_too_few
def padding_mask(lengths, m):
    pos = torch.arange(1, m + 1, device=lengths.device)
    return pos[None, None, :] < lengths[:, None, None]

# %% padding_and_packing.padding_mask wrong double: one query axis of size m instead of 1: queries are masked, too
# true: masked_queries_too
def padding_mask(lengths, m):
    row = torch.arange(m, device=lengths.device)[None, :] < lengths[:, None]
    return row[:, :, None] & row[:, None, :]

# %% padding_and_packing.padding_mask wrong double: the range lives on the CPU, whatever the device of lengths, and the last axis is lengths' maximum
# true: ~mended
def padding_mask(lengths, m):
    return (torch.arange(lengths.max()) < lengths.cpu()[:, None])[:, None]

# %% padding_and_packing.padding_mask right: broadcast compare
def padding_mask(lengths, m):
    return torch.arange(m, device=lengths.device)[None, None, :] < lengths[:, None, None]

# %% padding_and_packing.padding_mask right: counted from 1 with <=
def padding_mask(lengths, m):
    return (torch.arange(1, m + 1, device=lengths.device) <= lengths.unsqueeze(-1)).unsqueeze(1)

# %% padding_and_packing.padding_mask right: loop
def padding_mask(lengths, m):
    mask = torch.zeros(len(lengths), 1, m, dtype=torch.bool, device=lengths.device)
    for b, n in enumerate(lengths.tolist()):
        mask[b, 0, :n] = True
    return mask

# %% padding_and_packing.padding_mask right: rows of a triangle
def padding_mask(lengths, m):
    table = torch.ones(m + 1, m, dtype=torch.bool, device=lengths.device).tril(-1)
    return table[lengths].unsqueeze(1)

# %% padding_and_packing.padding_mask right: list comprehension
def padding_mask(lengths, m):
    rows = [[j < n for j in range(m)] for n in lengths.tolist()]
    return torch.tensor(rows, dtype=torch.bool, device=lengths.device).reshape(len(lengths), 1, m)

# %% padding_and_packing.masked_sdpa wrong single: -inf alone: NaN where a query sees nothing
# true: minus_infinity_only
def masked_sdpa(Q, K, V, keep):
    S = scaled_scores(Q, K).masked_fill(~keep, float("-inf"))
    A = torch.softmax(S, dim=-1)
    return A @ V, A

# %% padding_and_packing.masked_sdpa wrong single public: -1e9: a query that sees nothing gets the mean of all values
# true: minus_1e9
def masked_sdpa(Q, K, V, keep):
    d_k = Q.size(-1)
    scores = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(d_k)
    scores = scores.masked_fill(keep == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, V), p_attn

# %% padding_and_packing.masked_sdpa wrong single public: mask after the softmax: weights sum to less than 1
# true: masked_after_softmax
def masked_sdpa(Q, K, V, keep):
    A = torch.softmax(scaled_scores(Q, K), dim=-1) * keep
    return A @ V, A

# %% padding_and_packing.masked_sdpa wrong single public: mask after the softmax, then renormalised with an epsilon
# true: renormalised_with_a_floor
def masked_sdpa(Q, K, V, keep):
    A = torch.softmax(scaled_scores(Q, K), dim=-1) * keep
    A = A / (A.sum(dim=-1, keepdim=True) + 1e-9)
    return A @ V, A

# %% padding_and_packing.masked_sdpa wrong single: inverted mask
# true: polarity_flipped
def masked_sdpa(Q, K, V, keep):
    S = scaled_scores(Q, K).masked_fill(keep, float("-inf"))
    A = torch.softmax(S, dim=-1)
    A = A.masked_fill(keep, 0.0)
    A = torch.nan_to_num(A)
    return A @ V, A

# %% padding_and_packing.masked_sdpa wrong single: only the output of an empty row is zeroed; its weights stay uniform
# true: smallest_number
def masked_sdpa(Q, K, V, keep):
    S = scaled_scores(Q, K).masked_fill(~keep, torch.finfo(Q.dtype).min)
    A = torch.softmax(S, dim=-1)
    seen = keep.any(dim=-1, keepdim=True)
    return (A @ V) * seen, A

# %% padding_and_packing.masked_sdpa wrong single public: scores of hidden keys set to 0, not -inf
# true: multiplied_scores
def masked_sdpa(Q, K, V, keep):
    A = torch.softmax(scaled_scores(Q, K) * keep, dim=-1)
    return A @ V, A

# %% padding_and_packing.masked_sdpa wrong double public: values of hidden keys set to 0 under the old weights
def masked_sdpa(Q, K, V, keep):
    A = torch.softmax(scaled_scores(Q, K), dim=-1)
    real = keep.any(dim=-2, keepdim=True).transpose(-2, -1)
    return A @ (V * real), A

# %% padding_and_packing.masked_sdpa wrong double: not scaled, and -1e9
# true: unscaled; minus_1e9
def masked_sdpa(Q, K, V, keep):
    S = Q @ K.transpose(-2, -1)
    A = torch.softmax(S.masked_fill(~keep, -1e9), dim=-1)
    return A @ V, A

# %% padding_and_packing.masked_sdpa wrong double: softmax over the queries, NaN columns repaired
# true: softmax_over_queries; nan_to_num_on_the_weights
def masked_sdpa(Q, K, V, keep):
    S = scaled_scores(Q, K).masked_fill(~keep, -torch.inf)
    A = torch.nan_to_num(torch.softmax(S, dim=-2))
    return A @ V, A

# %% padding_and_packing.masked_sdpa wrong single: builtin for the output; weights from -inf alone hold NaN
# true: minus_infinity_only
def masked_sdpa(Q, K, V, keep):
    O = F.scaled_dot_product_attention(Q, K, V, attn_mask=keep)
    A = torch.softmax(scaled_scores(Q, K).masked_fill(~keep, -torch.inf), -1)
    return O, A

# %% padding_and_packing.masked_sdpa wrong single: the empty case is tested for the whole mask only
# true: minus_infinity_only
def masked_sdpa(Q, K, V, keep):
    S = scaled_scores(Q, K)
    if not keep.any():
        A = torch.zeros_like(S)
    else:
        A = torch.softmax(S.masked_fill(~keep, float("-inf")), dim=-1)
    return A @ V, A

# %% padding_and_packing.masked_sdpa wrong double: scaled twice, and the pair swapped
# true: scaled_twice; weights_first
def masked_sdpa(Q, K, V, keep):
    S = scaled_scores(Q, K) / math.sqrt(Q.shape[-1])
    S = S.masked_fill(~keep, torch.finfo(S.dtype).min)
    A = torch.softmax(S, dim=-1) * keep
    return A, A @ V

# %% padding_and_packing.masked_sdpa wrong single public: mask added as numbers: True adds 1 to the score
# true: added_the_mask
def masked_sdpa(Q, K, V, keep):
    A = torch.softmax(scaled_scores(Q, K) + keep, dim=-1)
    return A @ V, A

# %% padding_and_packing.masked_sdpa wrong double public: the mask is inverted, filled with -1e9
# true: polarity_flipped
def masked_sdpa(Q, K, V, keep):
    energy = torch.einsum("...qd,...kd->...qk", Q, K) / Q.shape[-1] ** 0.5
    energy = energy.masked_fill(keep, float("-1e20"))
    A = torch.softmax(energy, dim=-1)
    return A @ V, A

# %% padding_and_packing.masked_sdpa right: finfo.min, softmax, times keep
def masked_sdpa(Q, K, V, keep):
    S = scaled_scores(Q, K).masked_fill(~keep, torch.finfo(Q.dtype).min)
    A = torch.softmax(S, dim=-1) * keep
    return A @ V, A

# %% padding_and_packing.masked_sdpa wrong single: turns every NaN among the weights into 0, even one that came in with a query
# true: nan_to_num_on_the_weights
def masked_sdpa(Q, K, V, keep):
    A = torch.softmax(scaled_scores(Q, K).masked_fill(~keep, float("-inf")), dim=-1)
    A = A.nan_to_num(0.0)
    return A @ V, A

# %% padding_and_packing.masked_sdpa right: exponentials by hand
def masked_sdpa(Q, K, V, keep):
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    top = S.masked_fill(~keep, torch.finfo(S.dtype).min).amax(-1, keepdim=True).detach()
    E = torch.where(keep, torch.exp(torch.where(keep, S - top, 0.0)), 0.0)
    total = E.sum(-1, keepdim=True)
    A = E / torch.where(total == 0, 1.0, total)
    return A @ V, A

# %% padding_and_packing.masked_sdpa right: builtin twice (output, and weights from the identity)
def masked_sdpa(Q, K, V, keep):
    shape = torch.broadcast_shapes(keep.shape, Q.shape[:-1] + (K.shape[-2],))
    mask = keep.expand(shape)
    eye = torch.eye(K.shape[-2], dtype=V.dtype, device=V.device).expand(*V.shape[:-2], -1, -1)
    O = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)
    A = F.scaled_dot_product_attention(Q, K, eye, attn_mask=mask)
    return O, A

# %% padding_and_packing.masked_sdpa wrong double: mask after the softmax, not scaled
# true: unscaled; masked_after_softmax
def masked_sdpa(Q, K, V, keep):
    A = torch.softmax(Q @ K.mT, dim=-1) * keep
    return A @ V, A
