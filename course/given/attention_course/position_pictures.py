"""The pictures of lesson 06: clocks, arrows and pairs that turn, a page read, heads that look back, two layers that copy.

Each function returns what a notebook shows. What they draw of the learner's own functions is handed to them.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attention_course.drawing import Drawing
from attention_course.drawing.lettering import width
from attention_course.moving import Moving, slider
from attention_course.plots import COLOURS, figure, heatmap, show

History = Sequence[tuple[int, float, Any, Any]]  # step, loss, roles of each layer's heads, each layer's weights


def _clocks(position: int) -> Drawing:
    """The four digits of a position, and under each the clock that does its work."""
    d = Drawing(alt=f"Position {position}: its digits, and four clocks from slow to fast.")
    face: Any = None
    for i in (3, 2, 1, 0):
        turn = position / 10**i
        face = d.axes(size=94, limit=1.15, ticks=False, **({} if face is None else {"right_of": face, "gap": 10}))
        face.circle(1)
        face.line((0, 0), (1, 0))
        face.arrow((math.cos(turn), math.sin(turn)), role="position", width=3)
        d.box(str(position // 10**i % 10), role="input", above=face, gap=10, width=34, height=30)
        d.text(f"clock {i}", below=face, gap=4)
    return d


def clocks() -> Moving:
    """Digits and clocks at positions where the digits jump."""
    return slider(
        _clocks,
        position=[*range(13), 98, 99, 100, 101, 998, 999, 1000, 1001],
        start={"position": 9},
        labels={"position": "position"},
        alt="Position 9: the digits 0, 0, 0, 9 above four clocks. Clock 0 has turned by 9 radians, clock 1 by 0.9, clocks 2 and "
        "3 hardly. At position 10 two digits jump; no hand does.",
    )


def _turned_together(query: int, key: int) -> Drawing:
    """A query of length 2 and a key of length 1.5, each turned by 20° per token."""
    at = [math.radians(20 * p) for p in (query, key)]
    q, k = ((length * math.cos(turn), length * math.sin(turn)) for length, turn in zip((2, 1.5), at, strict=True))
    between = abs((20 * (key - query) + 180) % 360 - 180)
    score = q[0] * k[0] + q[1] * k[1]
    d = Drawing(alt=f"Turned by {20 * query}° and {20 * key}°; {between}° between them; score {score:.2f}.")
    ax = d.axes(size=272, limit=2.5, ticks=False)
    ax.circle(2)
    ax.circle(1.5)
    ax.arrow(q, "q", role="query", width=3)
    ax.arrow(k, "k" if between else "", role="key", width=3)
    if between:
        ax.angle(q, k, f"{between}°", radius=0.25)
    else:  # the one lies on the other
        across = ax.point_at((0.8 * k[0] - 0.3 * math.sin(at[1]), 0.8 * k[1] + 0.3 * math.cos(at[1])))
        d.text("k", role="key", at=across)
    beside = d.text(f"q at {query}: turned {20 * query}°", role="query", right_of=ax, align="start", shift=(0, 60))
    d._cover((beside.x + width("q at 11: turned 220°"), beside.y))  # all frames of one size
    beside = d.text(f"k at {key}: turned {20 * key}°", role="key", below=beside, align="start", gap=8)
    beside = d.text(f"between: {between}°", below=beside, align="start", gap=24)
    d.text(f"score: {score:.2f}".replace("-", "−"), below=beside, align="start", gap=8, bold=True)
    return d


def two_arrows() -> Moving:
    """A query and a key that turn with their positions."""
    return slider(
        _turned_together,
        query=list(range(12)),
        key=list(range(12)),
        start={"query": 2, "key": 5},
        labels={"query": "position of the query", "key": "position of the key"},
        alt="Query at 2 and key at 5, turned by 40 and 100 degrees: 60 degrees between them, score 1.5. Moved together, the "
        "angle and the score stay.",
    )


def _pairs_turned(position: int) -> Drawing:
    """A query of width 8 in four pairs, before and after the turn of each."""
    d = Drawing(alt=f"A query of width 8, its four pairs turned to position {position}.")
    arrows = ((1.2, 0.9), (1.5, 0.0), (0.9, -1.2), (0.0, 1.5))
    for i, (x, y) in enumerate(arrows):
        theta = 10.0**-i
        turn = position * theta
        turned = (x * math.cos(turn) - y * math.sin(turn), x * math.sin(turn) + y * math.cos(turn))
        across = 172 * i
        look: dict[str, Any] = {"role": "query", "cell": (56, 26), "vmax": 1.5, "entries": "{:.2f}"}
        before = d.matrix([[x, y]], at=(across, 0), **look)
        dial = d.axes(size=124, limit=1.7, ticks=False, at=(across, 96))
        dial.circle(1.5)
        dial.arrow((x, y), role="query", dashed=True, width=1.6)
        dial.arrow(turned, role="query", width=3)
        if 0.06 < turn < 3.1:
            dial.angle((x, y), turned, role="position", radius=0.45)
        d.text(f"{position} · {theta:g} = {turn:g} rad", role="position", size=14, at=(across, 176))
        after = d.matrix([[round(z, 2) + 0.0 for z in turned]], at=(across, 208), **look)
        if i == 0:
            d.text("q", role="query", left_of=before, gap=12)
            d.text("p θ_i", role="position", at=(after.x - 42, 176))
            d.text(f"q at {position:,}", role="query", left_of=after, gap=12)
            d._cover((after.x - 106, 0), (after.x + 700, 0))  # all frames of one size
        d.text(f"pair {i}", muted=True, size=14, at=(across, -26))
    return d


def pairs_that_turn() -> Moving:
    """What rotary positions do to one query, by its position."""
    return slider(
        _pairs_turned,
        position=[0, 1, 2, 3, 4, 5, 10, 20, 50, 100, 500, 1000],
        start={"position": 3},
        labels={"position": "position p of the query"},
        alt="A query of width 8 as four pairs, each an arrow of length 1.5. At position 3 the first has turned by 3 radians, the "
        "second by 0.3, the third by 0.03, the last by 0.003: fast pairs tell near places apart, slow ones far ones.",
    )


def read_a_page(moved: Mapping[int, float], stretched: Mapping[float, float]) -> None:
    """The loss of a trained model on a page where all positions are moved, and where they are stretched."""
    fig, (left, right) = figure(2, height=2.9, width=3.8)
    places = range(len(moved))
    left.plot(places, list(moved.values()), "o-", color=COLOURS[0])
    left.set_xticks(places, [f"{m:,}" for m in moved])
    left.set(xlabel="moved by m", ylabel="loss", xlim=(-0.4, len(moved) - 0.6))
    for place, loss in zip(places, moved.values(), strict=True):
        left.text(place, loss + 0.12, f"{loss:.2f}", ha="center")
    right.plot(list(stretched), list(stretched.values()), "o-", color=COLOURS[1])
    right.set(xlabel="stretched by s", xticks=[-1, 0, 0.5, 1, 1.5, 2])
    named = ((-1, "", 0.1, -0.32), (0, "nothing turned", 0, 0.12), (0.5, "", 0.3, 0.05), (0.75, "", -0.33, -0.1))
    for s, name, x, y in (*named, (1, "as trained", 0, -0.3), (1.5, "", 0, 0.14), (2, "", -0.05, 0.14)):
        right.text(s + x, stretched[s] + y, f"{name} {stretched[s]:.2f}".strip(), ha="center")
    for ax in (left, right):
        ax.set(ylim=(3, 6))
    show(
        fig,
        alt="The loss of SmolLM2 on a page. Left: moved by 0, 1,000 and 8,000 it is the same, 3.63. Right, by the stretch s of "
        "the positions: about 5.4 at -1, 5.5 at 0, where nothing is turned, 4.4 at 0.5, 3.8 at 0.75, "
        "then 3.6 at 1, 3.7 at 1.25 and 1.5, and 4.0 at 2.",
    )


def a_long_text(losses: Mapping[str, Sequence[float]], run: int, made_for: int) -> None:
    """The loss in each `run` of tokens of a long text, for several ways to count positions."""
    fig, ax = figure(height=3.0, width=6.4)
    for (name, values), colour in zip(losses.items(), COLOURS, strict=False):
        at = [run * (i + 0.5) for i in range(len(values))]
        ax.plot(at, values, "o-", color=colour)
        ax.text(at[-1] + 250, values[-1], name, color=colour, va="center")
    ax.axvline(made_for, color="#666666", linestyle=":")
    ax.text(made_for - 150, ax.get_ylim()[0], f"made for {made_for:,}", ha="right", va="bottom")
    ax.set(xlabel="tokens read", ylabel="loss", xlim=(0, at[-1] + 3600), xticks=range(0, 12_001, 4000))
    ends = "; ".join(f"{name}, first {values[0]:.2f}, last {values[-1]:.2f}" for name, values in losses.items())
    show(fig, alt=f"The loss of SmolLM2 in each {run:,} tokens of a book, beyond the {made_for:,} that it was made for: {ends}.")


def heads_that_look_back(weights: Mapping[int, Any]) -> Drawing:
    """The weights of heads by the number of steps that they look back."""
    d = Drawing(
        alt="Weights of three heads: a line " + ", ".join(map(str, weights)) + " places to the left of the diagonal. The first "
        "rows, which have no such token, look elsewhere."
    )
    for steps, A in weights.items():
        sizes = ("queries", "keys") if steps == next(iter(weights)) else None
        d.matrix(A.tolist(), f"{steps} back", role="weight", entries=False, cell=11, grid=False, sizes=sizes)
    return d


def learning_to_copy(two: History, one: History, best: int) -> None:
    """The loss of two layers and of one; what the heads of the two layers look at. Head `best` of layer 0 is drawn thick."""
    fig, (left, right) = figure(2, height=2.9, width=3.8)
    for history, colour, name, at in ((two, COLOURS[0], "two layers", (250, 1.1)), (one, COLOURS[1], "one layer", (290, 3.6))):
        left.plot(*zip(*[row[:2] for row in history], strict=True), color=colour)
        left.text(*at, name, color=colour)
    left.set(xlabel="step", ylabel="loss on the copies", ylim=(0, 4.6))
    steps = [step for step, *_ in two]
    for h in range(4):
        before, followed = ([found[r][r][h] for _, _, found, _ in two] for r in (0, 1))
        right.plot(steps, before, color=COLOURS[2], linewidth=3.2 if h == best else 1.2)
        right.plot(steps, followed, color=COLOURS[3], linestyle="--")
    right.text(0, 0.72, f"layer 0,\ntoken before\n(thick: head {best})", color=COLOURS[2])
    right.text(0, 0.42, "layer 1,\nwhat followed\n(dashed)", color=COLOURS[3])
    right.set(xlabel="step", ylabel="mean weight", ylim=(0, 1))
    show(
        fig,
        alt="Left: the loss of two layers falls from 4.3 slowly, then within 50 steps from above 3 to below 1; one layer stays "
        "above 3. Right: in the same 50 steps heads of layer 0 turn to the token before, and those of layer 1 to what followed.",
    )


def snapshots(history: History, best: Sequence[int], steps: Sequence[int]) -> Moving:
    """The weights of the `best` head of each layer at some training steps."""

    def draw(step: int) -> Any:
        weights = next(w for s, _, _, w in history if s == step)
        fig, axes = figure(2, height=3.3, width=3.6)
        for layer, ax in enumerate(axes):
            title = f"step {step}: layer {layer}, head {best[layer]}"
            heatmap(ax, weights[layer][0, best[layer]], title=title, vmax=1, numbers=False)
        return fig

    return slider(
        draw,
        step=list(steps),
        start={"step": steps[-1]},
        labels={"step": "training step"},
        alt="Attention patterns during training. At the end the head of layer 0 shows one line just below the diagonal, that of "
        "layer 1 lines 11, 23 and 35 places left of the diagonal.",
    )


def induction() -> Drawing:
    """How two heads in a row copy: pear moon hat pear -> moon."""
    d = Drawing(
        alt="The text pear moon hat pear. In layer 0 each token notes the one before it. In layer 1 a thick arrow, attention, "
        "goes from the second pear back to the token moon, which has noted pear. From there moon is handed over: the prediction."
    )
    low: list[Any] = []
    mid: list[Any] = []
    text = ("pear", "moon", "hat", "pear")
    for word in text:
        low.append(d.box(word, role="input", width=104, height=34, **({"right_of": low[-1], "gap": 44} if low else {})))
    for i, word in enumerate(text):
        label = f"{word}\nafter {text[i - 1]}" if i else word
        mid.append(d.box(label, role="key", width=104, height=50, above=low[i], gap=50))
    top = d.box("next: moon", role="output", width=104, height=34, above=mid[3], gap=110)
    for i in range(3):
        d.arrow(low[i].top, mid[i + 1].bottom, role="key")
    (x3, y), (x1, _) = mid[3].top, mid[1].top
    d.arrow((x3, y), (x1 + 14, y), "looks for: after pear", role="weight", width=4, bend=-46)
    d.arrow((x1 - 14, y), top.left, "hands over: moon", role="value", elbow="v")
    d.text("layer 0: who\nstood before me?", left_of=[low[0], mid[0]], muted=True)
    d.text("layer 1: who stood\nafter my word?", left_of=[mid[0], top], muted=True)
    return d


def layouts() -> Drawing:
    """Which entries of a head of width 6 form a pair, in the two layouts."""
    d = Drawing(
        alt="A head of width 6 twice. Interleaved: entries 0 and 1, 2 and 3, 4 and 5 are pairs. Half-split: 0 and 3, 1 and 4, "
        "2 and 5."
    )
    name: Any = None
    for label, pairs in (
        ("interleaved:\n2i and 2i + 1", ((0, 1), (2, 3), (4, 5))),
        ("half-split:\ni and i + d/2", ((0, 3), (1, 4), (2, 5))),
    ):
        name = d.text(label, **({} if name is None else {"below": name, "gap": 56}))
        cells = d.tokens([f"x_{i}" for i in range(6)], right_of=name)
        for a, b in pairs:
            d.line(cells[a].top, cells[b].top, role="position", bend=8 + 4 * (b - a) + (3 * a if b - a > 1 else 0), width=2.4)
    return d
