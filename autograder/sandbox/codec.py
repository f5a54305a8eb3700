"""Convert trees, probes and observations to and from the header and arrays of a frame (`autograder.sandbox.wire`).

Everything that comes in is checked. Probes go from the trusted process to the sandbox and may hold source text (`{"c": …}`)
from the course's own packs; observations come back and may not.
"""

import functools
from collections.abc import Sequence
from typing import Any

from autograder.judging.observation import Failure, Observation, Probe
from autograder.judging.values import Array, EncodedValue, fetch, store
from autograder.sandbox.wire import Header, WireError

MAX_OUTPUTS = 200  # per cell, because everything that reads, checks or draws a notebook spends time on each output


def fetch_tree(stored: Any, arrays: Sequence[Array], *, code: bool = False) -> EncodedValue | None:
    """Invert `values.store` and check everything. Raises WireError.

    `code` allows source text: only from the course's packs to the sandbox, never in the other direction.
    """
    try:
        found = fetch(stored, arrays, code=code)
    except ValueError as error:
        raise WireError(str(error)) from None
    if found is not None and not code and len({id(array) for array in found.arrays}) < len(found.arrays):
        raise WireError("expected each array in one place: many places for a large one would fill a memory.")
    return found


@functools.lru_cache(maxsize=4096)
def probe_to_wire(probe: Probe) -> tuple[Header, list[Array]]:
    """Return a `Probe` as header and arrays (trusted process -> sandbox). Cached, so each probe is converted once for a whole
    class.
    """
    arrays: list[Array] = []
    inputs, cotangent = store(probe.inputs, arrays), store(probe.cotangent, arrays)
    how = {"room": probe.room, "by_hand": probe.by_hand}
    return {"inputs": inputs, "grad": list(probe.grad), "cotangent": cotangent, **how}, arrays


def probe_from_wire(header: Header, arrays: Sequence[Array]) -> Probe:
    """Invert `probe_to_wire`. Raises WireError."""
    inputs = fetch_tree(header.get("inputs"), arrays, code=True)
    if inputs is None:
        raise WireError("expected a probe with inputs, got none.")
    room, by_hand = header.get("room", 0.0), header.get("by_hand", False)
    if type(room) not in (int, float) or type(by_hand) is not bool:
        raise WireError("expected a number for the room, and whether all is by hand.")
    return Probe(inputs, tuple(_texts(header.get("grad"), 100)), fetch_tree(header.get("cotangent"), arrays), room, by_hand)


def observation_to_wire(seen: Observation) -> tuple[Header, list[Array]]:
    """Return an `Observation` as header and arrays (sandbox -> trusted process).

    Its notes and message are left out, because a hidden probe's inputs could leave in them.
    """
    arrays: list[Array] = []
    header: Header = {"value": store(seen.value, arrays), "mutated": list(seen.mutated), "grads": {}, "failure": None}
    for name, grad in seen.grads.items():
        header["grads"][name] = None if grad is None else len(arrays)
        arrays.extend([] if grad is None else [grad])
    if seen.failure is not None:
        header["failure"] = [seen.failure.kind, seen.failure.type, list(seen.failure.line or ()) or None]
    return header, arrays


def observation_from_wire(header: Header, arrays: Sequence[Array]) -> Observation:
    """Invert `observation_to_wire`. The result has either a value or a failure. Raises WireError."""
    grads: dict[str, Array | None] = {}
    if not isinstance(header.get("grads"), dict) or len(header["grads"]) > 100:
        raise WireError("expected gradients by name.")
    for name, index in header["grads"].items():
        if index is not None and not (type(index) is int and 0 <= index < len(arrays)):
            raise WireError(f"expected a gradient's index below {len(arrays)}, got {index!r}.")
        grads[name] = None if index is None else arrays[index]
    failure = _failure(header.get("failure"))
    value = fetch_tree(header.get("value"), arrays) if failure is None else None
    if (value is None) == (failure is None):
        raise WireError("expected a value or a failure.")
    return Observation(value, grads if failure is None else {}, tuple(_texts(header.get("mutated"), 100)), failure)


def _failure(item: Any) -> Failure | None:
    if item is None:
        return None
    if not (isinstance(item, list) and len(item) == 3 and all(isinstance(text, str) and len(text) <= 200 for text in item[:2])):
        raise WireError("expected a failure as [kind, type, line].")
    kind, name, line = item
    if line is not None:
        if not (isinstance(line, list) and len(line) == 2 and type(line[0]) is int and isinstance(line[1], str)):
            raise WireError("expected a line as [number, text].")
        line = (line[0], line[1][:200])
    return Failure(kind, name, "", line)


def outputs_to_wire(outputs: Sequence[dict[str, Any]]) -> tuple[list[Any], bytes]:
    """Return a cell's outputs (sandbox -> trusted process) as a skeleton that holds the length of each text, and the joined
    texts.

    The texts don't travel as JSON, because parsing eight megabytes of brackets would hold every thread of the grader for
    seconds.
    """
    texts: list[bytes] = []

    def length(text: Any) -> int:
        texts.append(str(text).encode("utf-8", "replace"))
        return len(texts[-1])

    skeleton: list[Any] = []
    for output in outputs[: MAX_OUTPUTS + 1]:
        kind = output["output_type"]
        if kind == "stream":
            skeleton.append([kind, output["name"], length(output["text"])])
        elif kind == "error":
            head = length(output["ename"]), length(output["evalue"])
            skeleton.append([kind, *head, [length(line) for line in output["traceback"]]])
        else:
            skeleton.append([kind, [[name, length(value)] for name, value in output["data"].items()]])
    return skeleton, b"".join(texts)


def outputs_from_wire(skeleton: Any, raw: bytes) -> list[dict[str, Any]]:
    """Invert `outputs_to_wire`, in nbformat's words. The texts are still the learner's. Raises WireError."""
    start = 0

    def text(size: Any) -> str:
        nonlocal start
        if type(size) is not int or not 0 <= size <= len(raw) - start:
            raise WireError("expected the lengths of texts that are there.")
        start += size
        return raw[start - size : start].decode("utf-8", "replace")

    outputs: list[dict[str, Any]] = []
    for item in skeleton if isinstance(skeleton, list) else [None]:
        match item:
            case ["stream", str(name), size]:
                outputs.append({"output_type": "stream", "name": name, "text": text(size)})
            case ["error", name, value, [*lines]]:
                said = {"ename": text(name), "evalue": text(value), "traceback": [text(line) for line in lines]}
                outputs.append({"output_type": "error", **said})
            case ["display_data", [*parts]] if all(isinstance(each, list) and len(each) == 2 for each in parts):
                data = {str(kind): text(size) for kind, size in parts}
                outputs.append({"output_type": "display_data", "data": data})
            case _:
                raise WireError("expected a stream, an error or display data.")
    return outputs


def _texts(items: Any, most: int) -> list[str]:
    if not (isinstance(items, list) and len(items) <= most and all(isinstance(item, str) for item in items)):
        raise WireError(f"expected a list of at most {most} names.")
    return items
