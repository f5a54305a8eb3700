"""A normalisation, and the block around attention."""

import torch
import torch.nn.functional as F

from autograder import Case, Code, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import a_block_of_your_own as ref

SMALL_EPS = 1e-6
FLOAT32 = Tolerance(rtol=1e-4, atol=1e-5)  # products and roots in float32; mistakes are 1e-2 and more


def _sizes_differ(draw: Draw):
    """Tokens of very different length, the middle one far longer than the others."""
    n, d = draw.sizes(2, low=3, high=7)
    X = draw.normal(n, d) + 0.5  # a mean that is not 0
    X[1] *= 30
    return {"X": X, "gain": draw.uniform(d, low=0.5, high=2.0), "eps": SMALL_EPS}


def _batch(draw: Draw):
    n, d = draw.sizes(2, low=3, high=7)
    X = draw.normal(2, n, d) * draw.uniform(2, n, 1, low=0.2, high=5.0) - 0.3
    return {"X": X, "gain": draw.uniform(d, low=-2.0, high=2.0), "eps": SMALL_EPS}


def _large_eps(draw: Draw):
    n, d = draw.sizes(2, low=3, high=7)
    return {"X": draw.normal(n, d), "gain": draw.uniform(d, low=0.5, high=2.0), "eps": draw.uniform(low=0.3, high=0.9).item()}


def _zeros(draw: Draw):
    X = draw.normal(3, 4)
    X[draw.integer(0, 2)] = 0.0
    return {"X": X, "gain": draw.uniform(4, low=0.5, high=2.0), "eps": SMALL_EPS}


def _norm(
    *,
    axes=-1,
    centre=False,
    mean=lambda X, axes: X.square().mean(axes, keepdim=True),
    root=lambda m, eps: torch.sqrt(m + eps),
    apply=lambda X, gain: X * gain,
):
    """RMSNorm with one part replaced by a mistake."""

    def answer(X, gain, eps=1e-6):
        X = X - X.mean(-1, keepdim=True) if centre else X
        return apply(X / root(mean(X, axes), eps), gain)

    return answer


def _over_everything(X, gain, eps=1e-6):
    return X / torch.sqrt(X.square().mean() + eps) * gain


