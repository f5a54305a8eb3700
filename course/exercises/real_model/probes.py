"""Small random layers for the probes. Weights have two decimals, so that a failing input can be read."""

import math

BASE = (30.0, 50.0, 80.0)  # small, so that every pair of features turns visibly within a few tokens


def layer(draw, *, d_model, H, G, d):
    """The attention weights of a layer; scores are of the size of two or so."""

    def normal(*shape, gain=1.0):
        return draw.normal(*shape, scale=gain / math.sqrt(shape[0])).round(2)

    made = {"W_Q": normal(d_model, H * d, gain=1.5), "W_K": normal(d_model, G * d, gain=1.5), "W_V": normal(d_model, G * d)}
    return made | {"W_O": normal(H * d, d_model), "H": H, "G": G, "base": draw.choice(BASE)}
