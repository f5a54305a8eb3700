"""Multi-head attention as a concatenation and as a sum over heads."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from autograder import Case, Draw, Exercise, Misconception, Property, Tolerance, Variant
from course.exercises.multi_head.heads import merge_by_reshape, merge_interleaved, split_by_reshape
from solutions import multi_head as ref

BUILTIN = ("multi_head_attention_forward", "MultiheadAttention")
FLOAT32 = Tolerance(rtol=1e-4, atol=1e-5)  # three products and a softmax in float32; mistakes are 1e-2 and more


def _weights(draw: Draw, d_model: int, H: int, d_k: int, d_v: int):
    """Weights that make scores of standard deviation near 1.5: neither saturated nor flat."""
    narrow = d_model**-0.5
    return {
        "Wq": draw.normal(d_model, H * d_k, scale=1.5 * narrow),
        "Wk": draw.normal(d_model, H * d_k, scale=narrow),
        "Wv": draw.normal(d_model, H * d_v, scale=narrow),
        "Wo": draw.normal(H * d_v, d_model, scale=(H * d_v) ** -0.5),
    }


def _two_heads(draw: Draw):
    return {"X": draw.normal(3, 4), **_weights(draw, 4, 2, 5, 3), "H": 2, "keep": None}


def _causal(draw: Draw):
    n, d_k = draw.sizes(2, low=5, high=7)
    return {"X": draw.normal(n, 6), **_weights(draw, 6, 3, d_k, 2), "H": 3, "keep": torch.ones(n, n).tril().bool().numpy()}


def _mask_per_sequence(draw: Draw):
    """As many sequences as heads: a mask that lands on the wrong axis raises no error."""
    lengths = draw.rng.permutation([2, 3, 5])
    keep = (torch.arange(5) < torch.from_numpy(lengths)[:, None, None]).expand(3, 5, 5)
    return {"X": draw.normal(3, 5, 6), **_weights(draw, 6, 3, 2, 7), "H": 3, "keep": keep.contiguous().numpy()}


def _usual_sizes(draw: Draw):
    """H d_k = H d_v = d_model, as in most models: every weight is square, and no wrong turn is stopped by a shape."""
    return {"X": draw.normal(2, 5, 6), **_weights(draw, 6, 2, 3, 3), "H": 2, "keep": None}


def _unsqueezed(keep):
    return None if keep is None else keep.unsqueeze(-3)


def attend(Q, K, V, keep, scale=None):
    """Masked attention of heads `(..., H, n, d)`; `scale` other than 1/sqrt(d_k) where a mistake wants one."""
    factor = 1.0 if scale is None else scale * Q.shape[-1] ** 0.5
    return ref.masked_sdpa(factor * Q, K, V, keep)


def _mha(*, split=ref.split_heads, merge=ref.merge_heads, scale=None, mask=_unsqueezed, project=True):
    """Multi-head attention with one part replaced by a mistake."""

    def answer(X, Wq, Wk, Wv, Wo, H, keep=None):
        Q, K, V = (split(X @ W, H) for W in (Wq, Wk, Wv))
        outputs, A = attend(Q, K, V, mask(keep), None if scale is None else scale(X))
        return (merge(outputs) @ Wo if project else merge(outputs)), A

    return answer


def _split_before_projection(X, Wq, Wk, Wv, Wo, H, keep=None):
    slices = ref.split_heads(X, H)  # (..., H, n, d_model / H)
    Q, K, V = (slices @ torch.stack([w.chunk(H, 0)[h] for h, w in enumerate(W.chunk(H, 1))]) for W in (Wq, Wk, Wv))
    outputs, A = ref.masked_sdpa(Q, K, V, _unsqueezed(keep))
    return ref.merge_heads(outputs) @ Wo, A


def _weights_as_linear_keeps_them(X, Wq, Wk, Wv, Wo, H, keep=None):
    return ref.mha(X, Wq.T, Wk.T, Wv.T, Wo.T, H, keep)


def _averaged(X, Wq, Wk, Wv, Wo, H, keep=None):
    Y, A = ref.mha(X, Wq, Wk, Wv, Wo, H, keep)
    return Y, A.mean(-3)


def _one_head_after_another(X, Wq, Wk, Wv, Wo, H, keep=None):
    heads = [
        ref.masked_sdpa(X @ wq, X @ wk, X @ wv, keep)
        for wq, wk, wv in zip(Wq.chunk(H, 1), Wk.chunk(H, 1), Wv.chunk(H, 1), strict=True)
    ]
    return torch.cat([O for O, _ in heads], dim=-1) @ Wo, torch.stack([A for _, A in heads], dim=-3)


def _einsum(X, Wq, Wk, Wv, Wo, H, keep=None):
    Q, K, V = (torch.einsum("...nm,mhd->...hnd", X, W.reshape(W.shape[0], H, -1)) for W in (Wq, Wk, Wv))
    S = torch.einsum("...hid,...hjd->...hij", Q, K) * Q.shape[-1] ** -0.5
    if keep is not None:
        S = S.masked_fill(~keep[..., None, :, :], -torch.inf)
    A = torch.softmax(S, dim=-1)
    return torch.einsum("...hij,...hjd,hdm->...im", A, V, Wo.reshape(H, -1, Wo.shape[1])), A


def _builtin_attention(X, Wq, Wk, Wv, Wo, H, keep=None):
    Q, K, V = (ref.split_heads(X @ W, H) for W in (Wq, Wk, Wv))
    eye = torch.eye(X.shape[-2], dtype=X.dtype).expand(*Q.shape[:-1], -1)
    A = scaled_dot_product_attention(Q, K, eye, attn_mask=_unsqueezed(keep))
    return ref.merge_heads(A @ V) @ Wo, A


MHA = Exercise(
    "mha",
    title="Multi-head attention",
    points=3,
    reference=ref.mha,
    tensors=True,
    tolerance=FLOAT32,
    properties=(Property("sums_to_one", axis=-1, output=1), Property("non_negative", output=1)),
    forbid=BUILTIN,
    cases=(
        Case("three tokens, two heads", _two_heads, grad=("X", "Wq", "Wk", "Wv", "Wo")),
        Case("three heads, causal", _causal),
        Case("as many sequences as heads, each with its own padding", _mask_per_sequence),
        Case("the usual sizes: every weight is square", _usual_sizes),
    ),
    hints=(
        "Five steps: project, split, attend, merge, project. You have written two of them, and `masked_sdpa` is given: it takes "
        "any leading axes, also a head axis.",
        "Project the **whole** of `X` with `Wq`, `Wk` and `Wv`, then split each result into heads. The mask has no head axis: give "
        "it one of size 1, third from the end, so that it serves every head.",
        "`masked_sdpa` of `split_heads(X @ Wq, H)` and its two sisters, with `keep.unsqueeze(-3)` unless it is None. The output "
        "is `merge_heads(...) @ Wo`; the weights go out as they are.",
    ),
    misconceptions=(
        Misconception(
            "scaled_by_sqrt_d_model",
            "scaled the scores by $\\sqrt{d_{model}}$, the width of the tokens",
            "Each head's dot product sums over its own $d_k$ features. Its scale is $\\sqrt{d_k}$, as `masked_sdpa` does it.",
            _mha(scale=lambda X: X.shape[-1] ** -0.5),
        ),
        Misconception(
            "split_before_projection",
            "split `X` before projecting it: each head sees only its slice of the token, through one block of each weight",
            "Every head reads the **whole** token. Project first, then split the result.",
            _split_before_projection,
        ),
        Misconception(
            "split_without_transpose",
            "split the heads by a reshape alone, so they hold pieces of other tokens",
            "Use your `split_heads`: reshape the last axis to (H, d), then swap tokens and heads.",
            _mha(split=split_by_reshape),
        ),
        Misconception(
            "merge_without_transpose",
            "merged the heads by a reshape alone: your weights are right, but rows of the output mix tokens",
            "Use your `merge_heads`: tokens to the front again, then join.",
            _mha(merge=merge_by_reshape),
        ),
        Misconception(
            "head_order_at_wo",
            "joined the heads in another order than the rows of `Wo` have: head $h$ meets rows that belong to others",
            "First all features of head 0, then all of head 1, … Training from scratch would forgive it; loaded weights do not.",
            _mha(merge=merge_interleaved),
        ),
        Misconception(
            "mask_on_head_axis",
            "gave the mask no head axis: with a batch, the mask of sequence $b$ falls on head $b$ of all sequences",
            "`keep` is (..., n, n), the scores are (..., H, n, n). Put an axis of size 1 in between: `keep.unsqueeze(-3)`.",
            _mha(mask=lambda keep: keep),
        ),
        Misconception(
            "weights_transposed",
            "multiplied by the transposed weights, as `nn.Linear` keeps them",
            "Here a weight is (in, out) and rows are tokens: `X @ Wq`, without `.T`. Square weights hide the difference.",
            _weights_as_linear_keeps_them,
        ),
        Misconception(
            "weights_averaged_over_heads",
            "averaged the attention weights over the heads, as `nn.MultiheadAttention` does unless told otherwise",
            "Return them head by head, (..., H, n, n): what distinguishes the heads is the point.",
            _averaged,
        ),
    ),
    variants=(
        Variant("one_head_after_another", _one_head_after_another),
        Variant("einsum_only", _einsum),
        Variant("builtin_attention_per_head", _builtin_attention),
    ),
)


# ---------------------------------------------------------------------------------------------- as a sum


def _sum_two_heads(draw: Draw):
    return {"X": draw.normal(3, 4), **_weights(draw, 4, 2, 5, 3), "bo": draw.normal(4), "H": 2}


def _sum_batch(draw: Draw):
    n, d_k, d_v = draw.sizes(3, high=5)
    return {"X": draw.normal(2, n, 7), **_weights(draw, 7, 3, d_k, d_v), "bo": draw.normal(7), "H": 3}


def _as_sum(*, blocks=lambda Wo, H: Wo.reshape(H, -1, Wo.shape[1]), scale=None, reduce=None, bias=1.0, inner=0.0):
    """The sum over heads with one part replaced: `inner` times the bias goes into every summand, `bias` times to the total."""

    def answer(X, Wq, Wk, Wv, Wo, bo, H):
        Q, K, V = (ref.split_heads(X @ W, H) for W in (Wq, Wk, Wv))
        outputs, _ = attend(Q, K, V, None)
        C = outputs @ blocks(Wo, H) + inner * bo
        return (C.sum(-3) if reduce is None else reduce(C)) + bias * bo, C

    return answer


def _scores_summed_over_heads(X, Wq, Wk, Wv, Wo, bo, H):
    A = torch.softmax((X @ Wq) @ (X @ Wk).mT * (Wq.shape[1] // H) ** -0.5, dim=-1)  # h is summed inside the dot product
    C = A.unsqueeze(-3) @ ref.split_heads(X @ Wv, H) @ Wo.reshape(H, -1, Wo.shape[1])
    return C.sum(-3) + bo, C


def _loop(X, Wq, Wk, Wv, Wo, bo, H):
    Y, C = bo, []
    for wq, wk, wv, wo in zip(Wq.chunk(H, 1), Wk.chunk(H, 1), Wv.chunk(H, 1), Wo.chunk(H, 0), strict=True):
        C.append(ref.masked_sdpa(X @ wq, X @ wk, X @ wv)[0] @ wo)
        Y = Y + C[-1]
    return Y, torch.stack(C, dim=-3)


def _value_and_output_first(X, Wq, Wk, Wv, Wo, bo, H):
    """A_h X (W_V W_O): the two outer maps of a head are one low-rank map."""
    _, A = ref.mha(X, Wq, Wk, Wv, Wo, H)
    W = ref.split_heads(Wv, H) @ Wo.reshape(H, -1, Wo.shape[1])  # (H, d_model, d_model)
    C = A @ (X.unsqueeze(-3) @ W)
    return torch.einsum("...hnm->...nm", C) + bo, C


MHA_AS_SUM = Exercise(
    "mha_as_sum",
    title="The same as a sum over heads",
    points=2,
    reference=ref.mha_as_sum,
    tensors=True,
    tolerance=FLOAT32,
    forbid=BUILTIN,
    cases=(
        Case("three tokens, two heads", _sum_two_heads, grad=("X", "Wo", "bo")),
        Case("a batch, three heads", _sum_batch),
    ),
    hints=(
        "Write the concatenation as a row of blocks and `Wo` as a column of blocks, then multiply block by block.",
        "$[O_0 | O_1]\\,W_O$ is $O_0$ times the upper half of the rows plus $O_1$ times the lower half. So cut `Wo` into `H` runs "
        "of rows, (H, d_v, d_model), and let `@` run over the heads. The bias belongs to the sum, not to a summand.",
        "`C = outputs @ Wo.reshape(H, -1, Wo.shape[-1])`, where `outputs` is (..., H, n, d_v); return `C.sum(-3) + bo, C`.",
    ),
    misconceptions=(
        Misconception(
            "h_biases",
            "gave every head the bias $b_O$: summed, it is there $H$ times",
            "The concatenation passes through $W_O$ once, so there is one $b_O$: add it once, after the sum.",
            _as_sum(bias=0.0, inner=1.0),
        ),
        Misconception(
            "bias_forgotten",
            "left out the bias $b_O$",
            "Add `bo` once, after the sum over the heads.",
            _as_sum(bias=0.0),
        ),
        Misconception(
            "heads_averaged",
            "averaged over the heads",
            "A row of blocks times a column of blocks is the **sum** of the products.",
            _as_sum(reduce=lambda C: C.mean(-3)),
        ),
        Misconception(
            "rows_interleaved",
            "gave head $h$ every $H$-th row of `Wo`",
            "In the concatenation head $h$ fills a run of $d_v$ neighbours, so it meets a run of $d_v$ rows.",
            _as_sum(blocks=lambda Wo, H: torch.stack([Wo[h::H] for h in range(H)])),
        ),
        Misconception(
            "one_block_for_all",
            "sent every head through the same rows of `Wo`, the first",
            "Each head has rows of its own: that is how it writes something of its own into the token.",
            _as_sum(blocks=lambda Wo, H: Wo[: Wo.shape[0] // H].expand(H, -1, -1)),
        ),
        Misconception(
            "scores_summed_over_heads",
            "summed over the heads **inside** the scores, so all heads share one softmax: that is a single, wide head",
            "Every head has weights of its own: $h$ stays an index of the scores (`bhid,bhjd->bhij`). It is summed only at $W_O$.",
            _scores_summed_over_heads,
        ),
    ),
    variants=(
        Variant("loop_over_heads", _loop),
        Variant("value_and_output_maps_joined", _value_and_output_first),
    ),
)
