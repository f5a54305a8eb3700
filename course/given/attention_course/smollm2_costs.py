"""Where SmolLM2's parameters are, and what its next token costs, for workshop 05d.

parts = count_parameters(49_152, 30, **LAYER)
"""

from attention_course.moving import Moving, slider
from attention_course.plots import COLOURS, figure

VOCABULARY, LAYERS = 49_152, 30
LAYER = {"d_model": 576, "H": 9, "G": 3, "d_head": 64, "hidden": 1536}


def count_parameters(
    vocabulary: int, layers: int, d_model: int, H: int, G: int, d_head: int, hidden: int
) -> tuple[int, int, int, int]:
    """Return the parameters of the embedding, of attention, of the MLPs and of the norms of a model like SmolLM2."""
    attention = d_model * d_head * (2 * H + 2 * G)  # W_Q and W_O, W_K and W_V
    mlp = 3 * d_model * hidden  # three matrices
    norms = d_model * (2 * layers + 1)
    return vocabulary * d_model, layers * attention, layers * mlp, norms


def cost_of_the_next_token(tokens: int) -> dict[str, int]:
    """Return the multiplications that each part of SmolLM2 needs for the last of `tokens` tokens."""
    table, attention, mlp, _ = count_parameters(VOCABULARY, LAYERS, **LAYER)
    weighted = LAYERS * 2 * tokens * LAYER["H"] * LAYER["d_head"]
    return {"logits": table, "$W_Q, W_K, W_V, W_O$": attention, "MLP": mlp, "scores and sums": weighted}


def costs_by_context(found: int) -> Moving:
    """Show what the next token costs, by the tokens of context, of which `found` is a learner's own number."""

    def draw(tokens: int) -> object:
        counts = cost_of_the_next_token(tokens)
        fig, ax = figure(height=2.4, width=4.4)
        bars = ax.barh(list(counts), [count / 1e6 for count in counts.values()])
        bars[3].set_color(COLOURS[1])
        ax.bar_label(bars, fmt="%.0f", padding=4)
        ax.set(xlim=(0, 330), xlabel="million multiplications for the next token")
        ax.invert_yaxis()
        return fig

    return slider(
        draw,
        tokens=[16, 64, 256, 512, 1024, 2048, found, 4096, 8192],
        start={"tokens": 512},
        labels={"tokens": "tokens of context"},
        alt="Bars of the multiplications that SmolLM2 needs for one more token. Logits, the matrices of attention and the MLP "
        "stay at 28, 27 and 80 million. Scores and weighted sums grow with the context, from below one million at 16 tokens to "
        "283 million at 8,192.",
    )
