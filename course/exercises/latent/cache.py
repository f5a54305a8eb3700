"""Grouped-query attention as a special case of latent attention."""

import torch

from autograder import Case, Exercise, Instead, Made, Misconception, Variant
from course.exercises.latent import probes
from solutions import latent as ref


def _groups(groups: int, d_model: int, d: int, d_v: int, heads: int):
    return lambda draw: {
        "W_K": probes.weight(draw, groups, d_model, d),
        "W_V": probes.weight(draw, groups, d_model, d_v),
        "H": heads,
    }


def _as_mla(*, group=None, latent=None, values_first=False, values_at=None, dtype=None):
    """An answer with its own head-to-group map, latent, order of the columns, column where the values start, or `dtype` of pickers."""

    def answer(W_K, W_V, H):
        (G, _, d), d_v = W_K.shape, W_V.shape[-1]
        parts = (W_V, W_K) if values_first else (W_K, W_V)
        W_DKV = torch.cat([matrix for weight in parts for matrix in weight], dim=-1) if latent is None else latent(W_K, W_V)
        eye = torch.eye(G * (d + d_v), dtype=dtype or W_K.dtype)
        k0, v0 = (G * d_v, 0) if values_first else (0, G * d if values_at is None else values_at)
        of = [h // (H // G) if group is None else group(h, G) for h in range(H)]
        W_UK = torch.stack([eye[:, k0 + g * d : k0 + (g + 1) * d] for g in of])
        W_UV = torch.stack([eye[:, v0 + g * d_v : v0 + (g + 1) * d_v] for g in of])
        return W_DKV, W_UK, W_UV

    return answer


def _once_per_head(W_K, W_V, H):
    r = H // len(W_K)
    return ref.gqa_as_mla(W_K.repeat_interleave(r, dim=0), W_V.repeat_interleave(r, dim=0), H)


def _tokens_as_latents(W_K, W_V, H):
    r = H // len(W_K)
    identity = torch.eye(W_K.shape[1], dtype=W_K.dtype)
    return identity, W_K.repeat_interleave(r, dim=0), W_V.repeat_interleave(r, dim=0)


def _reshaped(W_K, W_V):
    d_model = W_K.shape[1]
    return torch.cat([W_K.reshape(d_model, -1), W_V.reshape(d_model, -1)], dim=-1)


def _group_by_group(W_K, W_V, H):
    G, _, d = W_K.shape
    W_DKV = torch.cat([W_K, W_V], dim=-1).transpose(0, 1).flatten(1)
    picks = torch.eye(W_DKV.shape[1], dtype=W_K.dtype).unflatten(-1, (G, -1)).transpose(0, 1)
    picks = picks.repeat_interleave(H // G, dim=0)
    return W_DKV, picks[..., :d], picks[..., d:]


def _kron(W_K, W_V, H):
    """The pickers as Kronecker products of an indicator of the group with an identity."""
    (G, _, d), d_v = W_K.shape, W_V.shape[-1]
    group = torch.arange(H) // (H // G)
    member = torch.nn.functional.one_hot(group, G).to(W_K.dtype)  # (H, G)
    top = torch.stack([torch.kron(row[:, None], torch.eye(d, dtype=W_K.dtype)) for row in member])
    low = torch.stack([torch.kron(row[:, None], torch.eye(d_v, dtype=W_K.dtype)) for row in member])
    W_UK = torch.cat([top, top.new_zeros(H, G * d_v, d)], dim=1)
    W_UV = torch.cat([low.new_zeros(H, G * d, d_v), low], dim=1)
    flat = [W.transpose(0, 1).flatten(1) for W in (W_K, W_V)]
    return torch.cat(flat, dim=-1), W_UK, W_UV


def _orthonormal(W_K, W_V, H):
    """Latents in an orthonormal basis, with the values first: no wider than what GQA caches, and nothing is picked."""
    (G, _, d), r = W_K.shape, H // len(W_K)
    basis, parts = torch.linalg.qr(torch.cat([*W_V, *W_K], dim=1).double())
    values, keys = parts[:, : parts.shape[1] - G * d].chunk(G, 1), parts[:, -G * d :].chunk(G, 1)
    heads = [torch.stack([part[h // r] for h in range(H)]) for part in (keys, values)]
    return basis.to(W_K.dtype), *(part.to(W_K.dtype) for part in heads)


def _turned(W_K, W_V, H):
    """Another basis of the same latents: nothing picks any more, and the products are what they were."""
    W_DKV, W_UK, W_UV = ref.gqa_as_mla(W_K, W_V, H)
    d_c = W_DKV.shape[1]
    basis = torch.eye(d_c, dtype=W_K.dtype) + torch.ones(d_c, d_c, dtype=W_K.dtype).triu(1) / d_c
    back = torch.linalg.inv(basis)
    return W_DKV @ basis, back @ W_UK, back @ W_UV


GQA_AS_MLA = Exercise(
    "gqa_as_mla",
    title="Design the matrices",
    points=2,
    reference=ref.gqa_as_mla,
    recipe=Made(_as_mla),
    tensors=True,
    kind="design",
    behaviour="attention_course.designs:latent_of_groups",
    difficulty=3,
    minutes=11,
    cases=(
        Case("two groups, four heads", _groups(2, 7, 1, 2, 4)),
        Case("three groups, six heads", _groups(3, 17, 2, 3, 6)),
        Case("two groups of three heads", _groups(2, 11, 3, 2, 6), double=True, edge=0.2),
    ),
    hints=(
        "What does GQA cache for one token? Put these numbers side by side and call them the latent. What must a head do to get its own key back?",
        "`W_DKV` can be all matrices of `W_K` and then all of `W_V`, side by side. A head then has to pick columns of the latent, and a matrix "
        "that picks columns is made of columns of an identity. Head $h$ belongs to group `h // (H // G)`.",
        "`torch.cat([*W_K, *W_V], dim=-1)` makes such a `W_DKV`. With `eye = torch.eye(d_c)`, the columns `eye[:, g * d : (g + 1) * d]` pick the "
        "key of group `g`. Where do the values of that group begin? `torch.stack` the matrices of the **heads**.",
    ),
    misconceptions=(
        Misconception(
            "group_by_remainder",
            "gave head `h` the group `h % G`",
            "Neighbouring heads share a group, so head `h` belongs to group `h // (H // G)`.",
            Instead(group=lambda h, G: h % G),
        ),
        Misconception(
            "groups_for_group_size",
            "divided by the number of groups, so head `h` got the group `h // G`",
            "Divide by the **size** of a group, `H // G` heads. Two groups of two hide the difference.",
            Instead(group=lambda h, G: min(h // G, G - 1)),
        ),
        Misconception(
            "one_copy_per_head",
            "repeated the groups before building the latent, so the cache grows to that of multi-head attention",
            "The latent needs each **group** only once. Repeat `W_UK` and `W_UV` for the heads, not what is cached.",
            _once_per_head,
        ),
        Misconception(
            "tokens_as_latents",
            "used the token itself as the latent, which is exact but caches $d_{model}$ numbers per token",
            "Put the groups' matrices into `W_DKV`, and let the other two pick from the latent.",
            _tokens_as_latents,
        ),
        Misconception(
            "reshaped",
            "put the groups side by side by a reshape, which mixes up groups and features",
            "A reshape reads the entries in memory order, one group after the other. Concatenate the groups' matrices along their last axis.",
            Instead(latent=_reshaped),
        ),
        Misconception(
            "values_from_the_keys",
            "picked the values from the front of the latent, which holds the keys",
            "The columns of the values start after all keys, at $G d$.",
            Instead(values_at=0),
        ),
        Misconception(
            "single_precision",
            "made one of the three matrices in single precision, whatever dtype the given matrices have",
            "`torch.eye` and `torch.zeros` make float32 by default. Pass `dtype=W_K.dtype` and `device=W_K.device`.",
            Instead(dtype=torch.float32),
            raises=True,
        ),
    ),
    variants=(
        Variant("columns_of_an_identity", _as_mla()),
        Variant("kronecker", _kron),
        Variant("values_first", _as_mla(values_first=True)),
        Variant("group_by_group", _group_by_group),
        Variant("turned", _turned),
        Variant("orthonormal", _orthonormal),
    ),
)
