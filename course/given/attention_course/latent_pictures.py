"""The pictures of lesson 10: the ways of latent attention, heads folded into rows, dials, and caches to scale."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from attention_course.drawing import Drawing
from attention_course.moving import Moving, slider, steps
from attention_course.plots import COLOURS, figure


def four_ways() -> Drawing:
    """Four heads of queries and what they look at: keys and values of their own, of a group, of all; or made from one latent."""
    d = Drawing(
        alt=(
            "Four heads of queries, four times. Multi-head: each has a key and a value of its own in the cache. "
            "Grouped: two heads share a key and a value. Multi-query: all four do. Latent: each has a key and a value "
            "of its own again, but these are made from one latent; only the latent is in the cache."
        ),
    )
    apart, cell = 36, 26
    for panel, (name, G) in enumerate({"multi-head": 4, "grouped": 2, "multi-query": 1, "latent": 0}.items()):
        left, top = 230 * (panel % 2), 200 * (panel // 2)  # two rows of two: they fit on a phone
        middle = left + 1.5 * apart
        d.text(name, bold=True, at=(middle, top - 34))
        queries = [d.matrix((1, 1), role="query", cell=cell, at=(left + apart * h, top)) for h in range(4)]
        for g in range(G or 4):
            own = queries[g * 4 // G : (g + 1) * 4 // G] if G else queries[g : g + 1]
            x = sum(query.centre[0] for query in own) / len(own)
            if G:
                d.box("", role="cache", width=cell + 8, height=2 * cell + 8, at=(x, top + 70 + cell / 2))
                key = d.matrix((1, 1), role="key", cell=cell, at=(x, top + 70))
                d.matrix((1, 1), role="value", cell=cell, at=(x, top + 70 + cell))
            else:
                key = d.cache(1, 1, filled=0, cell=cell, at=(x, top + 70))
                value = d.cache(1, 1, filled=0, cell=cell, at=(x, top + 70 + cell))
                d.line(value.bottom, (middle, top + 140), role="cache")
            for query in own:
                d.line(query.bottom, key.top)
        if not G:
            d.text("made, not kept", size=14, at=(left - 75, top + 83))
            d.matrix((1, 6), role="cache", cell=20, at=(middle, top + 150))
            d.text("latent, in the cache", size=14, at=(middle, top + 178))
        elif G == 4:
            d.text("queries", role="query", size=14, at=(left - 50, top))
            d.text("keys", role="key", size=14, at=(left - 42, top + 70))
            d.text("values", role="value", size=14, at=(left - 46, top + 70 + cell))
            d.text("grey: in the cache", size=14, at=(middle, top + 126))
    return d


def keys_and_values_made() -> Drawing:
    """Latent attention with the keys and values of all heads made from the latents."""
    d = Drawing(
        alt=(
            "Every token goes through W_DKV to a latent, which is cached. From the "
            "latent W_UK makes the keys of all heads and W_UV their values. The newest "
            "token goes through W_Q to the queries. Queries, keys and values meet in "
            "attention; W_O adds the heads."
        ),
    )
    x_j = d.box("every token x_j", role="input", at=(0, 0), width=130)
    c = d.box("latent c_j, cached", role="cache", at=(200, 0), width=150)
    k = d.box("H keys", role="key", at=(450, -45), width=100)
    v = d.box("H values", role="value", at=(450, 45), width=100)
    x_i = d.box("newest token x_i", role="input", at=(200, -110), width=150)
    q = d.box("H queries", role="query", at=(450, -110), width=100)
    attend = d.box("attention", at=(640, -45), width=100)
    y = d.box("y_i", role="output", at=(790, -45), width=60)
    d.arrow(x_j, c, "W_{DKV}")
    d.arrow(c, k, "W_{UK}", label_side="above")
    d.arrow(c, v, "W_{UV}", label_side="below")
    d.arrow(x_i, q, "W_Q")
    edge, middle = attend.left
    for part, down in ((q, -11), (k, 0), (v, 11)):
        d.arrow(part.right, (edge - 4, middle + down))
    d.arrow(attend, y, "W_O")
    return d


def absorbed() -> Drawing:
    """The same with the two matrices absorbed: the latents serve as keys and as values."""
    d = Drawing(
        alt=(
            "The same latents are cached. The newest token goes through W_Q and then "
            "W_UK transposed to H absorbed queries, as wide as latents. Attention takes"
            " the latents in both places: for the scores and for the average. The "
            "average goes through W_UV and W_O."
        ),
    )
    x_i = d.box("newest token x_i", role="input", at=(0, 0), width=130)
    q = d.box("H queries", role="query", at=(0, 80), width=110)
    asks = d.box("H absorbed\nqueries", role="query", at=(0, 165), width=110)
    attend = d.box("scores,\nsoftmax", role="weight", at=(0, 260), width=110)
    u = d.box("H averages u", role="output", at=(0, 350), width=110)
    y = d.box("y_i", role="output", at=(0, 430), width=60)
    x_j = d.box("every token x_j", role="input", at=(210, 165), width=130)
    c = d.box("latents C, cached", role="cache", at=(210, 260), width=140)
    d.arrow(x_i, q, "W_Q")
    d.arrow(q, asks, "W_{UK}^T")
    d.arrow(asks, attend)
    d.arrow(x_j, c, "W_{DKV}")
    d.arrow(c, attend, "as keys")
    d.arrow(attend, u, "weights")
    d.arrow(c.bottom, u.right, "as values", elbow="v")
    d.arrow(u, y, "W_{UV}, W_O")
    return d


def folded() -> Drawing:
    """Three heads of two new tokens, folded into six rows; the scores unfolded before the mask."""
    d = Drawing(
        alt=(
            "Three heads, each with absorbed queries of two new tokens, become one matrix "
            "of six rows. Times the latents, transposed, it is a matrix of six rows of "
            "scores, one column for each of five tokens. Unfolded, each head has two rows "
            "again, and the same mask: the first new token does not see the last one."
        ),
    )
    heads = [d.matrix((2, 4), f"head {h}", role="query", at=(0, 92 * h), cell=20) for h in range(3)]
    rows = d.matrix((6, 4), "folded", role="query", right_of=heads, gap=60, cell=20)
    d.text("·")
    d.matrix((4, 5), "C^T", role="cache", cell=20, sizes=("d_c", "key"))
    d.text("=")
    scores = d.matrix((6, 5), "scores", role="score", cell=20)
    keep = np.tri(2, 5, 3, dtype=bool)
    for h in range(3):
        place = scores.right[0] + 140, 92 * h
        unfolded = d.matrix((2, 5), f"head {h}, masked", role="score", mask=keep, cell=20, at=place)
        d.arrow(heads[h].right, rows.row(2 * h).left, dashed=True)
        d.arrow(scores.row(2 * h).right, unfolded.left, dashed=True)
    return d


def _dials(n: int) -> Drawing:
    """Eight of the 64 pairs of a head of width 128, rotated to `n` offsets, and their mean."""
    pairs = range(0, 64, 9)
    turns = [[p * 10_000.0 ** (-2 * pair / 128) for p in range(n)] for pair in pairs]
    means = [(sum(map(math.cos, turn)) / n, sum(map(math.sin, turn)) / n) for turn in turns]
    shares = [x * x + y * y for x, y in means]
    said = ", ".join(f"{share:.0%}" for share in shares)
    d = Drawing(alt=f"{n} tokens; what the mean keeps of eight pairs, fastest first: {said}")
    dial: Any = None
    first: Any = None
    for pair, turn, mean, share in zip(pairs, turns, means, shares, strict=True):
        if pair == 36:  # a second row: four dials are as wide as a phone
            dial = d.axes(size=76, limit=1.1, ticks=False, below=first, gap=56)
        else:
            dial = d.axes(size=76, limit=1.1, ticks=False, **({} if dial is None else {"right_of": dial, "gap": 10}))
        first = first or dial
        dial.circle(1)
        # forty offsets, in steps of no simple ratio: equal steps would fall on a few angles again and again
        for angle in turn if n <= 40 else [turn[int(n * (i * 0.618034 % 1))] for i in range(40)]:
            dial.line((0, 0), (math.cos(angle), math.sin(angle)), role="position", dashed=False, width=0.8)
        if share > 0.002:
            dial.arrow(mean, role="key", width=4)
        d.text(f"pair {pair}\n{share:.0%}", size=14, below=dial, gap=2)
    return d


def dials() -> Moving:
    """What one matrix keeps of eight rotated pairs, by the number of tokens in the context."""
    return slider(
        _dials,
        n=[2, 4, 8, 16, 64, 256, 1024, 4096, 32_768],
        start={"n": 4096},
        labels={"n": "tokens in the context"},
        alt="Eight dials. The longer the context, the more dials fill with rays, fastest first; their mean shrinks to a point.",
    )


_STAGES = (
    "The content part is what you know. Queries are absorbed and meet the latents, which are not rotated.",
    "Each token also makes one rotated key of 64 numbers, straight from its vector. It is cached, and all heads share it.",
    "Each head makes a second, short query from the queries' latent and rotates it to the query's position.",
    "Both products are added before the scale and the softmax. The weights average the latents, as before.",
)


def _decoupled(stage: int) -> Drawing:
    """DeepSeek-V2's attention with what the first `stage` of `_STAGES` describe."""
    d = Drawing(alt=" ".join(_STAGES[:stage]))
    x = d.box("token x\n5,120", role="input", at=(0, 150), width=80)
    c_q = d.box("c^Q\n1,536", role="query", at=(110, 15), width=70)
    q = d.box("content queries\n128 × 128", role="query", at=(330, -40), width=130)
    asks = d.box("absorbed\n128 × 512", role="query", at=(535, -40), width=100)
    c = d.box("latent c\n512, cached", role="cache", at=(330, 255), width=120)
    content = d.node("·", at=(535, 60))
    weights = d.box("÷ √192\nsoftmax" if stage > 3 else "÷ √128\nsoftmax", role="weight", at=(740, 60), width=80)
    u = d.box("averages\n128 × 512", role="output", at=(740, 255), width=100)
    y = d.box("y\n5,120", role="output", at=(905, 255), width=56)
    d.arrow(x, c_q, "W_{DQ}")
    d.arrow(c_q, q, "W_{UQ}")
    d.arrow(x, c, "W_{DKV}")
    d.arrow(q, asks, "W_{UK}^T")
    d.arrow(asks, content, role="query")
    d.arrow(c.right, content.bottom, role="cache", elbow="h")
    d.arrow(weights, u)
    d.arrow(c, u, "all tokens so far", label_side="below")
    d.arrow(u, y, "W_{UV}, W_O")
    if stage > 1:
        k_r = d.box("RoPE: key k^R\n64, cached", role="cache", at=(330, 165), width=120)
        d.arrow(x, k_r, "W_{KR}")
    if stage > 2:
        r = d.box("RoPE: r\n128 × 64", role="position", at=(330, 75), width=100)
        position = d.node("·", at=(460, 120))
        d.arrow(c_q, r, "W_{QR}")
        d.arrow(r, position, role="position")
        d.arrow(k_r, position, role="position")
    if stage > 3:
        plus = d.node("+", at=(640, 60))
        d.arrow(content, plus)
        d.arrow(position.right, plus.bottom, elbow="h")
        d.arrow(plus, weights)
    else:
        d.arrow(content, weights)
    return d


