"""Downloads of learning platforms come in whole; what is hostile in them stays out, file by file."""

import io
import json
import logging
import os
import shutil
import subprocess
import sys
import zipfile
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nbgrader.api import Gradebook

from autograder.authoring.course import CourseError
from autograder.cli import main
from autograder.grading import find_notebook, submitted_folders
from autograder.grading.collect import collect, survey
from autograder.grading.find_notebook import read_folder
from autograder.notebooks import archives

ROOT = Path(__file__).resolve().parents[2]
LESSON = "03_scaled_dot_product"
NOTE = f"{LESSON}.ipynb"
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")


def packed(entries: dict[str | zipfile.ZipInfo, bytes | str], **named: Any) -> bytes:
    """A zip with `entries`; a name may be a ZipInfo with a date, attributes or other oddities."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **named) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return file.getvalue()


def dated(name: str, minute: int = 0, **more: Any) -> zipfile.ZipInfo:
    """An entry written at 2026-01-02 10:`minute`."""
    info = zipfile.ZipInfo(name, (2026, 1, 2, 10, minute, 0))
    for key, value in more.items():
        setattr(info, key, value)
    return info


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course folder that knows the lesson's name and nothing else."""
    root = tmp_path / "course"
    released = root / "release" / LESSON / NOTE
    released.parent.mkdir(parents=True)
    released.write_text("{}")
    (root / "nbgrader_config.py").write_text((Path(__file__).parents[2] / "course" / "nbgrader_config.py").read_text())
    return root


def saved(folder: Path, data: bytes, name: str = "download.zip") -> Path:
    """`data` as a file outside the course."""
    path = folder / name
    path.write_bytes(data)
    return path


