"""The diagrams of lessons 11 and 12."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from attention_course.drawing import Drawing, Part
from attention_course.moving import Moving, slider
from attention_course.plots import COLOURS, MARKERS, figure, show


def decoder() -> Drawing:
    """Draw a decoder of the Llama family and, beside it, the attention of a layer, each part with its notebook."""
    d = Drawing(
        alt="The decoder. Tokens become rows of the embedding, n by 576, and so they stay. Thirty layers follow, each "
        "adding attention and a feed-forward layer (576 to 1,536 and back) to the stream, a norm before each. After a "
        "last norm the embedding turns rows into logits. Beside it the attention of a layer: three projections, "
        "rotated queries and keys, the cache, grouped attention, the last projection. Yours are the rotation (06), "
        "the cache (07), the grouped attention (09), and today the attention of a layer (11.1)."
    )
    ids = d.text("tokens, n")
    embed = d.box("embedding", above=ids, gap=18)
    norm1 = d.box("norm", above=embed, gap=74)
    attend = d.box("attention", role="output", above=norm1, gap=18)
    add1 = d.node("+", above=attend, gap=18)
    norm2 = d.box("norm", above=add1, gap=26)
    ffn = d.box("feed-forward\n576 → 1,536 → 576", above=norm2, gap=18, width=176)
    add2 = d.node("+", above=ffn, gap=18)
    last = d.box("norm", above=add2, gap=66)
    logits = d.box("embedding^T", above=last, gap=18)
    out = d.text("logits, n × 49,152", above=logits, gap=18)
    chain = [ids, embed, norm1, attend, add1, norm2, ffn, add2, last, logits, out]
    for a, b in itertools.pairwise(chain):
        d.arrow(a.top, b.bottom)
    x = embed.centre[0] - 104
    for norm, add in ((norm1, add1), (norm2, add2)):  # the stream goes on unchanged
        y = norm.bottom[1] + 10
        d.line((norm.centre[0], y), (x, y))
        d.line((x, y), (x, add.centre[1]))
        d.arrow((x, add.centre[1]), add.left)
    d.text("n × 576", size=13, right_of=embed, gap=-34, shift=(0, -32))
    for add in (add1, add2):  # the same width all the way up
        d.text("n × 576", size=13, right_of=add, gap=14, shift=(0, -14))
    d.frame([norm1, add2, ffn], "30 ×", pad=34)
    d.frame([ids, out, add2, ffn], "decoder", pad=44)
    inside = _attention(d, norm1)
    d.arrow(attend.right, (inside.left[0], attend.centre[1]), dashed=True)
    return d


def _attention(d: Drawing, beside: Part) -> Part:
    q = d.box("W_Q", role="query", right_of=beside, gap=230, shift=(0, 74))
    k = d.box("W_K", role="key", right_of=q, gap=94)
    v = d.box("W_V", role="value", right_of=k, gap=94)
    x = d.text("x, normed: n × 576", below=k, gap=40)
    middle = (k.bottom[1] + x.top[1]) / 2
    d.line(x.top, (k.centre[0], middle))
    d.line((q.centre[0], middle), (v.centre[0], middle))
    for part in (q, k, v):
        d.arrow((part.centre[0], middle), part.bottom)
    turn_q = d.box("rotate, 06", role="position", above=q, gap=46)
    turn_k = d.box("rotate, 06", role="position", above=k, gap=46)
    keys = d.cache(6, 4, filled=4, new=1, role="key", cell=14, above=turn_k, gap=36)
    values = d.cache(6, 4, filled=4, new=1, role="value", cell=14, above=v, gap=118)
    d.text("cache,\n07", right_of=keys, gap=22)
    cached = d.frame([keys, values], role="cache", pad=10)
    gqa = d.box("grouped attention, 09", role="weight", above=k, gap=290, width=330)
    wo = d.box("heads merged, W_O", role="output", above=gqa, gap=40)
    for a, b, label in (
        (q, turn_q, "9 × n × 64"),
        (k, turn_k, "3 × n × 64"),
        (turn_k, keys, ""),
        (v, values, "3 × n × 64"),
        (turn_q, gqa, ""),
        (keys, gqa, "3 × m × 64"),
        (values, gqa, "3 × m × 64"),
        (gqa, wo, "9 × n × 64"),
    ):
        d.arrow(a.top, (a.centre[0], b.bottom[1]), label)
    out = d.text("n × 576", above=wo, gap=22)
    d.arrow(wo.top, out.bottom)
    return d.frame([q, v, turn_q, cached, gqa, wo, x, out], "attention, 11.1", role="output", pad=56)


def rows_of_a_head() -> Drawing:
    """The rows of heads of four and of eight features, in Hugging Face's order, in the right one and in port B's."""
    d = Drawing(
        alt="Rows of a head. With four features Hugging Face has 0 1 2 3, partners are 0 and 2, 1 and 3. Right is 0 2 1 3, and "
        "port B has that too. With eight features right is 0 4 1 5 2 6 3 7; port B has 0 2 4 6 1 3 5 7, where no two "
        "neighbours are partners."
    )
    right_of: Part | None = None
    for width in (4, 8):
        half = width // 2
        theirs = list(range(width))
        orders = (
            ("Hugging Face's order", theirs),
            ("right: partners are neighbours", [i + j for i in range(half) for j in (0, half)]),
            ("port B", [2 * i + j for j in (0, 1) for i in range(half)]),
        )
        row: list[Part] = []
        for name, order in orders:
            if row:
                place: dict[str, Any] = {"below": row[0], "away": 50, "align": "start"}
            else:
                place = {} if right_of is None else {"right_of": right_of, "away": 60}
            row = d.tokens([str(i) for i in order], role="query", **place)
            pairs = [(i, i + half) for i in range(half)] if order == theirs else [(i, i + 1) for i in range(0, width, 2)]
            for i, j in pairs:
                partners = abs(order[i] - order[j]) == half
                look: dict[str, Any] = {"role": "position"} if partners else {"role": "key", "dashed": True}
                d.line(row[i].top, row[j].top, width=2.4, bend=7 + 3 * (j - i) + i * (order == theirs), **look)
            if width == 4:
                d.text(name, left_of=row[0], gap=16)
            if order == theirs:
                first = row
        d.text(f"{width} features", bold=True, above=first, gap=34)
        right_of = first[-1]
    return d


def bill() -> Drawing:
    """The cache of one conversation, and beside it what is allowed, to one scale."""
    d = Drawing(
        alt="The cache of one conversation as a pile of 30 sheets, one for each layer. A sheet has a row for each "
        "of 8,192 tokens and 384 columns: keys and values of 3 groups, 64 features each. Each number has 16 "
        "bits. Together 189 MB; the budget is 100 MB, a little more than half of it."
    )
    pile = d.stack(6, (8, 12), role="cache", cell=18)
    d.brace(pile, "8,192 tokens", side="left")
    d.brace(pile, "2 · 3 · 64 = 384 numbers", side="below")
    d.text("30 layers,\n16 bits a number", right_of=pile, gap=44)
    whole = d.box("the bill: 189 MB", role="cache", right_of=pile, gap=200, width=284, shift=(0, -26))
    d.box("budget: 100 MB", role="plain", below=whole, gap=14, align="start", width=150)
    return d


def harms(harm: Sequence[float]) -> None:
    """The harm of changing each layer alone."""
    fig, ax = figure(height=2.6, width=8.0)
    ax.bar(range(len(harm)), harm, color=COLOURS[0])
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set(xlabel="layer that is pooled, all others as they were", ylabel="harm (log perplexity)")
    show(
        fig,
        alt="The harm of pooling each of 30 layers alone. Layers 0 and 1 do most of it, the others little; for "
        "some it is slightly below zero.",
    )


def keys_and_values(keys: Tensor, values: Tensor) -> None:
    """Heat maps of the keys and the values of one group, tokens by features."""
    fig, axes = figure(2, height=3.0, width=4.2)
    for ax, numbers, name in zip(axes, (keys, values), ("keys", "values"), strict=True):
        image = ax.imshow(numbers.cpu(), cmap="RdBu_r", vmin=-8, vmax=8, aspect="auto")
        ax.set(title=f"{name} (layer 15, group 0)", xlabel="feature", ylabel="token")
    fig.colorbar(image, ax=axes, extend="both")
    show(
        fig,
        alt="Heat maps of 64 tokens by 64 features in layer 15. Keys show vertical stripes: a few features are "
        "large for every token. Values show no such stripes.",
    )


def keys_in_bits(
    keys: Tensor, rounding: Callable[[Tensor, int, int], Tensor], measured: Mapping[str, Mapping[int, float]], shipped: float
) -> Moving:
    """Keys as a cache of few bits gives them back, and what that does to them: a slider for the bits, one for the lines."""

    def draw(bits: int, levels: str) -> Drawing:
        back = keys if bits == 16 else rounding(keys, bits, -1 if levels == "per token" else -2)
        perplexity = shipped if bits == 16 else measured[f"keys {levels}"][bits]
        error = (back - keys).abs().cpu()
        d = Drawing(alt="Left, keys in few bits; right, how far each of them is off.")
        left = d.picture(back.cpu(), f"keys in {bits} bits", low=-8, high=8, sizes=("64 tokens", "64 features"))
        right = d.picture(error, "how far they are off", low=0, high=3, colours="Greys", right_of=left, gap=30)
        square = f"mean square of the error {float(error.square().mean()):.3f}"
        d.text(f"{square}\nperplexity of the model {perplexity:.1f}", below=[left, right], gap=12)
        return d

    return slider(
        draw,
        alt="Left, keys of 64 tokens by 64 features, rounded to as many bits as the first slider says, in lines "
        "of a token or of a channel; right, their errors. Per token, at 3 bits the small features fall onto a "
        "few levels, and only the large stripes are left. Per channel the texture stays.",
        bits=[16, 8, 4, 3, 2],
        levels=["per token", "per channel"],
        start={"bits": 3},
        labels={"bits": "bits a number", "levels": "numbers that share their levels"},
    )


def two_ellipses() -> Drawing:
    """Inputs and outputs of a matrix with the entries 1 and 2 on its diagonal, where the first input is the large one."""
    d = Drawing(
        alt="Left, the inputs: an ellipse, with an arrow of length 3 to the right and one of 1/2 upwards. Right, the "
        "outputs: the arrow to the right keeps its length, 1 · 3 = 3, the one upwards becomes 2 · 1/2 = 1. Plain SVD keeps "
        "the upward direction, of the larger weight, and loses 9 of 10; the choice that knows the inputs keeps the other "
        "and loses 1 of 10."
    )
    turn = [2 * math.pi * k / 60 for k in range(60)]
    one = d.axes(size=240, limit=(-3.6, 3.6, -1.9, 1.9), xlabel="x_1", ylabel="x_2")
    one.polygon([(3 * math.cos(t), 0.5 * math.sin(t)) for t in turn], role="input")
    step = d.text("W →", right_of=one)
    two = d.axes(size=240, limit=(-3.6, 3.6, -1.9, 1.9), xlabel="y_1", ylabel="y_2", right_of=step)
    two.polygon([(3 * math.cos(t), math.sin(t)) for t in turn], role="value")
    for plane, high, right, upwards, role in ((one, 0.5, "3", "1/2", "input"), (two, 1.0, "1 · 3 = 3", "2 · 1/2 = 1", "value")):
        plane.arrow((3, 0), role=role)
        plane.arrow((0, high), role=role)
        d.text(right, size=14, at=plane.point_at((1.9, -high - 0.35)))
        x, y = plane.point_at((0.2, high + 0.35))
        d.text(upwards, size=14, at=(x + 3.6 * len(upwards), y))
    plain = d.text("↑ the plain answer keeps it, for the larger weight, 2: loses 3² = 9 of 10", below=[one, two], gap=12)
    d.text("→ kept where the inputs are known: loses 1² = 1 of 10", below=plain, gap=4)
    return d


def latent_path() -> Drawing:
    """A decode step with a cache of latents and rotary positions: what stands between the query and W_UK."""
    d = Drawing(
        alt="A token's row becomes a latent, which goes into the cache. From the cache a path goes through W_UK "
        "and a rotation to the scores, where it meets the rotated query: the rotation stands between the "
        "query and W_UK. Another path leads to the averages; behind them stand W_UV and W_O with nothing "
        "between."
    )
    x = d.vector(6, "x", role="input", cell=16)
    down = d.box("W_{DKV}", role="cache", right_of=x, gap=34)
    cache = d.cache(6, 4, filled=4, new=1, label="latents", role="cache", cell=16, gap=34)
    up = d.box("W_{UK}", role="key", right_of=cache, gap=50, shift=(0, -46))
    turn_k = d.box("rotate, each to\nits position", role="position", right_of=up, gap=34)
    score = d.box("scores,\nsoftmax", role="weight", right_of=turn_k, gap=40)
    turn_q = d.box("rotate", role="position", above=score, gap=66)
    query = d.box("x W_Q", role="query", left_of=turn_q, gap=40)
    mean = d.box("averages\nof latents", role="output", below=score, gap=40)
    out = d.box("W_{UV}", role="value", right_of=mean, gap=40)
    steps = [(x, down), (down, cache), (cache, up), (up, turn_k), (turn_k, score)]
    steps += [(query, turn_q), (turn_q, score), (score, mean), (cache, mean), (mean, out)]
    after = d.box("W_O", role="output", right_of=out, gap=40)
    steps.append((out, after))
    d.frame([turn_k], "in the way", role="key", pad=12)
    for a, b in steps:
        d.arrow(a, b)
    return d


def fast_and_slow() -> Drawing:
    """How far pairs of a key at token 300 have rotated, and what becomes of the fast ones and the slow ones."""
    token, shown = 300, (0, 8, 16, 24, 31)
    d = Drawing(
        alt="Five pairs of a key at token 300, each as an arrow on a dial. Pair 0 has made 47.7 turns and pair 8 has made 2.7. "
        "Pair 16 is at 54 degrees, pair 24 at 3 and pair 31 at a quarter of a degree. The 16 fast pairs are still rotated, so "
        "they are cached in rotated form. The 16 slow ones no longer are, so they come from the latent, and their part of "
        "W_UK is absorbed into the query."
    )
    fast = d.vector(16, "16 fast pairs, still rotated", role="position", cell=18)
    slow = d.vector(16, "16 slow pairs, no longer rotated", role="key", cell=18, gap=0)
    for pair in shown:
        half, role = (fast, "position") if pair < 16 else (slow, "key")
        cell = half.cell(0, pair % 16)
        dial = d.axes(size=84, limit=1.15, ticks=False, at=(cell.centre[0], cell.centre[1] - 104))
        angle = token * 1e5 ** (-2 * pair / 64)
        dial.circle(1)
        dial.arrow((math.cos(angle), math.sin(angle)), role=role)
        turns, degrees = angle / (2 * math.pi), math.degrees(angle)
        said = f"{turns:.1f} turns" if turns > 1 else f"{degrees:.0f}°" if degrees > 1 else f"{degrees:.2f}°"
        d.text(f"pair {pair}:\n{said}", size=14, role=role, above=dial, gap=6)
        d.line((cell.centre[0], dial.bottom[1] + 4), cell.top, width=1)
        if pair == 0:
            d.text("at\ntoken\n300", size=14, left_of=dial, gap=14)
    kept = d.box("cached in rotated form", role="position", below=fast, gap=50)
    absorbed = d.box("from the latent, W_{UK} absorbed", role="cache", below=slow, gap=50)
    d.arrow(fast, kept)
    d.arrow(slow, absorbed)
    return d


def speed(lengths: Sequence[int], seconds: Mapping[str, Sequence[float]]) -> None:
    """Tokens per second against the length of the text."""
    fig, ax = figure(height=2.8, width=5.4)
    for (name, took), colour, marker in zip(seconds.items(), COLOURS, MARKERS, strict=False):
        ax.loglog(lengths, [1 / s for s in took], color=colour, marker=marker, label=name)
    ax.set(xlabel="tokens so far", ylabel="tokens per second", xticks=lengths, xticklabels=lengths)
    ax.minorticks_off()
    ax.legend()
    show(
        fig,
        alt="Tokens per second against the length of the text, both axes logarithmic. Without the cache the line "
        "falls as the text grows; with it, it falls little or not at all.",
    )


def sinks(share: Tensor, even: float) -> None:
    """The weight on the first token, in each head, and the mean of each layer."""
    layers, heads = share.shape
    fig, ax = figure(height=3.0, width=7.6)
    for h in range(heads):
        places = [layer + 0.6 * (h / (heads - 1) - 0.5) for layer in range(layers)]
        ax.plot(places, 100 * share[:, h], ".", color=COLOURS[0], markersize=5)
    ax.plot(range(layers), 100 * share.mean(1), color=COLOURS[1], label="mean of a layer")
    ax.axhline(100 * even, color="0.5", linestyle=":", label="even weights")
    ax.axvspan(9.5, 11.5, color="0.9", zorder=0)
    ax.text(10.5, 92, "layers 10, 11", ha="center", fontsize=9)
    ax.set(xlabel="layer (a dot is a head)", ylabel="weight on the first token, %", ylim=(-3, 103))
    ax.legend(loc="upper left")
    show(
        fig,
        alt="For each of 270 heads the share of weight on the first of 512 tokens. In layers 0 to 2 nearly "
        "nothing, in layers 3 to 9 about 18 percent, in layers 10 and 11 nothing, from layer 12 on 28 to 62 "
        "percent, with heads up to nearly 100 percent.",
    )


def front(lines: Mapping[str, Mapping[str, tuple[float, float]]], worth: Sequence[str], budget: float) -> None:
    """Perplexity against bytes per token: a line for each way to save, a circle round what nothing beats, the budget dotted."""
    top = 52
    floor = min(point[1] for points in lines.values() for point in points.values()) - 0.25
    fig, ax = figure(height=4.4, width=9.0)
    looks = zip(lines.items(), itertools.cycle(COLOURS), (*MARKERS, "s", "P"), strict=False)
    for (way, points), colour, marker in looks:
        line = sorted(point for point in points.values() if point[1] <= top)
        if line:
            ax.plot(*zip(*line, strict=True), color=colour, marker=marker, label=way)
    rim = [point for points in lines.values() for name, point in points.items() if name in worth]
    ax.plot(*zip(*rim, strict=True), "o", color="black", markersize=13, fillstyle="none", label="nothing is smaller and better")
    ax.axvline(budget, color="0.5", linestyle=":")
    ax.text(budget * 0.98, 0.98 * top, "budget", ha="right", va="top", fontsize=9)
    ax.text(13_000, 14.31, "↙ 8 bits: 0.3 % over", va="center", fontsize=9)
    ax.set(xscale="log", xlim=(1900, 26_000))
    ax.set_yscale("function", functions=(lambda y: np.log(np.maximum(y - floor, 1e-3)), lambda z: np.exp(z) + floor))
    ax.set(xlabel="bytes of cache per token", ylabel="perplexity (stretched towards the bottom)", ylim=(floor + 0.17, top))
    across, up = (2000, 4000, 6000, 10_000, 15_000, 23_040), (14.2, 14.5, 15, 16, 18, 20, 25, 30, 40, 50)
    ax.set(xticks=across, xticklabels=[f"{t:,}" for t in across], yticks=up, yticklabels=up)
    ax.minorticks_off()
    beyond = sum(point[1] > top for points in lines.values() for point in points.values())
    above = f"↑ {beyond} of {sum(map(len, lines.values()))} lie above"
    ax.text(0.99, 0.98, above, transform=ax.transAxes, ha="right", va="top", fontsize=9)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
    show(
        fig,
        alt="Perplexity against bytes of cache per token, on an axis stretched near 14. Of single savings, rounding with "
        "keys per channel lies lowest. Latents in 4 bits reach further left at the same height: about 3,240 "
        "bytes at a perplexity below 19, where 2 bits alone need 3,600 for more than 40. 8 bits lie just beyond the budget.",
    )
