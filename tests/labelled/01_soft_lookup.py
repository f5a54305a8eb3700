# %% soft_lookup.normalize wrong single: divides by the sum over everything, not per row
# true: normalised_everything
def normalize(s):
    total = s.sum()
    if total == 0:
        return np.zeros_like(s)
    return s / total

# %% soft_lookup.normalize wrong single: keepdims missing: the row sums line up with the columns
# true: ~mended
def normalize(s):
    total = s.sum(axis=-1)
    total = np.where(total == 0, 1.0, total)
    return s / total

# %% soft_lookup.normalize wrong single: an epsilon in the denominator: small sums are not divided by exactly that sum
# true: added_an_epsilon
def normalize(s):
    return s / (s.sum(axis=-1, keepdims=True) + 1e-9)

# %% soft_lookup.normalize wrong single: zero rows become uniform weights 1/m
# true: nothing_gives_uniform
def normalize(s):
    total = s.sum(axis=-1, keepdims=True)
    return np.where(total == 0, 1.0 / s.shape[-1], s / np.where(total == 0, 1.0, total))

# %% soft_lookup.normalize wrong single: a tiny but positive sum is treated as zero (threshold), so its row comes back all zero
# true: added_an_epsilon
def normalize(s):
    total = s.sum(axis=-1, keepdims=True)
    ok = total > 1e-12
    return np.where(ok, s / np.where(ok, total, 1), 0.0)

# %% soft_lookup.normalize wrong double: the test for zero is for the whole array, so a zero row in a table is NaN
def normalize(s):
    if s.sum() == 0:
        return s
    return s / s.sum(axis=-1, keepdims=True)

# %% soft_lookup.normalize wrong double public: normalises by the Euclidean norm, and over the whole array
def normalize(s):
    norm = np.linalg.norm(s)
    if norm == 0:
        return s
    return s / norm

# %% soft_lookup.normalize wrong single: works in place: the caller's array is overwritten
# true: overwrote_the_scores
def normalize(s):
    total = s.sum(axis=-1, keepdims=True)
    total[total == 0] = 1.0
    s /= total
    return s

