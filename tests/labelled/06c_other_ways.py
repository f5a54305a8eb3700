# %% other_ways.interleave_permutation wrong single: the inverse direction: from interleaved to half-split
# true: inverse
def interleave_permutation(d, heads=1):
    one = torch.cat([torch.arange(0, d, 2), torch.arange(1, d, 2)])
    return torch.cat([one + h * d for h in range(heads)])

# %% other_ways.interleave_permutation wrong single: treats all heads as one wide head: rearranges across heads
# true: across_heads
def interleave_permutation(d, heads=1):
    n = d * heads
    return torch.arange(n).view(2, n // 2).T.flatten()

# %% other_ways.interleave_permutation wrong single: repeats the first head's indices for every head, without the head's offset
# true: head_offset_missing
def interleave_permutation(d, heads=1):
    one = torch.stack([torch.arange(d // 2), torch.arange(d // 2) + d // 2], dim=1).flatten()
    return one.repeat(heads)

# %% other_ways.interleave_permutation wrong single public: the conversion of Hugging Face's script (Meta to HF), which is the other direction
# true: inverse
def interleave_permutation(d, heads=1):
    def permute(w, n_heads):
        return w.view(n_heads, d // 2, 2).transpose(1, 2).reshape(-1)
    return permute(torch.arange(heads * d), heads)

# %% other_ways.interleave_permutation wrong double: ignores heads, and puts the second half's entry first in each pair
# true: partners_swapped; slip.left_out(heads)
def interleave_permutation(d, heads=1):
    a, b = torch.arange(d // 2), torch.arange(d // 2, d)
    return torch.stack([b, a], dim=-1).reshape(-1)

# %% other_ways.interleave_permutation wrong double: returns one row per head instead of one flat index, and in the inverse direction
def interleave_permutation(d, heads=1):
    one = torch.arange(d).reshape(d // 2, 2).T.reshape(-1)
    return one[None, :] + d * torch.arange(heads)[:, None]

# %% other_ways.interleave_permutation wrong single: offset of a head is d/2 instead of d
# true: ~mended
def interleave_permutation(d, heads=1):
    out = []
    for h in range(heads):
        for i in range(d // 2):
            out += [h * d // 2 + i, h * d // 2 + i + d // 2]
    return torch.tensor(out)

# %% other_ways.interleave_permutation right public: view, transpose, flatten
def interleave_permutation(d, heads=1):
    return torch.arange(heads * d).view(heads, 2, d // 2).transpose(1, 2).flatten()

# %% other_ways.interleave_permutation right: list comprehension
def interleave_permutation(d, heads=1):
    return torch.tensor([h * d + i + half * (d // 2) for h in range(heads) for i in range(d // 2) for half in (0, 1)])

# %% other_ways.interleave_permutation right: argsort of the inverse
def interleave_permutation(d, heads=1):
    inverse = torch.cat([torch.cat([torch.arange(0, d, 2), torch.arange(1, d, 2)]) + h * d for h in range(heads)])
    return torch.argsort(inverse)

# %% other_ways.interleave_permutation right: fills even and odd slots
def interleave_permutation(d, heads=1):
    perm = torch.empty(heads, d, dtype=torch.long)
    start = d * torch.arange(heads)[:, None]
    perm[:, 0::2] = start + torch.arange(d // 2)
    perm[:, 1::2] = start + torch.arange(d // 2) + d // 2
    return perm.reshape(-1)

# %% other_ways.interleave_permutation wrong double: rearranges all heads as one, and in the inverse direction
# true: inverse; across_heads
def interleave_permutation(d, heads=1):
    n = d * heads
    return torch.cat([torch.arange(0, n, 2), torch.arange(1, n, 2)])