def everything(folder: Path) -> set[str]:
    """All files below `folder`."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() or path.is_symlink()}


def reasons(data: bytes, folder: Path) -> dict[str, str]:
    """What is refused of a zip, and why."""
    return {each.path: each.reason for each in survey(saved(folder, data), LESSON, {}).refused}


def test_moodle_and_canvas_names_become_students_whose_ids_the_gradebook_knows(tmp_path: Path) -> None:
    moodle = {f"Ann Smith_12345_assignsubmission_file_/{NOTE}": "a", f"Zoë O'Neil_77_assignsubmission_file_{NOTE}": "z"}
    canvas = {"smithann_late_12345_67890_03_scaled_dot_product-2.ipynb": "c", f"oneilzoe_77_67891_{NOTE}": "d"}
    for entries in (moodle, canvas):
        found = survey(saved(tmp_path, packed(entries)), LESSON, {"12345": "ann"})
        assert found.refused == []
        assert "ann" in found.taken
        assert [name for name in found.taken if name != "ann"] in (["zoe-o-neil-77"], ["oneilzoe-77"])
    assert [str(each) for each in found.remarks] == [
        "ann: marked late by the platform: smithann_late_12345_67890_03_scaled_dot_product-2.ipynb"
    ]


def test_the_gradebook_is_told_names_and_ids_as_far_as_the_platform_gives_them(course: Path, tmp_path: Path) -> None:
    moodle = {f"Ann van der Berg_12345_assignsubmission_file_/{NOTE}": "a", "Zoë Pop_77_assignsubmission_file_/x.pdf": "z"}
    collect(course, LESSON, saved(tmp_path, packed(moodle)))
    collect(course, LESSON, saved(tmp_path, packed({f"smithann_LATE_880103_616_{NOTE}": "c", "oneil_77_text.html": "t"})))
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        found = {one.id: (one.first_name, one.last_name, one.lms_user_id) for one in book.students}
    assert found == {
        "ann-van-der-berg-12345": ("Ann van der", "Berg", None),  # Moodle's number is another in the next assignment
        "zoe-pop-77": ("Zoë", "Pop", None),
        "smithann-880103": (None, None, "880103"),
        "oneil-77": (None, None, "77"),
    }


def test_who_is_on_the_class_list_is_found_by_the_platforms_id_or_by_a_name_that_nobody_shares(
    course: Path, tmp_path: Path
) -> None:
    (course / "students.csv").write_text(
        'id,name,lms_user_id\nann,"Smith, Ann",880103\nben,Ben Ma,\ncy,Cy Young,\n', encoding="utf-8"
    )
    people = ("Ann Smith_5", "Ben Ma_6", "ben ma_7", "Dee Fox_8", "CY YOUNG_9")
    found = collect(course, LESSON, saved(tmp_path, packed({f"{who}_assignsubmission_file_/{NOTE}": who for who in people})))
    assert set(found.taken) == {"ann", "cy", "ben-ma-6", "ben-ma-7", "dee-fox-8"}
    found = collect(course, LESSON, saved(tmp_path, packed({f"smithann_880103_616_{NOTE}": "Ann Smith_5"})))
    assert found.unchanged == ["ann"]


@pytest.mark.parametrize("kind", ["file", "onlinetext"])
def test_moodles_folders_are_understood_with_and_without_an_underscore_at_their_end(kind: str, tmp_path: Path) -> None:
    inside = NOTE if kind == "file" else "onlinetext.html"
    for end in ("", "_"):  # from Moodle 4.1 on there is none
        entries: dict[Any, Any] = {
            f"Ann Smith_7_assignsubmission_file{end}/{NOTE}": "a",
            f"Ben Ma_8_assignsubmission_{kind}{end}/{inside}": "b",
        }
        found = survey(saved(tmp_path, packed(entries)), LESSON, {}, {"ann smith": "ann", "ben ma": "ben"})
        assert {*found.taken, *found.beside} == {"ann", "ben"}


def test_who_is_not_on_the_class_list_is_named_and_so_is_a_name_that_two_share(course: Path, tmp_path: Path) -> None:
    people: dict[Any, Any] = {f"{who}_assignsubmission_file/{NOTE}": who for who in ("Ann Smith_5", "Dee Fox_8", "Cy Young_9")}
    download = saved(tmp_path, packed(people))
    assert collect(course, LESSON, download).remarks == [], "there is no list"
    (course / "students.csv").write_text("id,name\nann1,Ann Smith\nann2,Ann Smith\ncy,Cy Young\n", encoding="utf-8")
    what = "Write {0} there as the id of the right one, then collect again"
    assert [str(each) for each in collect(course, LESSON, download, force=True).remarks] == [
        f"ann-smith-5: your class list has 2 students called Ann Smith. {what.format('ann-smith-5')}",
        f"dee-fox-8: not on your class list. {what.format('dee-fox-8')}",
    ]
    assert collect(course, LESSON, download).remarks == [], "it has been said"


def test_another_lessons_notebook_is_refused_and_laid_where_the_students_page_will_speak_of_it(
    course: Path, tmp_path: Path
) -> None:
    other = "02_scoring_functions.ipynb"
    entries: dict[Any, Any] = {f"ann/{other}": "{}", f"ben/{other}": "{}", f"ben/{NOTE}": "{}"}
    found = collect(course, LESSON, saved(tmp_path, packed(entries)))
    assert (set(found.taken), [each.path for each in found.refused]) == ({"ben"}, [f"ann/{other}"])
    assert f"expected {NOTE}, got {other}, which is called like another lesson" in found.refused[0].reason
    handed = read_folder(course / "submitted" / "ann" / LESSON, LESSON)
    assert handed.notes == (f"read from {other}: expected {NOTE}",)


def test_what_the_platform_marked_late_reaches_the_grader_until_it_says_otherwise(course: Path, tmp_path: Path) -> None:
    def handed(late: bool) -> submitted_folders.Job:
        name = f"smithann_{'LATE_' if late else ''}880103_616_{NOTE}"
        collect(course, LESSON, saved(tmp_path, packed({name: "{}"})), force=True)
        return submitted_folders.read(course, LESSON, scheme, "smithann-880103")

    scheme: Any = SimpleNamespace(digest="d")
    late, in_time = handed(late=True), handed(late=False)
    assert (late.marked_late, in_time.marked_late) == (True, False)
    assert late.key != in_time.key, "else the report would keep what it said before"


def test_a_class_that_also_wrote_into_moodles_text_box_has_nobody_twice(course: Path, tmp_path: Path) -> None:
    people = [f"Student {number}_{4000 + number}_assignsubmission" for number in range(150)]
    entries: dict[Any, Any] = {f"{person}_file_/{NOTE}": person for person in people}
    entries |= {f"{person}_onlinetext_/onlinetext.html": "<p>Here it is.</p>" for person in people}
    found = collect(course, LESSON, saved(tmp_path, packed(entries)))
    expected = {f"student-{number}-{4000 + number}" for number in range(150)}
    assert set(found.taken) == {path.name for path in (course / "submitted").iterdir()} == expected
    assert not found.refused


def test_moodles_online_text_is_the_same_student_and_the_file_wins(course: Path, tmp_path: Path) -> None:
    entries: dict[Any, Any] = {
        f"Fay Moe_4716_assignsubmission_file_/{NOTE}": "f",
        "Fay Moe_4716_assignsubmission_onlinetext_/onlinetext.html": "<p>See my file.</p>",
        "Gus Lee_4717_assignsubmission_onlinetext_/onlinetext.html": "<p>I forgot the file.</p>",
    }
    found = collect(course, LESSON, saved(tmp_path, packed(entries)))
    assert {name: hit.file.data for name, hit in found.taken.items()} == {"fay-moe-4716": b"f"}
    assert [each.path for each in found.refused] == ["Gus Lee_4717_assignsubmission_onlinetext_/onlinetext.html"]
    assert "no file was handed in: it is text typed into the platform's box" in found.refused[0].reason
    assert sorted(path.name for path in (course / "submitted").iterdir()) == ["fay-moe-4716", "gus-lee-4717"]
    handed = read_folder(course / "submitted" / "gus-lee-4717" / LESSON, LESSON)
    assert "found onlinetext.html: it is text typed into the platform's box" in handed.unreadable


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("azizomar_880145_text.html", "it is text typed into the platform's box"),
        ("azizomar_LATE_880145_text.html", "it is text typed into the platform's box"),
        ("azizomar_880145_6161030_text.html", "it is text typed into the platform's box"),
        ("azizomar_880145_link.html", "it is a link, and the notebook behind it may change after the due date"),
    ],
)
def test_what_canvas_lays_in_place_of_a_file_is_no_printed_page(name: str, says: str, course: Path, tmp_path: Path) -> None:
    found = collect(course, LESSON, saved(tmp_path, packed({name: "<p>Here it is.</p>"})))
    assert f"no file was handed in: {says}" in found.refused[0].reason
    folder = course / "submitted" / "azizomar-880145" / LESSON
    assert says in read_folder(folder, LESSON).unreadable
    (path,) = folder.glob("*.html")
    path.rename(folder / name)  # as where somebody copied it by hand
    assert says in read_folder(folder, LESSON).unreadable
    path.with_name("my text.html").write_text("<p>")
    path.with_name(name).unlink()
    assert "a web page printed from a notebook" in read_folder(folder, LESSON).unreadable


@pytest.mark.skipif(not (ROOT / ".git").exists() or not shutil.which("git"), reason="no working copy of git here")
def test_git_never_sees_grades_or_what_students_handed_in() -> None:
    written = ("grades.csv", "canvas.csv", "moodle.csv", "moodle.zip", "gradescope/ann/results.json", "downloaded/01/ann.ipynb")
    paths = [f"{folder}{name}" for folder in ("", "course/") for name in written] + ["course/students.csv", "course/gradebook.db"]
    said = subprocess.run(["git", "check-ignore", "--no-index", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout.split() == paths


def test_folders_and_zips_named_for_students_are_understood(tmp_path: Path) -> None:
    (tmp_path / "in" / "ann").mkdir(parents=True)
    (tmp_path / "in" / "ann" / NOTE).write_text("a")
    (tmp_path / "in" / "bob.zip").write_bytes(packed({f"work/{NOTE}": "b", "__MACOSX/._x": "", ".ipynb_checkpoints/x.ipynb": ""}))
    found = survey(tmp_path / "in", LESSON, {})
    assert {name: hit.file.data for name, hit in found.taken.items()} == {"ann": b"a", "bob": b"b"}
    assert found.refused == []


def test_the_later_of_two_submissions_is_taken_and_it_is_said(tmp_path: Path) -> None:
    entries: dict[Any, Any] = {dated(f"ann_1_5_{NOTE}", 9): "new", dated(f"ann_1_4_{NOTE}", 3): "old"}
    entries |= {dated(f"bob_2_6_{LESSON}-1.ipynb"): "first", dated(f"bob_2_6_{LESSON}-2.ipynb"): "second"}
    found = survey(saved(tmp_path, packed(entries)), LESSON, {})
    assert {name: hit.file.data for name, hit in found.taken.items()} == {"ann-1": b"new", "bob-2": b"second"}
    assert any(
        f"ann-1: 2 submissions, the later is taken: ann_1_5_{NOTE} (not ann_1_4_{NOTE})" in str(said) for said in found.remarks
    )
    even: dict[Any, Any] = {dated(f"ann/a/{NOTE}"): "x", dated(f"ann/b/{NOTE}"): "y"}
    found = survey(saved(tmp_path, packed(even)), LESSON, {})
    assert (found.taken, len(found.refused)) == ({}, 2)
    assert "none is later" in found.refused[0].reason


def test_a_zip_named_for_a_student_is_theirs_whatever_names_are_in_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "eve.zip").write_bytes(packed({f"Bob Jones_2_assignsubmission_file_/{NOTE}": "forged"}))
    assert set(survey(tmp_path / "in", LESSON, {}).taken) == {"eve"}


def test_nobody_hands_in_for_another_from_within_their_own_archive(tmp_path: Path) -> None:
    forged = packed({f"Bob Jones_2_assignsubmission_file_/{NOTE}": "forged"})
    entries: dict[Any, Any] = {
        dated("Eve Moss_1_assignsubmission_file_/mine.zip", 5): forged,
        dated(f"Bob Jones_2_assignsubmission_file_/{NOTE}"): "real",
    }
    found = survey(saved(tmp_path, packed(entries)), LESSON, {})
    assert {name: hit.file.data for name, hit in found.taken.items()} == {"eve-moss-1": b"forged", "bob-jones-2": b"real"}
    assert found.taken["eve-moss-1"].order[0] == datetime(2026, 1, 2, 10, 5)  # the platform's time, not the learner's


LINK = {"external_attr": 0o120777 << 16}
ATTACKS: dict[str, tuple[dict[Any, Any], str]] = {
    "leads out": ({f"../../x/{NOTE}": "x"}, "leads out"),
    "leads out from within": ({f"ann/../../{NOTE}": "x"}, "leads out"),
    "absolute": ({f"/etc/{NOTE}": "x"}, "absolute"),
    "a drive": ({f"C:/ann/{NOTE}": "x"}, "absolute"),
    "a backslash": ({f"ann\\..\\..\\{NOTE}": "x"}, "backslash"),
    "a stream": ({f"ann/{NOTE}:x.ipynb": "x"}, "colon"),
    "a link": ({dated(f"ann/{NOTE}", **LINK): "/etc/passwd"}, "a link"),
    "a device node": ({dated(f"ann/{NOTE}", external_attr=0o020666 << 16): ""}, "special file"),
    "a device's name": ({"aux/con.ipynb": "x"}, "no file's name on Windows"),
    "a name ending in a dot": ({f"ann./{NOTE}": "x"}, "no file's name on Windows"),
    "turned letters": ({f"ann\u202e/{NOTE}": "x"}, "cannot be shown"),
    "a line end": ({f"ann\n/{NOTE}": "x"}, "cannot be shown"),
    "a long name": ({f"ann/{'x' * 300}.ipynb": "x"}, "too long"),
    "two but for capitals": ({f"ann/{NOTE}": "x", f"ANN/{NOTE}": "y"}, "twice"),
    "too large": ({f"ann/{NOTE}": os.urandom(21 << 20)}, "at most 20 MiB"),
    "another archive": ({"ann/x.tar.zst": "x"}, "a .zip archive"),
    "another kind": ({"ann/x.exe": "x"}, "a notebook"),
    "nobody's": ({NOTE: "x"}, "whose is it"),
    "a zip in a zip in a zip": ({"ann/a.zip": packed({"b.zip": packed({NOTE: "x"})})}, "archive in an archive in an archive"),
    "many in a zip in a zip": ({"ann/a.zip": packed({f"{i}.ipynb": "" for i in range(1500)})}, "at most 1000 files"),
    "no zip": ({"ann/a.zip": b"PK\3\4 nothing"}, "not a zip archive"),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_hostile_is_refused_by_name_while_the_rest_is_taken(attack: str, course: Path, tmp_path: Path) -> None:
    entries, reason = ATTACKS[attack]
    before = everything(tmp_path)
    download = saved(tmp_path, packed({**entries, f"honest/{NOTE}": "h"}))
    found = collect(course, LESSON, download)
    assert found.refused
    assert all(reason in each.reason for each in found.refused), found.refused
    assert not any(character in each.path for each in found.refused for character in "\u202e\n")
    assert set(found.taken) == {"honest"}
    made = everything(tmp_path) - before - {"download.zip"}
    assert made == {f"course/downloaded/{LESSON}/extracted/honest/{NOTE}", f"course/submitted/honest/{LESSON}/{NOTE}"}


def test_bombs_are_refused_whatever_their_own_figures_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = packed({f"ann/{NOTE}": b"0" * (15 << 20)}, compression=zipfile.ZIP_DEFLATED)
    assert "to 1, as no notebook is" in reasons(bomb, tmp_path)[f"ann/{NOTE}"]
    lying = bytearray(bomb)
    for at in (lying.find(b"PK\x03\x04") + 22, lying.find(b"PK\x01\x02") + 24):
        lying[at : at + 4] = (100).to_bytes(4, "little")
    assert list(reasons(bytes(lying), tmp_path)) == [f"ann/{NOTE}"]
    monkeypatch.setattr(archives, "MAX_ENTRIES", 50)
    assert "at most 50 files" in next(iter(reasons(packed({f"{i}/{NOTE}": "" for i in range(60)}), tmp_path).values()))
    monkeypatch.setattr(archives, "MAX_TOTAL", 10)
    found = survey(saved(tmp_path, packed({f"ann/{NOTE}": "x" * 8, f"bob/{NOTE}": "x" * 8})), LESSON, {})
    assert set(found.taken) == {"ann"}
    assert "collect in parts" in found.refused[0].reason


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_doubled_names_and_names_behind_a_zero_byte_are_refused(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for text in ("one", "two"):
            archive.writestr(f"ann/{NOTE}", text)
    assert "twice" in reasons(file.getvalue(), tmp_path)[f"ann/{NOTE}"]
    zero = packed({f"ann/{NOTE}X.txt": "x"}).replace(f"{NOTE}X.txt".encode(), f"{NOTE}\0.txt".encode())
    assert "zero byte" in reasons(zero, tmp_path)[f"ann/{NOTE}"]


def test_encrypted_truncated_and_damaged_archives_say_so(tmp_path: Path) -> None:
    data = bytearray(packed({f"ann/{NOTE}": "hello hello"}))
    locked = bytes(data).replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01")
    assert reasons(locked, tmp_path)[f"ann/{NOTE}"] == "it is encrypted"
    assert "not a zip archive" in reasons(bytes(data[:40]), tmp_path)["the archive"]
    damaged = bytes(data).replace(b"hello hello", b"hello_hello")
    assert "could not be unpacked" in reasons(damaged, tmp_path)[f"ann/{NOTE}"]


@pytest.mark.parametrize("kind", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_what_is_packed_in_an_unusual_way_is_not_unpacked(kind: int, tmp_path: Path) -> None:
    """LZMA takes as much memory as the archive says: four gigabytes, if it says so."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"ann/{NOTE}", "{}", compress_type=kind)
        archive.writestr(f"honest/{NOTE}", "{}")
    found = survey(saved(tmp_path, file.getvalue()), LESSON, {})
    assert set(found.taken) == {"honest"}
    assert "unusual way" in found.refused[0].reason


