# %% backward_pass.softmax_jacobian wrong single: only the diagonal: a (1 - a)
# true: sigmoid_rule
def softmax_jacobian(s):
    a = torch.softmax(s, dim=0)
    return torch.diag(a * (1 - a))

# %% backward_pass.softmax_jacobian wrong single public: the elementwise derivative a (1 - a): a vector
# true: ~mended; one_minus_everywhere
def softmax_jacobian(s):
    a = torch.softmax(s, dim=-1)
    return a * (1 - a)

# %% backward_pass.softmax_jacobian wrong single: sign: outer product minus diagonal
# true: wrong_sign
def softmax_jacobian(s):
    a = torch.softmax(s, dim=-1)
    return torch.outer(a, a) - torch.diag(a)

# %% backward_pass.softmax_jacobian wrong single: overflow: own softmax without the maximum
# true: unstable_softmax
def softmax_jacobian(s):
    e = torch.exp(s)
    a = e / e.sum()
    return torch.diag(a) - torch.outer(a, a)

# %% backward_pass.softmax_jacobian wrong single public: no softmax: the formula is applied to the scores themselves
# true: scores_for_weights
def softmax_jacobian(s):
    s = s.reshape(-1, 1)
    return torch.diagflat(s) - s @ s.T

# %% backward_pass.softmax_jacobian wrong single: off-diagonal entries with the wrong sign
# true: slip.no_signs()
def softmax_jacobian(s):
    a = torch.softmax(s, dim=0)
    J = torch.outer(a, a)
    J.fill_diagonal_(0)
    return J + torch.diag(a * (1 - a))

# %% backward_pass.softmax_jacobian wrong single: a_j missing in front: delta - a_l (the Jacobian of the log-softmax)
# true: slip.lost.factor(a[j])
def softmax_jacobian(s):
    a = torch.softmax(s, dim=0)
    return torch.eye(len(s), dtype=s.dtype) - a[None, :]

# %% backward_pass.softmax_jacobian wrong single: the factor stands at the column, not the row: a_l (delta - a_l)
# true: ~mended
def softmax_jacobian(s):
    a = torch.softmax(s, dim=0)
    return a * (torch.eye(len(a), dtype=a.dtype) - a)

# %% backward_pass.softmax_jacobian wrong single: a @ a is a number: the same square sum is subtracted everywhere
# true: inner_product
def softmax_jacobian(s):
    a = torch.softmax(s, dim=0)
    return torch.diag(a) - a @ a

# %% backward_pass.softmax_jacobian wrong double: loop over the scores z with naive exponentials, and the off-diagonal sign lost
# true: unstable_softmax; slip.no_signs()
def softmax_jacobian(s):
    e = torch.exp(s)
    s = e / e.sum()
    J = torch.zeros(len(s), len(s), dtype=s.dtype)
    for i in range(len(s)):
        for j in range(len(s)):
            J[i, j] = s[i] * (1 - s[i]) if i == j else s[i] * s[j]
    return J

# %% backward_pass.softmax_jacobian wrong double: diagonal only, and overflow
def softmax_jacobian(s):
    e = torch.exp(s)
    a = e / torch.sum(e)
    return torch.diag(a - a**2)

# %% backward_pass.softmax_jacobian wrong double: sign reversed and no softmax
# true: wrong_sign; scores_for_weights
def softmax_jacobian(s):
    return torch.outer(s, s) - torch.diag(s)

# %% backward_pass.softmax_jacobian right: diag minus outer
def softmax_jacobian(s):
    a = torch.softmax(s, dim=-1)
    return torch.diag(a) - torch.outer(a, a)

# %% backward_pass.softmax_jacobian wrong single: asks autograd for the Jacobian, which the exercise forbids
# true: asked_autograd
def softmax_jacobian(s):
    return torch.autograd.functional.jacobian(lambda x: torch.softmax(x, dim=0), s)

# %% backward_pass.softmax_jacobian right: row by row with the Kronecker delta
def softmax_jacobian(s):
    a = s.softmax(0)
    J = torch.empty(s.numel(), s.numel(), dtype=s.dtype, device=s.device)
    for j in range(len(a)):
        for l in range(len(a)):
            J[j, l] = a[j] * ((1.0 if j == l else 0.0) - a[l])
    return J

# %% backward_pass.softmax_jacobian right: the weights from the logsumexp
def softmax_jacobian(s):
    a = (s - torch.logsumexp(s, 0)).exp()
    return a[:, None] * (torch.eye(a.shape[0]).to(a) - a[None, :])

# %% backward_pass.softmax_jacobian right public: diagflat, column vector
def softmax_jacobian(s):
    s = torch.softmax(s, dim=0).reshape(-1, 1)
    return torch.diagflat(s) - torch.mm(s, s.T)

# %% backward_pass.softmax_jacobian wrong double: log-softmax Jacobian, sign reversed
# true: wrong_sign; slip.lost.factor(a[j])
def softmax_jacobian(s):
    a = torch.softmax(s, 0)
    return a[None, :] - torch.eye(len(a), dtype=a.dtype)