RMS_NORM = Exercise(
    "rms_norm",
    title="Find the bugs: a norm that looks ahead",
    kind="bug",
    points=1.5,
    difficulty=3,
    minutes=6,
    tensors=True,
    search=0.4,
    reference=ref.rms_norm,
    recipe=Made(_norm),
    tolerance=FLOAT32,
    forbid=("RMSNorm", "layer_norm", "LayerNorm"),
    cases=(
        Case("tokens of different size", _sizes_differ, grad=("X", "gain")),
        Case("a batch", _batch),
        Case("a large eps", _large_eps, edge=0.1),
        Case("a vector of zeros", _zeros, edge=0.1),
    ),
    hints=(
        "Suppose that the last token of a text changes. Which outputs of the draft change with it, and because of which line?",
        "A root mean square belongs to one token and squares the features as they are. And √x has an infinite slope at x = 0, so on which "
        "side of the root has `eps` to be added?",
        "Leave the mean of the features in. Average the squares over the last axis alone, with `keepdim=True`, and add `eps` before "
        "you take the root.",
    ),
    misconceptions=(
        Misconception(
            "over_the_tokens",
            "took the mean over the tokens, so the size of a later token changes an earlier one",
            "In a causal model that is a leak. Take the mean over the features of each token, which are the last axis.",
            Instead(axes=-2),
        ),
        Misconception(
            "over_everything",
            "divided all tokens by the same number",
            "A later token then changes an earlier one, which is a leak. Each token is divided by a number of its own.",
            _over_everything,
            also=(Instead(axes=(-2, -1)),),
        ),
        Misconception(
            "draft_unchanged",
            "left all three bugs in the draft",
            "Change the last token of a text and see which outputs change. Then ask of every part of the draft whether a root mean square has it.",
            Instead(axes=(-2, -1), centre=True, root=lambda m, eps: m.sqrt() + eps),
        ),
        Misconception(
            "mean_subtracted",
            "subtracted the mean first, which is LayerNorm without its bias",
            "RMSNorm leaves the mean where it is and only rescales.",
            Instead(centre=True),
        ),
        Misconception(
            "standard_deviation",
            "divided by the standard deviation, which measures the distance from the mean",
            "RMSNorm squares the features as they are. Only where their mean is 0 are the two the same.",
            Instead(mean=lambda X, axes: X.var(axes, keepdim=True, correction=0)),
            also=(Instead(mean=lambda X, axes: X.var(axes, keepdim=True)),),
        ),
        Misconception(
            "length_one",
            "brought every vector to length 1",
            "Divide by the root of the *mean* of the squares, so that a typical feature has size 1 in any width.",
            Instead(mean=lambda X, axes: X.square().sum(axes, keepdim=True)),
        ),
        Misconception(
            "root_forgotten",
            "divided by the mean of the squares and not by its root",
            "Without the root a vector that is twice as long comes out half as long.",
            Instead(root=lambda m, eps: m + eps),
        ),
        Misconception(
            "eps_outside",
            "added `eps` after the root",
            "Then the gradient at a vector of zeros is NaN, because √x has an infinite slope at 0. Add `eps` to the mean of the squares.",
            Instead(root=lambda m, eps: m.sqrt() + eps),
        ),
        Misconception(
            "eps_forgotten",
            "left `eps` out, so a vector of zeros becomes NaN",
            "Add `eps` to the mean of the squares before you take the root.",
            Instead(root=lambda m, eps: m.sqrt()),
        ),
        Misconception(
            "gain_forgotten",
            "did not use the gain",
            "The model learns one factor for each feature. Multiply by `gain` at the end.",
            Instead(apply=lambda X, gain: X),
        ),
        Misconception(
            "gain_added",
            "added the gain instead of multiplying by it",
            "The gain is a factor for each feature.",
            Instead(apply=lambda X, gain: X + gain),
        ),
        Misconception(
            "gain_inside",
            "multiplied by the gain before the division, so part of it is divided away",
            "Normalise first, then multiply by the gain.",
            lambda X, gain, eps=1e-6: _norm()(X * gain, torch.ones_like(gain), eps),
        ),
    ),
    variants=(
        Variant("pow_and_rsqrt", lambda X, gain, eps=1e-6: gain * (X * (X.pow(2).mean(-1, keepdim=True) + eps).rsqrt())),
        Variant("a_norm", lambda X, gain, eps=1e-6: X * gain / (X.norm(dim=-1, keepdim=True) ** 2 / X.shape[-1] + eps) ** 0.5),
    ),
)


# ---------------------------------------------------------------------------------------------- block

# Stand-ins for attention: each position gets something of all earlier ones, and no two steps can trade places unseen.
AVERAGE = Code("lambda X: torch.tanh(X.cumsum(-2)).flip(-1)")
NEIGHBOUR = Code("lambda X: torch.sin(2 * X.roll(1, -1)) + X.roll(1, -2)")


def _case(attend: Code, *axes: int):
    def make(draw: Draw):
        d, hidden = draw.sizes(2, low=3, high=11)
        return {
            "X": draw.normal(*axes, d) * draw.uniform(*axes, 1, low=0.5, high=4.0) + 0.3,
            "attend": attend,
            "gain_1": draw.uniform(d, low=0.5, high=2.0),
            "gain_2": draw.uniform(d, low=0.5, high=2.0),
            "W_up": draw.normal(d, hidden),
            "W_down": draw.normal(hidden, d),
        }

    return make


def _silent(draw: Draw):
    """An attention that writes nothing: what is left is the MLP."""
    return {**_case(Code("lambda X: 0 * X"), 4)(draw)}


def _mlp(Z, W_up, W_down):
    return F.gelu(Z @ W_up) @ W_down


