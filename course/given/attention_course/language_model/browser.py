"""Look at attention: one head's weights as a heat map, and as lines from each token to those that it reads."""

from collections.abc import Callable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from torch import Tensor

from attention_course.plots import COLOURS, figure, heatmap

Maps = Float[Tensor, "layer head query key"]
SENTENCES = (
    "The keys to the old cabinet are on the table.",
    "When Mary and John went to the shop, John gave a book to Mary.",
    "one two three four one two three four one two",
    "def double(x): return 2 * x",
)


def names(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """The tokens as they are written, a space as a visible mark."""
    return [tokenizer.decode([i]).replace(" ", "·").replace("\n", "⏎") for i in ids]


def draw_attention(tokens: Sequence[str], weights: Float[Tensor, "query key"], title: str) -> None:
    """One head: the heat map (query, key), and lines whose strength is the weight. The first token's share is in the title."""
    A = np.asarray(weights)
    size = min(max(3.2, 0.3 * len(tokens)), 5.6)
    fig, (left, right) = figure(2, height=size, width=5.4)
    heatmap(left, A, rows=tokens, columns=tokens, numbers=False, vmax=1.0)
    left.tick_params(axis="x", rotation=90)
    for i, j in np.argwhere(A > 0.02):
        colour = COLOURS[1] if j == 0 else COLOURS[0]
        right.plot([0, 1], [-i, -j], color=colour, alpha=float(min(1.0, A[i, j])), linewidth=2.2, solid_capstyle="round")
    for k, token in enumerate(tokens):
        right.text(-0.03, -k, token, ha="right", va="center", fontsize=8)
        right.text(1.03, -k, token, ha="left", va="center", fontsize=8)
    right.set(xlim=(-0.35, 1.35), ylim=(0.6 - len(tokens), 0.6), title="reads (left) from (right)")
    right.axis("off")
    fig.suptitle(f"{title}: the first token gets {A[1:, 0].mean():.0%} of the weight", fontsize=11)
    plt.show()


def browse(maps_of: Callable[[str], tuple[list[str], Maps]], layers: int, heads: int) -> Any:
    """Controls for sentence, layer and head, and the picture below. `maps_of(text)` gives its tokens and all heads' weights."""
    import ipywidgets as w

    text = w.Combobox(options=SENTENCES, value=SENTENCES[0], description="text", continuous_update=False, ensure_option=False)
    text.layout.width = "70%"
    layer = w.IntSlider(value=layers // 2, min=0, max=layers - 1, description="layer", continuous_update=False)
    head = w.IntSlider(value=0, min=0, max=heads - 1, description="head", continuous_update=False)
    known: dict[str, tuple[list[str], Maps]] = {}

    def show(text: str, layer: int, head: int) -> None:
        text = text.strip()[:200] or SENTENCES[0]
        if text not in known:
            known[text] = maps_of(text)
        tokens, maps = known[text]
        draw_attention(tokens, maps[layer, head], f"layer {layer}, head {head}")

    picture = w.interactive_output(show, {"text": text, "layer": layer, "head": head})
    return w.VBox([text, w.HBox([layer, head]), picture])
