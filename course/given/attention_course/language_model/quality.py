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
from attention_course.language_model.model import LanguageModel

PLAIN = (str, bytes, int, float, complex, type(None), type(...))
MEASURED, CALIBRATION = "comparisons", "import"  # 2,386 and 1,840 tokens


def passage(model: LanguageModel, topic: str, n: int, *, first: int = 0) -> Int[Tensor, "1 n"]:
    """`n` tokens of a topic of Python's language reference, from number `first`, as a batch of one."""
    text = importlib.import_module("pydoc_data.topics").topics[topic]
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    ids = model.ids("\n\n".join(paragraphs))[:, first : first + n]
    if ids.shape[1] < n:
        raise ValueError(f"expected {n} tokens in {topic!r} from number {first}, got {ids.shape[1]}. Ask for fewer.")
    return ids


def code_passage(model: LanguageModel, n: int) -> Int[Tensor, "1 n"]:
    """The first `n` tokens of Python's `textwrap.py`, the same from Python 3.10 to 3.13: a text of another kind."""
    return model.ids(inspect.getsource(textwrap))[:, :n]


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
    elif isinstance(value, PLAIN):
        update(repr(value).encode())
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
    """What a value that is neither a number nor a text consists of. Library code is known by its name alone."""
    value = getattr(value, "__func__", value)  # of a static method, a class method, a bound one
    if isinstance(value, Mapping):
        return [part for item in value.items() for part in item]
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))  # their own order is another one in each process
    if isinstance(value, property):
        return [value.fget, value.fset]
    if isinstance(value, types.CodeType):
        return [value.co_code, value.co_names, *value.co_consts]
    if isinstance(value, types.FunctionType):
        code = [part for part in _parts(value.__code__) if part is not value.__doc__ or part is None]
        used = [value.__globals__.get(name) for name in _names(value.__code__)]
        closed = [cell.cell_contents for cell in value.__closure__ or ()]
        return [*code, value.__defaults__, value.__kwdefaults__, *closed, *filter(_told, used)]
    if isinstance(value, type) and _told(value):
        members = [member for name, member in sorted(vars(value).items()) if not name.startswith("__") or callable(member)]
        return [*filter(_told, value.__bases__), *members]
    return [getattr(value, "__qualname__", getattr(value, "__name__", repr(type(value))))]


def _names(code: types.CodeType) -> list[str]:
    """The names that a function's code looks up, those of functions within it too."""
    return [*code.co_names, *(name for part in code.co_consts if isinstance(part, types.CodeType) for name in _names(part))]


def _told(value: Any) -> bool:
    """Whether what a global name means counts: numbers, texts, tensors, and code written by the course or the learner."""
    home = (getattr(value, "__module__", None) or "").split(".")[0]
    mine = home in ("__main__", "builtins", "answers", "solutions", "attention_course") or home.startswith("test")
    return isinstance(value, str | int | float | tuple | Tensor) or (mine and isinstance(value, type | types.FunctionType))


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

    Each is measured once for the same content on the same kind of device, see `language_model.cache`. Interrupt it, and you
    get what has been measured.
    """
    found: dict[str, float] = {}
    progress = Progress(len(variants))
    common = fingerprint((decoder, score, ids))

    def run(attention: Any, weights: Mapping[str, Any]) -> float:
        with torch.inference_mode():
            text = ids.to(weights["embed"].device)
            return float(score(decoder(weights, text.shape[1], attention).extend(text)[0], text[0]))

    try:
        for name, (attention, weights) in variants.items():
            progress.say(f"measured; now: {name}")
            where = weights["embed"].device.type
            name_on_disk = cache.key(common, where, fingerprint(attention), fingerprint(weights))
            found[name] = cache.remembered(name_on_disk, partial(run, attention, weights))
            progress.done += 1
    except KeyboardInterrupt:
        progress.say("measured, then interrupted")
        return found
    progress.say("measured")
    return found


def worth_having(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """The names of the points worth having, by rising cost.

    `points` gives each name its (cost, loss); less is better in both. A point is
    dropped if another has neither a larger cost nor a larger loss, and one of the two
    smaller. Equal points both stay. Points of equal cost are ordered by name.

    >>> points = {"small": (1.0, 9.0), "large": (5.0, 2.0), "waste": (6.0, 3.0)}
    >>> worth_having(points | {"middle": (3.0, 3.0)})
    ['small', 'middle', 'large']
    """

    def beaten(cost: float, loss: float) -> bool:
        others = [point for point in points.values() if point != (cost, loss)]
        return any(c <= cost and q <= loss for c, q in others)

    kept = [name for name, point in points.items() if not beaten(*point)]
    return sorted(kept, key=lambda name: (points[name][0], name))
