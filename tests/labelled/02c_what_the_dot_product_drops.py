# %% what_the_dot_product_drops.gaussian_scores wrong single: the factor 1/2 is missing: -|q-k|^2
# true: no_half
def gaussian_scores(Q, K):
    return 2 * Q @ K.T - (Q**2).sum(axis=1, keepdims=True) - (K**2).sum(axis=1)

# %% what_the_dot_product_drops.gaussian_scores wrong single: 1/2 forgotten on the norms
# true: norms_not_halved
def gaussian_scores(Q, K):
    return Q @ K.T - (Q**2).sum(1)[:, None] - (K**2).sum(1)[None, :]

# %% what_the_dot_product_drops.gaussian_scores wrong double public: squared distances: sign and 1/2 missing
# true: no_minus; no_half
def gaussian_scores(Q, K):
    dists = -2 * np.dot(Q, K.T) + np.sum(K**2, axis=1) + np.sum(Q**2, axis=1)[:, np.newaxis]
    return dists

# %% what_the_dot_product_drops.gaussian_scores wrong single: the query norms are dropped
# true: query_norms_dropped
def gaussian_scores(Q, K):
    return Q @ K.T - 0.5 * (K**2).sum(axis=1)

# %% what_the_dot_product_drops.gaussian_scores wrong single: the key norms are dropped
# true: key_norms_dropped
def gaussian_scores(Q, K):
    return Q @ K.T - 0.5 * (Q**2).sum(axis=1, keepdims=True)

# %% what_the_dot_product_drops.gaussian_scores wrong single: the exponential is taken already
# true: kernel_not_exponent
def gaussian_scores(Q, K):
    d2 = (Q**2).sum(1)[:, None] - 2 * Q @ K.T + (K**2).sum(1)[None, :]
    return np.exp(-d2 / 2)

# %% what_the_dot_product_drops.gaussian_scores wrong single: the distance is not squared: -|q-k|/2
# true: ~mended
def gaussian_scores(Q, K):
    d2 = (Q**2).sum(1)[:, None] - 2 * Q @ K.T + (K**2).sum(1)[None, :]
    return -np.sqrt(np.maximum(d2, 0)) / 2

# %% what_the_dot_product_drops.gaussian_scores wrong single: transposed: one row per key
# true: keys_in_the_rows
def gaussian_scores(Q, K):
    return K @ Q.T - 0.5 * (K**2).sum(1)[:, None] - 0.5 * (Q**2).sum(1)[None, :]

# %% what_the_dot_product_drops.gaussian_scores wrong single: the norms stand at the wrong axes (query norms along columns, key norms along rows): an error unless n == m
# true: ~mended
def gaussian_scores(Q, K):
    q2 = np.sum(Q**2, axis=1)
    k2 = np.sum(K**2, axis=1, keepdims=True)
    return Q @ K.T - 0.5 * q2 - 0.5 * k2

# %% what_the_dot_product_drops.gaussian_scores wrong single: norms summed over everything, not per row
# true: one_norm_for_all
def gaussian_scores(Q, K):
    return Q @ K.T - 0.5 * np.sum(Q**2) - 0.5 * np.sum(K**2)

# %% what_the_dot_product_drops.gaussian_scores wrong double: exponential taken and 1/2 missing
# true: no_half; kernel_not_exponent
def gaussian_scores(Q, K):
    d2 = (Q**2).sum(1)[:, None] - 2 * Q @ K.T + (K**2).sum(1)[None, :]
    return np.exp(-d2)

# %% what_the_dot_product_drops.gaussian_scores wrong double: transposed and 1/2 missing
# true: no_half; keys_in_the_rows
def gaussian_scores(Q, K):
    diff = K[:, None, :] - Q[None, :, :]
    return -(diff**2).sum(axis=-1)

# %% what_the_dot_product_drops.gaussian_scores wrong double public: positive Euclidean distances (the KNN homework)
def gaussian_scores(Q, K):
    x2 = np.square(Q).sum(1).reshape(-1, 1)
    y2 = np.square(K).sum(1)
    return np.sqrt(x2 - 2 * (Q @ K.T) + y2)

# %% what_the_dot_product_drops.gaussian_scores right: three terms
def gaussian_scores(Q, K):
    return Q @ K.T - (Q**2).sum(1, keepdims=True) / 2 - (K**2).sum(1) / 2