@pytest.mark.parametrize("name", [NOTE, "notes.pdf"])
@pytest.mark.parametrize("seconds", [-1e11, 1e11, 1e17])
def test_a_time_that_no_calendar_has_stops_nobody(
    seconds: float, name: str, course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of the year 5138, or of one with nine digits, beside an honest one."""
    for who in ("ann", "honest"):
        (tmp_path / "in" / who).mkdir(parents=True)
    (tmp_path / "in" / "ann" / name).write_text("{}")
    (tmp_path / "in" / "honest" / NOTE).write_text("{}")
    kept = os.fstat

    def odd(handle: int) -> os.stat_result:  # few disks hold such a time; some do
        found = kept(handle)
        mine = os.readlink(f"/proc/self/fd/{handle}").endswith(f"ann/{name}")
        return os.stat_result([*found[:7], seconds, seconds, seconds], {"st_mtime": seconds}) if mine else found

    monkeypatch.setattr(archives.os, "fstat", odd)
    taken = collect(course, LESSON, tmp_path / "in", zone="Pacific/Kiritimati").taken
    assert set(taken) == ({"ann", "honest"} if name == NOTE else {"honest"})


def test_a_date_in_an_archive_that_is_none_stops_nobody(tmp_path: Path) -> None:
    data = packed({dated(f"ann/{NOTE}"): "{}", dated("bob/notes.pdf"): "x", f"honest/{NOTE}": "{}"})
    none = (0).to_bytes(2, "little")  # month 0, day 0
    for name in (f"ann/{NOTE}", "bob/notes.pdf"):
        at = data.rindex(name.encode()) - 46 + 14
        data = data[:at] + none + data[at + 2 :]
    assert set(survey(saved(tmp_path, data), LESSON, {}).taken) == {"ann", "honest"}


def test_links_and_pipes_and_unreadable_names_in_a_folder_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for name in ("ann", "bob", "cy"):
        (folder / name).mkdir(parents=True)
    (folder / "ann" / NOTE).symlink_to("/etc/hostname")
    os.mkfifo(folder / "bob" / NOTE)
    (folder / "dee").symlink_to(folder / "cy")
    (Path(os.fsdecode(os.fsencode(folder / "cy") + b"/\xff.ipynb"))).write_text("x")
    found = {each.path: each.reason for each in survey(folder, LESSON, {}).refused}
    assert "links are not followed" in found[f"ann/{NOTE}"]
    assert "regular file" in found[f"bob/{NOTE}"]
    assert "cannot be shown" in found["cy/?.ipynb"]
    assert "dee" in found
    (tmp_path / "l.zip").symlink_to(folder)
    assert "it is a link" in survey(tmp_path / "l.zip", LESSON, {}).refused[0].reason


def test_nothing_is_written_through_links_in_the_course(course: Path, tmp_path: Path) -> None:
    download, away = saved(tmp_path, packed({f"ann/{NOTE}": "x"})), tmp_path / "away"
    away.mkdir()
    (course / "submitted").mkdir()
    (course / "submitted" / "ann").symlink_to(away)
    assert "is a link" in collect(course, LESSON, download).refused[0].reason
    (course / "submitted" / "ann").unlink()
    (course / "submitted").rmdir()
    (course / "submitted").symlink_to(away)
    with pytest.raises(CourseError, match="got a link"):
        collect(course, LESSON, download)
    assert list(away.iterdir()) == []


def test_a_submission_that_is_there_stays_unless_forced_and_times_are_taken_when_asked_for(course: Path, tmp_path: Path) -> None:
    download = saved(tmp_path, packed({dated(f"ann/{NOTE}"): "one"}))
    collect(course, LESSON, download)
    target = course / "submitted" / "ann" / LESSON
    assert everything(target) == {NOTE}
    download = saved(tmp_path, packed({dated(f"ann/{NOTE}"): "two"}))
    assert "--force replaces it" in collect(course, LESSON, download).refused[0].reason
    assert (target / NOTE).read_text() == "one"
    collect(course, LESSON, download, force=True, zone="Europe/Berlin")
    assert (target / NOTE).read_text() == "two"
    assert (target / "timestamp.txt").read_text().startswith("2026-01-02 09:00:00")
    with pytest.raises(CourseError, match="time zone"):
        collect(course, LESSON, download, force=True, zone="Middle/Earth")
    with pytest.raises(CourseError, match="found none"):
        collect(course, LESSON, tmp_path / "nothing.zip")


def test_the_command_says_what_it_took_and_what_not(
    course: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("autograder.authoring.course.course_root", lambda: course)
    (course / "lessons").mkdir(exist_ok=True)
    (course / "lessons" / f"{LESSON}.md").touch()
    entries: dict[Any, Any] = {f"ann_late_1_2_{NOTE}": "x", "bob/x.pdf": "y", "cy/work.py": "z = 1"}
    download = saved(tmp_path, packed(entries))
    assert main(["collect", str(download), "--assignment", "03"]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown == [
        f"ann-1: marked late by the platform: ann_late_1_2_{NOTE}",
        "cy: no notebook, but cy/work.py: `attn grade` reads what it can of it",
        "✗ bob/x.pdf: expected a notebook (.ipynb) or a .zip archive. Their page will say so",
        f"{LESSON}: 2 taken (1 of them a script), 1 refused.",
    ]
    assert not [line for line in caplog.records if line.levelno < logging.ERROR], "nbgrader's own lines are left out"
    entries[f"ann_late_1_2_{NOTE}"] = "changed"
    download = saved(tmp_path, packed(entries))
    assert main(["collect", str(download), "--assignment", "03", "--json"]) == 1
    assert "--force" in json.loads(capsys.readouterr().out)["refused"][f"ann_late_1_2_{NOTE}"]
    assert main(["collect", str(tmp_path / "none.zip"), "--assignment", "03"]) == 2
    assert "Download it" in capsys.readouterr().err


def test_a_collection_that_is_repeated_says_in_one_sentence_that_nothing_changed(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("autograder.authoring.course.course_root", lambda: course)
    (course / "lessons").mkdir()
    (course / "lessons" / f"{LESSON}.md").touch()
    entries: dict[Any, Any] = {dated(f"student{number}_{number}_{number}_{NOTE}"): "x" for number in range(34)}
    entries |= {dated("ann/photo.png"): "p", dated(f"ann/{NOTE}"): "a", dated("bob/x.pdf"): "y", dated("cy/work.py"): "z = 1"}
    download = saved(tmp_path, packed(entries))
    command = ["collect", str(download), "--assignment", "03"]
    assert main(command) == 1
    assert "36 taken (1 of them a script), 1 refused" in capsys.readouterr().out
    before = everything(course / "submitted")
    assert main(command) == 0
    assert capsys.readouterr().out == f"{LESSON}: 37 already collected, unchanged.\n"
    assert everything(course / "submitted") == before
    assert main([*command, "--times", "Europe/Berlin"]) == 1, "these times are not there yet, so it is no repetition"
    assert "37 refused" in capsys.readouterr().out
    main([*command, "--times", "Europe/Berlin", "--force"])
    capsys.readouterr()
    assert main([*command, "--times", "Europe/Berlin"]) == 0
    assert "37 already collected" in capsys.readouterr().out
    changed = {name: "z = 2" if data == "z = 1" else data for name, data in entries.items()}
    download = saved(tmp_path, packed(changed))
    assert main(command) == 1
    assert (
        f"✗ cy/work.py: cy has a submission already: --force replaces it\n{LESSON}: 0 taken, 1 refused, 36 already"
        in capsys.readouterr().out
    )
    main([*command, "--force"])
    assert (course / "submitted" / "cy" / LESSON / "work.py").read_text() == "z = 2"


def test_plain_nbgrader_zip_collect_takes_the_same_with_the_courses_settings(course: Path, tmp_path: Path) -> None:
    archive = course / "downloaded" / LESSON / "archive"
    archive.mkdir(parents=True)
    saved(archive, packed({f"Ann Smith_1_assignsubmission_file_/{NOTE}": "a", f"../../evil/{NOTE}": "x"}))
    command = [sys.executable, "-m", "nbgrader", "zip_collect", LESSON]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "leads out of the archive" in done.stderr
    assert (course / "submitted" / "ann-smith-1" / LESSON / NOTE).read_text() == "a"
    assert not (course.parent / "evil").exists()
    assert [path.name for path in (course / "submitted").iterdir()] == ["ann-smith-1"]


@pytest.mark.parametrize(
    "name",
    [
        f"annsmith_4711_815_x_4712_assignsubmission_file_{NOTE}",  # Canvas keeps the name that Ann gave her file
        f"Ann Smith_4711_assignsubmission_file_Bob_4712_assignsubmission_file_{NOTE}",  # and so does Moodle without folders
    ],
)
def test_a_files_own_name_cannot_make_it_anothers(name: str, tmp_path: Path) -> None:
    found = survey(saved(tmp_path, packed({name: "{}"})), LESSON, {"4711": "ann", "4712": "bob"})
    assert found.taken == {}
    assert ["Whose is it?" in each.reason for each in found.refused] == [True]


def test_a_name_that_no_folder_can_have_costs_itself_alone(tmp_path: Path) -> None:
    entries = {f"{'漢' * 70}_1_assignsubmission_file_/{NOTE}": "a", f"Bob_2_assignsubmission_file_/{NOTE}": "b"}
    found = survey(saved(tmp_path, packed(entries)), LESSON, {})
    assert list(found.taken) == ["Bob-2"]
    assert ["short id" in each.reason for each in found.refused] == [True]


def test_one_learners_archive_does_not_use_up_what_may_be_read_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_WITHIN", 2 << 20)
    greedy = packed({f"{LESSON}-{number}.ipynb": bytes([number]) * (1 << 20) for number in range(4)})
    entries = {"Ann_1_assignsubmission_file_/all.zip": greedy, f"Bob_2_assignsubmission_file_/{NOTE}": b"b" * (1 << 20)}
    found = survey(saved(tmp_path, packed(entries)), LESSON, {})
    assert set(found.taken) == {"Ann-1", "Bob-2"}
    assert [each.reason for each in found.refused] == ["more than 2 MiB in one archive"] * 2


@pytest.mark.parametrize("between", ["/", ""])  # Moodle puts a folder round each student's files, or none
def test_one_learners_many_archives_do_not_use_it_up_either(
    between: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_TOTAL", 8 << 20)
    monkeypatch.setattr(archives, "MAX_EACH", 3 << 20)
    entries: dict[Any, Any] = {
        f"Ann_1_assignsubmission_file_{between}{number}.zip": packed({NOTE: b"x" * (1 << 20)}) for number in range(6)
    }
    for name in ("Bob_2", "Cy_3"):
        entries[f"{name}_assignsubmission_file_{between}{NOTE}"] = b"b" * (1 << 20)
    # Canvas and Moodle at once: nobody pays for what is nobody's
    entries |= {f"ann_1_9_{number}_2_assignsubmission_file_{NOTE}": b"b" * (1 << 20) for number in range(3)}
    found = survey(saved(tmp_path, packed(entries)), LESSON, {})
    assert {"Bob-2", "Cy-3"} <= set(found.taken)
    assert "more than 3 MiB from one student" in {each.reason for each in found.refused}


def test_of_two_students_whose_names_become_one_no_file_is_laid_with_the_others(course: Path, tmp_path: Path) -> None:
    entries: dict[Any, Any] = {
        f"Zoë/{NOTE}": "{}",
        "Zoe/helper.py": "x = 1",
        f"José/{LESSON}.py": "x = 1",
        f"Jose/{LESSON}_final.py": "x = 1  # which is longer",
        f"Ann/{NOTE}": "{}",
        "ann/mine.py": "x = 1",
        f"honest/{NOTE}": "{}",
        "honest/mine.py": "x = 1",
    }
    found = collect(course, LESSON, saved(tmp_path, packed(entries)))
    assert everything(course / "submitted") == {f"honest/{LESSON}/{NOTE}", f"honest/{LESSON}/mine.py"}
    said = {each.path: each.reason for each in found.refused}
    assert set(said) == {name for name in entries if not name.startswith("honest")}
    assert "'Zoe' and 'Zoë' would both be 'Zoe'" in said["Zoe/helper.py"]
    assert "'Jose' and 'José'" in said[f"José/{LESSON}.py"]
    assert "Ann and ann differ in capitals" in said["ann/mine.py"]


def test_what_stands_in_a_notebooks_place_has_a_time_and_no_students_own_is_believed(course: Path, tmp_path: Path) -> None:
    own = "2020-01-01 00:00:00 UTC"
    entries: dict[Any, Any] = {
        dated(f"ann/{LESSON}.txt", 5): "{}",
        dated("ann/timestamp.txt", 5): own,
        dated(f"bob/{LESSON}.py", 6): "x = 1",
        dated("bob/_Timestamp.TXT", 6): own,
        dated("bob/photo.jpg", 9): "j",
        dated(f"cy/{NOTE}", 7): "{}",
        dated("cy/timestamp.txt", 7): own,
    }
    download = saved(tmp_path, packed(entries))
    collect(course, LESSON, download, zone="Europe/Berlin")
    for name, minute in (("ann", 5), ("bob", 6), ("cy", 7)):
        when, note = submitted_folders.handed_in(course / "submitted" / name / LESSON / "timestamp.txt")
        assert (when, note) == (datetime(2026, 1, 2, 9, minute), "")
    assert not any(path.name == "Timestamp.TXT" for path in course.rglob("*"))
    for name in ("ann", "bob", "cy"):
        shutil.rmtree(course / "submitted" / name)
    collect(course, LESSON, download)
    assert not list((course / "submitted").rglob("*imestamp*"))


def test_a_closed_folder_costs_nobody_else_and_is_said(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {name: course / "submitted" / name / LESSON for name in ("ann", "bob", "cy")}
    for place in places.values():
        (place / "closed").mkdir(parents=True)
    (places["ann"] / NOTE).write_text("{}")
    (places["bob"] / NOTE).write_text("{}")
    scandir = os.scandir

    def closed(path: Any) -> Any:
        if Path(path) in (places["bob"], *(place / "closed" for place in places.values())):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)  # root may read all
    scheme: Any = SimpleNamespace(digest="d")
    ann, bob, cy = (submitted_folders.read(course, LESSON, scheme, name) for name in places)
    assert (ann.handed.data, ann.problem) == (b"{}", None)
    assert ann.handed.notes == cy.handed.notes == ("the folder closed was not read: Permission denied",)
    assert bob.handed.data is None
    assert bob.problem is not None
    assert "could not be read: Permission denied" in bob.problem
    assert cy.problem is not None
    assert "found no file" in cy.problem


@pytest.mark.parametrize(
    "name",
    [
        f"Copy of {NOTE}",
        f"Kopie von {NOTE}",
        f"{LESSON}_Ann Smith.ipynb",
        f"{LESSON} (1).ipynb",
        f"{LESSON} - Copy.ipynb",
        f"{LESSON}_final_FINAL.ipynb",
        "Lab 3.ipynb",
        "Untitled.ipynb",
    ],
)
def test_a_notebook_may_have_any_name_but_another_lessons(name: str, tmp_path: Path) -> None:
    found = survey(saved(tmp_path, packed({f"Ann Smith_1_assignsubmission_file_/{name}": "a"})), LESSON, {})
    assert (set(found.taken), found.refused) == ({"ann-smith-1"}, [])


def test_of_several_notebooks_the_one_named_for_the_assignment_is_taken(tmp_path: Path) -> None:
    entries: dict[Any, Any] = {dated("ann/scratch.ipynb", 9): "s", dated(f"ann/Copy of {NOTE}", 3): "c"}
    assert survey(saved(tmp_path, packed(entries)), LESSON, {}).taken["ann"].file.data == b"c"


def test_what_is_no_notebook_is_laid_where_the_students_page_will_speak_of_it(course: Path, tmp_path: Path) -> None:
    entries: dict[Any, Any] = {
        f"ann/{LESSON}.pdf": b"%PDF",
        f"bob/{LESSON}.py": b"x = 1",
        f"cy/{NOTE}": "c",
        "cy/../cy/photo.jpg": b"evil",
        "cy/my photo!.jpg": b"jpg",
        "cy/my_utils.py": b"y = 2",
    }
    found = collect(course, LESSON, saved(tmp_path, packed(entries)))
    assert {each.path: each.reason for each in found.refused} == {
        f"ann/{LESSON}.pdf": "expected a notebook (.ipynb) or a .zip archive. Their page will say so",
        "cy/../cy/photo.jpg": "its name leads out of the archive",
    }
    assert [str(each) for each in found.remarks] == [
        f"bob: no notebook, but bob/{LESSON}.py: `attn grade` reads what it can of it"
    ]
    made = {path.relative_to(course / "submitted").as_posix(): path.read_bytes() for path in (course / "submitted").rglob("*.*")}
    assert made == {
        f"ann/{LESSON}/{LESSON}.pdf": b"",
        f"bob/{LESSON}/{LESSON}.py": b"x = 1",
        f"cy/{LESSON}/{NOTE}": b"c",
        f"cy/{LESSON}/my_photo_.jpg": b"",
        f"cy/{LESSON}/my_utils.py": b"y = 2",
    }


@pytest.mark.parametrize("name", ["thumbs.db", "THUMBS.DB", "__macosx", "Desktop.ini", "Feedback.html", "notes.PYC"])
def test_what_systems_leave_in_folders_is_ours_in_any_case_of_letters(name: str) -> None:
    assert find_notebook.is_ours(name)
