"""Multi-head attention as a module with its own parameters, and how many of them there are."""

import torch
from torch import nn

from autograder import Call, Case, Draw, Exercise, Misconception, Script, Variant
from course.exercises.multi_head.attention import BUILTIN, FLOAT32, attend
from course.exercises.multi_head.heads import merge_by_reshape, merge_interleaved, split_by_reshape
from solutions import multi_head as ref


def _script(draw: Draw, d_model: int, H: int, d_k: int, d_v: int, *calls: Call, bias: bool = True) -> Script:
    sizes = {"WQ": (d_model, H * d_k), "WK": (d_model, H * d_k), "WV": (d_model, H * d_v), "WO": (H * d_v, d_model)}
    weights = {}
    for name, (inputs, outputs) in sizes.items():
        weights[f"{name}.weight"] = draw.normal(outputs, inputs, scale=inputs**-0.5 * (1.5 if name == "WQ" else 1.0))
        if bias:
            weights[f"{name}.bias"] = draw.normal(outputs, scale=0.5)
    return Script({"d_model": d_model, "H": H, "d_k": d_k, "d_v": d_v, "bias": bias}, weights, calls)


def _call(Xq, Xkv, keep=None):
    return Call(arguments={"Xq": Xq, "Xkv": Xkv, "keep": keep})


def _self(draw: Draw):
    X = draw.normal(1, 3, 4)
    return _script(draw, 4, 2, 5, 3, _call(X, X))


def _cross(draw: Draw):
    n, m = draw.sizes(2, high=5)
    return _script(draw, 6, 3, 2, 5, _call(draw.normal(2, n, 6), draw.normal(2, m, 6)))


def _cross_masked(draw: Draw):
    n, m = draw.sizes(2, low=3, high=7)
    keep = draw.rng.permuted(torch.arange(m).expand(2, n, m).numpy(), axis=-1) < 2  # each query may look at two keys
    return _script(draw, 4, 3, 2, 5, _call(draw.normal(2, n, 4), draw.normal(2, m, 4), keep))


def _no_bias(draw: Draw):
    X = draw.normal(5, 6)
    return _script(draw, 6, 2, 3, 3, _call(X, X, torch.ones(5, 5).tril().bool().numpy()), bias=False)


def in_double(cls):
    """`cls` computing in float64, whatever it is given: expected values are made in float64."""

    class Double(cls):
        def __init__(self, **init):
            super().__init__(**init)
            self.double()

        def forward(self, Xq, Xkv, keep=None):
            return super().forward(Xq.double(), Xkv.double(), keep)

    return Double


def _module(*, split=ref.split_heads, merge=ref.merge_heads, scale=None, keys_from=lambda Xq, Xkv: Xkv, mask=lambda k: k):
    """The reference with one part of `forward` replaced by a mistake."""

    class Wrong(ref.MultiHead):
        def forward(self, Xq, Xkv, keep=None):
            Xkv, keep = keys_from(Xq, Xkv), mask(keep)
            Q, K, V = (split(X, self.H) for X in (self.WQ(Xq), self.WK(Xkv), self.WV(Xkv)))
            keep = None if keep is None else keep.unsqueeze(-3)
            outputs, _ = attend(Q, K, V, keep, None if scale is None else scale(Xq))
            return self.WO(merge(outputs))

    return in_double(Wrong)


class MissingSuper(nn.Module):
    """As printed in many a blog post."""

    def __init__(self, d_model, H, d_k, d_v, bias=True):
        self.H = H
        self.WQ = nn.Linear(d_model, H * d_k, bias=bias)


class ByFunctional(ref.MultiHead):
    """The same through the functional `mha_as_sum` form: one head after another."""

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = self.WQ(Xq), self.WK(Xkv), self.WV(Xkv)
        total = 0.0 if self.WO.bias is None else self.WO.bias
        for q, k, v, w in zip(*(t.chunk(self.H, -1) for t in (Q, K, V, self.WO.weight)), strict=True):
            total = total + ref.masked_sdpa(q, k, v, keep)[0] @ w.T
        return total


