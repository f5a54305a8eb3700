# %% scoring_functions.softmax wrong single: no maximum subtracted: overflow gives NaN
# true: no_shift
def softmax(x, axis=-1):
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)

# %% scoring_functions.softmax wrong single public: one maximum for the whole array: rows far below it underflow to 0/0
# true: one_maximum_for_all
def softmax(x, axis=-1):
    e = np.exp(x - np.max(x))
    return e / np.sum(e, axis=axis, keepdims=True)

# %% scoring_functions.softmax wrong double public: one maximum and one sum for the whole array
# true: over_everything
def softmax(x, axis=-1):
    e_x = np.exp(x - np.max(x))
    return e_x / e_x.sum()

# %% scoring_functions.softmax wrong double public: axis 0 whatever is asked, and one global maximum
def softmax(x, axis=-1):
    e_x = np.exp(x - np.max(x))
    return e_x / e_x.sum(axis=0)

# %% scoring_functions.softmax wrong single: always along the last axis: `axis` is ignored
# true: always_last_axis
def softmax(x, axis=-1):
    z = x - x.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)

# %% scoring_functions.softmax wrong single public: always along axis 1: `axis` is ignored and one-dimensional input fails
def softmax(x, axis=-1):
    max_val = np.max(x, axis=1, keepdims=True)
    e_x = np.exp(x - max_val)
    return e_x / np.sum(e_x, axis=1, keepdims=True)

# %% scoring_functions.softmax wrong single: keepdims missing in the sum
# true: ~mended
def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis)

# %% scoring_functions.softmax wrong double public: keepdims missing in the maximum, transposed back with .T (2-D only)
def softmax(x, axis=-1):
    z = (x.T - np.max(x, axis=axis)).T
    return np.exp(z) / np.sum(np.exp(z), axis=axis, keepdims=True)

# %% scoring_functions.softmax wrong single public: subtracts the maximum in place: the caller's array changes
# true: in_place
def softmax(x, axis=-1):
    x -= np.max(x, axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)

# %% scoring_functions.softmax wrong single: subtracts the mean instead of the maximum: large scores still overflow
# true: shifted_by_another_number
def softmax(x, axis=-1):
    e = np.exp(x - x.mean(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)

# %% scoring_functions.softmax wrong single: clips the scores to +-500 before exponentiating
# true: clipped
def softmax(x, axis=-1):
    e = np.exp(np.clip(x, -500, 500))
    return e / e.sum(axis=axis, keepdims=True)

# %% scoring_functions.softmax wrong single: log-softmax: the last exponential is missing
# true: slip.left_out(exp)
def softmax(x, axis=-1):
    z = x - x.max(axis=axis, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=axis, keepdims=True))

# %% scoring_functions.softmax wrong double: in place, and always along the last axis
# true: always_last_axis
def softmax(x, axis=-1):
    x -= x.max(axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=-1, keepdims=True)
    return x

# %% scoring_functions.softmax right: textbook
def softmax(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)

# %% scoring_functions.softmax right: logaddexp.reduce
def softmax(x, axis=-1):
    return np.exp(x - np.logaddexp.reduce(x, axis=axis, keepdims=True))

# %% scoring_functions.softmax right: moveaxis, last axis, back
def softmax(x, axis=-1):
    z = np.moveaxis(x, axis, -1)
    e = np.exp(z - z.max(-1)[..., None])
    return np.moveaxis(e / e.sum(-1)[..., None], -1, axis)

# %% scoring_functions.softmax right: apply_along_axis with a 1-D softmax
def softmax(x, axis=-1):
    def one(v):
        v = np.exp(v - max(v))
        return v / v.sum()

    return np.apply_along_axis(one, axis, x)

# %% scoring_functions.softmax right: torch's softmax, there and back
def softmax(x, axis=-1):
    import torch

    return torch.softmax(torch.tensor(x), dim=axis).numpy()

# %% scoring_functions.softmax wrong double: no maximum subtracted and keepdims missing
def softmax(x, axis=-1):
    e = np.exp(x)
    return e / e.sum(axis=axis)
