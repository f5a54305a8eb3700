"""Make harmless what a submission's process says: outputs for the notebook, observations for the judge. Trusted side.

The learner's code chose everything that arrives here. Outputs are rebuilt field by field. A failure keeps only the exception's
type and the learner's own line. An observation on a hidden probe keeps only the learner's numbers (`clean_hidden`), because a
text could carry the hidden inputs out.
"""

import base64
import binascii
import builtins
import functools
import keyword
import re
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from autograder.judging.compare import is_kind_of
from autograder.judging.observation import Failure, FailureKind, Observation, Probe
from autograder.judging.records import CaseRecord
from autograder.judging.values import Container, EncodedValue, ObjectNode, PlainNode
from autograder.sandbox.codec import MAX_OUTPUTS, outputs_from_wire
from autograder.sandbox.wire import WireError

KINDS = ("raised", "blank", "missing", "weights", "timeout", "crashed")
ERRORS = frozenset(
    [name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)]
    + ["AxisError", "LinAlgError", "OutOfMemoryError", "OutputTooLarge", "UFuncTypeError", "TorchRuntimeError"]
)
TYPES = frozenset(
    [name for name, value in vars(builtins).items() if isinstance(value, type)]
    + ["function", "method", "generator", "module", "ndarray", "Tensor", "Parameter", "dtype", "matrix", "Size", "NoneType"]
)
_ANSI = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\-_])")
# C0 and C1 except tab and newline, marks that reorder text, and halves of surrogate pairs
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_PNG = b"\x89PNG\r\n\x1a\n"
MAX_PIXELS = 25_000_000  # per picture; a browser would unpack a few kB of one colour into gigabytes
MAX_PIXELS_TOGETHER = 100_000_000  # for all pictures of a submission


@dataclass(frozen=True)
class Written:
    """The words and lines of a learner's own cells, collected once because searching the text for each name is far too slow."""

    sources: tuple[str, ...]

    @functools.cached_property
    def words(self) -> frozenset[str]:
        return frozenset(word for source in self.sources for word in re.findall(r"\w+", source))

    @functools.cached_property
    def lines(self) -> frozenset[tuple[int, str]]:
        # IPython counts from the first line that isn't blank
        cells = (source.lstrip("\n").splitlines() for source in self.sources)
        return frozenset((number, line.strip()[:200]) for cell in cells for number, line in enumerate(cell, 1))


def clean_text(text: str) -> str:
    """Return `text` without colours, control characters and marks that reorder it; `\\r\\n` becomes a newline.

    >>> clean_text("\\x1b[31mred\\x1b[0m\\x00")
    'red'
    """
    return _CONTROL.sub("", _ANSI.sub("", text.replace("\r\n", "\n")))


@dataclass(frozen=True)
class Room:
    """What a submission may still show: `bytes` of output, and pictures with this many `pixels` together."""

    bytes: int
    pixels: int = MAX_PIXELS_TOGETHER


def clean_outputs(skeleton: Any, raw: bytes, room: Room) -> tuple[list[dict[str, Any]], Room]:
    """Return a cell's outputs (as `codec` packs them) in nbformat's words, and the `room` that is left. Raises WireError."""
    left, pixels = room.bytes, room.pixels
    if len(raw) > 4 * max(left, 0) + (1 << 16):
        raise WireError(f"expected outputs of at most {left} characters, got {len(raw)} bytes.")
    cleaned: list[dict[str, Any]] = []
    for item in outputs_from_wire(skeleton, raw):
        output, size, drawn = _clean_output(item, pixels)
        left, pixels = left - size - 16, pixels - drawn
        if left < 0 or len(cleaned) >= MAX_OUTPUTS:
            cleaned.append({"output_type": "stream", "name": "stdout", "text": "[further output was cut]\n"})
            break
        cleaned.append(output)
    return cleaned, Room(left, pixels)


def _clean_output(item: dict[str, Any], pixels: int) -> tuple[dict[str, Any], int, int]:
    """Return the output, its size, and how many `pixels` it uses of those that are left. Raises WireError.

    `outputs_from_wire` has checked the form of `item`, and that its texts are texts.
    """
    kind = item["output_type"]
    if kind == "stream" and item["name"] in ("stdout", "stderr"):
        shown = clean_text(item["text"])
        return {"output_type": "stream", "name": item["name"], "text": shown}, len(shown), 0
    if kind == "error":
        lines = [clean_text(line) for line in item["traceback"][:100]]
        name, value = clean_text(item["ename"])[:200], clean_text(item["evalue"])
        output = {"output_type": "error", "ename": name, "evalue": value, "traceback": lines}
        return output, len(value) + sum(map(len, lines)), 0
    if kind == "display_data":
        data, drawn = {}, 0
        if "text/plain" in item["data"]:
            data["text/plain"] = clean_text(item["data"]["text/plain"])
        if "image/png" in item["data"] and 0 < (area := _pixels(item["data"]["image/png"])) <= min(MAX_PIXELS, pixels):
            data["image/png"], drawn = item["data"]["image/png"], area
        return {"output_type": "display_data", "data": data, "metadata": {}}, sum(map(len, data.values())), drawn
    raise WireError("expected a stream, an error or display data.")


