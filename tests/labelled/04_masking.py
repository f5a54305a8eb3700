# %% masking.causal_mask wrong single public: aligned at the top left
# true: top_left
def causal_mask(n_q, n_k):
    return torch.ones(n_q, n_k).tril().bool()

# %% masking.causal_mask wrong single: strictly earlier keys only: the own position is hidden
# true: cannot_see_itself
def causal_mask(n_q, n_k):
    i = torch.arange(n_q)[:, None] + (n_k - n_q)
    return torch.arange(n_k)[None, :] < i

# %% masking.causal_mask wrong single: inverted: True marks the future
# true: polarity_flipped
def causal_mask(n_q, n_k):
    return torch.ones(n_q, n_k, dtype=torch.bool).triu(n_k - n_q + 1)

# %% masking.causal_mask wrong double public: inverted and aligned at the top left
# true: top_left; polarity_flipped
def causal_mask(n_q, n_k):
    return torch.triu(torch.ones(n_q, n_k), diagonal=1).bool()

# %% masking.causal_mask wrong single: the offset has the wrong sign
# true: shifted_the_wrong_way
def causal_mask(n_q, n_k):
    return torch.ones(n_q, n_k, dtype=torch.bool).tril(diagonal=n_q - n_k)

# %% masking.causal_mask wrong single: one step too far: the next key is visible
# true: sees_one_ahead
def causal_mask(n_q, n_k):
    return torch.ones(n_q, n_k, dtype=torch.bool).tril(diagonal=n_k - n_q + 1)

# %% masking.causal_mask wrong double public: floats 0 and -inf instead of truth values, top left
# true: top_left; numbers_not_booleans
def causal_mask(n_q, n_k):
    mask = (torch.triu(torch.ones(n_k, n_q)) == 1).transpose(0, 1)
    mask = mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, float(0.0))
    return mask

# %% masking.causal_mask wrong double public: square, with an extra axis of size 1
def causal_mask(n_q, n_k):
    attn_shape = (1, n_k, n_k)
    subsequent = torch.triu(torch.ones(attn_shape), diagonal=1).type(torch.uint8)
    return subsequent == 0

# %% masking.causal_mask wrong single: the FIRST n_q rows of the square triangle instead of the last
def causal_mask(n_q, n_k):
    full = torch.ones(n_k, n_k, dtype=torch.bool).tril()
    return full[:n_q]

# %% masking.causal_mask wrong single: the last n_q rows of the square triangle: too few rows when n_q > n_k
def causal_mask(n_q, n_k):
    full = torch.ones(n_k, n_k, dtype=torch.bool).tril()
    return full[-n_q:]

# %% masking.causal_mask wrong double: numbers 1 and 0, strictly below the diagonal, top left
# true: cannot_see_itself; top_left; ~wrapped
def causal_mask(n_q, n_k):
    return torch.tril(torch.ones(n_q, n_k), diagonal=-1)

# %% masking.causal_mask wrong single: transposed: one row per key
# true: slip.returned.transpose()
def causal_mask(n_q, n_k):
    return torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q).T

# %% masking.causal_mask wrong double public: a square block hung behind the cache: strict, so the own position is hidden
# true: cannot_see_itself
def causal_mask(n_q, n_k):
    past = torch.ones(n_q, n_k - n_q, dtype=torch.bool)
    block = torch.ones(n_q, n_q, dtype=torch.bool).tril(-1)
    return torch.cat([past, block], dim=1)

# %% masking.causal_mask right: compare positions
def causal_mask(n_q, n_k):
    i = torch.arange(n_q).unsqueeze(1)
    j = torch.arange(n_k).unsqueeze(0)
    return j <= i + (n_k - n_q)

# %% masking.causal_mask right: tril with offset
def causal_mask(n_q, n_k):
    return torch.ones(n_q, n_k, dtype=torch.bool).tril(diagonal=n_k - n_q)

# %% masking.causal_mask right: not triu
def causal_mask(n_q, n_k):
    return ~torch.triu(torch.ones(n_q, n_k), diagonal=n_k - n_q + 1).bool()

# %% masking.causal_mask right: loops
def causal_mask(n_q, n_k):
    mask = torch.zeros(n_q, n_k, dtype=torch.bool)
    for i in range(n_q):
        for j in range(n_k):
            mask[i, j] = j <= i + n_k - n_q
    return mask

# %% masking.causal_mask right: cut from a large square, flipped
def causal_mask(n_q, n_k):
    n = max(n_q, n_k)
    square = torch.ones(n, n).triu(0).flip(0, 1) == 1
    square = torch.tril(torch.ones(n, n)) > 0
    return square[n - n_q :, n - n_k :]
