"""Values as data: nested Python values <-> a JSON-able spec and a flat list of NumPy arrays.

One representation serves the probe packs (on disk), the observations of a learner's function (in memory)
and the pipe to the sandbox (on the wire), so a value is encoded by one piece of code and compared by another
that never needs torch, pickle or the object itself.

A *spec* is one of

====================================  =====================================================
``{"s": 1.5}``                        a scalar: None, bool, int, float (``{"f": "inf"}`` where JSON has no word), str
``{"a": 0, "k": "array"}``            ``arrays[0]``, a NumPy array; ``"k": "tensor"`` for a torch tensor
``{"l": [spec, …]}``                  a list; ``{"t": [...]}`` a tuple
``{"d": [[key, spec], …]}``           a dict with string keys
``{"c": "lambda x: x + 1"}``          trusted source of a function argument (packs only, see `exercise.Code`)
``{"o": "Banana"}``                   anything else: the name of its type
====================================  =====================================================
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Spec = dict[str, Any]
Array = np.ndarray[Any, np.dtype[Any]]

MAX_DEPTH = 8
MAX_ITEMS = 10_000
MAX_KEY = 200  # characters: a key is in the path of each leaf below it, and ten thousand long ones fill a memory


@dataclass(frozen=True)
class Code:
    """A function argument, kept as source text so that a pack stays plain data (`Code("lambda x: 2 * x")`)."""

    source: str

    def build(self) -> Callable[..., Any]:
        """The function. Only for text from the course's own packs, never for anything a learner sent."""
        namespace: dict[str, Any] = {"np": np}
        if "torch" in self.source:
            import torch

            namespace["torch"] = torch
        function: Callable[..., Any] = eval(self.source, namespace)
        return function


@dataclass
class EncodedValue:
    """An encoded value: its `spec` and the `arrays` the spec points into."""

    spec: Spec
    arrays: list[Array] = field(default_factory=list)

    def leaves(self) -> Iterator[tuple[str, Spec]]:
        """Each leaf with its path, `""` for a bare value, `"[0]"` or `"['k']"` inside a container."""
        yield from _leaves(self.spec, "")

    def map(self, change: Callable[[Spec], Spec], arrays: list[Array] | None = None) -> "EncodedValue":
        """The same lists, tuples and dicts, each leaf changed; the new leaves point into `arrays` (default: the present ones)."""
        return EncodedValue(_map(self.spec, change), self.arrays if arrays is None else arrays)

    def of_kind(self, kind: str) -> "EncodedValue":
        """The same value with its arrays as `kind`, "array" or "tensor"."""
        return self.map(lambda leaf: {**leaf, "k": kind} if "a" in leaf else leaf)

    def items(self) -> dict[str, "EncodedValue"]:
        """The values of a dict by their keys; none of anything else."""
        return {key: EncodedValue(item, self.arrays) for key, item in self.spec.get("d", [])}


def store(value: EncodedValue | None, arrays: list[Array]) -> Any:
    """`value` as `[spec, first, count]` over `arrays`, to which its own are appended; None for None."""
    if value is None:
        return None
    arrays.extend(value.arrays)
    return [value.spec, len(arrays) - len(value.arrays), len(value.arrays)]


def fetch(stored: Any, arrays: Sequence[Array]) -> EncodedValue | None:
    """The inverse of `store`, for what this course stored itself: nothing is checked."""
    if stored is None:
        return None
    spec, first, count = stored
    return EncodedValue(spec, list(arrays[first : first + count]))


def encode(value: Any) -> EncodedValue:
    """`value` as a `EncodedValue`; what has no place in one becomes the name of its type."""
    tree = EncodedValue({})
    tree.spec = _encode(value, tree.arrays, 0)
    return tree


def decode(tree: EncodedValue, *, dtype: str | None = None) -> Any:
    """The value again. Arrays marked as tensors become torch tensors; `dtype` casts the floating ones."""
    return _decode(tree.spec, tree.arrays, dtype)


def as_array(value: Any) -> tuple[Array, str] | None:
    """`(array, kind)` for a NumPy array, NumPy scalar or torch tensor, else None. Never imports torch."""
    if isinstance(value, np.ndarray):
        return (value, "array") if value.dtype.kind in "biufc" else None
    if isinstance(value, np.generic):
        return np.asarray(value), "array"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        plain = value.detach().cpu()
        if plain.dtype == torch.bfloat16:  # NumPy has none: float16 where next to nothing is lost, so that it is seen
            plain = plain.float()
            plain = plain.half() if bool(((plain.half().float() - plain).abs() < 1e-7).all()) else plain
        return plain.resolve_conj().numpy(), "tensor"
    return None