# %% what_the_dot_product_drops.gaussian_scores right: einsum
def gaussian_scores(Q, K):
    cross = np.einsum("ic,jc->ij", Q, K)
    q2, k2 = np.einsum("ic,ic->i", Q, Q), np.einsum("jc,jc->j", K, K)
    return cross - 0.5 * (q2[:, None] + k2[None, :])

# %% what_the_dot_product_drops.gaussian_scores wrong single: makes the array of all differences, (n, m, d)
# true: all_differences
def gaussian_scores(Q, K):
    return -0.5 * ((Q[:, None, :] - K[None, :, :]) ** 2).sum(axis=-1)

# %% what_the_dot_product_drops.gaussian_scores right: loops
def gaussian_scores(Q, K):
    S = np.empty((Q.shape[0], K.shape[0]))
    for i in range(len(Q)):
        for j in range(len(K)):
            S[i, j] = -np.linalg.norm(Q[i] - K[j]) ** 2 / 2
    return S

# %% what_the_dot_product_drops.gaussian_scores right: centred first, clamped at 0
def gaussian_scores(Q, K):
    c = K.mean(axis=0)
    A, B = Q - c, K - c
    S = A @ B.T - 0.5 * np.sum(A * A, axis=1)[:, None] - 0.5 * np.sum(B * B, axis=1)
    return np.minimum(S, 0.0)

# %% what_the_dot_product_drops.gaussian_scores right public: feature by feature with subtract.outer
def gaussian_scores(Q, K):
    S = np.zeros((len(Q), len(K)))
    for c in range(Q.shape[1]):
        S -= np.subtract.outer(Q[:, c], K[:, c]) ** 2 / 2
    return S

# %% what_the_dot_product_drops.gaussian_scores wrong double: key norms dropped, and 1/2 forgotten on the query norms
def gaussian_scores(Q, K):
    return Q @ K.T - (Q**2).sum(axis=1, keepdims=True)

# %% what_the_dot_product_drops.gaussian_scores wrong double: square root and transposed
def gaussian_scores(Q, K):
    diff = K[:, None, :] - Q[None, :, :]
    return -np.linalg.norm(diff, axis=-1) / 2

# %% what_the_dot_product_drops.additive_scores wrong single: tanh left out
# true: no_tanh
def additive_scores(Q, K, W_Q, W_K, wv):
    hidden = (Q @ W_Q)[:, None, :] + (K @ W_K)[None, :, :]
    return hidden @ wv

# %% what_the_dot_product_drops.additive_scores wrong single: tanh outside: around the weighted sum
# true: tanh_outside
def additive_scores(Q, K, W_Q, W_K, wv):
    hidden = (Q @ W_Q)[:, None, :] + (K @ W_K)[None, :, :]
    return np.tanh(hidden @ wv)

# %% what_the_dot_product_drops.additive_scores wrong single: tanh of each part, then the sum
# true: tanh_on_each_side
def additive_scores(Q, K, W_Q, W_K, wv):
    return (np.tanh(Q @ W_Q) @ wv)[:, None] + (np.tanh(K @ W_K) @ wv)[None, :]

# %% what_the_dot_product_drops.additive_scores wrong single: transposed: one row per key
# true: keys_in_the_rows
def additive_scores(Q, K, W_Q, W_K, wv):
    hidden = np.tanh((K @ W_K)[:, None, :] + (Q @ W_Q)[None, :, :])
    return hidden @ wv

# %% what_the_dot_product_drops.additive_scores wrong single public: adds row i of the queries to row i of the keys: pairs only (an error unless n == m)
# true: not_all_pairs
def additive_scores(Q, K, W_Q, W_K, wv):
    return np.tanh(Q @ W_Q + K @ W_K) @ wv

# %% what_the_dot_product_drops.additive_scores wrong single: product instead of sum inside the tanh
# true: multiplied_not_added
def additive_scores(Q, K, W_Q, W_K, wv):
    hidden = np.tanh((Q @ W_Q)[:, None, :] * (K @ W_K)[None, :, :])
    return hidden @ wv

# %% what_the_dot_product_drops.additive_scores wrong single: wv forgotten: the hidden units are just added up
# true: wv_left_out
def additive_scores(Q, K, W_Q, W_K, wv):
    hidden = np.tanh((Q @ W_Q)[:, None, :] + (K @ W_K)[None, :, :])
    return hidden.sum(axis=-1)