class ByBuiltin(ref.MultiHead):
    """The same through torch's attention."""

    def forward(self, Xq, Xkv, keep=None):
        Q, K, V = (ref.split_heads(X, self.H) for X in (self.WQ(Xq), self.WK(Xkv), self.WV(Xkv)))
        keep = None if keep is None else keep.unsqueeze(-3)
        return self.WO(ref.merge_heads(nn.functional.scaled_dot_product_attention(Q, K, V, attn_mask=keep)))


MULTI_HEAD = Exercise(
    "MultiHead",
    title="The module, repaired",
    points=3,
    reference=in_double(ref.MultiHead),
    tensors=True,
    tolerance=FLOAT32,
    forbid=BUILTIN,
    cases=(
        Case("self-attention, two heads", _self),
        Case("cross-attention", _cross),
        Case("cross-attention with a mask for each sequence", _cross_masked),
        Case("causal, no biases, no batch", _no_bias, edge=0.2),
    ),
    hints=(
        "`__init__` makes four layers and remembers `H`. `forward` is your `mha`, with layers in the place of `X @ W` and with two "
        "inputs: one asks, the other offers.",
        "First line of `__init__`: `super().__init__()`. Then `self.WQ = nn.Linear(d_model, H * d_k, bias=bias)` and so on; the "
        "names must be those of the docstring, for weights are loaded by name. Queries come from `Xq`, keys **and** values "
        "from `Xkv`.",
        "`forward`: split `self.WQ(Xq)`, `self.WK(Xkv)` and `self.WV(Xkv)` into `self.H` heads, call `masked_sdpa` with "
        "`keep.unsqueeze(-3)` (or None), and return `self.WO(merge_heads(...))` of its output.",
    ),
    misconceptions=(
        Misconception(
            "missing_super",
            "most likely assigned a layer before `super().__init__()` had run, so `nn.Module` had no place to keep it (the message "
            "below tells: to this check any other `AttributeError` looks the same)",
            "Make `super().__init__()` the first line of your `__init__`.",
            MissingSuper,
        ),
        Misconception(
            "scaled_by_sqrt_d_model",
            "scaled the scores by $\\sqrt{d_{model}}$, the width of the tokens",
            "Each head sums over $d_k$ features: scale by $\\sqrt{d_k}$.",
            _module(scale=lambda X: X.shape[-1] ** -0.5),
        ),
        Misconception(
            "split_without_transpose",
            "split the heads by a reshape alone, so they hold pieces of other tokens",
            "Use your `split_heads`; or `.view(B, n, H, d)` **and then** `.transpose(1, 2)`.",
            _module(split=split_by_reshape),
        ),
        Misconception(
            "merge_without_transpose",
            "merged the heads by a reshape alone, so each row mixes several tokens",
            "Use your `merge_heads`: swap tokens and heads back before you join.",
            _module(merge=merge_by_reshape),
        ),
        Misconception(
            "head_order_at_wo",
            "joined the heads in another order than the weights of `WO` have",
            "First all features of head 0, then all of head 1, … The loaded weights were made for this order.",
            _module(merge=merge_interleaved),
        ),
        Misconception(
            "self_attention_only",
            "took keys and values from `Xq` as well: that is self-attention, whatever `Xkv` holds",
            "Feed `Xkv` to `self.WK` and `self.WV`.",
            _module(keys_from=lambda Xq, Xkv: Xq),
        ),
        Misconception(
            "mask_ignored",
            "did not use `keep`",
            "Pass it on to `masked_sdpa`, with an axis for the heads: `keep.unsqueeze(-3)`, unless it is None.",
            _module(mask=lambda keep: None),
        ),
    ),
    variants=(
        Variant("as_released", ref.MultiHead),
        Variant("one_head_after_another", ByFunctional),
        Variant("builtin_attention_per_head", ByBuiltin),
    ),
)


# ---------------------------------------------------------------------------------------------- parameters


def _sizes(draw: Draw, bias: bool):
    d_model, H, d_k, d_v = draw.sizes(4, low=3, high=17)
    return {"d_model": d_model, "H": H, "d_k": d_k, "d_v": d_v, "bias": bias}


