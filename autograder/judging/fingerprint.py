"""A few numbers that stand for a whole result: enough to recognise it, small enough to keep for every pair of mistakes.

In: an observation. Out: `LENGTH` numbers: its shapes, which of its numbers are not finite, their size, some of them,
and a few signed sums over all of them. Two results that differ anywhere differ in the sums.
"""

import zlib

import numpy as np

from autograder.judging.exercise import Tolerance
from autograder.judging.observation import Observation
from autograder.judging.values import Array

ENTRIES, SUMS = 10, 4
LENGTH = 5 + ENTRIES + SUMS
ROUNDING = 10.0  # single precision, and the order of the sums


def fingerprint(seen: Observation) -> Array | None:
    """The numbers that stand for `seen`, or None where there is no value."""
    if seen.failure is not None or seen.value is None:
        return None
    pieces, parts = [], []
    for path, leaf in seen.value.leaves():
        if "a" in leaf:
            array = np.asarray(seen.value.arrays[leaf["a"]])
            parts.append(f"{path}{array.shape}{array.dtype.kind == 'b'}")
            pieces.append(array)
        elif isinstance(leaf.get("s"), int | float):
            parts.append(path)
            pieces.append(np.asarray(leaf["s"]))
        else:
            parts.append(f"{path}{leaf}")
    for name, grad in sorted(seen.grads.items()):
        parts.append(f"{name}{None if grad is None else np.shape(grad)}")
        pieces += [] if grad is None else [np.asarray(grad)]
    if any(piece.dtype.kind not in "biuf" for piece in pieces):
        return None
    flat = np.concatenate([np.ravel(piece).astype(np.float64) for piece in pieces] or [np.zeros(0)])
    finite = np.isfinite(flat)
    clean = np.where(finite, flat, 0.0)
    size = max(1, len(clean))
    signs = np.random.default_rng(len(clean)).choice([-1.0, 1.0], (SUMS, len(clean)))
    shape = zlib.crc32("|".join(parts).encode()) % 2**20
    lost = np.isnan(flat) + 2.0 * (flat == np.inf) + 3.0 * (flat == -np.inf)  # which kind of number, and where
    some = np.zeros(ENTRIES)
    chosen = clean[np.linspace(0, size - 1, min(ENTRIES, len(clean))).astype(int)]
    some[: len(chosen)] = chosen
    with np.errstate(all="ignore"):  # learners' numbers overflow where they like
        head = [shape, lost.sum(), signs[0] @ lost, signs[1] @ lost, np.sqrt((clean**2).sum() / size)]
        return np.concatenate([head, some, signs @ clean / np.sqrt(size)]).astype(np.float32)


def alike(one: Array, two: Array, tolerance: Tolerance) -> bool:
    """Whether two fingerprints stand for the same result, up to the tolerance of the exercise."""
    if not np.array_equal(one[:4], two[:4]):
        return False
    a, b = one[4:].astype(np.float64), two[4:].astype(np.float64)
    room = ROUNDING * (tolerance.atol + tolerance.rtol * np.abs(a))
    room[1 + ENTRIES :] += ROUNDING * tolerance.rtol * a[0]  # terms of a sum that cancel leave their rounding
    return bool(np.all(np.abs(a - b) <= room))
