"""Multi-head attention as a module with its own parameters."""

import torch
from torch import nn

from autograder import Call, Case, Draw, Exercise, Instead, Made, Misconception, Read, Script, Variant
from course.exercises.multi_head.heads import merge_by_reshape, merge_interleaved, split_by_reshape, split_interleaved
from course.exercises.multi_head.shared import BUILTIN, FLOAT32, attend, attend_masked_late
from solutions import multi_head as ref


def _script(draw: Draw, d_model: int, H: int, d_k: int, d_v: int, *calls: Call, bias: bool = True) -> Script:
    sizes = {"W_Q": (d_model, H * d_k), "W_K": (d_model, H * d_k), "W_V": (d_model, H * d_v), "W_O": (H * d_v, d_model)}
    weights = {}
    for name, (inputs, outputs) in sizes.items():
        weights[f"{name}.weight"] = draw.normal(outputs, inputs, scale=inputs**-0.5 * (1.5 if name == "W_Q" else 1.0))
        if bias:
            weights[f"{name}.bias"] = draw.normal(outputs, scale=0.5)
    return Script({"d_model": d_model, "H": H, "d_k": d_k, "d_v": d_v, "bias": bias}, weights, calls)


def _call(Xq, Xkv, keep=None):
    return Call(arguments={"Xq": Xq, "Xkv": Xkv, "keep": keep})


def _made(draw: Draw):
    """Nothing is called, so only `__init__` and the loading of weights can go wrong."""
    return _script(draw, 4, 2, 5, 3, Read("training"))


def _self(draw: Draw):
    X = draw.normal(1, 3, 4)
    return _script(draw, 4, 2, 5, 3, _call(X, X))


def _cross(draw: Draw):
    n, m = draw.sizes(2, high=5)
    return _script(draw, 6, 3, 2, 5, _call(draw.normal(2, n, 6), draw.normal(2, m, 6)))


def _cross_masked(draw: Draw):
    """As many sequences as heads and as many queries as keys, so nothing raises and no shape shows the mistake."""
    n = draw.integer(3, 6)
    keep = draw.rng.permuted(torch.arange(n).expand(3, n, n).numpy(), axis=-1) < 2  # two keys for each query
    return _script(draw, 4, 3, 2, 5, _call(draw.normal(3, n, 4), draw.normal(3, n, 4), keep))


def _no_bias(draw: Draw):
    X = draw.normal(5, 6)
    return _script(draw, 6, 2, 3, 3, _call(X, X, torch.ones(5, 5).tril().bool().numpy()), bias=False)


def in_double(cls):
    """`cls` in float64, whatever it is given, because expected values are computed in float64."""

    class Double(cls):
        def __init__(self, **init):
            super().__init__(**init)
            self.double()

        def forward(self, Xq, Xkv, keep=None):
            return super().forward(Xq.double(), Xkv.double(), keep)

    return Double


def _head_axis(keep):
    return None if keep is None else keep.unsqueeze(-3)


def _module(
    *,
    split=ref.split_heads,
    merge=ref.merge_heads,
    scale=None,
    inputs=lambda Xq, Xkv: (Xq, Xkv, Xkv),
    add_head_axis=_head_axis,
    attended=attend,
    plus=lambda Y, Xq: Y,
):
    """The reference with one part of `forward` replaced. `inputs` returns what queries, keys and values are computed from."""

    class Wrong(ref.MultiHead):
        def forward(self, Xq, Xkv, keep=None):
            layers = (self.W_Q, self.W_K, self.W_V)
            Q, K, V = (split(layer(X), self.H) for layer, X in zip(layers, inputs(Xq, Xkv), strict=True))
            outputs, _ = attended(Q, K, V, add_head_axis(keep), None if scale is None else scale(Xq, self.H))
            return plus(self.W_O(merge(outputs)), Xq)

    return in_double(Wrong)


class MissingSuper(nn.Module):
    """As printed in many blog posts."""

    def __init__(self, d_model, H, d_k, d_v, bias=True):
        self.H = H
        self.W_Q = nn.Linear(d_model, H * d_k, bias=bias)


class ByFunctional(ref.MultiHead):
    """The same as a sum over heads, one after another."""

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = self.W_Q(Xq), self.W_K(Xkv), self.W_V(Xkv)
        total = 0.0 if self.W_O.bias is None else self.W_O.bias
        for q, k, v, w in zip(*(t.chunk(self.H, -1) for t in (Q, K, V, self.W_O.weight)), strict=True):
            total = total + ref.masked_sdpa(q, k, v, keep)[0] @ w.T
        return total