# %% what_the_dot_product_drops.additive_scores wrong single: sigmoid instead of tanh
# true: slip.call.sigmoid(tanh)
def additive_scores(Q, K, W_Q, W_K, wv):
    hidden = (Q @ W_Q)[:, None, :] + (K @ W_K)[None, :, :]
    return 1 / (1 + np.exp(-hidden)) @ wv

# %% what_the_dot_product_drops.additive_scores wrong single public: softmax taken already (returns weights)
# true: slip.result.softmax()
def additive_scores(Q, K, W_Q, W_K, wv):
    u = np.tanh((Q @ W_Q)[:, None, :] + (K @ W_K)[None, :, :])
    return softmax(u @ wv)

# %% what_the_dot_product_drops.additive_scores wrong double: transposed and tanh outside
# true: tanh_outside; keys_in_the_rows
def additive_scores(Q, K, W_Q, W_K, wv):
    hidden = (K @ W_K)[:, None, :] + (Q @ W_Q)[None, :, :]
    return np.tanh(hidden @ wv)

# %% what_the_dot_product_drops.additive_scores wrong single public: query projection left out of the hidden units
def additive_scores(Q, K, W_Q, W_K, wv):
    hidden = np.tanh(np.zeros((len(Q), 1, 1)) + (K @ W_K)[None, :, :])
    return hidden @ wv

# %% what_the_dot_product_drops.additive_scores wrong double: ReLU instead of tanh, and transposed
def additive_scores(Q, K, W_Q, W_K, wv):
    hidden = np.maximum(0, (K @ W_K)[:, None, :] + (Q @ W_Q)[None, :, :])
    return hidden @ wv

# %% what_the_dot_product_drops.additive_scores right: broadcasting
def additive_scores(Q, K, W_Q, W_K, wv):
    return np.tanh((Q @ W_Q)[:, None, :] + (K @ W_K)[None, :, :]) @ wv

# %% what_the_dot_product_drops.additive_scores right: einsum for the last step
def additive_scores(Q, K, W_Q, W_K, wv):
    q, k = np.einsum("ia,ah->ih", Q, W_Q), np.einsum("jb,bh->jh", K, W_K)
    return np.einsum("ijh,h->ij", np.tanh(np.add(q[:, None], k)), wv)

# %% what_the_dot_product_drops.additive_scores right public: concatenated input, stacked weight
def additive_scores(Q, K, W_Q, W_K, wv):
    n, m = len(Q), len(K)
    pairs = np.concatenate([np.repeat(Q, m, axis=0), np.tile(K, (n, 1))], axis=1)
    return (np.tanh(pairs @ np.vstack([W_Q, W_K])) @ wv).reshape(n, m)

# %% what_the_dot_product_drops.additive_scores right: loops
def additive_scores(Q, K, W_Q, W_K, wv):
    S = np.zeros((len(Q), len(K)))
    for i in range(len(Q)):
        for j in range(len(K)):
            S[i, j] = wv @ np.tanh(W_Q.T @ Q[i] + W_K.T @ K[j])
    return S

# %% what_the_dot_product_drops.additive_scores right: one query at a time, stacked
def additive_scores(Q, K, W_Q, W_K, wv):
    keys = K @ W_K
    return np.stack([np.tanh(q @ W_Q + keys).dot(wv) for q in Q])

# %% what_the_dot_product_drops.additive_scores wrong double: wv forgotten and tanh of each part
def additive_scores(Q, K, W_Q, W_K, wv):
    a, b = np.tanh(Q @ W_Q).sum(axis=1), np.tanh(K @ W_K).sum(axis=1)
    return a[:, None] + b[None, :]

# %% what_the_dot_product_drops.additive_scores wrong double: no tanh, and transposed
# true: no_tanh; keys_in_the_rows
def additive_scores(Q, K, W_Q, W_K, wv):
    return (K @ W_K @ wv)[:, None] + (Q @ W_Q @ wv)[None, :]

# %% what_the_dot_product_drops.additive_scores wrong double: softmax taken, and tanh outside
# true: tanh_outside; slip.result.softmax()
def additive_scores(Q, K, W_Q, W_K, wv):
    h = (Q @ W_Q)[:, None, :] + (K @ W_K)[None, :, :]
    return softmax(np.tanh(h @ wv))
