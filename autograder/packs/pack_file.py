"""Probe packs: a lesson's probes, expected outputs and the outputs of each named mistake, in one small file.

`save` and `load` store a pack as `.npz` without pickle, so a learner's machine needs neither the answers nor the exercise
declarations. `make_pack` makes one.
"""

import functools
import hashlib
import importlib.util
import io
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from autograder.judging.records import AnyRecord, ExerciseRecord
from autograder.judging.values import MAX_BYTES, Array
from autograder.packs.record_json import from_json, nearly, to_json

FORMAT = 3
SUFFIX = ".probes.npz"
MAKE_AGAIN = "Run `attn update` in your copy of the lessons, or `attn build` in the course itself."
UNIX = 3  # stored in each zip member as the system that made it, so that the bytes are the same on any system


@dataclass(frozen=True)
class Pack:
    """A lesson's exercises as data."""

    lesson: str
    title: str
    exercises: dict[str, AnyRecord]

    @property
    def points(self) -> float:
        return sum(exercise.points for exercise in self.exercises.values())

    @functools.cached_property
    def in_code(self) -> dict[str, ExerciseRecord]:
        """Return the exercises that are answered by code: all but the predictions."""
        return {name: record for name, record in self.exercises.items() if isinstance(record, ExerciseRecord)}

    @property
    def without_repair(self) -> "Pack":
        """Return the same pack for a course in which `check` does not search for a repair."""
        return self.with_records({name: replace(record, repairs=False) for name, record in self.in_code.items()})

    def with_records(self, records: Mapping[str, ExerciseRecord]) -> "Pack":
        """Return the same pack with other `records` of these names."""
        return replace(self, exercises={**self.exercises, **records})

    @property
    def near_counts(self) -> dict[str, int]:
        """Count, for each exercise, the programs with unlisted mistakes that it recognises."""
        return {name: len({near for case in record.cases for near in case.near}) for name, record in self.in_code.items()}

    @functools.cached_property
    def digest(self) -> str:
        """Return a hash of the whole content."""
        arrays: list[Array] = []
        text = json.dumps([to_json(exercise, arrays) for exercise in self.exercises.values()], sort_keys=True)
        return hashlib.sha256(b"\0".join([text.encode(), *(a.tobytes() for a in arrays)])).hexdigest()


def save(pack: Pack, path: Path) -> None:
    """Write `pack` deterministically: the same content gives the same bytes. Raises ValueError if `load` would refuse it.

    All arrays of one dtype are joined, because a file of its own would cost each array 200 bytes. `layout` lists each array's
    dtype and shape in order.
    """
    arrays: list[Array] = []
    manifest = {
        "format": FORMAT,
        "lesson": pack.lesson,
        "title": pack.title,
        "exercises": [to_json(exercise, arrays) for exercise in pack.exercises.values()],
    }
    manifest["layout"] = [[array.dtype.name, list(array.shape)] for array in arrays]
    joined = {
        dtype: np.concatenate([array.ravel() for array in arrays if array.dtype.name == dtype])
        for dtype in sorted({array.dtype.name for array in arrays})
    }
    text = json.dumps(manifest, sort_keys=True)
    members = {"manifest": np.frombuffer(text.encode(), np.uint8)}
    members |= {f"a{dtype}": numbers for dtype, numbers in joined.items()}
    files = {f"{name}.npy": _npy(array) for name, array in members.items()}
    try:
        _check_size(sum(map(len, files.values())))
        _check_manifest(json.loads(text))
    except ValueError as error:
        raise ValueError(f"{path}: expected a pack within the limits of `packs.schema`, got one outside: {error}.") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:  # by hand: what `np.savez_compressed` writes depends on the version of Python
        for name, content in files.items():
            member = zipfile.ZipInfo(name)
            member.create_system, member.compress_type = UNIX, zipfile.ZIP_DEFLATED
            archive.writestr(member, content)


