"""Notebook 12b: latents in few bits."""

import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Prediction, Variant
from solutions import smaller_caches as ref

PREDICT_LINES = Prediction(
    "predict_lines",
    title="Predict: which numbers form a group",
    points=0.5,
    difficulty=2,
    minutes=1,
    choices={
        "a": "64 features of one token",
        "b": "one feature of 64 tokens",
        "c": "either, since the perplexities differ by less than 5 %",
    },
    holds="b",
    reveal="**b.** The first features of a latent vary most and the last ones least, because that is how they were chosen. A group of 64 "
    "features of one token needs levels that are as wide apart as its largest feature demands.",
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
    title="Find the bug: a number that changes",
    kind="bug",
    points=1,
    difficulty=2,
    minutes=6,
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
        "When the fourth token arrives, which of the first three numbers does a real cache still know exactly? And into how many blocks of "
        "64 do 512 tokens fall, with how many left over?",
        "The levels of a block depend on its least and its largest number, so they are final only when the block is full. What has to "
        "happen to its tokens until then?",
        "Round only the parts that have `block` tokens, and leave the last part as it is if it is shorter.",
    ),
    misconceptions=(
        Misconception(
            "per_token",
            "made a group of the features of each token, so the first features, which vary most, stretch the levels of all",
            "A group is one feature of a block of tokens, so round along axis -2.",
            Instead(line=lambda part, bits: ref.round_to_bits(part, bits, -1)),
        ),
        Misconception(
            "one_block",
            "joined all full blocks into one, although the levels of a block have to be known as soon as it is full",
            "Split the tokens into blocks of `block` tokens, and round each block separately.",
            Instead(cut=_full_ones_together),
        ),
        Misconception(
            "no_blocks",
            "rounded the whole text at once, although the levels of a block have to be known as soon as it is full",
            "Split the tokens into blocks of `block` tokens, round each full one separately, and leave the rest as it is.",
            Instead(cut=lambda c, block: [c], rest=lambda part, bits, block: ref.round_to_bits(part, bits, -2)),
        ),
        Misconception(
            "rest_rounded",
            "rounded the newest tokens although they don't fill a block yet, so their levels would change with every further token",
            "A part with fewer than `block` tokens stays as it is.",
            Instead(rest=lambda part, bits, block: ref.round_to_bits(part, bits, -2)),
        ),
        Misconception(
            "newest_block_kept",
            "left the newest block as it is even if it is full",
            "How many full blocks of 7 are there in 21 tokens? The rest can be empty.",
            Instead(upto=lambda n, block: (n - 1) // block * block),
        ),
        Misconception(
            "block_newest_kept",
            "left at least the `block` newest tokens as they are, even if there is a full block among them",
            "Count full blocks from the first token and round all of them. Only what comes after them stays.",
            Instead(upto=lambda n, block: max(n - block, 0) // block * block),
        ),
        Misconception(
            "blocks_of_tokens_apart",
            "made blocks of tokens that are not next to each other",
            "A block is `block` consecutive tokens. If you reshape, the shape is (blocks, block) and not (block, blocks).",
            Instead(order=_strided),
        ),
        Misconception(
            "rest_dropped",
            "dropped the newest tokens, which don't fill a block yet",
            "They stay as they are, at the end of the result.",
            Instead(rest=lambda part, bits, block: part[..., :0, :]),
        ),
        Misconception(
            "from_the_end",
            "counted blocks from the newest token, so all levels would change with every further token",
            "Count from the first token, which leaves the rest at the end.",
            Instead(cut=_from_the_end),
        ),
        Misconception(
            "one_line_for_a_block",
            "made one group of all numbers of a block",
            "Each feature of a block is a group, so round along axis -2 only.",
            Instead(line=lambda part, bits: ref.round_to_bits(part.flatten(-2), bits, -1).unflatten(-1, part.shape[-2:])),
        ),
    ),
    variants=(Variant("by_reshape", _by_reshape), Variant("in_place", _in_place)),
)
