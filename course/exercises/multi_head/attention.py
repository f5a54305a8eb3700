"""Multi-head attention as a concatenation."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Property, Variant
from course.exercises.multi_head.heads import merge_by_reshape, merge_interleaved, split_by_reshape
from course.exercises.multi_head.shared import BUILTIN, FLOAT32, attend, attend_masked_late, weights
from solutions import multi_head as ref


def _two_heads(draw: Draw):
    return {"X": draw.normal(3, 4), **weights(draw, 4, 2, 5, 3), "H": 2, "keep": None}


def _causal(draw: Draw):
    n, d_k = draw.sizes(2, low=5, high=7)
    return {
        "X": draw.normal(n, 6),
        **weights(draw, 6, 3, d_k, 2, d_out=5),
        "H": 3,
        "keep": torch.ones(n, n).tril().bool().numpy(),
    }


def _mask_per_sequence(draw: Draw):
    """As many sequences as heads: a mask that lands on the wrong axis raises no error."""
    lengths = draw.rng.permutation([2, 3, 5])
    keep = (torch.arange(5) < torch.from_numpy(lengths)[:, None, None]).expand(3, 5, 5)
    return {"X": draw.normal(3, 5, 6), **weights(draw, 6, 3, 2, 7), "H": 3, "keep": keep.contiguous().numpy()}


def _nothing_to_look_at(draw: Draw):
    """A causal mask, in which one token may not look at anything."""
    n, d_k, d_v = draw.sizes(3, low=3, high=7)
    keep = torch.ones(n, n).tril().bool()
    keep[draw.integer(0, n - 1)] = False
    return {"X": draw.normal(n, 4), **weights(draw, 4, 2, d_k, d_v), "H": 2, "keep": keep.numpy()}


def _usual_sizes(draw: Draw):
    """H d_k = H d_v = d_model, as in most models: every weight is square, and no wrong turn is stopped by a shape."""
    return {"X": draw.normal(2, 5, 6), **weights(draw, 6, 2, 3, 3), "H": 2, "keep": None}


def _unsqueezed(keep):
    return None if keep is None else keep.unsqueeze(-3)


def _nothing_gives(weight):
    """What becomes of a token that may look at nothing, where no part of the code thinks of it."""

    def attend_to_something(Q, K, V, keep, scale=None):
        _, A = attend(Q, K, V, keep, scale)
        A = A if keep is None else torch.where(keep.any(-1, keepdim=True), A, weight(A))
        return A @ V, A

    return attend_to_something


def _mask_added(Q, K, V, keep, scale=None):
    """The mask counts as 0 and 1, and nothing is hidden."""
    S = Q @ K.mT * (Q.shape[-1] ** -0.5 if scale is None else scale)
    A = torch.softmax(S if keep is None else S + keep, dim=-1)
    return A @ V, A


def _mha(*, split=ref.split_heads, merge=ref.merge_heads, scale=None, mask=_unsqueezed, attended=attend, project=True):
    """Multi-head attention with one part replaced by a mistake."""

    def answer(X, W_Q, W_K, W_V, W_O, H, keep=None):
        Q, K, V = (split(X @ W, H) for W in (W_Q, W_K, W_V))
        outputs, A = attended(Q, K, V, mask(keep), None if scale is None else scale(X, H))
        return (merge(outputs) @ W_O if project else merge(outputs)), A

    return answer


def _split_before_projection(X, W_Q, W_K, W_V, W_O, H, keep=None):
    slices = ref.split_heads(X, H)  # (..., H, n, d_model / H)
    Q, K, V = (slices @ torch.stack([w.chunk(H, 0)[h] for h, w in enumerate(W.chunk(H, 1))]) for W in (W_Q, W_K, W_V))
    outputs, A = ref.masked_sdpa(Q, K, V, _unsqueezed(keep))
    return ref.merge_heads(outputs) @ W_O, A


def _slices_before_projection(X, W_Q, W_K, W_V, W_O, H, keep=None):
    slices = ref.split_heads(X, H)
    return ref.masked_sdpa(slices @ W_Q, slices @ W_K, slices @ W_V, _unsqueezed(keep))


def _weights_as_linear_keeps_them(X, W_Q, W_K, W_V, W_O, H, keep=None):
    return ref.mha(X, W_Q.T, W_K.T, W_V.T, W_O.T, H, keep)


def _weights_stacked_in_front(X, W_Q, W_K, W_V, W_O, H, keep=None):
    Y, A = ref.mha(X, W_Q, W_K, W_V, W_O, H, keep)
    return Y, A.movedim(-3, 0)


def _averaged(X, W_Q, W_K, W_V, W_O, H, keep=None):
    Y, A = ref.mha(X, W_Q, W_K, W_V, W_O, H, keep)
    return Y, A.mean(-3)


def _one_wide_head_repeated(X, W_Q, W_K, W_V, W_O, H, keep=None):
    """The weights of one wide head, repeated for each of the heads that were asked for."""
    outputs, A = ref.masked_sdpa(X @ W_Q, X @ W_K, X @ W_V, keep)
    return outputs @ W_O, A.unsqueeze(-3).expand(*A.shape[:-2], H, *A.shape[-2:])


def _one_head_after_another(X, W_Q, W_K, W_V, W_O, H, keep=None):
    heads = [
        ref.masked_sdpa(X @ wq, X @ wk, X @ wv, keep)
        for wq, wk, wv in zip(W_Q.chunk(H, 1), W_K.chunk(H, 1), W_V.chunk(H, 1), strict=True)
    ]
    return torch.cat([O for O, _ in heads], dim=-1) @ W_O, torch.stack([A for _, A in heads], dim=-3)


def _einsum(X, W_Q, W_K, W_V, W_O, H, keep=None):
    Q, K, V = (torch.einsum("...nm,mhd->...hnd", X, W.reshape(W.shape[0], H, -1)) for W in (W_Q, W_K, W_V))
    S = torch.einsum("...hid,...hjd->...hij", Q, K) * Q.shape[-1] ** -0.5
    if keep is not None:
        S = S.masked_fill(~keep[..., None, :, :], -torch.inf)
    A = torch.softmax(S, dim=-1).nan_to_num(0.0)
    return torch.einsum("...hij,...hjd,hdm->...im", A, V, W_O.reshape(H, -1, W_O.shape[1])), A


def _builtin_attention(X, W_Q, W_K, W_V, W_O, H, keep=None):
    Q, K, V = (ref.split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
    eye = torch.eye(X.shape[-2], dtype=X.dtype).expand(*Q.shape[:-1], -1)
    A = scaled_dot_product_attention(Q, K, eye, attn_mask=_unsqueezed(keep)).nan_to_num(0.0)
    return ref.merge_heads(A @ V) @ W_O, A


MHA = Exercise(
    "mha",
    title="Multi-head attention",
    points=3,
    difficulty=3,
    minutes=9,
    reference=ref.mha,
    recipe=Made(_mha),
    tensors=True,
    tolerance=FLOAT32,
    properties=(Property("sums_to_one", axis=-1, output=1), Property("non_negative", output=1)),
    forbid=BUILTIN,
    cases=(
        Case("three tokens, two heads", _two_heads, grad=("X", "W_Q", "W_K", "W_V", "W_O")),
        Case("three heads, causal", _causal),
        Case("as many sequences as heads, each with its own padding", _mask_per_sequence),
        Case("the usual sizes: every weight is square", _usual_sizes),
        Case("a query that sees no key", _nothing_to_look_at, edge=0.1),
    ),
    hints=(
        "There are five steps, which are project, split, attend, merge and project. The three in the middle are given functions, and "
        "`masked_sdpa` accepts any leading axes, so it accepts a head axis too.",
        "Project the **whole** of `X` with `W_Q`, `W_K` and `W_V`, then split each result into heads. The mask has no head axis. Give "
        "it one of size 1, third from the end, so that it broadcasts over the heads.",
        "Compute `split_heads(X @ W, H)` for each of the three matrices. One call of `masked_sdpa` serves all heads, with "
        "`keep.unsqueeze(-3)` unless `keep` is None. Merge its outputs and multiply them by `W_O`. Return its weights as they are.",
    ),
    misconceptions=(
        Misconception(
            "scaled_by_sqrt_d_model",
            "scaled the scores by $\\sqrt{d_{model}}$, the width of the tokens",
            "Each head's dot product sums over its own $d_k$ features, so its scale is $\\sqrt{d_k}$. `masked_sdpa` already does this.",
            Instead(scale=lambda X, H: X.shape[-1] ** -0.5),
        ),
        Misconception(
            "scaled_by_all_heads",
            "scaled the scores by $\\sqrt{H d_k}$, the width of all heads together",
            "Each head's dot product sums over its own $d_k$ features, so its scale is $\\sqrt{d_k}$.",
            Instead(attended=lambda Q, K, V, keep, scale=None: attend(Q, K, V, keep, (Q.shape[-3] * Q.shape[-1]) ** -0.5)),
        ),
        Misconception(
            "scaled_by_a_share_of_d_model",
            "scaled the scores by $\\sqrt{d_{model} / H}$, which is $\\sqrt{d_k}$ only if $H d_k = d_{model}$",
            "$H d_k$ need not be the width of a token. Scale by $\\sqrt{d_k}$, the width of a head of queries.",
            Instead(scale=lambda X, H: (X.shape[-1] / H) ** -0.5),
        ),
        Misconception(
            "masked_after_the_softmax",
            "masked the weights after the softmax, so the weights that remain sum to less than 1",
            "Mask the **scores** before the softmax, as `masked_sdpa` does.",
            Instead(attended=attend_masked_late),
        ),
        Misconception(
            "mask_added",
            "added the mask to the scores as 0 and 1, which hides nothing",
            "Pass the mask to `masked_sdpa`, which fills the forbidden scores before the softmax.",
            Instead(attended=_mask_added),
        ),
        Misconception(
            "nothing_gives_nan",
            "made NaN where a query sees no key, because a softmax of nothing but $-\\infty$ divides 0 by 0",
            "Such a query should get zero weights and a zero output, as `masked_sdpa` gives it.",
            Instead(attended=_nothing_gives(lambda A: torch.full_like(A, torch.nan))),
        ),
        Misconception(
            "nothing_gives_the_mean",
            "let a query that sees no key attend equally to all of them",
            "Such a query should get zero weights and a zero output. `masked_sdpa` multiplies the weights by the mask once more.",
            Instead(attended=_nothing_gives(lambda A: torch.full_like(A, 1 / A.shape[-1]))),
        ),
        Misconception(
            "split_before_projection",
            "split `X` before projecting it, so each head sees only a slice of the token",
            "Every head reads the **whole** token. Project first, then split the result.",
            _split_before_projection,
        ),
        Misconception(
            "one_wide_head",
            "ran one wide head, whose weights serve all features",
            "Apply `split_heads` to queries, keys and values before the attention, and `merge_heads` to the outputs after it.",
            Instead(split=lambda X, H: X, merge=lambda Y: Y, mask=lambda keep: keep),
            also=(Instead(split=lambda X, H: X, merge=lambda Y: Y), _one_wide_head_repeated),
        ),
        Misconception(
            "slices_before_projection",
            "split `X` before projecting it, and a slice of a token doesn't fit a matrix that reads the whole token",
            "Project all of `X` first, `X @ W_Q`. Then split the result.",
            _slices_before_projection,
            raises=True,
        ),
        Misconception(
            "split_without_transpose",
            "split the heads by a reshape alone, so each head holds pieces of other tokens",
            "Use the given `split_heads`, which reshapes the last axis to (H, d) and then swaps tokens and heads.",
            Instead(split=split_by_reshape),
        ),
        Misconception(
            "merge_without_transpose",
            "merged the heads by a reshape alone. Your weights are right, but each row of the output mixes tokens",
            "Use the given `merge_heads`, which swaps tokens and heads back before it joins them.",
            Instead(merge=merge_by_reshape),
        ),
        Misconception(
            "tokens_joined",
            "multiplied by `W_O` without merging the heads of each token",
            "The rows of `W_O` meet the features of all heads of *one* token, so use `merge_heads` first.",
            Instead(merge=lambda Y: Y),
            also=(Instead(merge=lambda Y: Y.flatten(-2)),),
            raises=True,
        ),
        Misconception(
            "split_and_merge_without_transpose",
            "split **and** merged by reshapes alone. The round trip is exact, but the attention in between is wrong",
            "Each head must hold *all* tokens. Use the given `split_heads` and `merge_heads`, which swap tokens and heads.",
            Instead(split=split_by_reshape, merge=merge_by_reshape),
        ),
        Misconception(
            "head_order_at_wo",
            "joined the features of the heads in another order, so head $h$ meets rows of `W_O` that belong to other heads",
            "All features of head 0 come first, then all features of head 1, and so on. With loaded weights this order matters.",
            Instead(merge=merge_interleaved),
        ),
        Misconception(
            "mask_on_head_axis",
            "applied the mask of sequence $b$ to head $b$ of every sequence, which raises no error if there are as many heads as sequences",
            "`keep` is (..., n, n) and the scores are (..., H, n, n). All heads of a sequence share its mask, so where does `keep` need an "
            "axis of size 1?",
            Instead(mask=lambda keep: keep),
        ),
        Misconception(
            "keep_may_be_none",
            "called a method of `keep`, which may be None. Then every query sees every key",
            "Add the head axis only if there is a mask, with `None if keep is None else …`.",
            Instead(mask=lambda keep: keep.unsqueeze(-3)),
            also=(
                Instead(mask=lambda keep: keep.unsqueeze(1)),
                Instead(mask=lambda keep: keep[..., None, :, :]),
                Instead(mask=lambda keep: keep[:, None]),
            ),
            raises=True,
        ),
        Misconception(
            "mask_needs_a_batch",
            "counted the axes of the mask from the front, so an (n, n) mask without a batch doesn't fit",
            "The head axis is third from the **end**, so `keep.unsqueeze(-3)` works with and without a batch.",
            Instead(mask=lambda keep: None if keep is None else keep.unsqueeze(1)),
            raises=True,
        ),
        Misconception(
            "mask_ignored",
            "did not use `keep`",
            "Pass it to `masked_sdpa`. Unless it is None, first give it an axis of size 1 for the heads.",
            Instead(mask=lambda keep: None),
        ),
        Misconception(
            "mask_inverted",
            "attended to exactly the keys that are forbidden",
            "True means keep, for `masked_sdpa` as well. In `nn.MultiheadAttention` True means the opposite.",
            Instead(mask=lambda keep: None if keep is None else ~keep.unsqueeze(-3)),
        ),
        Misconception(
            "weights_transposed",
            "multiplied by the transposed weights, as `nn.Linear` keeps them",
            "Here a matrix is (in, out) and rows are tokens, so it is `X @ W_Q` without `.T`. Square matrices hide the difference.",
            _weights_as_linear_keeps_them,
        ),
        Misconception(
            "weights_averaged_over_heads",
            "averaged the attention weights over the heads, as `nn.MultiheadAttention` does unless told otherwise",
            "Return one matrix of weights per head, (..., H, n, n).",
            _averaged,
        ),
        Misconception(
            "weights_stacked_in_front",
            "stacked the weights of the heads in front of the batch, as (H, ..., n, n)",
            "The head axis is third from the end, (..., H, n, n), so use `torch.stack(..., dim=-3)`.",
            _weights_stacked_in_front,
        ),
    ),
    variants=(
        Variant("one_head_after_another", _one_head_after_another),
        Variant("einsum_only", _einsum),
        Variant("builtin_attention_per_head", _builtin_attention),
    ),
)
