"""Reduce a whole result to a few numbers, so that the results of hundreds of programs can be stored and recognised.

In: an observation. Out: `LENGTH` numbers. The first is a hash of the shapes, the kinds and the places of non-finite values; the
second is a random weighted sum of all entries. Results that differ anywhere have different sums, and over all cases of an
exercise an accidental match is practically impossible.
"""

import functools
import re
import zlib

import numpy as np

from autograder.judging.exercise import Tolerance
from autograder.judging.observation import Observation
from autograder.judging.values import Array, ArrayNode, store

SUMS = 1
LENGTH = 1 + SUMS
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # an object's address in its `repr`, which changes from run to run
ROUNDING = 10.0  # allows for single precision and for another order of summation


def fingerprint(observation: Observation) -> Array | None:
    """Return the fingerprint of `observation`, or None if it has no value or an array with anything but real numbers."""
    if observation.failure is not None or observation.value is None:
        return None
    pieces, parts = [], []
    for path, leaf in observation.value.leaves():
        if isinstance(leaf, ArrayNode):
            kind = "i" if leaf.content.dtype.kind == "u" else leaf.content.dtype.kind
            parts.append(f"{path}{leaf.content.shape}{kind}" if leaf.content.ndim else path)
            pieces.append(leaf.content)
        elif isinstance(leaf.content, int | float):
            parts.append(path)
            pieces.append(np.asarray(leaf.content))
        else:
            parts.append(f"{path}{store(leaf, [])[0]}")
    for name, grad in sorted(observation.grads.items()):
        parts.append(f"{name}{None if grad is None else np.shape(grad)}")
        pieces += [] if grad is None else [np.asarray(grad)]
    if any(piece.dtype.kind not in "biuf" for piece in pieces):
        return None
    flat = np.concatenate([np.ravel(piece).astype(np.float64) for piece in pieces] or [np.zeros(0)])
    clean = np.where(np.isfinite(flat), flat, 0.0)
    lost = (np.isnan(flat) + 2 * (flat == np.inf) + 3 * (flat == -np.inf)).astype(np.uint8)  # which non-finite value, and where
    shape = zlib.crc32(_ADDRESS.sub("", "|".join(parts)).encode() + (lost.tobytes() if lost.any() else b"")) % 2**20
    with np.errstate(all="ignore"):  # learners' numbers may overflow
        return np.concatenate([[shape], _weights(len(clean)) @ clean / np.sqrt(max(1, len(clean)))]).astype(np.float32)


@functools.lru_cache(maxsize=256)
def _weights(length: int) -> Array:
    return np.random.default_rng(length).standard_normal((SUMS, length))


def forget() -> None:
    """Discard the cached weights. A learner chooses the lengths of results, and the cache holds an array for each."""
    _weights.cache_clear()


def alike(numbers: Array, other: Array, tolerance: Tolerance) -> bool:
    """Return whether two fingerprints stand for the same result, within the exercise's tolerance."""
    return bool(alike_each(numbers[None], other, tolerance)[0])


def alike_each(many: Array, one: Array, tolerance: Tolerance) -> Array:
    """Return for each row of `many` whether it stands for the same result as `one`. A row of NaN never does."""
    a, b = many[:, 1:].astype(np.float64), one[1:].astype(np.float64)
    size = np.abs(a).max(axis=1, keepdims=True, initial=0.0)
    room = ROUNDING * (tolerance.atol + tolerance.rtol * size)  # terms that cancel in the sum leave their rounding errors
    with np.errstate(invalid="ignore"):
        near = (np.abs(a - b) <= room) & np.isfinite(a)  # a sum that overflowed identifies nothing
        return np.asarray((many[:, 0] == one[0]) & near.all(axis=1))
