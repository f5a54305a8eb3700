"""The pictures of chapter 06: clock hands, arrows and pairs that rotate, heads that look back, two layers that copy.

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


def _hands(position: int) -> Drawing:
    """The three digits of a position, and below each the hand that replaces it: together as wide as a phone."""
    d = Drawing(alt=f"Position {position}: its digits, and below each a clock hand on a dial from 0 to 9.")
    face: Any = None
    for i in (2, 1, 0):
        face = d.axes(size=132, limit=1.36, ticks=False, **({} if face is None else {"right_of": face, "gap": 12}))
        face.circle(1)
        for digit in range(10):
            x, y = _on_the_dial(digit / 10, 1.0)
            face.line((0.9 * x, 0.9 * y), (x, y))
            aside = 0.022 if digit in (0, 5) else 0.0  # of the vertical axis
            d.text(str(digit), size=15, muted=True, at=face.point_at(_on_the_dial(digit / 10 + aside, 1.19)))
        face.arrow(_on_the_dial(position / 10 ** (i + 1), 0.85), role="position", width=3)
        d.box(str(position // 10**i % 10), role="input", above=face, gap=6, width=34, height=30)
        d.text(f"{10 ** (i + 1):,} tokens", size=16, below=face, gap=2)
    return d


def _on_the_dial(turns: float, radius: float) -> tuple[float, float]:
    """A point on a dial after so many turns, clockwise from the top."""
    return radius * math.sin(2 * math.pi * turns), radius * math.cos(2 * math.pi * turns)


def clock_hands() -> Moving:
    """Digits and clock hands at positions where the digits jump."""
    return slider(
        _hands,
        position=[*range(8, 13), 98, 99, 100, 101, 199, 200, 347, 998, 999],
        start={"position": 9},
        labels={"position": "position"},
        alt="Position 9: the digits 0, 0, 9 above three dials from 0 to 9, whose hands need 1,000, 100 and 10 tokens "
        "for one turn. The last hand points to 9, the one before it almost to 1. From 9 to 10 two digits jump, while each hand "
        "moves on a little.",
    )


def _turned_together(query: int, key: int) -> Drawing:
    """A query of length 2 and a key of length 1.5, each rotated by 20° per token."""
    at = [math.radians(20 * p) for p in (query, key)]
    q, k = ((length * math.cos(turn), length * math.sin(turn)) for length, turn in zip((2, 1.5), at, strict=True))
    between = abs((20 * (key - query) + 180) % 360 - 180)
    score = q[0] * k[0] + q[1] * k[1]
    d = Drawing(alt=f"Rotated by {20 * query}° and {20 * key}°, with {between}° between them. The score is {score:.2f}.")
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
    beside = d.text(f"q at {query}: rotated by {20 * query}°", role="query", right_of=ax, align="start", shift=(0, 60))
    d._cover((beside.x + width("q at 11: rotated by 220°"), beside.y))  # all frames of one size
    beside = d.text(f"k at {key}: rotated by {20 * key}°", role="key", below=beside, align="start", gap=8)
    beside = d.text(f"between: {between}°", below=beside, align="start", gap=24)
    d.text(f"score: {score:.2f}".replace("-", "−"), below=beside, align="start", gap=8, bold=True)
    return d


def two_arrows() -> Moving:
    """A query and a key that rotate with their positions."""
    return slider(
        _turned_together,
        query=list(range(12)),
        key=list(range(12)),
        start={"query": 5, "key": 2},
        labels={"query": "position of the query", "key": "position of the key"},
        alt="The query at position 5 is rotated by 100 degrees and the key at position 2 by 40 degrees. There are 60 degrees "
        "between them, and the score is 1.5. If both move on together, angle and score stay the same.",
    )


def _pairs_turned(position: int) -> Drawing:
    """A query with 8 features in four pairs, before and after the rotation of each."""
    d = Drawing(alt=f"A query with 8 features, whose four pairs are rotated to position {position}.")
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
        d.text(f"{position} · {theta:g} = {turn:g} rad", role="position", size=15, at=(across, 176))
        after = d.matrix([[round(z, 2) + 0.0 for z in turned]], at=(across, 208), **look)
        if i == 0:
            d.text("q", role="query", left_of=before, gap=12)
            d.text("p θ_i", role="position", at=(after.x - 42, 176))
            d.text(f"q at {position:,}", role="query", left_of=after, gap=12)
            d._cover((after.x - 106, 0), (after.x + 700, 0))  # all frames of one size
        d.text(f"pair {i}", muted=True, size=16, at=(across, -26))
    return d


def pairs_that_turn() -> Moving:
    """What rotary positions do to one query, by its position."""
    return slider(
        _pairs_turned,
        position=[0, 1, 2, 3, 4, 5, 10, 20, 50, 100, 500, 1000],
        start={"position": 3},
        labels={"position": "position p of the query"},
        alt="A query with 8 features as four pairs, each an arrow of length 1.5, dashed before the rotation. At position 3 the "
        "first pair is rotated by 3 radians, the second by 0.3, the third by 0.03 and the last by 0.003.",
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
    """The weights of heads by how many tokens back they attend."""
    d = Drawing(
        alt="The weights of three heads, each with a line "
        + ", ".join(map(str, weights))
        + " tokens to the left of the diagonal. The first rows have no such token and attend elsewhere."
    )
    for steps, A in weights.items():
        sizes = ("queries", "keys") if steps == next(iter(weights)) else None
        d.matrix(A.tolist(), f"{steps} back", role="weight", entries=False, cell=11, grid=False, sizes=sizes)
    return d


def learning_to_copy(two: History, one: History) -> None:
    """The loss of two layers and of one, and the largest weight of a head in each role."""
    fig, (left, right) = figure(2, height=3.3, width=4.0)
    steps = [step for step, *_ in two]
    for history, colour, name in ((two, COLOURS[0], "two layers"), (one, COLOURS[1], "one layer")):
        left.plot(steps, [loss for _, loss, *_ in history], color=colour, label=name)
    left.set(xlabel="step", ylabel="loss on the copies", ylim=(0, 4.7))
    left.legend(loc="lower left")
    lines = (
        (two, 0, 0, COLOURS[2], "-", "two layers, layer 0: word before"),
        (two, 1, 1, COLOURS[0], "-", "two layers, layer 1: word that followed"),
        (one, 0, 0, COLOURS[2], ":", "one layer: word before"),
        (one, 0, 1, COLOURS[1], ":", "one layer: word that followed"),
    )
    for history, layer, role, colour, style, name in lines:
        largest = [float(max(found[layer][role])) for _, _, found, _ in history]
        right.plot(steps, largest, color=colour, linestyle=style, label=name)
    right.set(xlabel="step", ylabel="mean weight of the best head", ylim=(0, 1.75), yticks=(0, 0.5, 1))
    right.legend(loc="upper left", ncols=1)
    ends = f"{two[-1][1]:.1f} with two layers and {one[-1][1]:.1f} with one"
    show(
        fig,
        alt=f"Left, the loss on the copies by training step. It starts above 4 and ends at {ends}. With two layers most of "
        "the fall takes about 100 steps. Right, the mean weight of the best head in each role. In the same steps a head of "
        "layer 0 begins to attend to the word before and a head of layer 1 to the word that followed. With one layer no head "
        "does the latter.",
    )


def snapshots(two: History, one: History, steps: Sequence[int]) -> Moving:
    """The weights on one text at some training steps, of the best head of each of two layers and of the single layer."""
    roles = two[-1][2]
    before, followed = (max(range(len(roles[layer][layer])), key=lambda h: roles[layer][layer][h]) for layer in (0, 1))
    alone = max(range(len(one[-1][2][0][1])), key=lambda h: one[-1][2][0][1][h])

    def draw(step: int) -> Any:
        (with_two,) = (weights for s, _, _, weights in two if s == step)
        (with_one,) = (weights for s, _, _, weights in one if s == step)
        fig, axes = figure(3, height=2.9, width=2.6)
        maps = {
            f"of two layers: head 0.{before}": with_two[0][0, before],
            f"of two layers: head 1.{followed}": with_two[1][0, followed],
            f"of one layer: head 0.{alone}": with_one[0][0, alone],
        }
        for ax, (title, A) in zip(axes, maps.items(), strict=True):
            heatmap(ax, A, title=title, vmax=1, numbers=False)
        return fig

    return slider(
        draw,
        step=list(steps),
        start={"step": steps[-1]},
        labels={"step": "training step"},
        alt="The weights of three heads on a text of 48 words that repeats every 12, by training step. At the end the head of "
        "layer 0 has a line just below the diagonal, and the head of layer 1 has lines 11, 23 and 35 places left of it. "
        "The best head of the single layer has no such line.",
    )


def induction() -> Drawing:
    """How two heads in a row copy: pear moon hat pear -> moon."""
    d = Drawing(
        alt="The text pear moon hat pear. In layer 0 each token receives the word before it. In layer 1 a thick arrow goes from "
        "the second pear back to the token moon, which carries pear as its predecessor. The value of that token says moon, which "
        "is predicted."
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
    d.arrow((x3, y), (x1 + 14, y), "query: after pear?", role="weight", width=4, bend=-46)
    d.arrow((x1 - 14, y), top.left, "value: moon", role="value", elbow="v")
    d.text("layer 0: which word\nis before me?", left_of=[low[0], mid[0]], muted=True)
    d.text("layer 1: what came\nafter my word?", left_of=[mid[0], top], muted=True)
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
