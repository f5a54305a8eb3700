"""Values as data: convert Python values to a few kinds of nodes, and nodes to JSON over a flat list of NumPy arrays.

Probe packs (on disk), observations of a learner's function (in memory) and the pipe to the sandbox (on the wire) share this
one representation. One piece of code encodes a value and another compares it, without torch, pickle or the original object.
Everything that walks through a value is built on `EncodedValue.fold`.

`store` writes a value as `[spec, first, count]`, and `fetch` reads it back without trusting it. A *spec* is one of

====================================  ===========================================================================
``{"s": 1.5}``                        `PlainNode`: None, bool, int, str, float (``{"f": "inf"}`` if JSON cannot write it)
``{"a": 0, "k": "array"}``            `ArrayNode`: a NumPy array, by its index among this value's arrays;
                                      ``"k": "tensor"`` for a torch tensor
``{"l": [spec, …]}``                  `Container`: a list; ``{"t": [...]}`` is a tuple
``{"d": [[key, spec], …]}``           `Container`: a dict with string keys
``{"c": "lambda x: x + 1"}``          `Code`: trusted source of a function argument (packs and probes only)
``{"o": "Banana"}``                   `ObjectNode`: anything else, as the name of its type
====================================  ===========================================================================
"""

import importlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
T = TypeVar("T")

# limits on what is stored in a pack or sent to the sandbox
MAX_ARRAYS = 4096
MAX_BYTES = 64 * 1024 * 1024  # of all arrays together, in a pack with the manifest and the arrays' headers
MAX_DIMS = 16
MAX_DEPTH = 8
MAX_ITEMS = 10_000
MAX_KEY = 200  # characters; each leaf's path contains its keys, and ten thousand long keys would fill the memory


class EncodedValue:
    """An encoded value: one of the nodes below. The defaults here are those of a node without parts."""

    __slots__ = ()
    content: Any = None  # the array or plain value to compare
    kind: str = ""  # "array" or "tensor"; "list", "tuple" or "dict"
    entries: "tuple[EncodedValue, ...] | None" = None  # the values in a list or tuple

    def fold(self, leaf: Callable[["EncodedValue"], T], whole: Callable[["Container", list[T]], T]) -> T:
        """Reduce the value bottom-up: `leaf(node)` for a leaf, and for a container `whole(container, results of its parts)`."""
        return leaf(self)

    def leaves(self, path: str = "") -> Iterator[tuple[str, "EncodedValue"]]:
        """Yield each leaf with its path: `""` for a bare value, `"[0]"` or `"['k']"` inside a container. Dict keys are sorted."""
        yield path, self

    def flat(self) -> list["EncodedValue"]:
        """Return the leaves in the order in which they were written."""
        return [self]

    def items(self) -> dict[str, "EncodedValue"]:
        """Return the values of a dict by their keys; an empty dict for any other value."""
        return {}

    def map(self, change: Callable[["EncodedValue"], "EncodedValue"]) -> "EncodedValue":
        """Return the same lists, tuples and dicts with each leaf changed."""
        return self.fold(change, lambda whole, parts: Container(tuple(parts), whole.kind, whole.keys))

    def of_kind(self, kind: str) -> "EncodedValue":
        """Return the same value with its arrays as `kind`, "array" or "tensor"."""
        return self.map(lambda leaf: ArrayNode(leaf.content, kind) if isinstance(leaf, ArrayNode) else leaf)

    @property
    def is_number(self) -> bool:
        return isinstance(self.content, int | float) and not isinstance(self.content, bool)

    @property
    def arrays(self) -> list[Array]:
        return [leaf.content for leaf in self.flat() if isinstance(leaf, ArrayNode)]

    @property
    def strange(self) -> str | None:
        """Return the type name of the first leaf that cannot be compared, or None."""
        return next((leaf.name for leaf in self.flat() if isinstance(leaf, ObjectNode)), None)


@dataclass(frozen=True, slots=True)
class PlainNode(EncodedValue):
    content: bool | int | float | str | None


@dataclass(frozen=True, slots=True, eq=False)
class ArrayNode(EncodedValue):
    content: Array
    kind: str = "array"


@dataclass(frozen=True, slots=True)
class ObjectNode(EncodedValue):
    name: str


@dataclass(frozen=True, slots=True)
class Code(EncodedValue):
    """A function argument as source text: `Code("lambda x: 2 * x")`. This keeps a pack plain data."""

    source: str

    def build(self) -> Callable[..., Any]:
        """Return the function. Only for text from the course's own packs, never for anything a learner sent."""
        torch = {"torch": importlib.import_module("torch")} if "torch" in self.source else {}
        function: Callable[..., Any] = eval(self.source, {"np": np, **torch})
        return function


