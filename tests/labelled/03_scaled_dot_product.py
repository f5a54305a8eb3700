# %% scaled_dot_product.scaled_scores wrong single: not scaled
# true: unscaled
def scaled_scores(Q, K):
    return Q @ K.transpose(-2, -1)

# %% scaled_dot_product.scaled_scores wrong single: divided by d_k instead of its root
# true: scaled_by_d
def scaled_scores(Q, K):
    return Q @ K.transpose(-2, -1) / Q.shape[-1]

# %% scaled_dot_product.scaled_scores wrong single: .t(): refuses a batch
# true: two_axes_only
def scaled_scores(Q, K):
    return Q @ K.t() / math.sqrt(Q.shape[-1])

# %% scaled_dot_product.scaled_scores wrong single public: bmm: exactly three axes only
def scaled_scores(Q, K):
    return torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(Q.shape[-1])

# %% scaled_dot_product.scaled_scores wrong single: scaled by the root of the number of keys
# true: root_of_the_number_of_keys
def scaled_scores(Q, K):
    d_k = K.size(-2)
    return torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(d_k)

# %% scaled_dot_product.scaled_scores wrong single public: the scale is inverted: multiplied by sqrt(d_k)
# true: multiplied_by_sqrt_d
def scaled_scores(Q, K):
    scale = Q.shape[-1] ** -0.5
    return (Q @ K.transpose(-2, -1)) / scale

# %% scaled_dot_product.scaled_scores wrong double: divided by d_k, and transposed (one row per key)
# true: scaled_by_d; keys_by_queries
def scaled_scores(Q, K):
    return K @ Q.transpose(-2, -1) / K.shape[-1]

# %% scaled_dot_product.scaled_scores wrong single: the scale is hard-coded for d_k = 64
# true: ~mended; unscaled
def scaled_scores(Q, K):
    return Q @ K.mT / 8

# %% scaled_dot_product.scaled_scores wrong double public: unpacks three axes and scales by the number of queries
def scaled_scores(Q, K):
    B, T, C = Q.shape
    return Q @ K.transpose(-2, -1) * T**-0.5

# %% scaled_dot_product.scaled_scores wrong single: a reshape instead of a transpose of the keys
# true: slip.call.reshaped(K.transpose(-2, -1))
def scaled_scores(Q, K):
    Kt = K.reshape(*K.shape[:-2], K.shape[-1], K.shape[-2])
    return Q @ Kt / math.sqrt(Q.shape[-1])

# %% scaled_dot_product.scaled_scores wrong single: always float32
# true: single_precision
def scaled_scores(Q, K):
    S = torch.matmul(Q.float(), K.float().transpose(-2, -1))
    return S / math.sqrt(Q.shape[-1])

# %% scaled_dot_product.scaled_scores wrong single: through NumPy: the gradient is cut
# true: ~exact
import numpy as np

def scaled_scores(Q, K):
    q, k = Q.detach().numpy(), K.detach().numpy()
    return torch.from_numpy(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]).astype(q.dtype))

# %% scaled_dot_product.scaled_scores wrong double: softmax taken already, on unscaled scores
def scaled_scores(Q, K):
    return torch.softmax(Q @ K.mT, dim=-1)

# %% scaled_dot_product.scaled_scores wrong double: the norms are divided out as well (cosine) and the scale dropped
# true: cosine
def scaled_scores(Q, K):
    return F.normalize(Q, dim=-1) @ F.normalize(K, dim=-1).transpose(-2, -1)

# %% scaled_dot_product.scaled_scores right public: matmul and math.sqrt
def scaled_scores(Q, K):
    return torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(Q.size(-1))

# %% scaled_dot_product.scaled_scores right: einsum with ellipsis
def scaled_scores(Q, K):
    return torch.einsum("...ia,...ja->...ij", Q, K) * Q.shape[-1] ** -0.5

# %% scaled_dot_product.scaled_scores right public: scale split between Q and K
def scaled_scores(Q, K):
    s = K.shape[-1] ** -0.25
    return (Q * s) @ (K * s).mT

# %% scaled_dot_product.scaled_scores right: broadcast product, summed
def scaled_scores(Q, K):
    return (Q.unsqueeze(-2) * K.unsqueeze(-3)).sum(-1).div(math.sqrt(K.shape[-1]))