# %% backward_pass.sdpa_backward wrong single: the row sum in the softmax's backward is missing: dS = A * dA
# true: row_sum_forgotten
def sdpa_backward(Q, K, V, dO):
    _, A = sdpa(Q, K, V)
    dV = A.mT @ dO
    dA = dO @ V.mT
    dS = A * dA
    scale = Q.shape[-1] ** -0.5
    return dS @ K * scale, dS.mT @ Q * scale, dV

# %% backward_pass.sdpa_backward wrong single: the scale is missing in dQ and dK
# true: scale_forgotten
def sdpa_backward(Q, K, V, dO):
    _, A = sdpa(Q, K, V)
    dV = A.transpose(-2, -1) @ dO
    dA = dO @ V.transpose(-2, -1)
    dS = A * (dA - (dA * A).sum(dim=-1, keepdim=True))
    return dS @ K, dS.transpose(-2, -1) @ Q, dV

# %% backward_pass.sdpa_backward wrong single: the sum in the softmax's backward runs over the queries
# true: summed_over_queries
def sdpa_backward(Q, K, V, dO):
    _, A = sdpa(Q, K, V)
    dV = A.mT @ dO
    dA = dO @ V.mT
    dS = A * (dA - (dA * A).sum(dim=-2, keepdim=True))
    scale = Q.shape[-1] ** -0.5
    return dS @ K * scale, dS.mT @ Q * scale, dV

# %% backward_pass.sdpa_backward wrong single public: the softmax's derivative is taken as diagonal: dA * A * (1 - A)
# true: diagonal_of_the_jacobian
def sdpa_backward(Q, K, V, dO):
    _, A = sdpa(Q, K, V)
    dV = A.mT @ dO
    dA = dO @ V.mT
    dS = dA * A * (1 - A)
    scale = 1 / math.sqrt(Q.shape[-1])
    return dS @ K * scale, dS.mT @ Q * scale, dV

# %% backward_pass.sdpa_backward wrong single: scale applied twice
# true: scaled_twice
def sdpa_backward(Q, K, V, dO):
    _, A = sdpa(Q, K, V)
    dV = A.mT @ dO
    dA = dO @ V.mT
    dS = A * (dA - (dA * A).sum(-1, keepdim=True)) / math.sqrt(Q.shape[-1])
    dQ = dS @ K / math.sqrt(Q.shape[-1])
    dK = dS.mT @ Q / math.sqrt(Q.shape[-1])
    return dQ, dK, dV

# %% backward_pass.sdpa_backward wrong single: gradients in the order (dK, dQ, dV)
# true: queries_and_keys_exchanged
def sdpa_backward(Q, K, V, dO):
    _, A = sdpa(Q, K, V)
    dA = dO @ V.mT
    dS = A * (dA - (dA * A).sum(-1, keepdim=True)) / math.sqrt(Q.shape[-1])
    return dS.mT @ Q, dS @ K, A.mT @ dO

# %% backward_pass.sdpa_backward wrong double: A not transposed in dV (an error unless as many queries as keys), scale missing
# true: scale_forgotten; dv_without_transpose
def sdpa_backward(Q, K, V, dO):
    _, A = sdpa(Q, K, V)
    dV = A @ dO
    dA = dO @ V.mT
    dS = A * (dA - (dA * A).sum(-1, keepdim=True))
    return dS @ K, dS.mT @ Q, dV

# %% backward_pass.sdpa_backward wrong single: dS not transposed in dK (an error unless as many queries as keys)
# true: ~mended
def sdpa_backward(Q, K, V, dO):
    _, A = sdpa(Q, K, V)
    dA = dO @ V.mT
    dS = A * (dA - (dA * A).sum(-1, keepdim=True)) / math.sqrt(Q.shape[-1])
    return dS @ K, dS @ Q, A.mT @ dO

# %% backward_pass.sdpa_backward wrong single: autograd does the work, which is forbidden
# true: asked_autograd
def sdpa_backward(Q, K, V, dO):
    q, k, v = (x.detach().clone().requires_grad_(True) for x in (Q, K, V))
    O, _ = sdpa(q, k, v)
    O.backward(dO)
    return q.grad, k.grad, v.grad

# %% backward_pass.sdpa_backward wrong double: diagonal softmax derivative and no scale
# true: scale_forgotten; diagonal_of_the_jacobian
def sdpa_backward(Q, K, V, dO):
    _, A = sdpa(Q, K, V)
    dA = dO @ V.mT
    dS = dA * A * (1 - A)
    return dS @ K, dS.mT @ Q, A.mT @ dO

# %% backward_pass.sdpa_backward wrong double: row sum missing and no scale
# true: scale_forgotten; row_sum_forgotten
def sdpa_backward(Q, K, V, dO):
    _, A = sdpa(Q, K, V)
    dS = A * (dO @ V.mT)
    return dS @ K, dS.mT @ Q, A.mT @ dO

# %% backward_pass.sdpa_backward wrong single public: the scale on the way back is the root of the width of the values, not of d_k
# true: slip.name(V, Q)
def sdpa_backward(Q, K, V, dO):
    _, A = sdpa(Q, K, V)
    grad = (dO @ V.mT) * A
    dS = (grad - A * grad.sum(dim=-1, keepdim=True)) / math.sqrt(V.shape[-1])
    return dS @ K, dS.mT @ Q, A.mT @ dO