# %% soft_lookup.normalize wrong single public: softmax: exponentiates the scores before dividing
# true: exponentiated_first
def normalize(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

# %% soft_lookup.normalize wrong double: column sums (axis 0) with an epsilon
# true: normalised_over_queries; added_an_epsilon
def normalize(s):
    return s / (s.sum(axis=0) + 1e-8)

# %% soft_lookup.normalize right: np.divide with where=
def normalize(s):
    total = s.sum(axis=-1, keepdims=True)
    return np.divide(s, total, out=np.zeros_like(s), where=total != 0)

# %% soft_lookup.normalize right: 0/0 with the warning off, then nan_to_num
def normalize(s):
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num(s / s.sum(axis=-1, keepdims=True))

# %% soft_lookup.normalize right: 0/0 WITH its RuntimeWarning, then nan -> 0
def normalize(s):
    out = s / s.sum(axis=-1, keepdims=True)
    out[np.isnan(out)] = 0
    return out

# %% soft_lookup.normalize right: row by row over any leading axes
def normalize(s):
    out = np.zeros_like(s)
    for index in np.ndindex(s.shape[:-1]):
        total = sum(s[index])
        if total > 0:
            out[index] = [x / total for x in s[index]]
    return out

# %% soft_lookup.normalize right: einsum for the sums
def normalize(s):
    total = np.einsum("...m->...", s)[..., None]
    return s / (total + (total == 0))

# %% soft_lookup.normalize wrong double: uniform weights for zero rows, and an in-place change of the input
# true: nothing_gives_uniform
def normalize(s):
    s[s.sum(axis=-1) == 0] = 1.0
    return s / s.sum(axis=-1, keepdims=True)

# %% soft_lookup.attention_pool wrong single: scores used as weights: not divided by their sum
# true: not_normalised
def attention_pool(q, K, V, kernel):
    return kernel(q, K) @ V

# %% soft_lookup.attention_pool wrong single: 0/0 where every score is zero: NaN
# true: nothing_gives_nan
def attention_pool(q, K, V, kernel):
    w = kernel(q, K)
    return (w / w.sum()) @ V

# %% soft_lookup.attention_pool wrong single public: softmax of the scores: exponentiated once too often
# true: softmax_of_scores
def attention_pool(q, K, V, kernel):
    w = np.exp(kernel(q, K))
    return (w / w.sum()) @ V

# %% soft_lookup.attention_pool wrong single: ignores `kernel` and uses the Gaussian
# true: own_kernel
def attention_pool(q, K, V, kernel):
    return normalize(gaussian(q, K)) @ V

# %% soft_lookup.attention_pool wrong single: divides by the number of keys instead of the sum of the scores
# true: divided_by_m
def attention_pool(q, K, V, kernel):
    w = kernel(q, K)
    return (w[:, None] * V).mean(axis=0)

# %% soft_lookup.attention_pool wrong single public: np.average: raises ZeroDivisionError where all scores are zero
def attention_pool(q, K, V, kernel):
    return np.average(V, axis=0, weights=kernel(q, K))

# %% soft_lookup.attention_pool wrong single: returns the weighted rows, not their sum
# true: not_summed
def attention_pool(q, K, V, kernel):
    w = kernel(q, K)
    alpha = w / w.sum() if w.sum() > 0 else w
    return alpha[:, None] * V

# %% soft_lookup.attention_pool wrong single: hard attention: the row with the largest score
# true: took_the_best
def attention_pool(q, K, V, kernel):
    return V[np.argmax(kernel(q, K))]

# %% soft_lookup.attention_pool wrong single: kernel called with its arguments swapped
# true: swapped_the_arguments
def attention_pool(q, K, V, kernel):
    return normalize(kernel(K, q)) @ V

# %% soft_lookup.attention_pool wrong single: kernel called key by key, with one key instead of the matrix
def attention_pool(q, K, V, kernel):
    w = np.array([kernel(q, k) for k in K])
    return normalize(w) @ V

# %% soft_lookup.attention_pool wrong double: no key found gives the mean of all values, and an epsilon in the denominator
# true: nothing_gives_the_mean; added_an_epsilon
def attention_pool(q, K, V, kernel):
    w = kernel(q, K)
    if w.sum() == 0:
        return V.mean(axis=0)
    return w @ V / (w.sum() + 1e-6)

# %% soft_lookup.attention_pool wrong double: ignores `kernel` (Gaussian built in) and forgets to normalise
# true: not_normalised; own_kernel
def attention_pool(q, K, V, kernel):
    w = np.exp(-((K - q) ** 2).sum(axis=1) / 2)
    return w @ V

# %% soft_lookup.attention_pool right: normalize and matmul
def attention_pool(q, K, V, kernel):
    return normalize(kernel(q, K)) @ V

# %% soft_lookup.attention_pool right: own guard, einsum
def attention_pool(q, K, V, kernel):
    w = kernel(q, K)
    total = w.sum()
    if total == 0:
        return np.zeros(V.shape[1])
    return np.einsum("j,jc->c", w, V) / total

# %% soft_lookup.attention_pool right: np.average with a guard
def attention_pool(q, K, V, kernel):
    w = kernel(q, K)
    return np.average(V, axis=0, weights=w) if w.any() else np.zeros_like(V[0])

# %% soft_lookup.attention_pool right: loops
def attention_pool(q, K, V, kernel):
    w = kernel(q, K)
    total = 0.0
    for x in w:
        total += x
    o = np.zeros(V.shape[1])
    for j in range(len(V)):
        for c in range(V.shape[1]):
            if total > 0:
                o[c] += w[j] / total * V[j, c]
    return o

# %% soft_lookup.attention_pool wrong double: keepdims confusion: weights normalised by the maximum, NaN where all are zero
def attention_pool(q, K, V, kernel):
    w = kernel(q, K)
    return (w / w.max()) @ V

# %% soft_lookup.attention_pool wrong double: softmax of the scores and argmax-like sharpening: softmax(10 w)
def attention_pool(q, K, V, kernel):
    w = 10 * kernel(q, K)
    e = np.exp(w - w.max())
    return e / e.sum() @ V
