"""The pictures of lesson 13: what different ways of choosing keys keep, by layer and in perplexity."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention_course.drawing import Drawing
from attention_course.plots import COLOURS, MARKERS, figure, show, use_style

_COLOURS = {"oracle": COLOURS[6], "index": COLOURS[1], "window": COLOURS[0]}
_NAMES = {"oracle": "best keys (oracle)", "index": "index", "window": "window, 4 sinks"}


def masks(n: int = 10, keys: int = 6, sinks: int = 2) -> Drawing:
    """Which keys each of `n` queries may read: all earlier ones, a window of `keys`, or `sinks` and a shorter window."""
    query, key = np.arange(n)[:, None], np.arange(n)
    causal = key <= query
    ways = {
        "all keys": causal,
        f"newest {keys}": causal & (query - key < keys),
        f"{sinks} sinks, newest {keys - sinks}": causal & ((query - key < keys - sinks) | (key < sinks)),
    }
    d = Drawing(
        alt=f"Three masks of {n} queries, one per row, and {n} keys. In the first a query reads all keys up to its own, in "
        f"the second at most the newest {keys}, and in the third the first {sinks} keys and the newest {keys - sinks}."
    )
    for way, mask in ways.items():
        d.matrix(mask.astype(float), way, role="weight", mask=mask, entries=False, vmax=2, cell=10, gap=20)
    return d


def index_score() -> Drawing:
    """One score of an index with two heads: products with the shared key, cut at zero, weighed and added."""
    d = Drawing(
        alt="One score of an index with two heads. Each head multiplies its query with the key that all heads share and divides "
        "by the root of d, which gives 3 and -2. Where the product is negative the head counts as zero, so 3 and 0 stay. Times "
        "the weights 2 and -1 of the query's token this is 6 and 0, and the score is their sum, 6."
    )
    key = d.box("key k_j", role="key", at=(0, 60), width=84)
    total = d.node("+", role="score", at=(590, 60))
    for h, (y, product, cut, weight, vote) in enumerate(((0, "3", "3", "2", "6"), (120, "−2", "0", "−1", "0")), start=1):
        query = d.box(f"query q_i^{{({h})}}", role="query", at=(0, y), width=108)
        dot = d.node("·", at=(130, y))
        left = d.box(product, role="score", at=(240, y), width=44)
        right = d.box(cut, role="score", at=(380, y), width=44)
        times = d.node("×", at=(480, y))
        d.arrow(query, dot, role="query")
        d.arrow(key, dot, role="key")
        d.arrow(dot, left, "÷ √d")
        d.arrow(left, right, "max(0, ·)")
        d.arrow(right, times)
        own = d.text(f"w_{{i{h}}} = {weight}", role="weight", at=(480, y - 50 if h == 1 else y + 50))
        d.arrow(own, times, role="weight")
        d.arrow(times, total, vote, label_side="above" if h == 1 else "below")
    score = d.box("I_{ij} = 6", role="score", at=(690, 60), width=84)
    d.arrow(total, score)
    return d


def kept_by_keys(found: Mapping[str, Sequence[float]], keys: Sequence[int], layer: int) -> None:
    """Plot the share of attention weight that each way keeps in one layer, against the number of keys."""
    fig, ax = figure(height=3.2)
    for i, (way, shares) in enumerate(found.items()):
        ax.plot(keys, shares, marker=MARKERS[i], color=_COLOURS[way], label=_NAMES[way])
    ax.set(xlabel="keys that a query may read", ylabel=f"weight kept in layer {layer}", ylim=(0, 1.03), xscale="log")
    ax.set_xticks(list(keys), [str(k) for k in keys])
    ax.minorticks_off()
    _name_lines(ax)
    ends = "; ".join(f"{_NAMES[way]}, {shares[0]:.2f} to {shares[-1]:.2f}" for way, shares in found.items())
    show(
        fig,
        alt=f"Share of the attention weight of layer {layer} on the kept keys, from {keys[0]} to {keys[-1]} keys. {ends}.",
    )


def _name_lines(ax: Any) -> None:
    """Name the lines above the axes: a legend beside them would leave a phone's screen."""
    ax.legend(loc="lower left", bbox_to_anchor=(-0.17, 1), ncols=3, columnspacing=0.8, handlelength=1.4, handletextpad=0.4)


def all_layers(recorded: Mapping[str, Any], keys: int = 64) -> None:
    """Plot what each way keeps in every layer, and the perplexity of the whole model against the number of keys."""
    import matplotlib.pyplot as plt

    use_style()
    fig, (left, right) = plt.subplots(2, 1, figsize=(4.2, 5.6))  # one above the other, so that both fit on a phone
    for i, way in enumerate(_NAMES):
        shares = recorded["kept"][way][str(keys)]
        left.plot(
            range(len(shares)), shares, marker=MARKERS[i], markersize=3, linewidth=1.2, color=_COLOURS[way], label=_NAMES[way]
        )
        found = {int(k): value for k, value in recorded["perplexity"][way].items()}
        at = sorted(found)
        right.plot(at, [found[k] for k in at], marker=MARKERS[i], color=_COLOURS[way])
    full = recorded["perplexity"]["full"]
    right.axhline(full, color="0.5", linestyle=":")
    right.text(128, full - 0.15, "all keys", ha="right", va="top", color="0.35")
    left.set(xlabel="layer", ylabel=f"weight kept by {keys} keys", ylim=(0, 1.03))
    _name_lines(left)
    right.set(xlabel="keys in every layer", ylabel="perplexity", xscale="log", ylim=(full - 2, None))
    right.set_xticks([32, 64, 128], ["32", "64", "128"])
    right.minorticks_off()
    words = "; ".join(f"{_NAMES[way]} {recorded['perplexity'][way][str(keys)]:.1f}" for way in _NAMES)
    show(
        fig, alt=f"Weight kept by layer with {keys} keys, and perplexity by keys. With {keys} keys: {words}; all keys {full:.1f}."
    )
