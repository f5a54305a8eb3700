# %% cross_attention.cross_attention wrong single: queries from the source, keys and values from the asker (roles swapped)
# true: roles_swapped
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    return masked_sdpa(Xkv @ W_Q, Xq @ W_K, Xq @ W_V, keep)

# %% cross_attention.cross_attention wrong single: self-attention: keys and values from the asking sequence
# true: self_attention
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    return masked_sdpa(Xq @ W_Q, Xq @ W_K, Xq @ W_V, keep)

# %% cross_attention.cross_attention wrong single: values from the asking sequence
# true: values_from_the_asker
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    return masked_sdpa(Xq @ W_Q, Xkv @ W_K, Xq @ W_V, keep)

# %% cross_attention.cross_attention wrong single public: the mask is ignored
# true: mask_forgotten
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    Q, K, V = Xq @ W_Q, Xkv @ W_K, Xkv @ W_V
    A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    return A @ V, A

# %% cross_attention.cross_attention wrong single: matrices transposed, as nn.Linear stores them
# true: transposed_weights
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    Q, K, V = F.linear(Xq, W_Q), F.linear(Xkv, W_K), F.linear(Xkv, W_V)
    return masked_sdpa(Q, K, V, keep)

# %% cross_attention.cross_attention wrong single: values not projected
# true: values_not_projected
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    return masked_sdpa(Xq @ W_Q, Xkv @ W_K, Xkv, keep)

# %% cross_attention.cross_attention wrong single: keys and values share W_K
# true: one_matrix_for_keys_and_values
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    return masked_sdpa(Xq @ W_Q, Xkv @ W_K, Xkv @ W_K, keep)

# %% cross_attention.cross_attention wrong single: scaled twice (scores scaled again inside masked_sdpa)
# true: scaled_twice
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    Q = Xq @ W_Q / math.sqrt(W_Q.shape[1])
    return masked_sdpa(Q, Xkv @ W_K, Xkv @ W_V, keep)

# %% cross_attention.cross_attention wrong double public: scaled by the width of the tokens, and NaN for empty rows
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    Q, K, V = Xq @ W_Q, Xkv @ W_K, Xkv @ W_V
    S = Q @ K.mT / math.sqrt(Xq.shape[-1])
    A = torch.softmax(S.masked_fill(~keep, float("-inf")), dim=-1)
    return A @ V, A

# %% cross_attention.cross_attention wrong double: inverted mask, pair swapped
# true: polarity_flipped; weights_first
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    O, A = masked_sdpa(Xq @ W_Q, Xkv @ W_K, Xkv @ W_V, ~keep)
    return A, O

# %% cross_attention.cross_attention wrong double: mask ignored and not scaled
# true: unscaled; mask_forgotten
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    Q, K, V = Xq @ W_Q, Xkv @ W_K, Xkv @ W_V
    attn_scores = Q @ K.transpose(-2, -1)
    attn = torch.softmax(attn_scores, dim=-1)
    return attn @ V, attn

# %% cross_attention.cross_attention wrong single public: -1e9 for hidden pairs: the mean for empty rows
# true: slip.lost.factor(keep)
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    Q, K, V = Xq @ W_Q, Xkv @ W_K, Xkv @ W_V
    S = (Q @ K.transpose(-2, -1) / math.sqrt(K.size(-1))).masked_fill(keep == 0, -1e9)
    A = S.softmax(-1)
    return A @ V, A

# %% cross_attention.cross_attention wrong single: a causal mask is added on top
# true: ~mended
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    tri = torch.ones(Xq.shape[-2], Xkv.shape[-2], dtype=torch.bool).tril()
    return masked_sdpa(Xq @ W_Q, Xkv @ W_K, Xkv @ W_V, keep & tri)

# %% cross_attention.cross_attention right: one line
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    return masked_sdpa(Xq @ W_Q, Xkv @ W_K, Xkv @ W_V, keep)

# %% cross_attention.cross_attention right: einsum, by hand
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    Q = torch.einsum("...qd,dk->...qk", Xq, W_Q)
    K = torch.einsum("...sd,dk->...sk", Xkv, W_K)
    V = torch.einsum("...sd,dv->...sv", Xkv, W_V)
    S = torch.einsum("...qk,...sk->...qs", Q, K) * W_Q.shape[1] ** -0.5
    A = S.masked_fill(~keep, torch.finfo(S.dtype).min).softmax(-1) * keep
    return torch.einsum("...qs,...sv->...qv", A, V), A

# %% cross_attention.cross_attention right: F.linear with transposed matrices
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    Q, K, V = F.linear(Xq, W_Q.T), F.linear(Xkv, W_K.T), F.linear(Xkv, W_V.T)
    return masked_sdpa(Q, K, V, keep)

# %% cross_attention.cross_attention right: values projected after the average
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    _, A = masked_sdpa(Xq @ W_Q, Xkv @ W_K, Xkv, keep)
    return (A @ Xkv) @ W_V, A

# %% cross_attention.cross_attention right: output from the builtin, weights by hand
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    Q, K, V = Xq @ W_Q, Xkv @ W_K, Xkv @ W_V
    _, A = masked_sdpa(Q, K, V, keep)
    O = torch.matmul(A, V)
    return O.contiguous(), A

# %% cross_attention.cross_attention wrong double: values from the asking sequence, mask ignored
# true: values_from_the_asker; mask_forgotten
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    Q, K, V = Xq @ W_Q, Xkv @ W_K, Xq @ W_V
    A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), -1)
    return A @ V, A

# %% cross_attention.cross_attention wrong double: roles swapped, pair swapped
# true: roles_swapped; weights_first
def cross_attention(Xq, Xkv, W_Q, W_K, W_V, keep):
    O, A = masked_sdpa(Xkv @ W_Q, Xq @ W_K, Xq @ W_V, keep)
    return A, O
