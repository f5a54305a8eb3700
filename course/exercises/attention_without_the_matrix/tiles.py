"""Causal attention in tiles: a running maximum, sum and output for each query."""

import math

import numpy as np
import torch

from autograder import Before, Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import attention_without_the_matrix as ref


def _rising(n: int, d_k: int, d_v: int, tile: int, *lead: int, keys: int = 0, causal: bool = True):
    """Queries are positive and keys grow from tile to tile: the maximum has to change, or no slip in rescaling would show."""

    def make(draw: Draw):
        m = keys or n
        grows = 1.0 + 1.5 * (np.arange(m) // tile)
        return {
            "Q": abs(draw.normal(*lead, n, d_k)) + 0.3,
            "K": (abs(draw.normal(*lead, m, d_k)) + 0.2) * grows[:, None],
            "V": draw.normal(*lead, m, d_v),
            "tile": tile,
            "causal": causal,
        }

    return make


def _huge_scores(draw: Draw):
    """Scores of about ±1,500, falling and rising: `exp` of them overflows, and so does a shrink factor above 1."""
    sign = draw.rng.permutation([1.0, -1.0, 1.0, -1.0])
    K = (1500.0 * np.repeat(sign, 4) + draw.normal(16))[:, None]
    return {"Q": np.ones((16, 1)), "K": K, "V": draw.normal(16, 3), "tile": 4, "causal": True}


def _long(draw: Draw):
    """512 tokens: a Boolean mask of all pairs has 262 kB, a matrix of scores 1,049 kB, and the inputs together 49 kB."""
    return {"Q": draw.normal(512, 8), "K": draw.normal(512, 8), "V": draw.normal(512, 8), "tile": 32, "causal": True}


def _nothing_above(draw: Draw):
    """The values of the last tile are NaN, so a tile above the diagonal that is computed and masked shows: 0 times NaN is NaN."""
    V = draw.normal(12, 3)
    V[8:] = math.nan
    return {"Q": draw.normal(12, 2), "K": draw.normal(12, 2), "V": V, "tile": 4, "causal": True}


def _scaled(q, d_k):
    return q / math.sqrt(d_k)


def _on_the_diagonal(S, a, b):
    if a != b:
        return S
    return S.masked_fill(torch.ones_like(S, dtype=torch.bool).triu(1), -math.inf)


def _everywhere(S, a, b):
    """Masks by position, in whatever tile."""
    i = torch.arange(a, a + S.shape[-2])[:, None]
    return S.masked_fill(torch.arange(b, b + S.shape[-1]) > i, -math.inf)


def _shrink(old, new):
    return torch.exp(old - new)


def _tiled(
    *,
    scaled=_scaled,
    masked=_on_the_diagonal,
    stop=lambda a, tile, keys: min(a + tile, keys),
    maximum=torch.maximum,
    first=0,
    shrink_z=_shrink,
    shrink_o=_shrink,
    divide_each=False,
    divide_last=True,
    lse=lambda m, z: m + z.log(),
    causal_if=lambda causal: causal,
    pair=lambda O, lse: (O, lse),
):
    """Attention in tiles with one part replaced by a mistake."""

    def answer(Q, K, V, tile, causal=True):
        causal = causal_if(causal)
        outputs, lses = [], []
        for a in range(0, Q.shape[-2], tile):
            q = scaled(Q[..., a : a + tile, :], Q.shape[-1])
            m = q.new_full((*q.shape[:-1], 1), -math.inf)
            z, o = torch.zeros_like(m), q.new_zeros((*q.shape[:-1], V.shape[-1]))
            for b in range(0, stop(a, tile, K.shape[-2]) if causal else K.shape[-2], tile):
                S = q @ K[..., b : b + tile, :].mT
                S = masked(S, a, b) if causal else S
                new = maximum(m, S.amax(-1, keepdim=True))
                e = torch.exp(S - new)
                z = z * shrink_z(m, new) + e.sum(-1, keepdim=True)
                o = o * shrink_o(m, new) + e @ V[..., b : b + tile, :]
                o = o / z if divide_each else o
                m = new
            outputs.append(o / z if divide_last and not divide_each else o)
            lses.append(lse(m, z).squeeze(-1))
        return pair(torch.cat(outputs, dim=-2), torch.cat(lses, dim=-1))

    return answer


def _whole_matrix(Q, K, V, tile, causal=True):
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if causal:
        S = S.masked_fill(torch.ones_like(S, dtype=torch.bool).triu(1), -math.inf)
    return torch.softmax(S, dim=-1) @ V, torch.logsumexp(S, dim=-1)


def _rows_of_scores(Q, K, V, tile, causal=True):
    """Cuts the queries alone: right in every value, with (tile, n) scores at a time, and the future computed and masked."""
    parts = []
    for a in range(0, Q.shape[-2], tile):
        q = Q[..., a : a + tile, :]
        S = q @ K.mT / math.sqrt(Q.shape[-1])
        if causal:
            i = torch.arange(a, a + q.shape[-2])[:, None]
            S = S.masked_fill(torch.arange(K.shape[-2]) > i, -math.inf)
        parts.append((torch.softmax(S, dim=-1) @ V, torch.logsumexp(S, dim=-1)))
    outputs, lses = zip(*parts, strict=True)
    return torch.cat(outputs, dim=-2), torch.cat(lses, dim=-1)


def _keys_outside(Q, K, V, tile, causal=True):
    """FlashAttention's first order: the outer loop runs over keys, and every query keeps its three results in between."""
    Q = Q / math.sqrt(Q.shape[-1])
    m = Q.new_full((*Q.shape[:-1], 1), -math.inf)
    z, o = torch.zeros_like(m), Q.new_zeros((*Q.shape[:-1], V.shape[-1]))
    for b in range(0, K.shape[-2], tile):
        for a in range(b if causal else 0, Q.shape[-2], tile):
            rows = slice(a, a + tile)
            S = Q[..., rows, :] @ K[..., b : b + tile, :].mT
            if causal and a == b:
                S = S.masked_fill(torch.ones_like(S, dtype=torch.bool).triu(1), -math.inf)
            new = torch.maximum(m[..., rows, :], S.amax(-1, keepdim=True))
            shrink, e = torch.exp(m[..., rows, :] - new), torch.exp(S - new)
            z[..., rows, :] = z[..., rows, :] * shrink + e.sum(-1, keepdim=True)
            o[..., rows, :] = o[..., rows, :] * shrink + e @ V[..., b : b + tile, :]
            m[..., rows, :] = new
    return o / z, (m + z.log()).squeeze(-1)


def _pairs_merged(Q, K, V, tile, causal=True):
    """A whole softmax in each tile; outputs and log-sum-exps are merged from tile to tile."""
    outputs, lses = [], []
    for a in range(0, Q.shape[-2], tile):
        q = Q[..., a : a + tile, :] / math.sqrt(Q.shape[-1])
        o, lse = None, None
        for b in range(0, a + 1 if causal else K.shape[-2], tile):
            S = q @ K[..., b : b + tile, :].mT
            if causal and a == b:
                S = S.masked_fill(torch.ones_like(S, dtype=torch.bool).triu(1), -math.inf)
            here, its_lse = torch.softmax(S, dim=-1) @ V[..., b : b + tile, :], torch.logsumexp(S, dim=-1)
            if o is None:
                o, lse = here, its_lse
            else:
                both = torch.logaddexp(lse, its_lse)
                o = o * torch.exp(lse - both)[..., None] + here * torch.exp(its_lse - both)[..., None]
                lse = both
        outputs.append(o)
        lses.append(lse)
    return torch.cat(outputs, dim=-2), torch.cat(lses, dim=-1)


def _one(old, new):
    return torch.ones_like(old)


TILED_ATTENTION = Exercise(
    "tiled_attention",
    title="Attention in tiles",
    points=3,
    difficulty=3,
    minutes=18,
    tensors=True,
    tolerance=Tolerance(rtol=5e-4, atol=5e-4),  # float32 rounds scores of 1,500 by 1e-4
    reference=ref.tiled_attention,
    recipe=Made(_tiled),
    search=0.12,  # a round through the cases takes long: tiles of one token, and 512 tokens
    cases=(
        Case("eight tokens in tiles of four", _rising(8, 3, 2, 4)),
        Case("five queries, eight keys, no mask", _rising(5, 2, 3, 4, keys=8, causal=False)),
        Case("twelve tokens in tiles of four", _rising(12, 2, 2, 4)),
        Case("a shorter last tile", _rising(11, 2, 3, 4), edge=0.15),
        Case("one tile larger than the text", _rising(5, 2, 2, 8), edge=0.05),
        Case("tiles of one token", _rising(4, 2, 3, 1), edge=0.05),
        Case("two leading axes", _rising(6, 2, 3, 2, 2, 3), edge=0.1),
        Case("scores of 1,500 and −1,500", _huge_scores, edge=0.15),
        Case("512 tokens without room for their matrix", _long, edge=0.2, room=2.0),
        Case("future values are NaN", _nothing_above, edge=0.1),
    ),
    hints=(
        "Write two loops, over tiles of queries and, inside, over tiles of keys. What does each query carry from one tile of keys to "
        "the next?",
        "Keep `m`, `z` and `o` with shapes (…, tile, 1), (…, tile, 1) and (…, tile, d_v). They start at −∞, 0 and 0. A new tile gives a "
        "new maximum, so multiply the old `z` and `o` by `exp(m - new)` before you add to them.",
        "The queries from `a` to `a + tile` need only the keys from 0 to `a + tile`, and only the tile with `b == a` needs a mask, "
        "`torch.ones_like(S, dtype=torch.bool).triu(1)`. At the end return `o / z` and `(m + z.log()).squeeze(-1)`.",
    ),
    misconceptions=(
        Misconception(
            "sums_not_rescaled",
            "added to the old sums without rescaling them when the maximum grew",
            "When a tile raises the maximum from `m` to `new`, multiply both old sums by `exp(m - new)`.",
            Instead(shrink_z=_one, shrink_o=_one),
        ),
        Misconception(
            "z_not_rescaled",
            "rescaled the output when the maximum grew, but not the sum of the weights",
            "Both running sums contain the old maximum, so both are multiplied by `exp(m - new)`.",
            Instead(shrink_z=_one),
        ),
        Misconception(
            "o_not_rescaled",
            "rescaled the sum of the weights when the maximum grew, but not the output",
            "Both running sums contain the old maximum, so both are multiplied by `exp(m - new)`.",
            Instead(shrink_o=_one),
        ),
        Misconception(
            "shrunk_backwards",
            "multiplied the old sums by `exp(new - m)`, so they grew where they should shrink",
            "The new maximum is the larger one, and the old terms become smaller: `exp(m - new)`.",
            Instead(shrink_z=lambda old, new: _shrink(new, old), shrink_o=lambda old, new: _shrink(new, old)),
        ),
        Misconception(
            "diagonal_not_masked",
            "left the tiles on the diagonal without a mask",
            "Inside a tile on the diagonal, query i must not attend to key i + 1. Mask the tile with `b == a`.",
            Instead(masked=lambda S, a, b: S),
        ),
        Misconception(
            "every_tile_masked",
            "used the triangular mask in every tile",
            "A tile below the diagonal holds only past keys, so all of its scores count. Only the tile with `b == a` needs a mask.",
            Instead(masked=lambda S, a, b: _on_the_diagonal(S, 0, 0)),
        ),
        Misconception(
            "diagonal_skipped",
            "skipped the tiles on the diagonal",
            "A tile on the diagonal is partly visible. Skip only the tiles that begin after it.",
            Instead(stop=lambda a, tile, keys: a),
        ),
        Misconception(
            "nothing_skipped",
            "computed the tiles above the diagonal as well and masked them",
            "Your values are right, but you do almost twice the work. End the inner loop after the tile with `b == a`.",
            Instead(masked=_everywhere, stop=lambda a, tile, keys: keys),
            also=(_rows_of_scores,),
        ),
        Misconception(
            "square_built",
            "built the whole matrix of scores",
            "Cut the queries and the keys into tiles. A mask needs only the size of one tile, too.",
            _whole_matrix,
        ),
        Misconception(
            "lse_without_maximum",
            "returned the logarithm of `z` without adding the maximum",
            "`z` was summed after subtracting the maximum, so the log-sum-exp is m + ln z.",
            Instead(lse=lambda m, z: z.log()),
        ),
        Misconception(
            "maximum_for_lse",
            "returned the largest score of each row where the log-sum-exp was asked for",
            "The log-sum-exp also contains the sum: m + ln z.",
            Instead(lse=lambda m, z: m),
        ),
        Misconception(
            "sum_for_lse",
            "returned the sum `z` where the log-sum-exp was asked for",
            "Take the logarithm of `z` and add the maximum: m + ln z.",
            Instead(lse=lambda m, z: z),
        ),
        Misconception(
            "divided_after_each_tile",
            "divided the output by `z` after each tile",
            "`o` stays a sum until the end. Divide once, after the last tile of keys.",
            Instead(divide_each=True),
        ),
        Misconception(
            "never_divided",
            "returned the weighted sum of the values without dividing it by `z`",
            "The weights sum to 1 only after the division: return `o / z`.",
            Instead(divide_last=False),
        ),
        Misconception(
            "maximum_of_the_tile",
            "took each tile's own maximum as the running maximum",
            "The running maximum never falls: `new = torch.maximum(m, S.amax(-1, keepdim=True))`.",
            Instead(maximum=lambda m, top: top),
        ),
        Misconception(
            "not_scaled",
            "didn't divide the scores by √d_k",
            "The scores are the dot products divided by √d_k, as in lesson 03.",
            Instead(scaled=lambda q, d_k: q),
        ),
        Misconception(
            "scaled_by_d",
            "divided the scores by d_k instead of √d_k",
            "Divide by the square root of the number of features.",
            Instead(scaled=lambda q, d_k: q / d_k),
        ),
        Misconception(
            "causal_always",
            "hid keys although `causal` was False",
            "Both the mask and the end of the inner loop depend on `causal`.",
            Instead(causal_if=lambda causal: True),
        ),
        Misconception(
            "causal_never",
            "ignored `causal`, so queries attend to later keys",
            "With `causal`, query i attends to keys j ≤ i.",
            Before(lambda Q, K, V, tile, causal: {"causal": False}),
        ),
        Misconception(
            "lse_first",
            "returned the log-sum-exp before the output",
            "Return the output first and the log-sum-exp second.",
            Instead(pair=lambda O, lse: (lse, O)),
        ),
    ),
    variants=(
        Variant("keys_outside", _keys_outside),
        Variant("pairs_merged", _pairs_merged),
    ),
)
