"""Multi-head attention as a sum over heads."""

import torch

from autograder import After, Case, Draw, Exercise, Instead, Made, Misconception, Variant
from course.exercises.multi_head.shared import BUILTIN, FLOAT32, attend, attend_masked_late, weights
from solutions import multi_head as ref


def _sum_two_heads(draw: Draw):
    return {"X": draw.normal(3, 4), **weights(draw, 4, 2, 5, 3), "bo": draw.normal(4), "H": 2, "keep": None}


def _sum_batch(draw: Draw):
    n, d_k, d_v = draw.sizes(3, high=5)
    return {"X": draw.normal(2, n, 7), **weights(draw, 7, 3, d_k, d_v), "bo": draw.normal(7), "H": 3, "keep": None}


def _causal(draw: Draw):
    n, d_k, d_v = draw.sizes(3, low=3, high=7)
    keep = torch.ones(n, n).tril().bool().numpy()
    return {"X": draw.normal(n, 6), **weights(draw, 6, 2, d_k, d_v), "bo": draw.normal(6), "H": 2, "keep": keep}


def _axis(keep):
    return None if keep is None else keep.unsqueeze(-3)


def _in_runs_of_d_k(W_V, W_O, H, d_k):
    """Columns of `W_V` and rows of `W_O` in H blocks of d_k, padded with zeros where too few are left for the last heads."""
    width = H * d_k
    short = max(0, width - W_V.shape[1])
    return torch.nn.functional.pad(W_V, (0, short))[:, :width], torch.nn.functional.pad(W_O, (0, 0, 0, short))[:width]