@dataclass(frozen=True, slots=True)
class Container(EncodedValue):
    """A list, a tuple or a dict of `parts`. `keys` are the keys of a dict, in the order of its parts."""

    parts: tuple[EncodedValue, ...]
    kind: str
    keys: tuple[str, ...] = ()

    def fold(self, leaf: Callable[[EncodedValue], T], whole: Callable[["Container", list[T]], T]) -> T:
        return whole(self, [part.fold(leaf, whole) for part in self.parts])

    def leaves(self, path: str = "") -> Iterator[tuple[str, EncodedValue]]:
        steps = sorted(self.items().items(), key=itemgetter(0)) if self.kind == "dict" else enumerate(self.parts)
        for step, part in steps:
            yield from part.leaves(f"{path}[{step!r}]")

    def flat(self) -> list[EncodedValue]:
        return [leaf for part in self.parts for leaf in part.flat()]

    @property
    def entries(self) -> tuple[EncodedValue, ...] | None:  # type: ignore[override]  # the base class has an attribute here
        return None if self.kind == "dict" else self.parts

    def items(self) -> dict[str, EncodedValue]:
        return dict(zip(self.keys, self.parts, strict=True)) if self.kind == "dict" else {}


# ------------------------------------------------------------------------------------------ Python's values


def encode(value: Any, depth: int = 0) -> EncodedValue:
    """Return `value` as nodes. A value of any other type becomes an `ObjectNode` with the name of its type."""
    if value is None or type(value) in (bool, float, str) or isinstance(value, str):
        return PlainNode(value)
    if type(value) is int:
        return PlainNode(value) if abs(value) < 2**63 else ObjectNode("int")
    if isinstance(value, Code):
        return value
    if (found := as_array(np.asarray(value) if type(value) is complex else value)) is not None:
        array, kind = found
        return ArrayNode(np.ascontiguousarray(array).reshape(array.shape), kind)  # ascontiguousarray makes 0-d arrays 1-d
    if depth < MAX_DEPTH and isinstance(value, list | tuple | dict) and len(value) <= MAX_ITEMS:
        if not isinstance(value, dict):
            parts = tuple([encode(item, depth + 1) for item in value])
            return Container(parts, "list" if isinstance(value, list) else "tuple")
        if len(keys := dict.fromkeys(map(str, value))) < len(value):
            return ObjectNode("dict (clashing keys)")
        if max(map(len, keys), default=0) > MAX_KEY:
            return ObjectNode(f"dict (key over {MAX_KEY} characters)")
        return Container(tuple([encode(item, depth + 1) for item in value.values()]), "dict", tuple(keys))
    return ObjectNode(type(value).__name__[:80])


def as_array(value: Any) -> tuple[Array, str] | None:
    """Return `(array, kind)` for a NumPy array, NumPy scalar or torch tensor, else None. Never imports torch."""
    if isinstance(value, np.ndarray):
        return (value, "array") if value.dtype.kind in "biufc" else None
    if isinstance(value, np.generic):
        return np.asarray(value), "array"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        plain = value.detach().cpu()
        if plain.dtype == torch.bfloat16:  # NumPy has no bfloat16; float16 shows the low precision, if it loses hardly anything
            plain = plain.float()
            plain = plain.half() if bool(((plain.half().float() - plain).abs() < 1e-7).all()) else plain
        return plain.resolve_conj().numpy(), "tensor"
    return None


def decode(value: EncodedValue, *, dtype: str | None = None) -> Any:
    """Return the Python value. Arrays marked as tensors become torch tensors, and `dtype` casts floating arrays."""

    def leaf(node: EncodedValue) -> Any:
        if not isinstance(node, ArrayNode):
            return node.build() if isinstance(node, Code) else node.content
        array = node.content.astype(dtype, order="C") if dtype and node.content.dtype.kind == "f" else node.content.copy()
        if node.kind == "array":
            return array
        import torch

        return torch.from_numpy(array)

    return value.fold(leaf, _build)


def _build(whole: Container, parts: list[Any]) -> list[Any] | tuple[Any, ...] | dict[str, Any]:
    if whole.kind == "dict":
        return dict(zip(whole.keys, parts, strict=True))
    return parts if whole.kind == "list" else tuple(parts)


def show(value: EncodedValue) -> str:
    """Return the value as Python source to paste: `np.array([[1., 2.]])`."""
    return value.fold(_show_leaf, _show_whole)


