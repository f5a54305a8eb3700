"""A few numbers that stand for a whole result: enough to recognise it, small enough to keep for hundreds of programs.

In: an observation. Out: `LENGTH` numbers: one for its shapes, kinds and places that are not finite, and a weighted sum over all
of its numbers. Two results that differ anywhere differ in the sum; over the cases of an exercise chance has no part in it.
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
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # where an object lies, in its `repr`: another place in every run
ROUNDING = 10.0  # single precision, and the order of the sums


def fingerprint(seen: Observation) -> Array | None:
    """The numbers that stand for `seen`, or None where there is no value."""
    if seen.failure is not None or seen.value is None:
        return None
    pieces, parts = [], []
    for path, leaf in seen.value.leaves():
        if isinstance(leaf, ArrayNode):
            kind = "i" if leaf.content.dtype.kind == "u" else leaf.content.dtype.kind
            parts.append(f"{path}{leaf.content.shape}{kind}" if leaf.content.ndim else path)
            pieces.append(leaf.content)
        elif isinstance(leaf.content, int | float):
            parts.append(path)
            pieces.append(np.asarray(leaf.content))
        else:
            parts.append(f"{path}{store(leaf, [])[0]}")
    for name, grad in sorted(seen.grads.items()):
        parts.append(f"{name}{None if grad is None else np.shape(grad)}")
        pieces += [] if grad is None else [np.asarray(grad)]
    if any(piece.dtype.kind not in "biuf" for piece in pieces):
        return None
    flat = np.concatenate([np.ravel(piece).astype(np.float64) for piece in pieces] or [np.zeros(0)])
    clean = np.where(np.isfinite(flat), flat, 0.0)
    lost = (np.isnan(flat) + 2 * (flat == np.inf) + 3 * (flat == -np.inf)).astype(np.uint8)  # which kind of number, and where
    shape = zlib.crc32(_ADDRESS.sub("", "|".join(parts)).encode() + (lost.tobytes() if lost.any() else b"")) % 2**20
    with np.errstate(all="ignore"):  # learners' numbers overflow where they like
        return np.concatenate([[shape], _weights(len(clean)) @ clean / np.sqrt(max(1, len(clean)))]).astype(np.float32)


@functools.lru_cache(maxsize=256)
def _weights(length: int) -> Array:
    return np.random.default_rng(length).standard_normal((SUMS, length))


def alike(one: Array, two: Array, tolerance: Tolerance) -> bool:
    """Whether two fingerprints stand for the same result, up to the tolerance of the exercise."""
    return bool(alike_each(one[None], two, tolerance)[0])


def alike_each(many: Array, one: Array, tolerance: Tolerance) -> Array:
    """For each row of `many` whether it stands for the same result as `one`; a row of NaN does not."""
    a, b = many[:, 1:].astype(np.float64), one[1:].astype(np.float64)
    size = np.abs(a).max(axis=1, keepdims=True, initial=0.0)
    room = ROUNDING * (tolerance.atol + tolerance.rtol * size)  # terms of a sum that cancel leave their rounding
    with np.errstate(invalid="ignore"):
        near = (np.abs(a - b) <= room) & np.isfinite(a)  # a sum that overflows stands for nothing
        return np.asarray((many[:, 0] == one[0]) & near.all(axis=1))
