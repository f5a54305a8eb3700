"""Small random Llamas for the probes. Weights have two decimals, so that a failing input can be read."""

import math

import torch

BASE = (30.0, 50.0, 80.0)  # small, so that every pair of features turns visibly within a few tokens


def layer(draw, *, d_model, H, G, d, hidden=None):
    """The attention weights of a layer, and with `hidden` all others too; scores are of the size of two or so."""

    def normal(*shape, gain=1.0):
        return draw.normal(*shape, scale=gain / math.sqrt(shape[0])).round(2)

    made = {"Wq": normal(d_model, H * d, gain=1.5), "Wk": normal(d_model, G * d, gain=1.5), "Wv": normal(d_model, G * d)}
    made |= {"Wo": normal(H * d, d_model), "H": H, "G": G, "base": draw.choice(BASE)}
    if hidden is None:
        return made
    made |= {"Wgate": normal(d_model, hidden), "Wup": normal(d_model, hidden), "Wdown": normal(hidden, d_model)}
    return made | {name: draw.uniform(d_model, low=0.5, high=2.0).round(2) for name in ("norm1", "norm2")}


def llama(draw, *, vocab=11, d_model=6, layers=2, H=4, G=2, d=2, hidden=5):
    """The weights of a whole decoder."""
    made = [layer(draw, d_model=d_model, H=H, G=G, d=d, hidden=hidden) for _ in range(layers)]
    embed, norm = draw.normal(vocab, d_model).round(2), draw.uniform(d_model, low=0.5, high=2.0).round(2)
    return {"embed": embed, "norm": norm, "eps": 1e-5, "layers": made}


def as_tensors(value):
    """Weights in torch, as the learner's function gets them (in float64)."""
    if isinstance(value, dict):
        return {name: as_tensors(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_tensors(item) for item in value]
    return torch.from_numpy(value) if hasattr(value, "shape") else value


def ids(draw, batch, n, vocab=11):
    """A batch of random texts."""
    return draw.rng.integers(0, vocab, (batch, n))
