# %% choosing_groups.mha_to_gqa wrong single: pools heads g, g + G, ... (h mod G) instead of neighbours
# true: distant_heads_pooled
def mha_to_gqa(W, H, G):
    d_model, d = W.shape[0], W.shape[1] // H
    return W.reshape(d_model, H // G, G, d).mean(1).reshape(d_model, G * d)

# %% choosing_groups.mha_to_gqa wrong single: sums the heads instead of averaging
# true: summed
def mha_to_gqa(W, H, G):
    d = W.shape[-1] // H
    return W.reshape(-1, G, H // G, d).sum(dim=2).flatten(1)

# %% choosing_groups.mha_to_gqa wrong single public: keeps the first head of each group
# true: first_head_only
def mha_to_gqa(W, H, G):
    heads = W.unflatten(1, (G, H // G, -1))
    return heads[:, :, 0].flatten(1)

# %% choosing_groups.mha_to_gqa wrong single: averages r neighbouring columns instead of r heads
# true: neighbouring_columns_pooled
def mha_to_gqa(W, H, G):
    r = H // G
    return W.reshape(W.shape[0], -1, r).mean(-1)

# %% choosing_groups.mha_to_gqa wrong single public: pools the rows (nn.Linear's (out, in) layout) instead of the columns
def mha_to_gqa(W, H, G):
    head_dim = W.shape[0] // H
    W = W.view(H, head_dim, W.shape[1])
    W = W.view(G, H // G, head_dim, W.shape[-1]).mean(dim=1)
    return W.reshape(G * head_dim, -1)

# %% choosing_groups.mha_to_gqa wrong double: pools by h mod G and divides by H instead of r
# true: ~mended
def mha_to_gqa(W, H, G):
    heads = W.unflatten(-1, (H, -1))
    out = torch.zeros(W.shape[0], G, heads.shape[-1], dtype=W.dtype)
    for h in range(H):
        out[:, h % G] += heads[:, h] / H
    return out.flatten(1)

# %% choosing_groups.mha_to_gqa wrong double: takes G for the size of a group, and sums
# true: summed; groups_for_group_size
def mha_to_gqa(W, H, G):
    d = W.shape[1] // H
    return W.reshape(W.shape[0], H // G, G, d).sum(2).reshape(W.shape[0], -1)

# %% choosing_groups.mha_to_gqa right: reshape and mean
def mha_to_gqa(W, H, G):
    return W.unflatten(-1, (G, H // G, -1)).mean(-2).flatten(-2)

# %% choosing_groups.mha_to_gqa right: loop over groups, chunks
def mha_to_gqa(W, H, G):
    heads = W.chunk(H, dim=1)
    r = H // G
    return torch.cat([torch.stack(heads[g * r:(g + 1) * r]).mean(0) for g in range(G)], dim=1)

# %% choosing_groups.mha_to_gqa right: multiplication with a pooling matrix
def mha_to_gqa(W, H, G):
    d, r = W.shape[1] // H, H // G
    pool = torch.kron(torch.eye(G, dtype=W.dtype).repeat_interleave(r, 0) / r, torch.eye(d, dtype=W.dtype))
    return W @ pool

# %% choosing_groups.mha_to_gqa right: accumulates and divides
def mha_to_gqa(W, H, G):
    d, r = W.shape[1] // H, H // G
    out = W.new_zeros(W.shape[0], G * d)
    for h in range(H):
        g = h // r
        out[:, g * d:(g + 1) * d] += W[:, h * d:(h + 1) * d]
    return out / r

# %% choosing_groups.mha_to_gqa wrong double: takes heads 0 to G - 1 as they are (first head of each mod-G group), no mean
# true: distant_heads_pooled; first_head_only
def mha_to_gqa(W, H, G):
    return W[:, : W.shape[1] // H * G]
