"""The pictures of workshop 06d: losses along a long text, how far pairs turn, and needles that were found."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention_course.moving import Moving, slider
from attention_course.plots import COLOURS, MARKERS, figure, show

Ways = Mapping[str, tuple[Any, float]]  # frequencies, in radians per token, and a scale of the scores


def losses_along(losses: Mapping[str, Sequence[float]], run: int, trained: int) -> None:
    """Plot the loss in each `run` of tokens of a long text, for each way."""
    fig, ax = figure(height=3.2, width=4.4)  # as wide as a phone
    names = list(losses)
    for i, (name, values) in enumerate(losses.items()):
        at = [run * (j + 0.5) for j in range(len(values))]
        ax.plot(at, values, marker=MARKERS[i], markersize=4, linestyle="-", color=COLOURS[i], label=name)
    ax.axvline(trained, color="0.5", linestyle=":")
    ax.set_ylim(top=ax.get_ylim()[1] + 0.5 * (len(losses) > 2))
    ax.text(trained + 150, ax.get_ylim()[1], f"{trained:,} tokens", ha="left", va="top")
    ticks = range(0, run * len(losses[names[0]]) + 1, 4096)
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.set(xlabel="tokens read", ylabel="loss")
    if len(names) > 1:
        ax.legend(loc="upper left")
    ends = "; ".join(
        f"{name}, {values[0]:.2f} in the first run and {values[-1]:.2f} in the last" for name, values in losses.items()
    )
    show(fig, alt=f"The loss of SmolLM2 in each {run:,} tokens of a book. {ends}.")


def reach(ways: Ways, trained: int) -> Moving:
    """How far each pair turns in a text, beside how far it turned in training, by way and length."""
    seen = trained * np.asarray(ways["as trained"][0], dtype=float) / (2 * math.pi)
    pairs = np.arange(len(seen))
    unfinished = seen < 1

    def draw(way: str, tokens: int) -> Any:
        turns = tokens * np.asarray(ways[way][0], dtype=float) / (2 * math.pi)
        new = unfinished & (turns > seen * (1 + 1e-6))
        fig, ax = figure(height=3.1, width=6.4)
        ax.fill_between(pairs[unfinished], seen[unfinished], 1, color=COLOURS[1], alpha=0.25, linewidth=0)
        ax.plot(pairs, seen, color="0.5", linewidth=1.2)
        ax.plot(pairs[~new], turns[~new], "o", color=COLOURS[0], markersize=4)
        ax.plot(pairs[new], turns[new], "X", color=COLOURS[1], markersize=6)
        ax.axhline(1, color="0.5", linestyle=":", linewidth=1)
        ax.set(yscale="log", ylim=(0.013, 16), xlim=(14.5, 31.5), xlabel="pair", ylabel="full turns, at most")
        ax.text(15, 0.35 * seen[15], "in training", va="top", ha="left", color="0.4")
        ax.text(30.9, 0.85, "never shown", va="top", ha="right", color="0.25")
        ax.set_yticks([0.03, 0.1, 0.3, 1, 3], ["0.03", "0.1", "0.3", "1", "3"])
        ax.set_yticks([], minor=True)
        ax.set_title(f"{way}, {tokens:,} tokens: {int(new.sum())} pairs reach new angles")
        return fig

    slow = 2 * seen[unfinished & (seen > 0)]  # turns of the slow pairs in the longest text, as trained
    return slider(
        draw,
        way=list(ways),
        tokens=[trained // 2, trained, trained * 3 // 2, trained * 2],
        start={"way": "as trained", "tokens": trained * 2},
        labels={"way": "way", "tokens": "tokens"},
        alt="How often the slow pairs turn in a text, by pair, way and length. The shaded area holds the angles that training "
        f"never showed. At {2 * trained:,} tokens as trained, crosses mark all {len(slow)} slow pairs, "
        f"{int((slow < 1).sum())} of them in that area and the others beyond a full turn.",
    )


def needles_found(asked: Mapping[str, Mapping[int, Sequence[tuple[int, float]]]], digits: int) -> None:
    """Print the share of digits that were right, and the mean loss at a digit, by way and tokens read."""
    ends = list(next(iter(asked.values())))
    print(f"{'tokens read':16}", *(f"{end:>15,}" for end in ends), sep="")
    counts = [len(found) for found in next(iter(asked.values())).values()]
    print(f"{'questions':16}", *(f"{count:15d}" for count in counts), sep="")
    for way, by_end in asked.items():
        shares = [sum(right for right, _ in found) / (digits * len(found)) for found in by_end.values()]
        losses = [sum(loss for _, loss in found) / len(found) for found in by_end.values()]
        cells = (f"{share:7.0%}, {loss:.2f}" for share, loss in zip(shares, losses, strict=True))
        print(f"{way:16}", *(f"{cell:>15}" for cell in cells), sep="")