def decoupled() -> Moving:
    """Build DeepSeek-V2's attention up step by step: content absorbed, and a part of its own for positions."""
    return steps(
        [(caption, _decoupled(stage)) for stage, caption in enumerate(_STAGES, 1)],
        alt=(
            "Each token x goes three ways. W_DKV makes the latent, 512 numbers, cached."
            " W_KR and RoPE make one rotated key, 64 numbers, cached. W_DQ makes the "
            "latent of the queries, 1536 numbers. From it W_UQ and then W_UK transposed"
            " make 128 content queries of 512 numbers, and W_QR and RoPE 128 rotated "
            "queries of 64. Content meets the latents, position meets the rotated key. "
            "The two scores are added and scaled by the root of 192, and their softmax "
            "averages the latents. W_UV and W_O give the output."
        ),
    )


def caches() -> Drawing:
    """Numbers that one token takes in the cache of one layer, to scale."""
    d = Drawing(
        alt=(
            "What one token takes in the cache of one layer, to scale. Multi-head: a bar "
            "across the page. 8 groups: a sixteenth of it. Latent: a narrow box. "
            "Multi-query: a line."
        ),
    )
    in_cache = {"multi-head": 32_768, "8 groups": 2_048, "latent": 576, "multi-query": 256}
    for i, (name, numbers) in enumerate(in_cache.items()):
        width = numbers / 48
        at = (width / 2, 30 * i)
        bar = d.matrix((1, 1), role="cache", cell=(width, 18), grid=False, at=at)
        d.text(name, left_of=bar, gap=10)
        d.text(f"{numbers:,}", right_of=bar, gap=10)
    return d


