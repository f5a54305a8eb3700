"""Try a cache in a notebook: on an open text, without needles and without the sandbox's walls. And the board as a figure."""

from collections.abc import Mapping, Sequence
from typing import Any

from attention_course.capstone import rules
from attention_course.capstone.rules import RefusedError, Result
from attention_course.capstone.score import Stored, at_full_length, exactly, interval, local, losses
from attention_course.language_model.quality import MEASURED, passage
from attention_course.plots import COLOURS, figure, show


def trial(Cache: Any, model: Any) -> Result:
    """How a cache does on 1,024 tokens of an open text."""
    ids = passage(model, MEASURED, rules.TOKENS)
    caches = Stored(local(Cache), (model.sizes["G"], model.sizes["d"]))
    name = Cache.__name__
    try:
        loss, _, held = losses(model.weights, ids, caches)
    except RefusedError as error:
        return Result(name, 0, refused=str(error))
    ratio, low, high = interval((loss - exactly(model, ids)[0]).double().numpy())
    size = at_full_length(*held, ids.shape[1])
    return Result(name, 0, size, float(Cache.bytes_per_token), ratio, low, high)


def told(result: Result) -> str:
    """One line about a trial."""
    if result.refused:
        return f"refused: {result.refused}"
    size = f"{result.bytes_per_token:,.0f} bytes per token, {result.megabytes:.1f} MB"
    return f"{size}; perplexity ratio {result.ratio:.3f} [{result.low:.3f}, {result.high:.3f}]"


def board_picture(rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw each entry's size and its interval, and the two limits."""
    results = rules.ranked([rules.Result(**row) for row in rows])
    fig, ax = figure(width=6.4, height=3.2)
    ax.axvspan(0, rules.BUDGET / 1e6, color=COLOURS[5], alpha=0.12, linewidth=0)
    ax.axhline(rules.WORST_RATIO, color=COLOURS[6], linewidth=1, linestyle=":")
    for result in results:
        color = COLOURS[0] if not result.fails else COLOURS[1]
        spread = [[result.ratio - result.low], [result.high - result.ratio]]
        ax.errorbar(result.megabytes, result.ratio, yerr=spread, fmt="o", color=color, capsize=3)
        right = result.megabytes < 120
        crowded = any(abs(r.megabytes - result.megabytes) < 15 and 0 < r.ratio - result.ratio < 0.02 for r in results)
        place = {"xytext": (8 if right else -8, -12 if crowded else 10), "ha": "left" if right else "right"}
        ax.annotate(
            result.name.replace("_", " "), (result.megabytes, result.ratio), textcoords="offset points", fontsize=9, **place
        )
    ax.set(xlabel="MB at 8,192 tokens (shaded: fits)", ylabel="perplexity ratio", xlim=(0, 205))
    ax.set_ylim(bottom=0.98)
    said = "; ".join(f"{r.name.replace('_', ' ')} {r.megabytes:.0f} MB and {r.ratio:.3f}" for r in results if not r.refused)
    show(
        fig,
        alt=f"Size and perplexity ratio of our entries, with intervals. {said}. The limits are 100 MB and {rules.WORST_RATIO}.",
    )
