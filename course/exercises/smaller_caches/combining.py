"""Two savings at once: latents in few bits."""

import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import smaller_caches as ref

PREDICT_LINES = Exercise(
    "predict_lines",
    title="Predict: which numbers share their levels",
    points=0.5,
    difficulty=2,
    minutes=2,
    choices={
        "a": "64 features of one token",
        "b": "one feature of 64 tokens",
        "c": "either: the perplexities differ by less than 5 %",
    },
    holds="b",
    reveal="**b**: about 17 against about 20 with levels per token, at equal bytes. The first features of a latent vary most, the last "
    "least: that is how they were chosen. Levels for 64 features of a token must be as wide as the largest of them needs. In 4 bits, at "
    "$r = 256$, **c** would be right: there the difference is too small for this text.",
)


def _latents(shape, bits, block):
    """Features of different sizes; no number half-way between two levels, along the right axis or another."""

    def make(draw: Draw):
        while True:
            c = (draw.normal(*shape, scale=2.0) * draw.uniform(shape[-1], low=0.3, high=2.0) + 0.5).round(2)
            lines = [(part, -2) for part in torch.from_numpy(c).split(block, -2)] + [
                (torch.from_numpy(c), axis) for axis in (-1, -2)
            ]
            if all(_clear(part, axis, bits) for part, axis in lines if part.shape[-2] > 1):
                return {"c": c, "bits": bits, "block": block}

    return make


def _clear(x, axis, bits):
    least, largest = x.amin(axis, keepdim=True), x.amax(axis, keepdim=True)
    if not bool((largest > least).all()):
        return False
    return bool((((x - least) / (largest - least) * (2**bits - 1)) % 1 - 0.5).abs().min() > 1e-4)


def _stored(
    line=lambda part, bits: ref.round_to_bits(part, bits, -2),
    *,
    cut=lambda c, block: c.split(block, -2),
    rest=lambda part, bits, block: part,
    order=lambda full, block: torch.arange(full),
    upto=lambda n, block: n,
):
    """The tokens `upto` one cut into blocks, the full ones in another `order`; each full block rounded by its lines, and the rest."""

    def answer(c, bits, block):
        n = upto(c.shape[-2], block)
        places = torch.cat([order(n // block * block, block), torch.arange(n // block * block, n)])
        parts = cut(c[..., places, :], block)
        done = [line(part, bits) if part.shape[-2] >= block else rest(part, bits, block) for part in parts]
        y = torch.cat([*done, c[..., n:, :]], dim=-2)
        if sum(part.shape[-2] for part in done) == n:
            y[..., places, :] = y[..., :n, :].clone()
        return y

    return answer


def _strided(full, block):
    """The tokens of a block stand as far apart as there are blocks."""
    return torch.arange(full).reshape(block, -1).T.flatten()


def _from_the_end(c, block):
    first = c.shape[-2] % block
    return (c[..., :first, :], *(c[..., first:, :].split(block, -2) if c.shape[-2] > first else ()))


def _full_ones_together(c, block):
    full = c.shape[-2] // block * block
    return [part for part in (c[..., :full, :], c[..., full:, :]) if part.shape[-2]]


def _by_reshape(c, bits, block):
    full = c.shape[-2] // block * block
    blocks = c[..., :full, :].unflatten(-2, (-1, block)) if full else c[..., :0, :].unflatten(-2, (0, block))
    rounded = ref.round_to_bits(blocks, bits, -2).flatten(-3, -2) if full else c[..., :0, :]
    return torch.cat([rounded, c[..., full:, :]], dim=-2)


def _in_place(c, bits, block):
    y = c.clone()
    for start in range(0, c.shape[-2] - block + 1, block):
        y[..., start : start + block, :] = ref.round_to_bits(c[..., start : start + block, :], bits, -2)
    return y


ROUND_LATENTS = Exercise(
    "round_latents",
    title="Two savings at once",
    points=1,
    difficulty=2,
    minutes=7,
    reference=ref.round_latents,
    recipe=Made(_stored),
    tensors=True,
    cases=(
        Case("one block, one token more", _latents((6, 2), 2, 5)),
        Case("two blocks and a rest", _latents((2, 13, 3), 3, 5)),
        Case("full blocks", _latents((1, 21, 4), 2, 7)),
        Case("no full block yet", _latents((2, 3, 5), 2, 7), edge=0.2),
    ),
    hints=(
        "You have a function that rounds along an axis. Along which axis, and what must be cut before?",
        "`split` along the axis of the tokens cuts them into blocks; the last one may be shorter. Which of the parts are to be rounded?",
        "Go through the parts. How do you see that one is full? The numbers of one feature share their levels: along which axis of the "
        "part is it rounded, and along which axis does `torch.cat` put the parts together again?",
    ),
    misconceptions=(
        Misconception(
            "per_token",
            "let the features of a token share their levels: the first ones, which vary most, spread the levels of all",
            "Along the tokens of a block: axis -2.",
            Instead(line=lambda part, bits: ref.round_to_bits(part, bits, -1)),
        ),
        Misconception(
            "one_block",
            "made one block of all full ones: levels must be known before all tokens are",
            "Cut into blocks of `block` tokens, and round each by itself.",
            Instead(cut=_full_ones_together),
        ),
        Misconception(
            "no_blocks",
            "rounded the whole text at once: levels must be known before all tokens are",
            "Cut into blocks of `block` tokens, round each full one by itself, and leave the rest as it is.",
            Instead(cut=lambda c, block: [c], rest=lambda part, bits, block: ref.round_to_bits(part, bits, -2)),
        ),
        Misconception(
            "rest_rounded",
            "rounded the newest tokens too, which fill no block yet: with each further token their levels would change",
            "A part of fewer than `block` tokens stays as it is.",
            Instead(rest=lambda part, bits, block: ref.round_to_bits(part, bits, -2)),
        ),
        Misconception(
            "newest_block_kept",
            "left the newest block as it is, also where it is full",
            "How many full blocks do 21 tokens make, in blocks of 7? The rest is what is behind them, and can be nothing.",
            Instead(upto=lambda n, block: (n - 1) // block * block),
        ),
        Misconception(
            "block_newest_kept",
            "left the `block` newest tokens as they are, and more where they end within a block: full blocks among them stay unrounded",
            "Count full blocks from the first token, `n // block` of them, and round them all. Only what is behind them stays.",
            Instead(upto=lambda n, block: max(n - block, 0) // block * block),
        ),
        Misconception(
            "blocks_of_tokens_apart",
            "made blocks of tokens that stand apart, each so many behind the one before, as many as there are full blocks",
            "A block is `block` tokens **in a row**: (blocks, block), not (block, blocks), if you reshape.",
            Instead(order=_strided),
        ),
        Misconception(
            "rest_dropped",
            "dropped the newest tokens, which fill no block yet",
            "They stay as they are, at the end.",
            Instead(rest=lambda part, bits, block: part[..., :0, :]),
        ),
        Misconception(
            "from_the_end",
            "counted blocks from the newest token: all levels would change with each further one",
            "Count from the first token; the rest is at the end.",
            Instead(cut=_from_the_end),
        ),
        Misconception(
            "one_line_for_a_block",
            "let all numbers of a block share their levels",
            "Each feature has levels of its own: along axis -2 alone.",
            Instead(line=lambda part, bits: ref.round_to_bits(part.flatten(-2), bits, -1).unflatten(-1, part.shape[-2:])),
        ),
    ),
    variants=(Variant("by_reshape", _by_reshape), Variant("in_place", _in_place)),
)