def _encode(value: Any, arrays: list[Array], depth: int) -> Spec:
    if value is None or isinstance(value, bool | str):
        return {"s": value}
    if type(value) is int:
        return {"s": value} if abs(value) < 2**63 else {"o": "int"}
    if type(value) is float:
        return {"s": value} if np.isfinite(value) else {"f": str(value)}
    if type(value) is complex:
        value = np.asarray(value)
    if isinstance(value, Code):
        return {"c": value.source}
    found = as_array(value)
    if found is not None:
        array, kind = found
        arrays.append(np.ascontiguousarray(array).reshape(array.shape))  # ascontiguousarray makes 0-d arrays 1-d
        return {"a": len(arrays) - 1, "k": kind}
    if depth < MAX_DEPTH and isinstance(value, list | tuple | dict) and len(value) <= MAX_ITEMS:
        if isinstance(value, dict):
            if len({str(key) for key in value}) < len(value):
                return {"o": "dict with keys that read the same"}
            if any(len(str(key)) > MAX_KEY for key in value):
                return {"o": f"dict with a key of more than {MAX_KEY} characters"}
            return {"d": [[str(key), _encode(item, arrays, depth + 1)] for key, item in value.items()]}
        return {"l" if isinstance(value, list) else "t": [_encode(item, arrays, depth + 1) for item in value]}
    return {"o": type(value).__name__[:80]}


def _decode(spec: Spec, arrays: list[Array], dtype: str | None) -> Any:
    ((tag, body),) = [(key, spec[key]) for key in spec if key != "k"]
    if tag == "a":
        array = arrays[body]
        if dtype is not None and array.dtype.kind == "f":
            array = array.astype(dtype)
        if spec["k"] == "array":
            return array.copy()
        import torch

        return torch.from_numpy(array.copy())
    if tag in "lt":
        items = [_decode(item, arrays, dtype) for item in body]
        return items if tag == "l" else tuple(items)
    if tag == "d":
        return {key: _decode(item, arrays, dtype) for key, item in body}
    if tag == "c":
        return Code(body).build()
    return float(body) if tag == "f" else body


def _map(spec: Spec, change: Callable[[Spec], Spec]) -> Spec:
    if "d" in spec:
        return {"d": [[key, _map(item, change)] for key, item in spec["d"]]}
    tag = next((tag for tag in "lt" if tag in spec), None)
    return change(spec) if tag is None else {tag: [_map(item, change) for item in spec[tag]]}


def _leaves(spec: Spec, path: str) -> Iterator[tuple[str, Spec]]:
    for tag in "lt":
        if tag in spec:
            for index, item in enumerate(spec[tag]):
                yield from _leaves(item, f"{path}[{index}]")
            return
    if "d" in spec:
        for key, item in sorted(spec["d"], key=lambda pair: str(pair[0])):
            yield from _leaves(item, f"{path}[{key!r}]")
        return
    yield path, spec


def show(tree: EncodedValue) -> str:
    """The value as Python source that can be pasted: `np.array([[1., 2.]])`."""
    return _show(tree.spec, tree.arrays)


def _show(spec: Spec, arrays: list[Array]) -> str:
    if "a" in spec:
        array = arrays[spec["a"]]
        maker = "torch.tensor" if spec["k"] == "tensor" else "np.array"
        if array.size == 0:
            return f"{'torch' if spec['k'] == 'tensor' else 'np'}.empty({array.shape})"
        body = np.array2string(array, separator=", ", precision=4, suppress_small=False, threshold=10**6, max_line_width=110)
        for word in ("nan", "inf"):
            body = body.replace(word, f'float("{word}")')
        return f"{maker}({body})"
    if "s" in spec:
        return repr(spec["s"])
    if "f" in spec:
        return f"float({spec['f']!r})"
    if "c" in spec:
        return str(spec["c"])
    if "d" in spec:
        return "{" + ", ".join(f"{key!r}: {_show(item, arrays)}" for key, item in spec["d"]) + "}"
    if "o" in spec:
        return f"<{spec['o']}>"
    tag = "l" if "l" in spec else "t"
    inner = ", ".join(_show(item, arrays) for item in spec[tag])
    return f"[{inner}]" if tag == "l" else f"({inner}{',' if len(spec[tag]) == 1 else ''})"
