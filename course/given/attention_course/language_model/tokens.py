"""The model's tokenizer, from the metadata of its GGUF file, and the form of a chat."""

from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
END = "<|im_end|>"
_CONTROL = 3  # the mark of tokens that are no text


def make_tokenizer(metadata: Mapping[str, Any]) -> Tokenizer:
    """A byte-level BPE tokenizer with the file's tokens and merges, which takes numbers apart into single digits.

    The last is what the metadata's `tokenizer.ggml.pre = smollm` stands for. Without it, numbers come out in other tokens than
    those that the model was trained with.

    Raises ValueError where the file is for another kind of tokenizer.
    """
    kind = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if kind != ("gpt2", "smollm"):
        raise ValueError(f"expected a tokenizer of the kind ('gpt2', 'smollm'), got {kind}. Is this another model's file?")
    tokens, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    merges = [tuple(pair.split(" ")) for pair in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, of in zip(tokens, kinds, strict=True) if of == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer


def chat(question: str, *, system: str = SYSTEM) -> str:
    """The text that asks an instruct model a question: marks around each turn, and the answer's turn begun.

    >>> print(chat("Why is the sky blue?", system="Be brief."))
    <|im_start|>system
    Be brief.<|im_end|>
    <|im_start|>user
    Why is the sky blue?<|im_end|>
    <|im_start|>assistant
    <BLANKLINE>

    Source: the template in the model's file (`tokenizer.chat_template`).
    """
    turns = "".join(f"<|im_start|>{who}\n{text}{END}\n" for who, text in (("system", system), ("user", question)))
    return f"{turns}<|im_start|>assistant\n"