def _block(
    *,
    norm_1=ref.rms_norm,
    norm_2=ref.rms_norm,
    mlp=_mlp,
    add_attention=lambda X, Y: X + Y,
    add_mlp=lambda X, Y: X + Y,
    mlp_reads=lambda X, Y, before: X,
    gains=lambda one, two: (one, two),
):
    """The block with one part replaced by a mistake. `mlp_reads` gets the new stream, attention's output and the old stream."""

    def answer(X, attend, gain_1, gain_2, W_up, W_down):
        first, second = gains(gain_1, gain_2)
        before, Y = X, attend(norm_1(X, first))
        X = add_attention(X, Y)
        return add_mlp(X, mlp(norm_2(mlp_reads(X, Y, before), second), W_up, W_down))

    return answer


def _post_norm(X, attend, gain_1, gain_2, W_up, W_down):
    X = ref.rms_norm(X + attend(X), gain_1)
    return ref.rms_norm(X + _mlp(X, W_up, W_down), gain_2)


def _stream_normalised(X, attend, gain_1, gain_2, W_up, W_down):
    X = ref.rms_norm(X, gain_1)
    X = X + attend(X)
    X = ref.rms_norm(X, gain_2)
    return X + _mlp(X, W_up, W_down)


def _output_normalised(X, attend, gain_1, gain_2, W_up, W_down):
    X = X + ref.rms_norm(attend(X), gain_1)
    return X + ref.rms_norm(_mlp(X, W_up, W_down), gain_2)


def _mlp_first(X, attend, gain_1, gain_2, W_up, W_down):
    X = X + _mlp(ref.rms_norm(X, gain_1), W_up, W_down)
    return X + attend(ref.rms_norm(X, gain_2))


def _no_mlp(X, attend, gain_1, gain_2, W_up, W_down):
    return X + attend(ref.rms_norm(X, gain_1))


def _spelled_out(X, attend, gain_1, gain_2, W_up, W_down):
    Z = X / X.square().mean(-1, keepdim=True).add(1e-6).sqrt()
    stream = torch.stack([X, attend(gain_1 * Z)]).sum(0)
    Z = stream / stream.square().mean(-1, keepdim=True).add(1e-6).sqrt()
    hidden = torch.einsum("...d,dh->...h", gain_2 * Z, W_up)
    return stream + (hidden * torch.special.ndtr(hidden)) @ W_down


