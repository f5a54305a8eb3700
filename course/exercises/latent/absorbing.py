"""The two matrices that change sides: W_UK goes to the query, W_UV to the output."""

import math

import torch

from autograder import Case, Draw, Exercise, Misconception, Variant
from course.exercises.latent import probes
from solutions import latent as ref


def _queries(heads: int, n: int, d: int, d_c: int, *, lead: tuple[int, ...] = ()):
    return lambda draw: {"q": draw.normal(*lead, heads, n, d), "W_UK": probes.weight(draw, heads, d_c, d)}


ABSORB_QUERY = Exercise(
    "absorb_query",
    title="Absorb the key matrix into the query",
    points=1,
    reference=ref.absorb_query,
    tensors=True,
    cases=(
        Case("one head", _queries(1, 2, 2, 3)),
        Case("as wide as the latent", _queries(2, 3, 5, 5)),
        Case("heads in a batch", _queries(3, 2, 4, 7, lead=(2,)), grad=("q", "W_UK")),
    ),
    hints=(
        "Write the score of one query with one latent: $q\\,(c W)^\\top$. Put brackets round what does not depend on $c$.",
        "$q\\,(c W)^\\top = q\\, W^\\top c^\\top = (q W^\\top)\\, c^\\top$. In code: transpose the last two axes of `W_UK`, per head.",
        "`q @ W_UK.mT`.",
    ),
    misconceptions=(
        Misconception(
            "wrong_side",
            "multiplied by $W_{UK}$ without transposing it. That goes from latent to key; an absorbed query goes the other way",
            "Widths tell where they differ: from $d$ to $d_c$. That is $q\\,W_{UK}^\\top$. Where $d = d_c$, no error warns you.",
            lambda q, W_UK: q @ W_UK,
        ),
        Misconception(
            "reshaped",
            "reshaped $W_{UK}$ to (d, d_c) where it has to be transposed: the same shape, other numbers",
            "`W_UK.mT` swaps rows and columns. A reshape only cuts the same sequence of numbers elsewhere.",
            lambda q, W_UK: q @ W_UK.reshape(W_UK.shape[0], W_UK.shape[2], W_UK.shape[1]),
        ),
        Misconception(
            "scaled_here",
            "divided by $\\sqrt{d}$ already",
            "This function must keep $\\tilde{q} \\cdot c = q \\cdot k$ exact. The scale comes with the score.",
            lambda q, W_UK: q @ W_UK.mT / math.sqrt(q.shape[-1]),
        ),
        Misconception(
            "one_matrix_for_all_heads",
            "used head 0's matrix for every head",
            "Each head makes its own keys from the shared latents: head `h` needs `W_UK[h]`.",
            lambda q, W_UK: q @ W_UK[0].mT,
        ),
    ),
    variants=(
        Variant("einsum", lambda q, W_UK: torch.einsum("...hqd,hcd->...hqc", q, W_UK)),
        Variant("matrix_first", lambda q, W_UK: (W_UK @ q.mT).mT),
    ),
)


def _mixtures(heads: int, n: int, d_c: int, d_v: int, d_model: int, *, lead: tuple[int, ...] = ()):
    def make(draw: Draw):
        weights = {"W_UV": probes.weight(draw, heads, d_c, d_v), "W_O": probes.weight(draw, heads, d_v, d_model)}
        return {"U": draw.normal(*lead, heads, n, d_c), **weights}

    return make


def _merged_mixtures(U, W_UV, W_O):
    O = U @ W_UV
    return O.reshape(*O.shape[:-3], O.shape[-2], -1) @ W_O.flatten(0, 1)


ABSORB_OUTPUT = Exercise(
    "absorb_output",
    title="From averages of latents to the output",
    points=1,
    reference=ref.absorb_output,
    tensors=True,
    cases=(
        Case("two heads, one query", _mixtures(2, 1, 3, 2, 4)),
        Case("as wide as the latent", _mixtures(2, 3, 5, 5, 7)),
        Case("heads in a batch", _mixtures(3, 2, 7, 4, 5, lead=(2,)), grad=("U", "W_UV", "W_O")),
    ),
    hints=(
        "Two matrices stand between a mixture and the output, each with one entry per head. What happens to the heads at the end?",
        "`U @ W_UV` is (..., head, query, d_v): what attention to the values would have given. Then `W_O`, then add the heads.",
        "`(U @ W_UV @ W_O).sum(-3)`.",
    ),
    misconceptions=(
        Misconception(
            "heads_not_added",
            "returned each head's contribution and did not add them",
            "Every head writes into the same token: sum over the head axis, `.sum(-3)`.",
            lambda U, W_UV, W_O: U @ W_UV @ W_O,
        ),
        Misconception(
            "heads_averaged",
            "averaged the heads' contributions",
            "The output is their **sum**: `.sum(-3)`.",
            lambda U, W_UV, W_O: (U @ W_UV @ W_O).mean(-3),
        ),
        Misconception(
            "heads_added_first",
            "added the heads' mixtures before their matrices had acted",
            "Each head has matrices of its own: apply them first, then add.",
            lambda U, W_UV, W_O: U.sum(-3) @ (W_UV @ W_O).sum(-3),
        ),
        Misconception(
            "merged_without_transpose",
            "put the heads side by side by a reshape alone: that mixes up queries and heads",
            "Multiply each head by its own `W_O` and add; or transpose to (..., query, head, d_v) before flattening.",
            _merged_mixtures,
        ),
        Misconception(
            "wrong_side",
            "transposed $W_{UV}$, as for the queries",
            "Here nothing changes sides: a mixture of latents is mapped as a latent is, $U\\,W_{UV}$. Only $d = d_v$ hides it.",
            lambda U, W_UV, W_O: (U @ W_UV.mT @ W_O).sum(-3),
        ),
    ),
    variants=(
        Variant("matrices_multiplied_beforehand", lambda U, W_UV, W_O: (U @ (W_UV @ W_O)).sum(-3)),
        Variant("einsum", lambda U, W_UV, W_O: torch.einsum("...hqc,hcv,hve->...qe", U, W_UV, W_O)),
    ),
)
