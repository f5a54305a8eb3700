# %% latents_by_svd.output_factors wrong single: plain singular value decomposition of W: ignores C
# true: activations_ignored
def output_factors(W, C):
    U, S, Vh = torch.linalg.svd(W, full_matrices=True)
    up = Vh * torch.where(Vh[:, :1] < 0, -1.0, 1.0).to(W.dtype)
    return W @ up.T, up

# %% latents_by_svd.output_factors wrong single: smallest eigenvalue first, as eigh gives them
# true: smallest_first
def output_factors(W, C):
    _, V = torch.linalg.eigh(W.T @ C @ W)
    V = V * torch.where(V[:1] < 0, -1.0, 1.0).to(W.dtype)
    return W @ V, V.T

# %% latents_by_svd.output_factors right: leaves the signs as eigh gives them
def output_factors(W, C):
    _, V = torch.linalg.eigh(W.T @ C @ W)
    V = V.flip(1)
    return W @ V, V.T.contiguous()

# %% latents_by_svd.output_factors wrong single: returns V instead of its transpose
# true: not_transposed
def output_factors(W, C):
    _, V = torch.linalg.eigh(W.mT @ C @ W)
    V = V.flip(-1)
    V = V * torch.where(V[0] < 0, -1.0, 1.0).to(W.dtype)
    return W @ V, V

# %% latents_by_svd.output_factors wrong single public: decomposes C^(1/2) W and returns U S of that: down @ up is not W
def output_factors(W, C):
    e, Q = torch.linalg.eigh(C)
    root = Q @ torch.diag(e.clamp(min=0).sqrt()) @ Q.T
    U, S, Vh = torch.linalg.svd(root @ W, full_matrices=False)
    sign = torch.where(Vh[:, :1] < 0, -1.0, 1.0).to(W.dtype)
    return U * S * sign.T, Vh * sign

# %% latents_by_svd.output_factors wrong double: takes C for the inputs themselves (C^T C), and keeps eigh's ascending order
# true: smallest_first; moment_squared
def output_factors(W, C):
    Y = C @ W
    _, V = torch.linalg.eigh(Y.T @ Y)
    V = V * torch.where(V[:1] < 0, -1.0, 1.0).to(W.dtype)
    return W @ V, V.T

# %% latents_by_svd.output_factors wrong double public: plain SVD with the root of the singular values in both factors: ignores C, and up is not orthonormal
# true: activations_ignored; sizes_shared
def output_factors(W, C):
    U, S, Vh = torch.linalg.svd(W, full_matrices=False)
    sign = torch.where(Vh[:, :1] < 0, -1.0, 1.0).to(W.dtype)
    return U * S.sqrt() * sign.T, S.sqrt()[:, None] * Vh * sign

# %% latents_by_svd.output_factors right: eigh, flipped, signed
def output_factors(W, C):
    _, V = torch.linalg.eigh(W.mT @ C @ W)
    V = V.flip(-1)
    V = V * torch.where(V[:1] < 0, -1.0, 1.0).to(V.dtype)
    return W @ V, V.mT

# %% latents_by_svd.output_factors right: float64 inside, symmetrised, sorted by hand
def output_factors(W, C):
    A = W.double().T @ C.double() @ W.double()
    values, vectors = torch.linalg.eigh((A + A.T) / 2)
    order = values.argsort(descending=True)
    V = vectors[:, order]
    V[:, V[0] < 0] *= -1
    return (W.double() @ V).to(W.dtype), V.T.to(W.dtype)

# %% latents_by_svd.output_factors right: right singular vectors of C^(1/2) W
def output_factors(W, C):
    e, Q = torch.linalg.eigh(C.double())
    root = Q * e.clamp(min=0).sqrt() @ Q.T
    _, _, Vh = torch.linalg.svd(root @ W.double(), full_matrices=True)
    Vh = Vh * torch.where(Vh[:, :1] < 0, -1.0, 1.0)
    return (W.double() @ Vh.T).to(W.dtype), Vh.to(W.dtype)