def _npy(array: Array) -> bytes:
    """Return the content of an `.npy` file."""
    content = io.BytesIO()
    np.lib.format.write_array(content, array, allow_pickle=False)
    return content.getvalue()


def load(path: Path) -> Pack:
    """Return the pack at `path`, cached until the file changes."""
    return _load(str(path), path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=32)
def _load(path: str, _modified: int) -> Pack:
    with open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as data:
                _check_size(sum(member.file_size for member in data.zip.infolist()))
                manifest = json.loads(data["manifest"].tobytes())
                version = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
                if version == FORMAT:
                    _check_manifest(manifest)
                    arrays = _parted(manifest["layout"], {name[1:]: data[name] for name in data.files if name != "manifest"})
                    exercises = [from_json(entry, arrays) for entry in manifest["exercises"]]
                    return Pack(manifest["lesson"], manifest["title"], {exercise.id: exercise for exercise in exercises})
        except Exception as error:  # one bit of a zip file decides among a dozen types of exceptions
            reason = str(error).rstrip(".")
            raise ValueError(
                f"{path}: expected pack format {FORMAT}, got a damaged file: {reason}. Delete it. {MAKE_AGAIN}"
            ) from None
    raise ValueError(f"{path}: expected pack format {FORMAT}, got {version}. {MAKE_AGAIN}")


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise ValueError(f"expected at most {MAX_BYTES} bytes, got {size}")


def _check_manifest(manifest: Any) -> None:
    """Raise ValueError if the manifest is not what `save` writes, where msgspec is installed."""
    if importlib.util.find_spec("msgspec"):  # a browser has none, and loads the packs of its own site only
        from autograder.packs.schema import check_manifest

        check_manifest(manifest)


def _parted(layout: Sequence[tuple[str, Sequence[int]]], joined: Mapping[str, Array]) -> list[Array]:
    """Split the joined arrays into copies of the original ones. Raises ValueError if `layout` doesn't fit the `joined` arrays."""
    begun = {dtype: 0 for dtype, _ in layout}
    places = []
    for dtype, shape in layout:
        first, begun[dtype] = begun[dtype], begun[dtype] + math.prod(shape)
        places.append(slice(first, begun[dtype]))
    if begun != (stored := {dtype: numbers.size for dtype, numbers in joined.items()}):
        raise ValueError(f"expected these numbers of each dtype: {begun}, got {stored}")
    return [joined[dtype][place].reshape(shape).copy() for (dtype, shape), place in zip(layout, places, strict=True)]


def differences(pack: Pack, other: Pack) -> list[str]:
    """Return where two packs differ by more than rounding (another machine's BLAS may round the last digit differently).

    Programs near a right one decide no mark and take long to make, so they are compared only if both packs have them.
    """
    if not (_has_near(pack) and _has_near(other)):
        pack, other = _without_near(pack), _without_near(other)
    left, right = list[Array](), list[Array]()
    a, b = ([to_json(e, arrays) for e in held.exercises.values()] for held, arrays in ((pack, left), (other, right)))
    found = [f"{x['id']}: declaration or shapes differ" for x, y in zip(a, b, strict=False) if not nearly(x, y)]
    if [x["id"] for x in a] != [y["id"] for y in b] or len(left) != len(right):
        return [*found, f"exercises: {[x['id'] for x in a]} against {[y['id'] for y in b]}"]
    differing = [
        x for x, y in zip(left, right, strict=True) if x.shape != y.shape or not np.allclose(x, y, 1e-6, 1e-9, equal_nan=True)
    ]
    return [*found, *(f"an array of shape {x.shape} differs" for x in differing[:1])]


def _has_near(held: Pack) -> bool:
    return any(case.near for exercise in held.in_code.values() for case in exercise.cases)


def _without_near(held: Pack) -> Pack:
    def bare(exercise: ExerciseRecord) -> ExerciseRecord:
        return replace(exercise, near=(), cases=[replace(case, near={}, trail=case.trail[:0]) for case in exercise.cases])

    return held.with_records({name: bare(exercise) for name, exercise in held.in_code.items()})
