"""Cutting the features of each token into heads, and putting them side by side again."""

from autograder import Prediction


def split_by_reshape(X, H):
    """A reshape alone: the heads hold pieces of other tokens."""
    return X.reshape(*X.shape[:-2], H, X.shape[-2], X.shape[-1] // H)


def split_interleaved(X, H):
    """The features in turn: head $h$ holds every `H`-th."""
    return X.unflatten(-1, (-1, H)).movedim(-1, -3)


def merge_by_reshape(Y):
    """A reshape alone: each row holds pieces of several tokens."""
    return Y.reshape(*Y.shape[:-3], Y.shape[-2], Y.shape[-3] * Y.shape[-1])


def merge_interleaved(Y):
    """`split_interleaved` undone."""
    return Y.movedim(-3, -1).flatten(-2)


PREDICT_CHUNKS = Prediction(
    "predict_chunks",
    title="Predict: two wrong reshapes",
    points=0.5,
    minutes=2,
    choices={
        "a": "all tokens up to its own, because the wrong split and the wrong merge cancel",
        "b": "also tokens after its own, because the mask is broken",
        "c": "only the tokens of its own third, up to its own",
        "d": "only itself",
    },
    holds="c",
    reveal="**c.** The wrong split cuts the *sequence* into H pieces. Its “head” $h$ holds the tokens of the $h$-th third, in H rows "
    "each, so every token sees its own third and loses the rest of the past. The shapes fit, the round trip is exact, and nothing leaks "
    "from the future. Such a model trains, and nothing tells you that it is broken.",
)