def _show_leaf(node: EncodedValue) -> str:
    if isinstance(node, ArrayNode):
        name, maker = ("torch", "tensor") if node.kind == "tensor" else ("np", "array")
        if node.content.size == 0:
            return f"{name}.empty({node.content.shape})"
        body = np.array2string(node.content, separator=", ", precision=4, threshold=10**6, max_line_width=110)
        for word in ("nan", "inf"):
            body = body.replace(word, f'float("{word}")')
        return f"{name}.{maker}({body})"
    if isinstance(node, Code | ObjectNode):
        return node.source if isinstance(node, Code) else f"<{node.name}>"
    return f"float({str(node.content)!r})" if _endless(node.content) else repr(node.content)


def _show_whole(whole: Container, parts: list[str]) -> str:
    if whole.kind == "dict":
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in zip(whole.keys, parts, strict=True)) + "}"
    return f"[{', '.join(parts)}]" if whole.kind == "list" else f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _endless(value: Any) -> bool:
    """Return whether `value` is infinite or NaN, which JSON cannot write."""
    return isinstance(value, float) and not math.isfinite(value)


# ------------------------------------------------------------------------------------------ stored


def store(value: EncodedValue | None, arrays: list[Array]) -> Any:
    """Return `value` as `[spec, first, count]` and append its arrays to `arrays`; None for None."""
    if value is None:
        return None
    first = len(arrays)

    def leaf(node: EncodedValue) -> dict[str, Any]:
        if isinstance(node, ArrayNode):
            arrays.append(node.content)
            return {"a": len(arrays) - 1 - first, "k": node.kind}
        if isinstance(node, Code | ObjectNode):
            return {"c": node.source} if isinstance(node, Code) else {"o": node.name}
        return {"f": str(node.content)} if _endless(node.content) else {"s": node.content}

    return [value.fold(leaf, _spec), first, len(arrays) - first]


def _spec(whole: Container, parts: list[Any]) -> dict[str, Any]:
    if whole.kind == "dict":
        return {"d": [[key, part] for key, part in zip(whole.keys, parts, strict=True)]}
    return {"l" if whole.kind == "list" else "t": parts}


def fetch(stored: Any, arrays: Sequence[Array], *, code: bool = True) -> EncodedValue | None:
    """Read back what `store` returned. `code` allows ``{"c": …}``. Raises ValueError for anything that `store` does not write."""
    if stored is None:
        return None
    if not (isinstance(stored, list) and len(stored) == 3 and all(type(n) is int and n >= 0 for n in stored[1:])):
        raise ValueError("expected [spec, first, count].")
    spec, first, count = stored
    if first + count > len(arrays):
        raise ValueError(f"expected a tree within {len(arrays)} arrays, got {first} + {count}.")
    return _fetch(spec, arrays[first : first + count], code, 0)


def _fetch(spec: Any, arrays: Sequence[Array], code: bool, depth: int) -> EncodedValue:
    if not isinstance(spec, dict) or depth > MAX_DEPTH or (len(spec) != 1 and spec.keys() != {"a", "k"}):
        raise ValueError(f"expected a tree spec of one tag, at most {MAX_DEPTH} deep.")
    if len(spec) == 2:
        at, kind = spec["a"], spec["k"]
        if type(at) is int and 0 <= at < len(arrays) and kind in ("array", "tensor"):
            return ArrayNode(arrays[at], kind)
        raise ValueError("expected the index of an array that is there, and its kind.")
    ((tag, body),) = spec.items()
    if tag == "s" and (body is None or type(body) in (bool, str, float) or (type(body) is int and abs(body) < 2**63)):
        return PlainNode(body)
    if tag in ("l", "t") and isinstance(body, list):
        return Container(tuple([_fetch(item, arrays, code, depth + 1) for item in body]), "list" if tag == "l" else "tuple")
    if tag == "d" and isinstance(body, list):
        if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in body):
            raise ValueError("expected a dict as a list of [text, spec].")
        if len(items := dict(body)) != len(body):
            raise ValueError("expected a dict without repeated keys.")
        if max(map(len, items), default=0) > MAX_KEY:
            raise ValueError(f"expected keys of at most {MAX_KEY} characters.")
        return Container(tuple([_fetch(item, arrays, code, depth + 1) for item in items.values()]), "dict", tuple(items))
    if tag == "f" and body in ("inf", "-inf", "nan"):
        return PlainNode(float(body))
    if tag == "o" and isinstance(body, str) and len(body) <= 80:
        return ObjectNode(body)
    if tag == "c" and code and isinstance(body, str):
        return Code(body)
    raise ValueError(f"expected a tree leaf, got tag {tag!r} with a {type(body).__name__}.")