def _pixels(encoded: str) -> int:
    """Return the pixel count that a base64 PNG declares, or 0 if `encoded` is no PNG."""
    try:
        data = base64.b64decode(encoded.replace("\n", ""), validate=True)
        width, height = struct.unpack(">II", data[16:24])
        return int(width * height) if data.startswith(_PNG) else 0
    except (binascii.Error, ValueError, struct.error):
        return 0


def clean_observation(observation: Observation, probe: Probe, written: Written, seconds: float) -> Observation:
    """Return `observation` reduced to values, and to names that the probe, Python or the learner's own cells already contain."""
    inputs = probe.inputs.items()
    return Observation(
        value=None if observation.value is None else observation.value.map(lambda leaf: _clean_leaf(leaf, written)),
        grads={name: grad for name, grad in observation.grads.items() if name in probe.grad},
        mutated=tuple(name for name in dict.fromkeys(observation.mutated) if name in inputs),
        failure=None if observation.failure is None else clean_failure(observation.failure, written),
        seconds=seconds,
    )


def clean_failure(failure: Failure, written: Written) -> Failure:
    """Return `failure` without its message. Type and line stay unless the learner made them up."""
    kind = failure.kind if failure.kind in KINDS else "raised"
    line = failure.line if failure.line in written.lines else None
    return Failure(kind, _known(failure.type, ERRORS, "Exception", written) if failure.type else "", "", line)


OTHER = "something else"  # replaces each text that a learner's process sends back from a hidden probe
ERROR = "Exception"  # replaces each of its exceptions


def clean_hidden(observation: Observation, case: CaseRecord, *, behaviour: bool = False) -> Observation:
    """Return `observation` on a hidden case, with each text that the case itself doesn't hold replaced (by `OTHER` or `ERROR`).

    The learner's code chose names, keys and texts after seeing the input, and could spell the input with them. Numbers stay,
    because they are what is judged. With `behaviour`, values stay as they are, because the exercise's own function reads
    them first.
    """
    value, failure = observation.value, observation.failure
    stored = (case.expected, *case.mistakes.values())
    if value is not None and not behaviour:
        words = {word for known in stored if known.value is not None for word in known.value.fold(_words_of, _words_in)}
        value = value.fold(lambda leaf: _one_of(leaf, words), lambda whole, parts: _whole_of(whole, parts, words))
    if failure is not None:
        failure = Failure(failure.kind, _asked_type(failure.type, case.expected.failure, stored))
    return Observation(value, observation.grads, observation.mutated, failure)


def _asked_type(name: str, wanted: Failure | None, stored: Sequence[Observation]) -> str:
    types = {known.failure.type for known in stored if known.failure is not None}
    if name in types:
        return name
    return wanted.type if wanted is not None and is_kind_of(name, wanted.type) else ERROR


def _words_of(leaf: EncodedValue) -> set[str]:
    if isinstance(leaf, ObjectNode):
        return {leaf.name}
    return {leaf.content} if isinstance(leaf.content, str) else set()


def _words_in(whole: Container, parts: list[set[str]]) -> set[str]:
    return set().union(whole.keys, *parts)


def _one_of(leaf: EncodedValue, words: Collection[str]) -> EncodedValue:
    if not _words_of(leaf) - set(words):
        return leaf
    return ObjectNode("object") if isinstance(leaf, ObjectNode) else PlainNode(OTHER)


def _whole_of(whole: Container, parts: list[EncodedValue], words: Collection[str]) -> EncodedValue:
    known = all(key in words for key in whole.keys)
    return Container(tuple(parts), whole.kind, whole.keys) if known else ObjectNode("object")


def _clean_leaf(leaf: EncodedValue, written: Written) -> EncodedValue:
    return ObjectNode(_known(leaf.name, TYPES, "object", written)) if isinstance(leaf, ObjectNode) else leaf


def _known(name: str, names: frozenset[str], otherwise: str, written: Written) -> str:
    if name in names:
        return name
    return name if name.isidentifier() and not keyword.iskeyword(name) and name in written.words else otherwise


def failed(kind: FailureKind, message: str = "", seconds: float = 0.0) -> Observation:
    """Return the observation for a probe that was never answered."""
    return Observation(failure=Failure(kind, message=message), seconds=seconds)