class ByBuiltin(ref.MultiHead):
    """The same with PyTorch's attention."""

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = (ref.split_heads(X, self.H) for X in (self.W_Q(Xq), self.W_K(Xkv), self.W_V(Xkv)))
        return self.W_O(ref.merge_heads(nn.functional.scaled_dot_product_attention(Q, K, V, attn_mask=_head_axis(keep))))


MULTI_HEAD = Exercise(
    "MultiHead",
    title="Find the bugs: a module that runs",
    points=3,
    kind="bug",
    difficulty=4,
    minutes=13,
    reference=in_double(ref.MultiHead),
    recipe=Made(_module),
    tensors=True,
    tolerance=FLOAT32,
    forbid=BUILTIN,
    cases=(
        Case("made, and given weights", _made),
        Case("self-attention, two heads", _self),
        Case("cross-attention", _cross),
        Case("cross-attention with a mask for each sequence", _cross_masked),
        Case("causal, no biases, no batch", _no_bias, edge=0.2),
    ),
    hints=(
        "All three bugs are in `forward`. For each line ask which tokens and which features meet in it, and compare it with your `mha`.",
        "Look at the scale, at the axis that the mask falls on, and at *which* features make up a head. Keep the names of the layers, "
        "because weights are loaded by name.",
        "Scores are divided by the root of the number of terms in each sum, which is the width of a **head**. `keep` needs an axis for the "
        "heads, third from the end. And head $h$ has the $h$-th **block** of features of each projection, as in `split_heads`, both on the "
        "way in and on the way back.",
    ),
    misconceptions=(
        Misconception(
            "as_found",
            "handed in the module as it was found, with three bugs in `forward`",
            "Read it line by line beside your `mha`. What is divided by what, which axes meet, and which features belong together?",
            Instead(
                split=split_interleaved,
                merge=merge_interleaved,
                scale=lambda X, H: X.shape[-1] ** -0.5,
                add_head_axis=lambda keep: keep,
            ),
        ),
        Misconception(
            "scale_repaired_only",
            "fixed the scale, which leaves two bugs",
            "Which features does head 0 get here, and which does it get from `split_heads`? And which axis of the scores does a mask for "
            "each sequence meet?",
            Instead(split=split_interleaved, merge=merge_interleaved, add_head_axis=lambda keep: keep),
        ),
        Misconception(
            "order_repaired_only",
            "fixed the order of the features, which leaves two bugs",
            "How many terms does each score add up? And which axis of the scores does a mask for each sequence meet?",
            Instead(scale=lambda X, H: X.shape[-1] ** -0.5, add_head_axis=lambda keep: keep),
        ),
        Misconception(
            "mask_repaired_only",
            "fixed the mask, which leaves two bugs",
            "How many terms does each score add up? And which features does head 0 get here, and which does it get from `split_heads`?",
            Instead(split=split_interleaved, merge=merge_interleaved, scale=lambda X, H: X.shape[-1] ** -0.5),
        ),
        Misconception(
            "dealt_like_cards",
            "still deal the features out like cards, so head $h$ gets every $H$-th of them and the merge collects them in the same way",
            "The round trip is exact, but the weights were made for other heads. Head $h$ has the $h$-th **block** of features: "
            "`unflatten(-1, (self.H, -1))`, and back with `merge_heads`.",
            Instead(split=split_interleaved, merge=merge_interleaved),
        ),
        Misconception(
            "dealt_like_cards_on_the_way_in",
            "still deal the features out like cards on the way in, so head $h$ gets every $H$-th of them",
            "Head $h$ has the $h$-th **block** of features, as in `split_heads`: `unflatten(-1, (self.H, -1))`.",
            Instead(split=split_interleaved),
        ),
        Misconception(
            "woven_together_on_the_way_back",
            "still interleave the heads on the way back, with feature 0 of every head first",
            "All features of head 0 come first, as in `merge_heads`, because the rows of $W_O$ are in this order.",
            Instead(merge=merge_interleaved),
        ),
        Misconception(
            "missing_super",
            "left out `super().__init__()` or called it too late, so `nn.Module` could not yet store a layer",
            "Make `super().__init__()` the first line of `__init__`. If it is, the message below says which name is missing.",
            MissingSuper,
            raises=True,
        ),
        Misconception(
            "scaled_by_sqrt_d_model",
            "scaled the scores by $\\sqrt{d_{model}}$, the width of the tokens",
            "Each head sums over $d_k$ features, so divide by $\\sqrt{d_k}$.",
            Instead(scale=lambda X, H: X.shape[-1] ** -0.5),
        ),
        Misconception(
            "scaled_by_a_share_of_d_model",
            "scaled the scores by $\\sqrt{d_{model} / H}$, as if the heads shared the width of the tokens",
            "`d_k` need not be `d_model / H`. Each head sums over $d_k$ features, so divide by $\\sqrt{d_k}$.",
            Instead(scale=lambda X, H: (X.shape[-1] / H) ** -0.5),
        ),
        Misconception(
            "input_added",
            "added the input `Xq` to the output, as a transformer block does around its attention",
            "This module is attention alone, so return what `self.W_O` gives. The residual connection belongs to the block.",
            Instead(plus=lambda Y, Xq: Y + Xq),
        ),
        Misconception(
            "masked_after_the_softmax",
            "masked the weights after the softmax, so hidden keys have already taken their share and the rest sums to less than 1",
            "Mask the **scores**, before the softmax, as `masked_sdpa` does.",
            Instead(attended=attend_masked_late),
        ),
        Misconception(
            "scaled_by_the_number_of_heads",
            "divided the scores by $\\sqrt{H}$, where $H$ is the *number* of heads",
            "A score is a sum over the features of one head. Take the root of their number.",
            Instead(scale=lambda X, H: H**-0.5),
        ),
        Misconception(
            "split_without_transpose",
            "split the heads by a reshape alone, so they contain pieces of other tokens",
            "Use `split_heads`, or `unflatten` the last axis **and then** move the heads in front of the tokens.",
            Instead(split=split_by_reshape),
        ),
        Misconception(
            "merge_without_transpose",
            "merged the heads by a reshape alone, so each row mixes several tokens",
            "Use `merge_heads`, which moves the heads behind the tokens again before it joins them.",
            Instead(merge=merge_by_reshape),
        ),
        Misconception(
            "self_attention_only",
            "computed keys and values from `Xq` as well, which is self-attention whatever `Xkv` holds",
            "Pass `Xkv` to `self.W_K` and `self.W_V`.",
            Instead(inputs=lambda Xq, Xkv: (Xq, Xq, Xq)),
        ),
        Misconception(
            "roles_swapped",
            "swapped the two inputs, so queries come from `Xkv`, and keys and values from `Xq`",
            "`Xq` asks, so it goes through `self.W_Q`, and each of **its** tokens gets an output. Keys and values come from `Xkv`.",
            Instead(inputs=lambda Xq, Xkv: (Xkv, Xq, Xq)),
        ),
        Misconception(
            "mask_without_head_axis",
            "gave the mask no head axis, so the mask of sequence $b$ falls on head $b$",
            "`keep` is (..., n_q, n_k) and the scores are (..., H, n_q, n_k). Use `keep.unsqueeze(-3)`, unless it is None.",
            Instead(add_head_axis=lambda keep: keep),
        ),
        Misconception(
            "mask_needs_a_batch",
            "counted the mask's axes from the front, so a mask (n_q, n_k) without a batch does not fit",
            "The head axis is third from the **end**. `keep.unsqueeze(-3)` works with a batch and without one.",
            Instead(add_head_axis=lambda keep: None if keep is None else keep.unsqueeze(1)),
            raises=True,
        ),
        Misconception(
            "mask_ignored",
            "did not use `keep`",
            "Pass it to `masked_sdpa` with an axis for the heads, `keep.unsqueeze(-3)`, unless it is None.",
            Instead(add_head_axis=lambda keep: None),
        ),
        Misconception(
            "mask_inverted",
            "inverted the mask, so your queries attend exactly where they may not",
            "In `keep`, True means that a key may be attended to. In `nn.MultiheadAttention` it is the other way round.",
            Instead(add_head_axis=lambda keep: None if keep is None else ~keep.unsqueeze(-3)),
        ),
    ),
    variants=(
        Variant("as_released", ref.MultiHead),
        Variant("one_head_after_another", ByFunctional),
        Variant("builtin_attention_per_head", ByBuiltin),
    ),
)
