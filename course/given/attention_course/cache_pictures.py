"""The figures of notebooks 12 and 12b that would fill a cell of their own."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_course.moving import Moving, slider
from attention_course.plots import COLOURS, figure, show

Interval = tuple[float, float, float]


def striped(keys: Tensor, values: Tensor) -> None:
    """Show heat maps of the keys and the values of one head, tokens by features, and one group of each kind on the keys."""
    from matplotlib.patches import Rectangle

    fig, axes = figure(2, height=3.3, width=4.2)
    for ax, numbers, name in zip(axes, (keys, values), ("keys", "values"), strict=True):
        image = ax.imshow(numbers.cpu(), cmap="RdBu_r", vmin=-8, vmax=8, aspect="auto")
        ax.set(title=f"{name} of layer 15, head 0", xlabel="feature", ylabel="token")
    fig.colorbar(image, ax=axes, extend="both")
    tokens, features = keys.shape
    largest = int(keys.abs().mean(0).argmax())
    groups = (
        ((-0.5, 2 * tokens // 3 - 1), features, 2, COLOURS[2], "per token, along its features"),
        ((largest - 1, -0.5), 2, tokens, COLOURS[4], "per channel, along the tokens"),
    )
    outlines = [
        axes[0].add_patch(Rectangle(at, wide, tall, fill=False, edgecolor=colour, linewidth=2, label=text, zorder=3))
        for at, wide, tall, colour, text in groups
    ]
    fig.legend(handles=outlines, loc="outside lower center", ncols=2, title="outlined on the keys: one group of each kind")
    show(
        fig,
        alt="Heat maps of 64 tokens by 64 features in layer 15. The keys have vertical stripes, which are features that are "
        "large at nearly every token. The values have none. On the keys two groups are outlined. A group per token is a row, "
        "which crosses all stripes, and a group per channel is a column, here one of the stripes.",
    )


def _separate(new: Tensor, old: Tensor, picks: Tensor, size: int) -> Interval:
    """The ratio of two perplexities with the interval that separate resampled texts give, one for each cache."""
    means = [x.reshape(-1, size).mean(1) for x in (new, old)]
    logs = means[0][picks].mean(1) - means[1][picks.flip(0)].mean(1)
    low, high = torch.quantile(logs, logs.new_tensor([0.025, 0.975])).exp().tolist()
    return float((new - old).mean().exp()), low, high


def intervals(
    losses: Mapping[str, Tensor],
    full: Tensor,
    picks: Tensor,
    paired: Callable[..., Interval],
    texts: Sequence[str],
    size: int = 16,
) -> Moving:
    """A figure of each cache's ratio with its interval, from separate texts or by the learner's `paired`, for each text."""
    ways = {"separate": _separate, "paired": paired}
    found = {
        (text, way): {name: interval(loss[i], full[i], picks, size) for name, loss in losses.items()}
        for i, text in enumerate(texts)
        for way, interval in ways.items()
    }

    def draw(text: str, way: str) -> Any:
        measured = found[text, way]
        fig, ax = figure(height=3.2, width=7.2)
        for row, (ratio, low, high) in enumerate(measured.values()):
            colour = COLOURS[0] if low <= 1 <= high else COLOURS[1]
            ax.plot([low, high], [row, row], color=colour, linewidth=2.5)
            ax.plot(ratio, row, "o", color=colour)
        ax.axvline(1, color="black", linewidth=0.8)
        ax.set_yticks(range(len(measured)), list(measured))
        ax.set(
            xlim=(0.55, 1.9), ylim=(len(measured) - 0.5, -0.5), xlabel="perplexity, as a ratio to the full cache (orange: not 1)"
        )
        return fig

    return slider(
        draw,
        text=list(texts),
        way=list(ways),
        start={"way": "separate"},
        labels={"text": "text", "way": "comparison"},
        alt="For each cache the ratio of its perplexity to that of the full cache, with an interval. With separate texts, all "
        "intervals are wide and contain 1. With pairs they are at least five times narrower, most of them more than ten times, "
        "and those of 4 bits per token lie to the right of 1.",
    )


def inputs_with(moment: Tensor) -> Tensor:
    """Inputs, as many rows as features, whose second moment is `moment` up to rounding."""
    size = len(moment)
    root = torch.linalg.cholesky(moment + 1e-6 * moment.diagonal().mean() * torch.eye(size, device=moment.device))
    inputs: Tensor = math.sqrt(size) * root.mT
    return inputs


def turn_the_line(W: Tensor, moment: Tensor) -> Moving:
    """A figure of the outputs x W in the plane, projected onto a line that turns, with the share of their energy that is lost."""
    root = torch.linalg.cholesky(moment)
    draw_from = torch.Generator().manual_seed(0)
    x = torch.randn(60, 2, generator=draw_from) @ root.mT
    y = x @ W
    M = W.mT @ moment @ W
    right, top = (1.1 * y.abs().max(0).values).tolist()

    def draw(angle: int) -> Any:
        u = torch.tensor([math.cos(math.radians(angle)), math.sin(math.radians(angle))])
        foot = (y @ u)[:, None] * u
        lost = 1 - float(u @ M @ u) / float(M.trace())
        fig, ax = figure(height=3.6, width=5.0)
        for start, end in zip(y.tolist(), foot.tolist(), strict=True):
            ax.plot([start[0], end[0]], [start[1], end[1]], color=COLOURS[1], linewidth=0.8)
        reach = right * u
        ax.plot([-reach[0], reach[0]], [-reach[1], reach[1]], color=COLOURS[0])
        ax.plot(*y.T.tolist(), "o", color=COLOURS[2], markersize=4)
        ax.set(xlim=(-right, right), ylim=(-top, top), aspect="equal", xlabel="first output", ylabel="second output")
        ax.set_title(f"at {angle} degrees {lost:.0%} are lost")
        return fig

    return slider(
        draw,
        angle=range(0, 180, 10),
        labels={"angle": "angle of the line, in degrees"},
        alt="Sixty outputs in the plane form an elongated cloud. A line through the origin turns, and each point is joined to "
        "its projection onto the line. The share of the energy that is lost is smallest where the line lies along the cloud.",
    )
