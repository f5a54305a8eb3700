"""What twenty real models keep and read in a decode step, from their published configurations.

A model is a list of kinds of layers, each with a number of layers. Two bytes a number, one text, no padding. Index keys are
counted with 132 bytes, which is what DeepSeek-V3.2 stores: 128 numbers of one byte and one of four.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attention_course.moving import Moving, slider
from attention_course.plots import COLOURS, figure

INDEX_KEY = 132  # bytes
LENGTHS = (1024, 4096, 16_384, 65_536, 131_072, 1_048_576)
HUB = "https://huggingface.co/{}/blob/main/config.json"


@dataclass(frozen=True)
class Layers:
    """`count` layers that cache `row` numbers for each token, or one in `every` tokens, and read them all or a part of them.

    With a `window`, only so many of the newest tokens are kept. Llama 4's chunks count as full windows. With `best`, an index
    ranks all rows and so many are read. `recent` rows of single tokens come on top. `state` numbers are kept and read whatever
    the length.
    """

    count: int
    row: int = 0
    every: int = 1
    window: int = 0
    best: int = 0
    recent: int = 0
    state: int = 0

    def step(self, n: int) -> tuple[int, int]:
        """Bytes kept for a text of `n` tokens, and bytes read in a decode step."""
        rows = min(n, self.window) if self.window else n // self.every
        recent = min(n, self.recent)
        index = INDEX_KEY * rows if self.best else 0
        read = min(rows, self.best) if self.best else rows
        fixed = 2 * (self.state + recent * self.row)
        return self.count * (2 * rows * self.row + index + fixed), self.count * (2 * read * self.row + index + fixed)


def pairs(count: int, groups: int, d: int, **more: int) -> Layers:
    """Layers with keys and values of `groups` heads of width `d`."""
    return Layers(count, row=2 * groups * d, **more)


LATENT = 512 + 64
MODELS: dict[str, tuple[str, list[Layers]]] = {
    "Llama 2 7B": ("meta-llama/Llama-2-7b-hf", [pairs(32, 32, 128)]),
    "Mistral 7B v0.1": ("mistralai/Mistral-7B-v0.1", [pairs(32, 8, 128, window=4096)]),
    "Llama 3.1 8B": ("meta-llama/Llama-3.1-8B", [pairs(32, 8, 128)]),
    "Llama 3.1 70B": ("meta-llama/Llama-3.1-70B", [pairs(80, 8, 128)]),
    "Llama 3.1 405B": ("meta-llama/Llama-3.1-405B", [pairs(126, 8, 128)]),
    "Llama 4 Scout": ("meta-llama/Llama-4-Scout-17B-16E", [pairs(12, 8, 128), pairs(36, 8, 128, window=8192)]),
    "SmolLM2 135M": ("HuggingFaceTB/SmolLM2-135M-Instruct", [pairs(30, 3, 64)]),
    "SmolLM3 3B": ("HuggingFaceTB/SmolLM3-3B", [pairs(36, 4, 128)]),
    "Gemma 2 2B": ("google/gemma-2-2b", [pairs(13, 4, 256), pairs(13, 4, 256, window=4096)]),
    "OLMo 3 7B": ("allenai/Olmo-3-1025-7B", [pairs(8, 32, 128), pairs(24, 32, 128, window=4096)]),
    "gpt-oss-20b": ("openai/gpt-oss-20b", [pairs(12, 8, 64), pairs(12, 8, 64, window=128)]),
    "gpt-oss-120b": ("openai/gpt-oss-120b", [pairs(18, 8, 64), pairs(18, 8, 64, window=128)]),
    "GLM-4.5-Air": ("zai-org/GLM-4.5-Air", [pairs(46, 8, 128)]),
    "MiniMax-M2": ("MiniMaxAI/MiniMax-M2", [pairs(62, 8, 128)]),
    "Qwen3-Next 80B": ("Qwen/Qwen3-Next-80B-A3B-Instruct", [pairs(12, 2, 256), Layers(36, state=32 * 128 * 128)]),
    "Kimi Linear 48B": ("moonshotai/Kimi-Linear-48B-A3B-Instruct", [Layers(7, LATENT), Layers(20, state=32 * 128 * 128)]),
    "DeepSeek-V2-Lite": ("deepseek-ai/DeepSeek-V2-Lite", [Layers(27, LATENT)]),
    "DeepSeek-V3": ("deepseek-ai/DeepSeek-V3", [Layers(61, LATENT)]),
    "DeepSeek-V3.2": ("deepseek-ai/DeepSeek-V3.2-Exp", [Layers(61, LATENT, best=2048)]),
    "DeepSeek-V4-Flash": (
        "deepseek-ai/DeepSeek-V4-Flash-Base",
        # Its `compress_ratios` begin 0, 0, 4, 128, 4, 128. A layer with 0 has only a window.
        [Layers(2, 512, window=128), Layers(21, 512, every=4, best=512, recent=128), Layers(20, 512, every=128, recent=128)],
    ),
}


def step(name: str, n: int) -> tuple[int, int]:
    """Bytes that a model keeps for `n` tokens, and bytes that a decode step reads of them."""
    counted = [layers.step(n) for layers in MODELS[name][1]]
    return sum(kept for kept, _ in counted), sum(read for _, read in counted)


def _short(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5 or unit == "GB":
            return f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError


def compare(names: Sequence[str] = tuple(MODELS), lengths: Sequence[int] = LENGTHS) -> Moving:
    """Bytes kept and bytes read by model, with a slider for the length of the text."""

    def draw(tokens: int) -> Any:
        fig, ax = figure(height=5.8, width=4.3)
        for i, name in enumerate(names):
            kept, read = step(name, tokens)
            ax.plot([read, kept], [i, i], color="0.7", linewidth=2, zorder=1)
            ax.plot(kept, i, "s", color=COLOURS[0], markersize=6, label="kept" if i == 0 else None)
            ax.plot(read, i, "o", color=COLOURS[1], markersize=5, label="read in a step" if i == 0 else None)
            words = _short(kept) if kept == read else f"{_short(read)} of {_short(kept)}"
            ax.text(kept * 2, i, words, va="center", fontsize=9)
        ax.set(xscale="log", xlim=(3e6, 1e15), ylim=(len(names) - 0.5, -0.7), xlabel=f"bytes for one text of {tokens:,} tokens")
        ax.set_yticks(range(len(names)), list(names))
        ax.set_xticks([1e7, 1e9, 1e11], ["10 MB", "1 GB", "100 GB"])
        ax.minorticks_off()
        ax.legend(loc="lower left", bbox_to_anchor=(-0.5, 1.0), ncols=2)
        return fig

    last = lengths[-2]
    kept, read = step("DeepSeek-V3.2", last)
    return slider(
        draw,
        tokens=list(lengths),
        start={"tokens": last},
        labels={"tokens": "tokens"},
        alt=f"Bytes kept and bytes read in a decode step by twenty models. At {last:,} tokens DeepSeek-V3.2 keeps {_short(kept)} "
        f"and reads {_short(read)}, while Llama 3.1 405B keeps and reads {_short(step('Llama 3.1 405B', last)[0])}.",
    )