def _count(matrices, biases):
    return lambda d_model, H, d_k, d_v, bias: matrices(d_model, H, d_k, d_v) + (biases(d_model, H, d_k, d_v) if bias else 0)


def _matrices(d, H, k, v):
    return 2 * d * H * k + 2 * d * H * v


def _biases(d, H, k, v):
    return 2 * H * k + H * v + d


def _from_a_module(d_model, H, d_k, d_v, bias):
    return sum(p.numel() for p in ref.MultiHead(d_model, H, d_k, d_v, bias).parameters())


PARAM_COUNT = Exercise(
    "param_count",
    title="How many parameters?",
    points=1,
    reference=ref.param_count,
    tensors=True,
    cases=(Case("without biases", lambda draw: _sizes(draw, False)), Case("with biases", lambda draw: _sizes(draw, True))),
    hints=(
        "Write down the shape of each of the four layers. A matrix has (in) times (out) weights. A bias has one number per output.",
        "`WQ` and `WK` are $d_{model} \\times H d_k$, `WV` is $d_{model} \\times H d_v$, `WO` is $H d_v \\times d_{model}$. "
        "How many outputs has each?",
        "`2 * d_model * H * d_k + 2 * d_model * H * d_v`, and with biases `2 * H * d_k + H * d_v + d_model` more.",
    ),
    misconceptions=(
        Misconception(
            "d_model_is_H_times_d",
            "counted $4 d_{model}^2$, as if $H d_k = H d_v = d_{model}$",
            "That is usual, not required: use the sizes that are given.",
            _count(lambda d, H, k, v: 4 * d * d, lambda d, H, k, v: 4 * d),
        ),
        Misconception(
            "output_layer_forgotten",
            "left out `WO`",
            "The fourth layer maps $H d_v$ features back to $d_{model}$, with a bias of its own.",
            _count(lambda d, H, k, v: d * H * (2 * k + v), lambda d, H, k, v: H * (2 * k + v)),
        ),
        Misconception(
            "one_head_only",
            "counted one head",
            "Each of the $H$ heads has projections of its own, and rows of its own in `WO`.",
            _count(lambda d, H, k, v: 2 * d * (k + v), lambda d, H, k, v: 2 * k + v + d),
        ),
        Misconception(
            "h_output_biases",
            "counted the bias of `WO` once per head",
            "The heads are joined before `WO`, so there is one bias, of $d_{model}$ numbers.",
            _count(_matrices, lambda d, H, k, v: 2 * H * k + H * v + H * d),
        ),
        Misconception(
            "biases_forgotten",
            "counted the matrices only",
            "With `bias=True` each layer has one more number per output.",
            _count(_matrices, lambda d, H, k, v: 0),
        ),
        Misconception(
            "bias_per_input",
            "counted a bias number per **input** of each layer",
            "A bias is added to the result: it has as many numbers as the layer has outputs.",
            _count(_matrices, lambda d, H, k, v: 3 * d + H * v),
        ),
    ),
    variants=(
        Variant("from_a_module", _from_a_module),
        Variant(
            "layer_by_layer",
            lambda d_model, H, d_k, d_v, bias: (
                2 * (d_model + bias) * H * d_k + (d_model + bias) * H * d_v + (H * d_v + bias) * d_model
            ),
        ),
    ),
)

PREDICT_PARAMS = Exercise(
    "predict_params",
    title="Predict: what do eight heads cost?",
    points=0.5,
    choices={
        "a": "8 times as many parameters, 8 times the work",
        "b": "as many parameters, and nearly the same work",
        "c": "an eighth of the parameters, because each head is an eighth as wide",
        "d": "as many parameters, and 8 times the work",
    },
    reveal="**b.** Eight heads of width 64 have the same four 512 × 512 matrices as one head of width 512. The products with them "
    "cost the same, and so do the scores: n² dot products of length 512 against 8 n² of length 64. Only the softmax works more: "
    "8 n² weights instead of n².",
)