def absorb_or_rebuild(absorb_up_to: Callable[[int], int]) -> Moving:
    """FLOPs of absorbing over FLOPs of rebuilding by new tokens, for five pasts, and what `absorb_up_to` says of each."""
    once, ready, asked = 2 * 512 * 256, 2 * 320, 2 * 1088
    new = np.geomspace(1, 2000, 200)

    def draw(m: int) -> Any:
        pairs, most = new * m + new * (new + 1) / 2, absorb_up_to(m)
        fig, ax = figure(height=2.6, width=3.7)
        ax.loglog(new, (new * once + pairs * asked) / ((m + new) * once + pairs * ready), color=COLOURS[0])
        ax.axhline(1, color="0.5", linewidth=1)
        if most:
            ax.axvline(most, color=COLOURS[1], linestyle="--")
        ax.set(title=f"absorb up to {most} new tokens" if most else "never absorb", ylim=(0.003, 5))
        ax.set(xlabel="new tokens", ylabel="FLOPs, absorbed / rebuilt")
        return fig

    return slider(
        draw,
        m=[0, 100, 1_000, 10_000, 100_000],
        start={"m": 1_000},
        labels={"m": "cached tokens"},
        alt="FLOPs of absorbing over FLOPs of rebuilding, by new tokens. With nothing cached the ratio is above 1 everywhere. "
        "Behind 1,000 tokens absorbing takes less up to 158 new tokens, and behind 100,000 up to 170.",
    )
