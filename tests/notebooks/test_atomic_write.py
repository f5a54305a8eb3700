"""Files are written whole or not at all, and with their permissions from the start."""

import os
from pathlib import Path

import pytest

from autograder.notebooks.atomic_write import write_whole

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")


@posix
@pytest.mark.parametrize("mode", [0o600, 0o444, 0o664])
def test_nobody_reads_a_private_file_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    opened, created = os.open, list[int]()

    def watched(*args: int) -> int:
        descriptor = opened(*args)  # type: ignore[arg-type]  # handed on as it came
        created.append(os.fstat(descriptor).st_mode & 0o777)
        return descriptor

    monkeypatch.setattr(os, "open", watched)
    write_whole(tmp_path / "a" / "key", "secret", mode=mode)
    assert created == [mode & ~_umask()]
    assert (tmp_path / "a" / "key").stat().st_mode & 0o777 == mode


def test_what_a_killed_process_left_behind_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / f".a.{os.getpid()}").write_text("half")
    write_whole(tmp_path / "a", "whole")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "whole"}


def test_the_old_file_stays_where_the_new_one_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_whole(tmp_path / "a", "old")

    def full(*args: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "a", b"new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "old"}


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
