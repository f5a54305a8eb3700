"""Convert trees, probes and observations to and from the header and arrays of a frame (`autograder.sandbox.wire`).

Everything that comes in is checked. Probes go from the trusted process to the sandbox and may hold source text (`{"c": …}`)
from the course's own packs; observations come back and may not.
"""

import functools
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar, cast

import msgspec
from msgspec import Meta

from autograder.judging.observation import Failure, FailureKind, Observation, Probe
from autograder.judging.schema import MAX_NAMES, ArrayIndex, FailureFields, Name, ObservationFields, ProbeFields
from autograder.judging.values import Array, EncodedValue, fetch, store
from autograder.sandbox.wire import Header, WireError

MAX_OUTPUTS = 200  # outputs of a cell, because reading, checking and drawing a notebook takes time for each
T = TypeVar("T")


class FailureHeader(FailureFields, array_like=True, forbid_unknown_fields=True):
    """A failure in a frame's header. The message is left out, because it could carry a hidden probe's inputs out."""

    line: tuple[int, str] | None


class ObservationHeader(ObservationFields):
    """An observation in a frame's header; a gradient is the index of an array."""

    grads: Annotated[dict[Name, ArrayIndex | None], Meta(max_length=MAX_NAMES)]
    failure: FailureHeader | None = None


def _as(kind: type[T], header: Header) -> T:
    try:
        return msgspec.convert(header, kind)
    except msgspec.ValidationError as error:
        raise WireError(f"expected a {kind.__name__}: {error}.") from None


def fetch_tree(stored: Any, arrays: Sequence[Array], *, code: bool = False) -> EncodedValue | None:
    """Invert `values.store` and check everything. Raises WireError.

    `code` allows source text: only from the course's packs to the sandbox, never in the other direction.
    """
    try:
        tree = fetch(stored, arrays, code=code)
    except ValueError as error:
        raise WireError(str(error)) from None
    if tree is not None and not code and len({id(array) for array in tree.arrays}) < len(tree.arrays):
        raise WireError("expected each array in one place: many places for a large one would fill a memory.")
    return tree


@functools.lru_cache(maxsize=4096)
def probe_to_wire(probe: Probe) -> tuple[Header, list[Array]]:
    """Return a `Probe` as header and arrays (trusted process -> sandbox). Cached, so a probe is converted once per class."""
    arrays: list[Array] = []
    inputs, cotangent = store(probe.inputs, arrays), store(probe.cotangent, arrays)
    how = {"room": probe.room, "by_hand": probe.by_hand, "elsewhere": probe.elsewhere}
    return {"inputs": inputs, "grad": list(probe.grad), "cotangent": cotangent, **how}, arrays


def probe_from_wire(header: Header, arrays: Sequence[Array]) -> Probe:
    """Invert `probe_to_wire`. Raises WireError."""
    asked = _as(ProbeFields, header)
    inputs = fetch_tree(asked.inputs, arrays, code=True)
    if inputs is None:
        raise WireError("expected a probe with inputs, got none.")
    grad, cotangent = tuple(asked.grad), fetch_tree(asked.cotangent, arrays)
    return Probe(inputs, grad, cotangent, asked.room, asked.by_hand, asked.elsewhere)


def observation_to_wire(observation: Observation) -> tuple[Header, list[Array]]:
    """Return an `Observation` as header and arrays (sandbox -> trusted process).

    Its notes and message are left out, because they could carry a hidden probe's inputs out.
    """
    arrays: list[Array] = []
    value, mutated = store(observation.value, arrays), list(observation.mutated)
    header: Header = {"value": value, "mutated": mutated, "grads": {}, "failure": None}
    for name, grad in observation.grads.items():
        header["grads"][name] = None if grad is None else len(arrays)
        arrays.extend([] if grad is None else [grad])
    if observation.failure is not None:
        header["failure"] = [observation.failure.kind, observation.failure.type, list(observation.failure.line or ()) or None]
    return header, arrays


def observation_from_wire(header: Header, arrays: Sequence[Array]) -> Observation:
    """Invert `observation_to_wire`. The observation has either a value or a failure. Raises WireError if it has neither."""
    reply = _as(ObservationHeader, header)
    if any(index is not None and index >= len(arrays) for index in reply.grads.values()):
        raise WireError(f"expected gradients among {len(arrays)} arrays.")
    value = fetch_tree(reply.value, arrays) if reply.failure is None else None
    if (value is None) == (reply.failure is None):
        raise WireError("expected a value or a failure.")
    if (failed := reply.failure) is not None:
        line = None if failed.line is None else (failed.line[0], failed.line[1][:200])
        kind = cast(FailureKind, failed.kind)  # any text, until `untrusted` has looked at it
        return Observation(mutated=tuple(reply.mutated), failure=Failure(kind, failed.type, "", line))
    grads = {name: None if index is None else arrays[index] for name, index in reply.grads.items()}
    return Observation(value, grads, tuple(reply.mutated))


def outputs_to_wire(outputs: Sequence[dict[str, Any]]) -> tuple[list[Any], bytes]:
    """Return a cell's outputs (sandbox -> trusted process) as a skeleton with the length of each text, and the joined texts.

    The texts don't travel as JSON, because parsing megabytes of brackets would hold every thread of the grader for seconds.
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
    """Return what `outputs_to_wire` packed as nbformat dicts, whose texts are still the learner's. Raises WireError."""
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
                texts = {"ename": text(name), "evalue": text(value), "traceback": [text(line) for line in lines]}
                outputs.append({"output_type": "error", **texts})
            case ["display_data", [*parts]] if all(isinstance(part, list) and len(part) == 2 for part in parts):
                data = {str(kind): text(size) for kind, size in parts}
                outputs.append({"output_type": "display_data", "data": data})
            case _:
                raise WireError("expected a stream, an error or display data.")
    return outputs
