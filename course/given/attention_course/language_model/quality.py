"""How well a decoder predicts a text that every Python brings along, measured once for the same content.

The text: two topics of Python's own language reference (`pydoc_data.topics`), that have been the same from Python 3.10 to
3.13. One is for measuring, another for calibration.
"""

import hashlib
import importlib
import inspect
import re
import textwrap
import types
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from IPython.core.getipython import get_ipython
from IPython.display import display
from jaxtyping import Int
from torch import Tensor

from attention_course.language_model import cache

MEASURED, CALIBRATION = "comparisons", "import"  # 2,386 and 1,840 tokens


def passage(tokenizer: Any, topic: str, n: int, *, first: int = 0) -> Int[Tensor, "1 n"]:
    """`n` tokens of a topic of Python's language reference, from number `first`, as a batch of one."""
    text = importlib.import_module("pydoc_data.topics").topics[topic]
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    ids = tokenizer.encode("\n\n".join(paragraphs)).ids[first : first + n]
    if len(ids) < n:
        raise ValueError(f"expected {n} tokens in {topic!r} from number {first}, got {len(ids)}. Ask for fewer.")
    return torch.tensor([ids])


def code_passage(tokenizer: Any, n: int) -> Int[Tensor, "1 n"]:
    """The first `n` tokens of Python's `textwrap.py`, the same from Python 3.10 to 3.13: a text of another kind."""
    return torch.tensor([tokenizer.encode(inspect.getsource(textwrap)).ids[:n]])


def fingerprint(value: Any) -> bytes:
    """A hash of what `value` does: of a function its code and what it refers to, of a class its methods, of arrays their numbers.

    Local names, comments, docstrings and line numbers do not count, so a cell that is run again unchanged keeps its results.
    """
    digest = hashlib.sha256()
    _feed(digest.update, value, set())
    return digest.digest()


def _feed(update: Callable[[bytes], object], value: Any, seen: set[int]) -> None:
    """Hand all that makes up `value` to `update`; what was met already, in this value, only by the fact."""
    update(type(value).__name__.encode() + b"\0")
    if isinstance(value, Tensor):
        update(_hash_of(value))
    elif isinstance(value, str | bytes | int | float | complex | type(None) | types.EllipsisType):
        update(repr(value).encode())
    elif isinstance(value, types.ModuleType):
        update(value.__name__.encode())
    elif id(value) in seen:
        update(b"again")
    else:
        seen.add(id(value))
        for part in _parts(value):
            _feed(update, part, seen)


def _hash_of(x: Tensor) -> bytes:
    """A hash of the numbers, kept with the tensor: the same weights are part of many variants. A changed sum makes it anew."""
    sum_now = float(x.detach().sum())
    known: tuple[float, bytes] | None = getattr(x, "_attn_hash", None)
    if known is None or known[0] != sum_now:
        data = np.ascontiguousarray(x.detach().cpu()).tobytes()
        known = sum_now, hashlib.sha256(repr((x.dtype, tuple(x.shape))).encode() + data).digest()
        x._attn_hash = known  # type: ignore[attr-defined]  # tensors take attributes
    return known[1]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [part for item in value.items() for part in item]
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, types.CodeType):
        return [value.co_code, value.co_names, *value.co_consts]
    if isinstance(value, types.FunctionType):
        known = value.__globals__
        used = [known[name] for name in _names(value.__code__) if name in known and _ours(known[name])]
        closed = [cell.cell_contents for cell in value.__closure__ or ()]
        code = [part for part in _parts(value.__code__) if part is not value.__doc__ or part is None]
        return [*code, value.__defaults__, value.__kwdefaults__, *closed, *used]
    if isinstance(value, type) and _ours(value):
        members = [member for name, member in sorted(vars(value).items()) if not name.startswith("__") or callable(member)]
        return [*(base for base in value.__bases__ if _ours(base)), *members]
    if isinstance(value, property):
        return [value.fget, value.fset]
    if isinstance(value, staticmethod | classmethod | types.MethodType):
        return [value.__func__]
    return [getattr(value, "__qualname__", repr(type(value)))]


def _names(code: types.CodeType) -> list[str]:
    inner = [name for const in code.co_consts if isinstance(const, types.CodeType) for name in _names(const)]
    return [*code.co_names, *inner]


def _ours(value: Any) -> bool:
    """Whether `value` is written by the course or the learner: library code is known by its name alone."""
    home = getattr(value, "__module__", None) or ""
    plain = isinstance(value, str | int | float | tuple | Tensor)
    mine = home.split(".")[0] in ("__main__", "builtins", "answers", "solutions", "language_model") or home.startswith("test")
    return plain or (mine and isinstance(value, type | types.FunctionType))


class Progress:
    """A line that says how far a long step is. It rewrites itself in a notebook; elsewhere nothing is shown."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self._line = display({"text/plain": ""}, raw=True, display_id=True) if get_ipython() else None

    def say(self, text: str) -> None:
        """Show `text` behind the count."""
        if self._line is not None:
            self._line.update({"text/plain": f"{self.done} of {self.total} {text}".rstrip()}, raw=True)


Variant = tuple[Any, Mapping[str, Any]]  # what makes a layer's attention, and the weights


def measure(
    variants: Mapping[str, Variant], decoder: Any, score: Callable[[Tensor, Tensor], float], ids: Tensor
) -> dict[str, float]:
    """`score(logits, ids)` of each variant `(attention, weights)`, by `decoder(weights, capacity, attention).extend(ids)`.

    Each is measured once for the same content, see `language_model.cache`. Interrupt it, and you get what has been measured.
    """
    found: dict[str, float] = {}
    progress = Progress(len(variants))
    common = fingerprint((decoder, score, ids))

    def run(attention: Any, weights: Mapping[str, Any]) -> float:
        with torch.inference_mode():
            return float(score(decoder(weights, ids.shape[1], attention).extend(ids)[0], ids[0]))

    try:
        for name, (attention, weights) in variants.items():
            progress.say(f"measured; now: {name}")
            name_on_disk = cache.key(common, fingerprint(attention), fingerprint(weights))
            found[name] = cache.remembered(name_on_disk, partial(run, attention, weights))
            progress.done += 1
    except KeyboardInterrupt:
        progress.say("measured, then interrupted")
        return found
    progress.say("measured")
    return found
