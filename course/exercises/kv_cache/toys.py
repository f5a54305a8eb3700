"""Small random models and texts for the probes."""


def make_model(draw, *, vocab=11, d_model=5, layers=2, heads=3, d=4):
    """A decoder as the lesson's `forward` takes it; attention is strong enough that each mistake shows in the logits.

    Weights have two decimals, so that a failing input can be read.
    """

    def normal(*shape, scale=1.0):
        return draw.normal(*shape, scale=scale).round(2)

    def layer():
        q, k = (normal(d_model, heads, d, scale=d_model**-0.5) for _ in range(2))
        v, o = normal(d_model, heads, d, scale=d_model**-0.5), normal(heads, d, d_model, scale=(heads * d) ** -0.5)
        return {"W_Q": q, "W_K": k, "W_V": v, "W_O": o}

    embed, unembed = normal(vocab, d_model), normal(d_model, vocab, scale=0.3)
    return {"embed": embed, "layers": [layer() for _ in range(layers)], "unembed": unembed}


def make_ids(draw, batch, n, vocab=11):
    """A batch of random texts."""
    return draw.rng.integers(0, vocab, (batch, n))