# %% scaled_dot_product.scaled_scores right public: sqrt of a float32 tensor as the scale (rounded scale)
def scaled_scores(Q, K):
    d_k = torch.tensor(Q.shape[-1], dtype=torch.float32)
    return Q @ K.transpose(-1, -2) / torch.sqrt(d_k)

# %% scaled_dot_product.scaled_scores right: float64 inside, then back
def scaled_scores(Q, K):
    S = (Q.double() @ K.double().mT) / Q.shape[-1] ** 0.5
    return S.to(Q.dtype)

# %% scaled_dot_product.scaled_scores wrong double: float32 inside, and divided by d_k
# true: scaled_by_d
def scaled_scores(Q, K):
    S = torch.einsum('...ia,...ja->...ij', Q.float(), K.float())
    return S / Q.shape[-1]

# %% scaled_dot_product.scaled_scores wrong double: not scaled, and transposed
# true: unscaled; keys_by_queries
def scaled_scores(Q, K):
    return K @ Q.transpose(-2, -1)

# %% scaled_dot_product.sdpa wrong single: softmax over the queries (dim -2)
# true: softmax_over_queries
def sdpa(Q, K, V):
    S = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    A = torch.softmax(S, dim=-2)
    return A @ V, A

# %% scaled_dot_product.sdpa wrong single public: softmax over dim 1: the queries in a batch
# true: softmax_axis_1
def sdpa(Q, K, V):
    d_k = Q.size(-1)
    attn = F.softmax(torch.matmul(Q, K.transpose(-2, -1)) / d_k**0.5, dim=1)
    return torch.matmul(attn, V), attn

# %% scaled_dot_product.sdpa wrong single: weights first, output second
# true: weights_first
def sdpa(Q, K, V):
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    A = S.softmax(-1)
    return A, A @ V

# %% scaled_dot_product.sdpa wrong single public: only the output (the builtin)
# true: slip.returned.alone(A @ V)
def sdpa(Q, K, V):
    return F.scaled_dot_product_attention(Q, K, V)

# %% scaled_dot_product.sdpa wrong single: not scaled
# true: unscaled
def sdpa(Q, K, V):
    A = torch.softmax(Q @ K.transpose(-2, -1), dim=-1)
    return A @ V, A

# %% scaled_dot_product.sdpa wrong single: scale after the softmax: rows sum to 1/sqrt(d_k)
# true: scaled_after_softmax
def sdpa(Q, K, V):
    A = torch.softmax(Q @ K.transpose(-2, -1), dim=-1) / math.sqrt(Q.shape[-1])
    return A @ V, A

# %% scaled_dot_product.sdpa wrong single: own softmax without the maximum: overflow gives NaN
# true: unstable_softmax
def sdpa(Q, K, V):
    E = torch.exp(Q @ K.mT / math.sqrt(Q.shape[-1]))
    A = E / E.sum(dim=-1, keepdim=True)
    return A @ V, A

# %% scaled_dot_product.sdpa wrong single public: own softmax with one maximum for everything
# true: ~mended
def sdpa(Q, K, V):
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    E = torch.exp(S - S.max())
    A = E / E.sum(dim=-1, keepdim=True)
    return A @ V, A

# %% scaled_dot_product.sdpa wrong double: not scaled, and softmax over the queries
# true: unscaled; softmax_over_queries
def sdpa(Q, K, V):
    S = Q @ K.transpose(-1, -2)
    A = S.softmax(dim=-2)
    return A @ V, A

# %% scaled_dot_product.sdpa wrong single: builtin for the output, unscaled softmax for the weights: the two do not belong together
# true: attention_course.operators:no_scale()
def sdpa(Q, K, V):
    O = F.scaled_dot_product_attention(Q, K, V)
    A = torch.softmax(Q @ K.mT, dim=-1)
    return O, A

# %% scaled_dot_product.sdpa wrong single: the weights are detached: no gradient reaches Q and K
# true: detached_weights
def sdpa(Q, K, V):
    with torch.no_grad():
        A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    return A @ V, A

# %% scaled_dot_product.sdpa wrong single public: dropout stays switched on
# true: ~mended
def sdpa(Q, K, V):
    scale_factor = 1 / math.sqrt(Q.size(-1))
    attn_weight = Q @ K.transpose(-2, -1) * scale_factor
    attn_weight = torch.softmax(attn_weight, dim=-1)
    attn_weight = torch.dropout(attn_weight, 0.1, train=True)
    return attn_weight @ V, attn_weight

