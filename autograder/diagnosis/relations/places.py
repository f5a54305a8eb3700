"""Find the right numbers in other places: shifted, reversed, transposed, reshaped or summed. Also locate the wrong entries."""

import itertools
from collections.abc import Iterator

import numpy as np

from autograder.diagnosis.finding import Fact, fact
from autograder.diagnosis.relations.same_array import near
from autograder.judging.exercise import Tolerance
from autograder.judging.values import Array


def moved(got: Array, want: Array, tolerance: Tolerance) -> Iterator[Fact]:
    """Yield facts about the right entries, shifted or reversed along an axis."""
    for axis in range(-1, -want.ndim - 1, -1):
        length = want.shape[axis]
        if length < 2:
            continue
        if near(got, np.flip(want, axis), tolerance):
            yield fact("relation.backwards", axis=axis)
        for step in (1, -1, 2, -2):
            if abs(step) >= length:
                continue
            if near(got, np.roll(want, step, axis), tolerance):
                yield fact("relation.rolled", steps=abs(step), axis=axis)
            kept, moved = _overlap(want, got, step, axis)
            if length > 2 and kept.size > 1 and near(moved, kept, tolerance) and not near(got, want, tolerance):
                yield fact("relation.shifted.later" if step > 0 else "relation.shifted.earlier", steps=abs(step), axis=axis)


def _overlap(want: Array, got: Array, step: int, axis: int) -> tuple[Array, Array]:
    """Return the part of `want` that a shift by `step` keeps, and the part of `got` where it should then be."""
    length = want.shape[axis]
    early, late = np.arange(0, length - abs(step)), np.arange(abs(step), length)
    a, b = (early, late) if step > 0 else (late, early)
    return np.take(want, a, axis), np.take(got, b, axis)


def rearranged(got: Array, want: Array, tolerance: Tolerance) -> Iterator[Fact]:
    """Yield a fact about the right numbers in other places or in another shape."""
    if got.size != want.size:
        return
    if 2 <= want.ndim == got.ndim <= 5:
        for axes in itertools.islice(itertools.permutations(range(want.ndim)), 1, None):  # the first is the order as it is
            if near(got, want.transpose(axes), tolerance):
                changed = [axis for axis, old in enumerate(axes) if axis != old]
                if len(changed) == 2:
                    a, b = (axis - want.ndim for axis in changed)
                    yield fact("relation.transposed", one=a, two=b)
                else:
                    yield fact("relation.permuted", axes=axes)
                return
    if got.shape != want.shape and near(got.reshape(want.shape), want, tolerance):
        yield fact("relation.reshaped", got=got.shape, want=want.shape)
        return
    if want.ndim >= 2 and got.shape == want.shape:
        orders = (np.moveaxis(want, axis, -1).reshape(want.shape) for axis in range(want.ndim))
        if any(near(got, order, tolerance) for order in orders):
            yield fact("relation.misordered")
            return
    flat_got, flat_want = np.sort(got, axis=None), np.sort(want, axis=None)
    if want.dtype.kind != "b" and want.size > 2 and len(np.unique(want)) > 2 and near(flat_got, flat_want, tolerance):
        yield fact("relation.elsewhere")


def reduced(got: Array, want: Array, tolerance: Tolerance) -> Iterator[Fact]:
    """Yield facts about a result that is summed or averaged over an axis, not reduced at all, or only a part of the right one."""
    if got.ndim == want.ndim + 1:
        for axis in range(got.ndim):
            if near(got.sum(axis=axis), want, tolerance):
                yield fact("relation.not_summed", axis=axis - got.ndim)
            if near(got.mean(axis=axis), want, tolerance) and got.shape[axis] > 1:
                yield fact("relation.not_averaged", axis=axis - got.ndim)
    if want.ndim and want.size and got.size and got.shape != want.shape and (want == want.flat[0]).all():
        if near(got, np.full(got.shape, want.flat[0]), tolerance):  # if all numbers are equal, sums and parts reveal nothing
            yield fact("relation.constant.number" if got.ndim == 0 else "relation.constant.shape", value=float(want.flat[0]))
            return
        if not want.any():
            return
    for axis in range(want.ndim):
        for keep in (False, True):
            if near(got, want.sum(axis=axis, keepdims=keep), tolerance) and want.shape[axis] > 1:
                yield fact("relation.summed", axis=axis - want.ndim)
            if near(got, want.mean(axis=axis, keepdims=keep), tolerance) and want.shape[axis] > 1:
                yield fact("relation.averaged", axis=axis - want.ndim)
        if got.ndim in (want.ndim, want.ndim - 1) and want.shape[axis] > 1:
            for index, end in ((0, "first"), (-1, "last")):
                part = np.take(want, [index] if got.ndim == want.ndim else index, axis)
                if near(got, part, tolerance):
                    yield fact(f"relation.only.{end}", length=want.shape[axis], axis=axis - want.ndim)
        if got.ndim == want.ndim and got.shape[axis] != want.shape[axis]:
            shorter = min(got.shape[axis], want.shape[axis])
            for end, part in (("first", np.arange(shorter)), ("last", np.arange(-shorter, 0))):
                if near(np.take(got, part, axis), np.take(want, part, axis), tolerance):
                    few = "too_few" if got.shape[axis] < want.shape[axis] else "too_many"
                    yield fact(f"relation.{few}.{end}", axis=axis - want.ndim, count=shorter)
                    break