def _as_sum(
    *,
    blocks=lambda W_O, H: W_O.reshape(H, -1, W_O.shape[1]),
    reduce=None,
    bias=1.0,
    inner=0.0,
    mask=_axis,
    attended=attend,
    one_width=False,
):
    """The sum over heads with one part replaced. Every summand gets `inner` times the bias, and the total gets `bias` times."""

    def answer(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
        if one_width:
            W_V, W_O = _in_runs_of_d_k(W_V, W_O, H, W_Q.shape[1] // H)
        Q, K, V = (ref.split_heads(X @ W, H) for W in (W_Q, W_K, W_V))
        outputs, _ = attended(Q, K, V, mask(keep))
        C = outputs @ blocks(W_O, H) + inner * bo
        return (C.sum(-3) if reduce is None else reduce(C)) + bias * bo, C

    return answer


def _bias_shared_out(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    Y, C = ref.mha_as_sum(X, W_Q, W_K, W_V, W_O, bo, H, keep)
    return Y, C + bo / H


def _scores_summed_over_heads(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    S = (X @ W_Q) @ (X @ W_K).mT * (W_Q.shape[1] // H) ** -0.5  # h is summed inside the dot product
    A = torch.softmax(S if keep is None else S.masked_fill(~keep, -torch.inf), dim=-1)
    C = A.unsqueeze(-3) @ ref.split_heads(X @ W_V, H) @ W_O.reshape(H, -1, W_O.shape[1])
    return C.sum(-3) + bo, C


def _loop(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    Y, C = bo, []
    for wq, wk, wv, wo in zip(W_Q.chunk(H, 1), W_K.chunk(H, 1), W_V.chunk(H, 1), W_O.chunk(H, 0), strict=True):
        C.append(ref.masked_sdpa(X @ wq, X @ wk, X @ wv, keep)[0] @ wo)
        Y = Y + C[-1]
    return Y, torch.stack(C, dim=-3)


def _value_and_output_first(X, W_Q, W_K, W_V, W_O, bo, H, keep=None):
    """A_h X (W_V W_O), in which the two outer maps of a head become one map of low rank."""
    _, A = ref.mha(X, W_Q, W_K, W_V, W_O, H, keep)
    W = ref.split_heads(W_V, H) @ W_O.reshape(H, -1, W_O.shape[1])  # (H, d_model, d_model)
    C = A @ (X.unsqueeze(-3) @ W)
    return torch.einsum("...hnm->...nm", C) + bo, C


MHA_AS_SUM = Exercise(
    "mha_as_sum",
    title="What each head writes",
    points=2,
    difficulty=3,
    minutes=8,
    reference=ref.mha_as_sum,
    recipe=Made(_as_sum),
    tensors=True,
    tolerance=FLOAT32,
    forbid=BUILTIN,
    cases=(
        Case("three tokens, two heads", _sum_two_heads, grad=("X", "W_O", "bo")),
        Case("a batch, three heads", _sum_batch),
        Case("causal", _causal, edge=0.2),
    ),
    hints=(
        "Write the concatenation as a row of blocks and `W_O` as a column of blocks. What does their product look like?",
        "$[O_0 | O_1]\\,W_O$ is $O_0$ times the upper rows of $W_O$ plus $O_1$ times the lower rows. Cut `W_O` into `H` blocks of rows, of "
        "shape (H, d_v, d_model), and let `@` run over the heads. Where does the bias belong?",
        "`W_O.reshape(H, -1, W_O.shape[-1])` has one block for each head, and `@` multiplies it with the (..., H, n, d_v) outputs of that "
        "head. Sum over the head axis, which is third from the end, and add the bias once.",
    ),
    misconceptions=(
        Misconception(
            "h_biases",
            "gave every head the bias $b_O$, so the sum contains it $H$ times",
            "The concatenation is multiplied by $W_O$ once, so there is one $b_O$. Add it once, after the sum.",
            Instead(bias=0.0, inner=1.0),
        ),
        Misconception(
            "bias_in_the_summands",
            "put a share of the bias, $b_O / H$, into every summand, although your total is right",
            "$C_h$ is what head $h$ writes, and the bias belongs to no head. Add `bo` to the total alone.",
            _bias_shared_out,
        ),
        Misconception(
            "bias_forgotten",
            "left out the bias $b_O$",
            "Add `bo` once, after the sum over the heads.",
            Instead(bias=0.0),
        ),
        Misconception(
            "heads_averaged",
            "averaged over the heads",
            "A row of blocks times a column of blocks is the **sum** of the products.",
            Instead(reduce=lambda C: C.mean(-3)),
        ),
        Misconception(
            "rows_interleaved",
            "gave head $h$ every $H$-th row of `W_O`",
            "In the concatenation head $h$ fills a block of $d_v$ neighbouring features, so it meets $d_v$ neighbouring rows.",
            Instead(blocks=lambda W_O, H: torch.stack([W_O[h::H] for h in range(H)])),
        ),
        Misconception(
            "columns_cut_for_rows",
            "cut `W_O` with `split_heads`, which divides its **columns** among the heads",
            "Head $h$ fills $d_v$ features of the concatenation, and these meet $d_v$ **rows** of `W_O`: `W_O.reshape(H, -1, W_O.shape[-1])`.",
            Instead(blocks=lambda W_O, H: ref.split_heads(W_O, H)),
            raises=True,
        ),
        Misconception(
            "scores_summed_over_heads",
            "summed over the heads **inside** the scores, so all of them share one softmax and become a single wide head",
            "Every head has weights of its own, so $h$ stays an index of the scores (`bhid,bhjd->bhij`). It is summed only at $W_O$.",
            _scores_summed_over_heads,
        ),
        Misconception(
            "one_width_for_all",
            "cut `W_V` and the rows of `W_O` into blocks of $d_k$, which is the width of queries and keys alone",
            "Values have their own width $d_v$, the width of `W_V` divided by `H`. Cut the rows of `W_O` by it as well.",
            Instead(one_width=True),
        ),
        Misconception(
            "summands_stacked_in_front",
            "put the head axis in front of the batch, so your $C$ has shape (H, ..., n, d_out)",
            "The head axis is third from the end, (..., H, n, d_out). Use `torch.stack(..., dim=-3)`.",
            After(lambda out, **_: (out[0], out[1].movedim(-3, 0))),
        ),
        Misconception(
            "masked_after_the_softmax",
            "masked the weights after the softmax, so hidden keys have already taken their share and the rest sums to less than 1",
            "Mask the **scores**, before the softmax, as `masked_sdpa` does.",
            Instead(attended=attend_masked_late),
        ),
        Misconception(
            "mask_ignored",
            "did not use `keep`",
            "Pass it to the function that computes your weights. `mha` takes it as it is, and `masked_sdpa` needs an axis for the heads.",
            Instead(mask=lambda keep: None),
        ),
        Misconception(
            "mask_inverted",
            "inverted the mask, so your queries attend exactly where they may not",
            "In `keep`, True means that a key may be attended to. `masked_sdpa` reads it in the same way.",
            Instead(mask=lambda keep: None if keep is None else ~keep.unsqueeze(-3)),
        ),
    ),
    variants=(
        Variant("loop_over_heads", _loop),
        Variant("value_and_output_maps_joined", _value_and_output_first),
    ),
)