# %% scaled_dot_product.sdpa wrong double: divided by d_k, and the pair swapped
# true: scaled_by_d; weights_first
def sdpa(Q, K, V):
    d = Q.shape[-1]
    A = F.softmax(Q @ K.mT / d, dim=-1)
    return A, A @ V

# %% scaled_dot_product.sdpa wrong single: scaled by the width of the values
# true: scaled_by_sqrt_d_v
def sdpa(Q, K, V):
    d = V.shape[-1]
    A = F.softmax(Q @ K.transpose(-2, -1) * d**-0.5, dim=-1)
    return A @ V, A

# %% scaled_dot_product.sdpa wrong double: softmax of everything: S times V first, softmax over the features afterwards; returns raw scores
def sdpa(Q, K, V):
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    O = torch.softmax(S @ V, dim=-1)
    return O, S

# %% scaled_dot_product.sdpa wrong single public: unpacks three axes and transposes axes 1 and 2: nothing but a batch of sequences
# true: ~exact
def sdpa(Q, K, V):
    B, n, d = Q.shape
    S = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(d)
    A = F.softmax(S, dim=-1)
    return torch.bmm(A, V), A

# %% scaled_dot_product.sdpa right public: three lines
def sdpa(Q, K, V):
    S = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    A = F.softmax(S, dim=-1)
    return torch.matmul(A, V), A

# %% scaled_dot_product.sdpa right: builtin twice: values, and the identity for the weights
def sdpa(Q, K, V):
    eye = torch.eye(K.shape[-2], dtype=V.dtype, device=V.device).expand(*V.shape[:-2], -1, -1)
    A = F.scaled_dot_product_attention(Q, K, eye)
    O = F.scaled_dot_product_attention(Q, K, V)
    return O, A

# %% scaled_dot_product.sdpa right: einsum and logsumexp
def sdpa(Q, K, V):
    S = torch.einsum("...ia,...ja->...ij", Q, K) / Q.shape[-1] ** 0.5
    A = (S - S.logsumexp(dim=-1, keepdim=True)).exp()
    return torch.einsum("...ij,...jc->...ic", A, V), A

# %% scaled_dot_product.sdpa right: manual stable softmax, max not detached
def sdpa(Q, K, V):
    S = scaled_scores(Q, K)
    E = torch.exp(S - S.amax(dim=-1, keepdim=True))
    A = E / E.sum(-1, keepdim=True)
    return A @ V, A

# %% scaled_dot_product.sdpa right: loop over query rows, stacked
def sdpa(Q, K, V):
    outs, weights = [], []
    for i in range(Q.shape[-2]):
        s = (K * Q[..., i : i + 1, :]).sum(-1) / math.sqrt(Q.shape[-1])
        a = torch.softmax(s, -1)
        weights.append(a)
        outs.append((a.unsqueeze(-1) * V).sum(-2))
    return torch.stack(outs, -2), torch.stack(weights, -2)

# %% scaled_dot_product.sdpa right: float64 inside, then back
def sdpa(Q, K, V):
    A = torch.softmax((Q.double() @ K.double().mT) / math.sqrt(Q.shape[-1]), -1)
    O = A @ V.double()
    return O.to(Q.dtype), A.to(Q.dtype)

# %% scaled_dot_product.sdpa wrong double: scaled twice, with a detached softmax
# true: scaled_by_d; detached_weights
def sdpa(Q, K, V):
    S = scaled_scores(Q, K) / math.sqrt(Q.shape[-1])
    A = torch.softmax(S, dim=-1).detach()
    return A @ V, A

# %% scaled_dot_product.sdpa wrong double: divided by d_k, and softmax over the queries
# true: scaled_by_d; softmax_over_queries
def sdpa(Q, K, V):
    A = torch.softmax(Q @ K.mT / Q.shape[-1], dim=-2)
    return A @ V, A

# %% scaled_dot_product.sdpa wrong double: own softmax without maximum, scale forgotten
# true: unscaled; unstable_softmax
def sdpa(Q, K, V):
    E = (Q @ K.mT).exp()
    A = E / E.sum(-1, keepdim=True)
    return A @ V, A
