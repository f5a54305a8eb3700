"""A pack is checked as it is loaded: a damaged one ends in an error that names the file, the place and what to do."""

import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder.authoring.course import course_root
from autograder.packs import pack_file
from autograder.packs.schema import ExerciseEntry, Manifest, check_manifest

ROOT = Path(__file__).parents[2]
PACKS = sorted(path for root in (course_root(), ROOT / "tests") for path in root.rglob(f"*{pack_file.SUFFIX}"))
PACK = course_root() / "release" / "03_scaled_dot_product" / f"scaled_dot_product{pack_file.SUFFIX}"
Members = dict[str, Any]
Exercise = dict[str, Any]


def _members() -> tuple[Members, Members]:
    """The manifest of a pack, and the joined arrays."""
    with np.load(PACK) as data:
        members = {name: data[name] for name in data.files}
    return json.loads(members.pop("manifest").tobytes()), members


def _write(path: Path, manifest: Any, members: Members) -> Path:
    np.savez(path, manifest=np.frombuffer(json.dumps(manifest).encode(), np.uint8), **members)
    return path


def _deep(levels: int) -> Any:
    spec: Any = {"s": 1}
    for _ in range(levels):
        spec = {"l": [spec]}
    return [spec, 0, 0]


def _set(*steps: str | int, to: Any) -> Callable[[Exercise], None]:
    """Return a function that changes one place of an exercise."""

    def change(exercise: Exercise) -> None:
        holder: Any = exercise
        for step in steps[:-1]:
            holder = holder[step]
        holder[steps[-1]] = to

    return change


def _digest_or_error(path: Path) -> str:
    try:
        return pack_file.load(path).digest
    except ValueError as error:
        return str(error)


DAMAGES = {
    "a wrong type": (_set("pairs", to="many"), r"Expected `int`, got `str` - at `\$\.exercises\[0\]\.pairs`"),
    "an unknown field": (_set("colour", to="red"), r"unknown field `colour` - at `\$\.exercises\[0\]`"),
    "an unknown field of a case": (_set("cases", 0, "colour", to="red"), r"unknown field `colour` - at `.*\.cases\[0\]`"),
    "a missing hint": (_set("hints", to=[None]), r"Expected `str`, got `null` - at `.*\.hints\[0\]`"),
    "a kind of failure that there is not": (
        _set("cases", 0, "expected", "failure", to=["tired", "", ""]),
        r"Invalid enum value 'tired' - at `.*\.expected\.failure\[0\]`",
    ),
    "a name that is too long": (_set("id", to="a" * 201), r"Expected `str` of length <= 200 - at `.*\.id`"),
    "too many names": (_set("forbid", to=["a"] * 101), r"Expected `array` of length <= 100 - at `.*\.forbid`"),
    "a negative index": (_set("cases", 0, "trail", to=-1), r"Expected `int` >= 0 - at `.*\.trail`"),
    "an index beyond the arrays": (_set("cases", 0, "trail", to=4000), r"expected an array among \d+, got index 4000"),
    "a gradient beyond the arrays": (
        _set("cases", 0, "expected", "grads", to={"Q": [{"a": 0}, 4000, 1]}),
        r"expected an array among \d+, got index 4000",
    ),
    "fingerprints beyond the arrays": (
        _set("cases", 0, "composed", to=[{"a": 0}, 4000, 1]),
        r"expected an array among \d+, got index 4000",
    ),
    "a tree beyond the arrays": (_set("cases", 0, "inputs", to=[{"l": []}, 4000, 1]), r"a tree within \d+ arrays, got 4000 \+ 1"),
    "too deep a tree": (_set("cases", 0, "inputs", to=_deep(9)), r"expected a tree spec of one tag, at most 8 deep"),
    "a tree far too deep": (_set("cases", 0, "inputs", to=_deep(400)), r"expected a tree spec of one tag, at most 8 deep"),
    "one row of fingerprints instead of a table": (_set("cases", 0, "composed", to=[{"a": 0}, 0, 1]), ""),
    "no inputs": (_set("cases", 0, "inputs", to=None), r"Expected `array`, got `null` - at `.*\.cases\[0\]\.inputs`"),
}


@pytest.mark.parametrize("path", PACKS, ids=lambda path: "/".join(path.parts[-3:]))
def test_every_pack_of_the_courses_loads(path: Path) -> None:
    assert pack_file.load(path).exercises


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_manifest_says_where_and_what_to_do(tmp_path: Path, name: str) -> None:
    damage, message = DAMAGES[name]
    manifest, members = _members()
    damage(manifest["exercises"][0])
    path = _write(tmp_path / "a.probes.npz", manifest, members)
    advice = "Delete it. Run `attn update` in your copy of the lessons, or `attn build` in the course itself."
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: expected pack format 3, got a damaged file: .*{message}"):
        pack_file.load(path)
    with pytest.raises(ValueError, match=f"{re.escape(advice)}$"):
        pack_file.load(path)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("change", [-1, 1])
