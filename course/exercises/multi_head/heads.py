"""Cutting the features of each token into heads, and putting them side by side again."""

import torch

from autograder import After, Before, Case, Draw, Exercise, Instead, Misconception, Variant
from solutions import multi_head as ref

# ---------------------------------------------------------------------------------------------- split


def _three_tokens(draw: Draw):
    """The numbers 0 to 17 in some order: each can be followed by eye."""
    return {"X": draw.rng.permutation(18).reshape(3, 6).astype(float), "H": 2}


def _batch(draw: Draw):
    B, n, H, d = draw.sizes(4, high=7)
    return {"X": draw.normal(B, n, H * d), "H": H}


def _as_many_tokens_as_heads(draw: Draw):
    """n = H: a forgotten transpose keeps the shape."""
    n, d = draw.sizes(2, low=3, high=7)
    return {"X": draw.normal(2, n, n * d), "H": n}


def _split(X, H, *, axes="nHd", move=(-2, -3), lead=lambda X: X):
    """The width cut in two, so that the last three axes are `axes`; then one of them is moved. `lead` sees to the other axes."""
    X = lead(X)
    n, width = X.shape[-2:]
    sizes = {"n": n, "H": H, "d": width // H}
    parts = X.reshape(*X.shape[:-2], *(sizes[axis] for axis in axes))
    return parts.movedim(*move) if move else parts


def _batch_tokens_features(X):
    return X.reshape(X.shape[0], -1, X.shape[-1])


def _dealt(X, H, **_):
    """The features in another order: a run of them is then every `H`-th of those that were given."""
    return {"X": X.unflatten(-1, (-1, H)).mT.flatten(-2)}


def _overlapping(X, H, **_):
    """The runs begin one feature apart."""
    return {"X": X.unfold(-1, X.shape[-1] // H, 1)[..., :H, :].flatten(-2)}


def split_by_reshape(X, H):
    return _split(X, H, axes="Hnd", move=None)


def split_interleaved(X, H):
    return _split(X, H, axes="ndH", move=(-1, -3))


def _split_needs_a_batch(X, H):
    B, n, width = X.shape
    return X.reshape(B, n, H, width // H).transpose(1, 2)


SPLIT_HEADS = Exercise(
    "split_heads",
    title="Split into heads",
    points=2,
    difficulty=2,
    minutes=8,
    reference=ref.split_heads,
    recipe=_split,
    tensors=True,
    cases=(
        Case("three tokens, two heads", _three_tokens),
        Case("a batch", _batch),
        Case("as many tokens as heads", _as_many_tokens_as_heads),
    ),
    hints=(
        "Two steps: first make the width into two axes, then bring the heads in front of the tokens. Which step only changes "
        "how memory is read, and which one changes the order?",
        "Reshape the **last** axis alone, from width to (H, d): now the shape is (..., n, H, d). Then swap the axes of the "
        "tokens and the heads, counted from the end.",
        "`X.reshape(*X.shape[:-1], H, -1)` is the first step, and shows it: (..., n, H, d). Which two axes, counted from the end, must "
        "now change places?",
    ),
    misconceptions=(
        Misconception(
            "reshape_without_transpose",
            "reshaped straight to (..., H, n, d): the shape is right, but your heads hold pieces of other tokens",
            "A reshape never changes the order in memory, where tokens come before heads. Reshape to (..., n, H, d), then swap.",
            Instead(axes="Hnd", move=None),
        ),
        Misconception(
            "heads_left_inside",
            "stopped at (..., n, H, d): the heads still stand inside the tokens",
            "Attention works on the last two axes, which must be (n, d): swap the axes of tokens and heads.",
            Instead(move=None),
        ),
        Misconception(
            "heads_interleaved",
            "dealt the features out like cards: head $h$ got every $H$-th feature, not a run of neighbours",
            "Reshape the width to (H, d) in this order: the head is the slow index, $h d + a$.",
            Before(_dealt),
            also=(Instead(axes="ndH", move=(-1, -3)),),
        ),
        Misconception(
            "runs_overlap",
            "let the runs overlap: yours begin one feature apart, that of head $h$ at feature $h$",
            "Each run is $d$ wide, so head $h$ begins at feature $h d$: `X[..., h * d : (h + 1) * d]`.",
            Before(_overlapping),
        ),
        Misconception(
            "H_taken_for_width",
            "took `H` for the width of a head: you made heads of width $H$",
            "There are `H` heads, each as wide as the width divided by `H`.",
            Instead(axes="ndH"),
        ),
        Misconception(
            "needs_a_batch",
            "assumed exactly one batch axis",
            "Count the axes from the end, `transpose(-3, -2)`, and keep `X.shape[:-1]` as it is: then any leading axes work.",
            _split_needs_a_batch,
            raises=True,
        ),
        Misconception(
            "first_axis_for_the_batch",
            "took the first axis for a batch whatever it is: where none leads, each token stands in a sequence by itself",
            "Keep all axes but the last as they are, `X.shape[:-1]`, and count from the end: then any leading axes work, or none.",
            Instead(lead=_batch_tokens_features),
        ),
        Misconception(
            "axes_counted_from_the_front",
            "swapped two axes counted from the front: how many axes lead decides which those are",
            "Tokens and heads stand third and second from the end, whatever leads: `transpose(-3, -2)`.",
            Instead(move=(1, 2)),
            also=(Instead(move=(0, 1)),),
        ),
        Misconception(
            "heads_in_front_of_the_batch",
            "put the heads in front of everything, the batch too, as `torch.stack(X.chunk(H, dim=-1))` does",
            "The leading axes stay in front: the heads stand third from the end (`torch.stack(..., dim=-3)`).",
            Instead(move=(-2, 0)),
        ),
        Misconception(
            "tokens_and_features_exchanged",
            "brought the heads in front, but left the tokens behind their features: (..., H, d, n)",
            "Swap the axes of tokens and heads, and no others: the last two are then (n, d).",
            After(lambda out, **_: out.mT),
        ),
        Misconception(
            "a_list_of_heads",
            "returned the heads one by one, where one tensor is asked for",
            "Put them into one: `torch.stack(..., dim=-3)`.",
            After(lambda out, **_: tuple(out.unbind(-3))),
        ),
    ),
    variants=(
        Variant("stack_of_slices", lambda X, H: torch.stack(X.chunk(H, dim=-1), dim=-3)),
        Variant(
            "index_gather",
            lambda X, H: torch.stack(
                [X[..., h * (X.shape[-1] // H) : (h + 1) * (X.shape[-1] // H)] for h in range(H)], dim=-3
            ).contiguous(),
        ),
        Variant("movedim", lambda X, H: X.reshape(*X.shape[:-1], H, X.shape[-1] // H).movedim(-2, -3)),
    ),
)


# ---------------------------------------------------------------------------------------------- merge: given, and its mistakes


def merge_by_reshape(Y):
    return Y.reshape(*Y.shape[:-3], Y.shape[-2], Y.shape[-3] * Y.shape[-1])


def merge_interleaved(Y):
    return Y.movedim(-3, -1).flatten(-2)


PREDICT_CHUNKS = Exercise(
    "predict_chunks",
    title="Predict: two wrong reshapes",
    points=0.5,
    minutes=3,
    choices={
        "a": "all tokens up to its own: wrong split and wrong merge cancel, as the round trip does",
        "b": "also tokens after its own: the mask is broken",
        "c": "only the tokens of its own third, up to its own",
        "d": "only itself",
    },
    holds="c",
    reveal="**c.** The wrong split cuts the *sequence* in H pieces: its “head” $h$ holds the tokens of the $h$-th third, H rows of "
    "each. So each token sees its own third, and the rest of the past is lost. Shapes fit, the round trip is exact, nothing "
    "leaks from the future, and a model may well train: the worst kind of bug.",
)