# %% latents_by_svd.output_factors right: numpy.linalg.eigh
def output_factors(W, C):
    import numpy as np
    w, c = W.double().numpy(), C.double().numpy()
    _, V = np.linalg.eigh(w.T @ c @ w)
    V = V[:, ::-1] * np.where(V[0, ::-1] < 0, -1.0, 1.0)
    V = torch.from_numpy(np.ascontiguousarray(V)).to(W.dtype)
    return W @ V, V.T

# %% latents_by_svd.output_factors wrong double: ascending order and no convention for the signs
# true: smallest_first
def output_factors(W, C):
    _, V = torch.linalg.eigh(W.T @ C @ W)
    return W @ V, V.T

# %% latents_by_svd.latent_weights wrong single: factors [W_K | W_V] without weighing them
# true: not_balanced
def latent_weights(W_K, W_V, C, r):
    down, up = output_factors(torch.cat([W_K, W_V], dim=1), C)
    return down[:, :r], up[:r, : W_K.shape[1]], up[:r, W_K.shape[1] :]

# %% latents_by_svd.latent_weights wrong single: weighs by the Frobenius norms of the weights, without C
# true: sizes_of_weights
def latent_weights(W_K, W_V, C, r):
    kappa = W_K.norm()
    nu = W_V.norm()
    down, up = output_factors(torch.cat([W_K / kappa, W_V / nu], dim=1), C)
    down, up = down[:, :r], up[:r]
    keys = W_K.shape[1]
    return down, up[:, :keys] * kappa, up[:, keys:] * nu

# %% latents_by_svd.latent_weights wrong single: does not multiply the ups by kappa and nu again
# true: sizes_not_undone
def latent_weights(W_K, W_V, C, r):
    kappa = torch.trace(W_K.T @ C @ W_K).sqrt()
    nu = torch.trace(W_V.T @ C @ W_V).sqrt()
    down, up = output_factors(torch.cat([W_K / kappa, W_V / nu], dim=1), C)
    down, up = down[:, :r], up[:r]
    keys = W_K.shape[1]
    return down, up[:, :keys], up[:, keys:]

# %% latents_by_svd.latent_weights wrong single: forgets the root: divides by kappa squared and nu squared
# true: sizes_squared
def latent_weights(W_K, W_V, C, r):
    kappa = torch.trace(W_K.T @ C @ W_K)
    nu = torch.trace(W_V.T @ C @ W_V)
    down, up = output_factors(torch.cat([W_K / kappa, W_V / nu], dim=1), C)
    down, up = down[:, :r], up[:r]
    keys = W_K.shape[1]
    return down, up[:, :keys] * kappa, up[:, keys:] * nu

# %% latents_by_svd.latent_weights wrong single: factors keys and values apart, half of the directions for each
# true: one_half_each
def latent_weights(W_K, W_V, C, r):
    dk, uk = output_factors(W_K, C)
    dv, uv = output_factors(W_V, C)
    a, b = r - r // 2, r // 2
    down = torch.cat([dk[:, :a], dv[:, :b]], dim=1)
    W_UK = torch.cat([uk[:a], uk.new_zeros(b, uk.shape[1])])
    W_UV = torch.cat([uv.new_zeros(a, uv.shape[1]), uv[:b]])
    return down, W_UK, W_UV

# %% latents_by_svd.latent_weights wrong double: factors with C = I, and does not multiply the ups back
# true: sizes_not_undone; activations_ignored
def latent_weights(W_K, W_V, C, r):
    kappa = torch.trace(W_K.T @ C @ W_K).sqrt()
    nu = torch.trace(W_V.T @ C @ W_V).sqrt()
    down, up = output_factors(torch.cat([W_K / kappa, W_V / nu], dim=1), torch.eye(len(C), dtype=C.dtype))
    down, up = down[:, :r], up[:r]
    keys = W_K.shape[1]
    return down, up[:, :keys], up[:, keys:]