def test_arrays_that_do_not_fill_what_is_in_the_file_are_refused(tmp_path: Path, dtype: str, change: int) -> None:
    manifest, members = _members()
    members[f"a{dtype}"] = np.resize(members[f"a{dtype}"], len(members[f"a{dtype}"]) + change)
    with pytest.raises(ValueError, match=f"damaged file: expected these numbers of each dtype: .*'{dtype}': .*, got .*Delete it"):
        pack_file.load(_write(tmp_path / "a.probes.npz", manifest, members))


@pytest.mark.parametrize("layout", [["float64", [2**40, 2**40]], ["object", [1]], ["float64", [0] * 17], ["float64", [-1]]])
def test_a_layout_of_other_arrays_is_refused(tmp_path: Path, layout: list[Any]) -> None:
    manifest, members = _members()
    manifest["layout"].append(layout)
    with pytest.raises(ValueError, match=r"a.probes.npz: expected pack format 3, got a damaged file: .*Delete it"):
        pack_file.load(_write(tmp_path / "a.probes.npz", manifest, members))


def test_a_file_that_is_no_pack_is_refused(tmp_path: Path) -> None:
    whole = PACK.read_bytes()
    middle = len(whole) // 2
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("a.txt", "no manifest")
    array = io.BytesIO()
    np.save(array, np.zeros(3))
    bare = io.BytesIO()
    with zipfile.ZipFile(bare, "w") as archive:
        archive.writestr("manifest", "{}")
    contents = {
        "empty": b"",
        "an array": array.getvalue(),
        "a manifest that is no array": bare.getvalue(),
        "text": b"<!DOCTYPE html>",
        "cut": whole[:middle],
        "changed": whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :],
        "other": other.getvalue(),
    }
    for name, content in contents.items():
        path = tmp_path / f"{name}.probes.npz"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"{name}.probes.npz: expected pack format 3, got a damaged file: .*`attn update`"):
            pack_file.load(path)


def test_a_file_that_unpacks_into_too_much_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_file, "MAX_BYTES", 1000)
    path = tmp_path / "a.probes.npz"
    path.write_bytes(PACK.read_bytes())
    with pytest.raises(ValueError, match=r"expected at most 1000 bytes, got \d+\. Delete it"):
        pack_file.load(path)


def test_what_could_not_be_loaded_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = pack_file.load(PACK)
    record = next(iter(pack.in_code.values()))
    with pytest.raises(ValueError, match=r"a.probes.npz: expected a pack within the limits .*length <= 200 - at `.*\.operators`"):
        pack_file.save(pack.with_records({record.id: replace(record, operators="a" * 201)}), tmp_path / "a.probes.npz")
    monkeypatch.setattr(pack_file, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match=r"a.probes.npz: expected a pack within the limits .*at most 1000 bytes, got \d+\.$"):
        pack_file.save(pack, tmp_path / "a.probes.npz")
    assert not list(tmp_path.iterdir())


def test_the_schema_asks_for_the_format_and_the_fields_that_are_written() -> None:
    manifest, _ = _members()
    check_manifest(manifest)
    assert manifest["format"] == pack_file.FORMAT
    assert set(manifest) == set(Manifest.__struct_fields__)
    assert set(manifest["exercises"][0]) <= set(ExerciseEntry.__struct_fields__)


def test_a_pack_loads_where_there_is_no_msgspec() -> None:
    code = (
        "import importlib.util, sys; from pathlib import Path\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, package=None: None if name == 'msgspec' else find(name, package)\n"
        "sys.modules['msgspec'] = None\n"
        "from autograder.packs import pack_file\n"
        "print(len(pack_file.load(Path(sys.argv[1])).exercises))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(PACK)], check=True, capture_output=True, text=True, cwd=ROOT)
    assert int(done.stdout) == len(pack_file.load(PACK).exercises)


def test_a_pack_of_format_3_from_before_some_of_its_fields_loads(tmp_path: Path) -> None:
    manifest, members = _members()
    for exercise in manifest["exercises"]:
        for name in ("difficulty", "minutes", "behaviour", "holds", "operators"):
            exercise.pop(name, None)
    found = pack_file.load(_write(tmp_path / "a.probes.npz", manifest, members))
    assert {record.difficulty for record in found.exercises.values()} == {2}


@pytest.mark.parametrize("back", range(1, 121))
def test_a_byte_that_changed_in_the_directory_is_damage(tmp_path: Path, back: int) -> None:
    content = bytearray(PACK.read_bytes())
    content[-back] ^= 1 << back % 8
    path = tmp_path / "a.probes.npz"
    path.write_bytes(content)
    outcome = _digest_or_error(path)  # a date, say, may change without harm
    assert outcome.startswith(f"{path}: expected pack format 3, got a damaged file: ") or outcome == _digest_or_error(PACK)


def test_a_trail_that_is_null_is_none(tmp_path: Path) -> None:
    manifest, members = _members()
    manifest["exercises"][0]["cases"][0]["trail"] = None
    pack = pack_file.load(_write(tmp_path / "a.probes.npz", manifest, members))
    assert pack.in_code[manifest["exercises"][0]["id"]].cases[0].trail.size == 0