# %% backward_pass.sdpa_backward wrong single: the weights are recomputed without the scale
# true: weights_of_unscaled_scores
def sdpa_backward(Q, K, V, dO):
    A = torch.softmax(Q @ K.mT, dim=-1)
    dA = dO @ V.mT
    dS = A * (dA - (dA * A).sum(-1, keepdim=True)) / math.sqrt(Q.shape[-1])
    return dS @ K, dS.mT @ Q, A.mT @ dO

# %% backward_pass.sdpa_backward wrong single: subtracts the sum of dO over the features instead of the weighted mean of dA
# true: slip.lost.factor(O)
def sdpa_backward(Q, K, V, dO):
    O, A = sdpa(Q, K, V)
    dA = dO @ V.mT
    dS = A * (dA - dO.sum(-1, keepdim=True)) / math.sqrt(Q.shape[-1])
    return dS @ K, dS.mT @ Q, A.mT @ dO

# %% backward_pass.sdpa_backward right: textbook
def sdpa_backward(Q, K, V, dO):
    _, A = sdpa(Q, K, V)
    dV = A.mT @ dO
    dA = dO @ V.mT
    dS = A * (dA - (A * dA).sum(-1, keepdim=True))
    scale = 1 / math.sqrt(Q.shape[-1])
    return scale * dS @ K, scale * dS.mT @ Q, dV

# %% backward_pass.sdpa_backward right public: FlashAttention's D = rowsum(dO * O)
def sdpa_backward(Q, K, V, dO):
    O, P = sdpa(Q, K, V)
    D = (dO * O).sum(dim=-1, keepdim=True)
    dP = torch.einsum("...ic,...jc->...ij", dO, V)
    dS = P * (dP - D) * Q.shape[-1] ** -0.5
    dQ = torch.einsum("...ij,...ja->...ia", dS, K)
    dK = torch.einsum("...ij,...ia->...ja", dS, Q)
    dV = torch.einsum("...ij,...ic->...jc", P, dO)
    return dQ, dK, dV

# %% backward_pass.sdpa_backward right: with the Jacobian of every row
def sdpa_backward(Q, K, V, dO):
    A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    dA = dO @ V.transpose(-2, -1)
    J = torch.diag_embed(A) - A.unsqueeze(-1) * A.unsqueeze(-2)
    dS = (J @ dA.unsqueeze(-1)).squeeze(-1)
    s = math.sqrt(K.shape[-1])
    return dS @ K / s, dS.transpose(-2, -1) @ Q / s, A.transpose(-2, -1) @ dO

# %% backward_pass.sdpa_backward right: returned as a list
def sdpa_backward(Q, K, V, dO):
    _, A = sdpa(Q, K, V)
    dA = dO @ V.mT
    dS = (dA * A - A * (dA * A).sum(-1)[..., None]) / Q.shape[-1] ** 0.5
    return [dS @ K, dS.mT @ Q, A.mT @ dO]

# %% backward_pass.sdpa_backward right: query row by query row
def sdpa_backward(Q, K, V, dO):
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    s = math.sqrt(Q.shape[-1])
    for i in range(Q.shape[-2]):
        q, g = Q[..., i, :], dO[..., i, :]
        a = torch.softmax((K @ q[..., None])[..., 0] / s, dim=-1)
        da = (V @ g[..., None])[..., 0]
        ds = a * (da - (a * da).sum(-1, keepdim=True)) / s
        dQ[..., i, :] = (ds[..., None, :] @ K)[..., 0, :]
        dK = dK + ds[..., None] * q[..., None, :]
        dV = dV + a[..., None] * g[..., None, :]
    return dQ, dK, dV

# %% backward_pass.sdpa_backward wrong double: sum over the queries, and the scale missing
# true: scale_forgotten; summed_over_queries
def sdpa_backward(Q, K, V, dO):
    _, A = sdpa(Q, K, V)
    dA = dO @ V.mT
    dS = A * (dA - (A * dA).sum(-2, keepdim=True))
    return dS @ K, dS.mT @ Q, A.mT @ dO

# %% backward_pass.sdpa_backward wrong double: scale twice, and the order (dK, dQ, dV)
# true: scaled_twice; queries_and_keys_exchanged
def sdpa_backward(Q, K, V, dO):
    _, A = sdpa(Q, K, V)
    dA = dO @ V.mT
    dS = A * (dA - (A * dA).sum(-1, keepdim=True)) / Q.shape[-1]
    return dS.mT @ Q, dS @ K, A.mT @ dO

# %% backward_pass.sdpa_backward wrong double: dO times the values' sum: dA from summed features, no row sum
def sdpa_backward(Q, K, V, dO):
    _, A = sdpa(Q, K, V)
    dA = dO.sum(-1, keepdim=True) * V.sum(-1).unsqueeze(-2)
    dS = A * dA / math.sqrt(Q.shape[-1])
    return dS @ K, dS.mT @ Q, A.mT @ dO