# %% latents_by_svd.latent_weights wrong double: multiplies by kappa and nu instead of dividing, and keeps the last r directions
def latent_weights(W_K, W_V, C, r):
    kappa = torch.trace(W_K.T @ C @ W_K).sqrt()
    nu = torch.trace(W_V.T @ C @ W_V).sqrt()
    down, up = output_factors(torch.cat([W_K * kappa, W_V * nu], dim=1), C)
    down, up = down[:, -r:], up[-r:]
    keys = W_K.shape[1]
    return down, up[:, :keys] / kappa, up[:, keys:] / nu

# %% latents_by_svd.latent_weights wrong single: returns the ups in the order (values, keys)
# true: ~mended
def latent_weights(W_K, W_V, C, r):
    kappa = torch.trace(W_K.T @ C @ W_K).sqrt()
    nu = torch.trace(W_V.T @ C @ W_V).sqrt()
    down, up = output_factors(torch.cat([W_K / kappa, W_V / nu], dim=1), C)
    down, up = down[:, :r], up[:r]
    keys = W_K.shape[1]
    return down, up[:, keys:] * nu, up[:, :keys] * kappa

# %% latents_by_svd.latent_weights right: traces
def latent_weights(W_K, W_V, C, r):
    kappa = torch.trace(W_K.T @ C @ W_K).sqrt()
    nu = torch.trace(W_V.T @ C @ W_V).sqrt()
    down, up = output_factors(torch.cat([W_K / kappa, W_V / nu], dim=1), C)
    down, up = down[:, :r], up[:r]
    keys = W_K.shape[1]
    return down, up[:, :keys] * kappa, up[:, keys:] * nu

# %% latents_by_svd.latent_weights right: elementwise sum and split
def latent_weights(W_K, W_V, C, r):
    def size(W):
        return float((W * (C @ W)).sum()) ** 0.5
    a, b = size(W_K), size(W_V)
    down, up = output_factors(torch.hstack((W_K / a, W_V / b)), C)
    up_k, up_v = up[:r].split([W_K.shape[1], W_V.shape[1]], dim=1)
    return down[:, :r], a * up_k, b * up_v

# %% latents_by_svd.latent_weights right: einsum for the moments, scaling by a diagonal vector
def latent_weights(W_K, W_V, C, r):
    ks, vs = W_K.shape[1], W_V.shape[1]
    kappa2 = torch.einsum("ij,ik,jk->", C, W_K, W_K)
    nu2 = torch.einsum("ij,ik,jk->", C, W_V, W_V)
    scale = torch.cat([kappa2.sqrt().expand(ks), nu2.sqrt().expand(vs)])
    down, up = output_factors(torch.cat([W_K, W_V], 1) / scale, C)
    up = up * scale
    return down[:, :r], up[:r, :ks], up[:r, ks:]

# %% latents_by_svd.latent_weights right: without output_factors: eigh in place, float64 and back
def latent_weights(W_K, W_V, C, r):
    K, V, M = W_K.double(), W_V.double(), C.double()
    a, b = (K.T @ M @ K).trace().sqrt(), (V.T @ M @ V).trace().sqrt()
    W = torch.cat([K / a, V / b], dim=1)
    _, vectors = torch.linalg.eigh(W.T @ M @ W)
    vectors = vectors.flip(1)
    vectors = vectors * torch.where(vectors[:1] < 0, -1.0, 1.0)
    down, up = (W @ vectors)[:, :r], vectors.T[:r]
    n = K.shape[1]
    return down.to(W_K.dtype), (up[:, :n] * a).to(W_K.dtype), (up[:, n:] * b).to(W_K.dtype)

# %% latents_by_svd.latent_weights wrong double: divides by the squares, and does not multiply the ups back
# true: sizes_not_undone; sizes_squared
def latent_weights(W_K, W_V, C, r):
    kappa = torch.trace(W_K.T @ C @ W_K)
    nu = torch.trace(W_V.T @ C @ W_V)
    down, up = output_factors(torch.cat([W_K / kappa, W_V / nu], dim=1), C)
    down, up = down[:, :r], up[:r]
    keys = W_K.shape[1]
    return down, up[:, :keys], up[:, keys:]