BLOCK = Exercise(
    "block",
    title="Design: wire the block",
    kind="design",
    points=2,
    difficulty=2,
    minutes=7,
    tensors=True,
    search=0.4,
    reference=ref.block,
    recipe=Made(_block),
    tolerance=FLOAT32,
    cases=(
        Case("five tokens", _case(AVERAGE, 5)),
        Case("a batch", _case(NEIGHBOUR, 2, 3)),
        Case("an attention that writes nothing", _silent),
    ),
    hints=(
        "If both parts write zeros, the block returns `X`. What do you have to do with the output of a part so that this holds, and may the "
        "stream itself be normalised?",
        "Both changes have the form `X = X + part(rms_norm(X, gain))`. The second one begins with the `X` that the first one left.",
        "The first line is `X = X + attend(rms_norm(X, gain_1))`. The part of the second line is `F.gelu(Z @ W_up) @ W_down`, where `Z` is "
        "the stream, normalised with `gain_2`.",
    ),
    misconceptions=(
        Misconception(
            "post_norm",
            "normalised the stream itself, after each addition, as the transformer of 2017 did",
            "Twenty blocks of zeros would then change the stream, which requirement 1 forbids. Only what the parts *read* may be normalised.",
            _post_norm,
        ),
        Misconception(
            "stream_normalised",
            "put the normalised vectors in place of the stream",
            "A block of zeros would then change the stream, which requirement 1 forbids. Add to the `X` from before the norm.",
            _stream_normalised,
        ),
        Misconception(
            "outputs_normalised",
            "normalised what the parts write instead of what they read",
            "Requirement 2 is about what the parts *read*. Normalise their inputs, as in `attend(rms_norm(X, gain_1))`.",
            _output_normalised,
        ),
        Misconception(
            "no_residuals",
            "let each part replace the stream instead of adding to it",
            "A block of zeros would then return zeros. By requirement 1 it has to return the stream unchanged.",
            Instead(add_attention=lambda X, Y: Y, add_mlp=lambda X, Y: Y),
        ),
        Misconception(
            "attention_replaces",
            "let attention replace the stream",
            "By requirement 1, nothing is lost if attention writes zeros. Let it add to the stream.",
            Instead(add_attention=lambda X, Y: Y),
        ),
        Misconception(
            "mlp_replaces",
            "let the MLP replace the stream",
            "By requirement 1, nothing is lost if the MLP writes zeros. Let it add to the stream as well.",
            Instead(add_mlp=lambda X, Y: Y),
        ),
        Misconception(
            "in_parallel",
            "let the MLP read the stream from before attention",
            "By requirement 3 the MLP can use what attention has just found. Some models do run both side by side, but this one doesn't.",
            Instead(mlp_reads=lambda X, Y, before: before),
        ),
        Misconception(
            "mlp_reads_attention_alone",
            "let the MLP read the output of attention without the rest of the stream",
            "By requirement 3 the MLP knows what was in the stream *and* what attention has found.",
            Instead(mlp_reads=lambda X, Y, before: Y),
        ),
        Misconception(
            "no_norms",
            "used no norm at all",
            "By requirement 2 each part reads vectors of a standard size, so each of them needs a norm.",
            Instead(norm_1=lambda X, gain: X, norm_2=lambda X, gain: X),
        ),
        Misconception(
            "norm_before_attention_only",
            "let the MLP read the stream without a norm",
            "By requirement 2 the MLP, too, reads vectors of a standard size. Use `rms_norm(X, gain_2)`.",
            Instead(norm_2=lambda X, gain: X),
        ),
        Misconception(
            "norm_before_mlp_only",
            "let attention read the stream without a norm",
            "By requirement 2 attention, too, reads vectors of a standard size. Use `rms_norm(X, gain_1)`.",
            Instead(norm_1=lambda X, gain: X),
        ),
        Misconception(
            "one_gain_for_both",
            "used the same gain twice",
            "Each norm has a gain of its own, `gain_1` for attention and `gain_2` for the MLP.",
            Instead(gains=lambda one, two: (one, one)),
            also=(Instead(gains=lambda one, two: (two, two)),),
        ),
        Misconception(
            "gains_swapped",
            "swapped the two gains",
            "`gain_1` belongs to attention and `gain_2` to the MLP.",
            Instead(gains=lambda one, two: (two, one)),
        ),
        Misconception(
            "mlp_first",
            "ran the MLP before attention",
            "By requirement 3 the MLP can use what attention has found in the same block, so attention comes first.",
            _mlp_first,
        ),
        Misconception(
            "no_activation",
            "left out the GELU, so the MLP is a single matrix product in disguise",
            "Apply `F.gelu` between `W_up` and `W_down`.",
            Instead(mlp=lambda Z, W_up, W_down: Z @ W_up @ W_down),
        ),
        Misconception(
            "relu",
            "used ReLU",
            "This MLP uses `F.gelu`.",
            Instead(mlp=lambda Z, W_up, W_down: torch.relu(Z @ W_up) @ W_down),
        ),
        Misconception(
            "activation_at_the_end",
            "applied the GELU after `W_down`, where it can only push the stream upwards",
            "Apply `F.gelu` between `W_up` and `W_down`.",
            Instead(mlp=lambda Z, W_up, W_down: F.gelu(Z @ W_up @ W_down)),
            also=(Instead(mlp=lambda Z, W_up, W_down: F.gelu(F.gelu(Z @ W_up) @ W_down)),),
        ),
        Misconception(
            "activation_first",
            "applied the GELU before `W_up`, so the features that `W_up` computes pass unchanged",
            "`W_up` comes first, and `F.gelu` acts on what it returns: `F.gelu(Z @ W_up) @ W_down`.",
            Instead(mlp=lambda Z, W_up, W_down: F.gelu(Z) @ W_up @ W_down),
        ),
        Misconception(
            "mlp_forgotten",
            "left out the MLP",
            "After attention the MLP adds its output, `F.gelu(Z @ W_up) @ W_down`.",
            _no_mlp,
        ),
    ),
    variants=(Variant("spelled_out", _spelled_out),),
)
