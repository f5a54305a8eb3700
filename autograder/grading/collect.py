"""Collect submissions into `submitted/` from a learning platform's download: `attn collect`, and a hardened `nbgrader
zip_collect`.

`SafeExtractor` replaces `ZipCollectApp.extractor_plugin`. It reads archives as data, finds out who handed in each notebook,
and writes them to `downloaded/<assignment>/extracted/<student>/` for nbgrader's own collector. Everything that is not taken
is reported.

Only the name of the outermost folder or file decides who handed in a notebook. These names are understood: Moodle's `Ann
Smith_4711_assignsubmission_file/...` and `..._onlinetext/...` (text typed into its box; before Moodle 4.1 with a trailing
underscore, or with the file's name appended if the download has no folders), Canvas's `smithann_late_4711_815_...` and
`smithann_4711_text.html`, `<assignment>-ann.zip` from `attn submit`, and a student's own folder or zip.

The platform's id 4711 is looked up in the class list and the gradebook (`lms_user_id`). If it is unknown, Moodle's name is
looked up in the class list, and if that fails too, the student is called `ann-smith-4711`. The name from Moodle and the id
from Canvas are entered in the gradebook. Moodle's number is not entered, because a student has a different one in each
assignment.

A student who handed in something other than this lesson's notebook is refused, but the file is still placed in `submitted/`.
If there is a class list, students who are not on it are reported.
"""

import logging
import os
import re
import shutil
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from nbgrader.plugins import ExtractorPlugin, FileNameCollectorPlugin
from traitlets import Unicode

from autograder.authoring.course import CourseError
from autograder.authoring.make_release import nbgrader_api
from autograder.grading.find_notebook import folded, in_place_of_a_file, is_ours
from autograder.grading.gradebook import enter_students, known_students
from autograder.grading.ledger import bounded
from autograder.grading.roster import Roster, folded_name
from autograder.grading.roster import read as roster_of
from autograder.grading.submitted_folders import MARKED_LATE, handed_in
from autograder.notebooks.archives import TEXTS, File, Refused, no_notebook, read_all

_COLLECTED = r".*[/\\](?P<student_id>[^/\\]+?)(?:__(?P<timestamp>\d{8}T\d{6}))?[/\\](?P<file_id>[^/\\]+)\.ipynb$"
MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)(?:_(?P<file>.*))?", re.DOTALL)
CANVAS = re.compile(  # a file has its own number; the text or link that replaces one has none
    r"(?P<name>[^_]+)_(?:(?P<late>late)_)?(?P<id>\d+)_(?:(?P<attempt>\d+)_|(?=(?:text|link)\.html$))(?P<file>.+)", re.IGNORECASE
)
MAX_NAME = 128  # characters in a student's id, in nbgrader's gradebook
MAX_BESIDE = 20
_LESSON = re.compile(r"\d\d[a-z]?[_ -][A-Za-z]\w+")  # what a lesson's file name looks like
_COPY = re.compile(r"(?:-(?P<again>\d+)| ?\(\d+\))?\.ipynb$", re.IGNORECASE)  # suffixes added by platforms and browsers


@dataclass(frozen=True)
class Hit:
    """A file and the student who handed it in. Of two files, the later one has the larger `order`."""

    file: File
    student: str
    order: tuple[datetime, int, int]
    late: bool
    written: str = ""  # the text that identifies the student in the download: the platform's id, else the folder's name
    named: bool = True  # whether its name contains the assignment's name
    other: str = ""  # why its name suggests another lesson's notebook, if it does
    person: tuple[str, str] = ("", "")  # the full name and the platform's id, as far as the platform gives them

    @property
    def name(self) -> str:
        """The file's own name, without folders."""
        return self.file.path.rpartition("/")[2]

    @property
    def is_notebook(self) -> bool:
        """Whether it is a notebook that may belong to this lesson."""
        return self.name.lower().endswith(".ipynb") and not self.other


@dataclass(frozen=True)
class Remark:
    """What the instructor should know about a student's submission."""

    student: str
    text: str

    def __str__(self) -> str:
        return f"{self.student}: {self.text}"


@dataclass
class Intake:
    """The result of a collection: notebooks by student, remarks, and a refusal for each other file.

    `beside` holds those students' other files, and everything from students without a notebook, so their pages can mention
    it. `scripts` lists students whose script is taken in place of a notebook, `unchanged` those whose files were collected
    before.
    """

    taken: dict[str, Hit] = field(default_factory=dict)
    scripts: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    beside: dict[str, list[Hit]] = field(default_factory=dict)
    late: dict[str, bool] = field(default_factory=dict)  # whether the platform marked the student as late
    people: dict[str, tuple[str, str]] = field(default_factory=dict)  # full name and the platform's id
    remarks: list[Remark] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


def collect(root: Path, assignment: str, source: Path, *, force: bool = False, zone: str | None = None) -> Intake:
    """Collect the notebooks of `assignment` from `source` (a zip, a notebook or a folder of them) into `root/submitted`.

    `force` replaces existing submissions. With `zone` ("Europe/Berlin"), the archive's own file times, in that zone, count
    as times of submission. Raises CourseError if `source` or the zone does not exist, or a folder to write in is a link.
    """
    from nbgrader.apps.zipcollectapp import ZipCollectApp

    if not source.exists():
        raise CourseError(f"expected a file or a folder at {source}, found none. Download it from your learning platform.")
    api, clock = nbgrader_api(root), _clock(zone)
    extracted = root / "downloaded" / assignment / "extracted"
    intake = _extract(api.coursedir.db_url, root, assignment, source, extracted, force, clock)
    if intake.taken:
        api.coursedir.assignment_id = assignment
        app = ZipCollectApp(coursedir=api.coursedir, parent=api, force=True, collector_plugin=SafeCollector)
        app.log_level = logging.ERROR  # the caller reports what was taken
        app.init_plugins()
        app.process_extracted_files()
    _lay_beside(intake, root, assignment, clock, force)
    _note_lateness(intake, root, assignment)
    enter_students(api, intake.people)
    return intake


def _extract(
    db_url: str, root: Path, assignment: str, source: Path, extracted: Path, force: bool, clock: ZoneInfo | None
) -> Intake:
    """Write the notebooks in `source` below `extracted`, and return what was taken and what was not."""
    roster = roster_of(root)
    intake = survey(source, assignment, known_students(db_url, roster), roster.by_name())
    _keep_what_is_there(intake, root, assignment, force, clock)
    _name_strangers(intake, roster)
    _write(intake, extracted, assignment, clock)
    return intake


def survey(source: Path, assignment: str, known: Mapping[str, str], names: Mapping[str, str] | None = None) -> Intake:
    """Find out who handed in each notebook of `assignment` in `source`. Writes nothing.

    `known` maps platform ids to students. `names` maps names to students, for names that only one student on the class list
    has.
    """
    intake = Intake()
    by_student: dict[str, list[Hit]] = {}
    items = list(read_all(source, _whose))
    shared = _shared_names(items)
    names = {name: student for name, student in (names or {}).items() if name not in shared}
    for item in items:
        hit = item if isinstance(item, Refused) else _hit(item, assignment, known, names)
        if isinstance(hit, Refused):
            intake.refused.append(hit)
        else:
            by_student.setdefault(hit.student.casefold(), []).append(hit)
    for hits in by_student.values():
        if problem := _several_people(hits):
            intake.refused += [Refused(hit.file.path, problem) for hit in hits]
            continue
        intake.late[hits[0].student] = max(hits, key=lambda hit: hit.order).late
        if any(hits[0].person):
            intake.people[hits[0].student] = hits[0].person
        notebooks = [hit for hit in hits if hit.is_notebook]
        others = [hit for hit in hits if not hit.is_notebook]
        if notebooks:
            _choose(intake, [hit for hit in notebooks if hit.named] or notebooks)
        else:
            _refuse(intake, others)
        if others:
            intake.beside[others[0].student] = others
    return intake


def told(intake: Intake) -> list[str]:
    """Return the lines to print about a collection. Their number per student is bounded, so nobody's lines bury the others'."""
    lines: dict[str, list[str]] = {}
    for remark in intake.remarks:
        lines.setdefault(remark.student, []).append(str(remark))
    for refusal in intake.refused:
        lines.setdefault(_whose(refusal.path.partition("/")[0]), []).append(f"✗ {refusal.path}: {refusal.reason}")
    return [line for whose in lines.values() for line in bounded(whose)]


def summary(intake: Intake) -> str:
    """Return one sentence that counts the submissions taken, refused and unchanged."""
    parts = []
    if (taken := len(intake.taken) + len(intake.scripts)) or intake.refused or not intake.unchanged:
        scripts = f" ({len(intake.scripts)} of them {'a script' if len(intake.scripts) == 1 else 'scripts'})"
        refused = len({refusal.path for refusal in intake.refused})
        parts += [f"{taken} taken{scripts if intake.scripts else ''}", f"{refused} refused"]
    if intake.unchanged:
        parts.append(f"{len(intake.unchanged)} already collected, unchanged")
    return ", ".join(parts) + "."


def _refuse(intake: Intake, hits: list[Hit]) -> None:
    """Report what a student without a notebook handed in instead. A script may still be read."""
    if scripts := [hit.file.path for hit in hits if hit.name.lower().endswith(TEXTS)]:
        intake.scripts.append(hits[0].student)
        intake.remarks.append(Remark(hits[0].student, f"no notebook, but {scripts[0]}: `attn grade` reads what it can of it"))
        return
    for hit in hits:
        instead = in_place_of_a_file(hit.name)
        reason = hit.other or (f"no file was handed in: {instead}" if instead else no_notebook(hit.name))
        intake.refused.append(Refused(hit.file.path, f"{reason}. Their page will say so"))


def _lay_beside(intake: Intake, root: Path, assignment: str, clock: ZoneInfo | None, force: bool) -> None:
    """Write the other files into `submitted/` under sanitised names, unless earlier work or a link is in the way.

    With a `clock`, the time of submission of a student without a notebook is that of the last readable file. `force`
    replaces files placed earlier, but never a notebook.
    """
    for student, hits in intake.beside.items():
        folder = root / "submitted" / student / assignment
        there = folder.exists() and any(folder.iterdir())
        if folder.is_symlink() or folder.parent.is_symlink():
            continue
        if there and student not in intake.taken:
            if not force or os.path.lexists(folder / f"{assignment}.ipynb"):
                continue
            for path in folder.iterdir():
                if path.is_file() or path.is_symlink():
                    path.unlink()
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in (laid := _named(hits)).items():
            path = folder / name
            if not os.path.lexists(path):
                path.write_bytes(data)
        if clock and laid and student not in intake.taken:
            (folder / "timestamp.txt").write_text(f"{_utc(_last(hits), clock):%Y-%m-%d %H:%M:%S} UTC\n")


def _note_lateness(intake: Intake, root: Path, assignment: str) -> None:
    """Leave a marker file for each student whom the platform marked late: times of submission are known only with a `zone`."""
    for student, late in intake.late.items():
        path = root / "submitted" / student / assignment / MARKED_LATE
        if path.parent.is_symlink() or path.parent.parent.is_symlink() or not path.parent.is_dir():
            continue
        path.unlink(missing_ok=True)
        if late:
            path.write_text("The learning platform marked this late.\n", encoding="utf-8")


def _named(hits: Sequence[Hit]) -> dict[str, bytes]:
    """Return the files to place beside a notebook or in its place, by sanitised name."""
    named = [(re.sub(r"[^\w.-]+", "_", hit.name).strip("._")[-100:] or "file", hit.file.data) for hit in hits]
    laid: dict[str, bytes] = {}
    for name, data in [(name, data) for name, data in named if not is_ours(name)][:MAX_BESIDE]:
        laid.setdefault(name, data)
    return laid


def _last(hits: Sequence[Hit]) -> datetime:
    """Return the time of the last file that can be read in place of a notebook, or else of the last file."""
    return max([hit.file.time for hit in hits if hit.name.lower().endswith(TEXTS)] or [hit.file.time for hit in hits])


def _several_people(hits: list[Hit]) -> str | None:
    """Return why `hits`, which would share a folder, belong to several students, or None if they belong to one.

    If such files were taken, one student's module could be graded as another's.
    """
    if len(names := sorted({hit.student for hit in hits})) > 1:
        return f"{' and '.join(names)} differ in capitals alone, which is one folder on some systems"
    people = sorted({hit.written for hit in hits})
    if len(people) > 1:  # folder names drop letters that ASCII lacks, so two people could end up with the same one
        how = "Rename one, or give ids: nbgrader db student add --lms-user-id"
        return f"{' and '.join(map(repr, people))} would both be {hits[0].student!r} here. {how}"
    return None


def _choose(intake: Intake, hits: list[Hit]) -> None:
    """Take the latest of one student's notebooks, and report the others."""
    *earlier, last = sorted(hits, key=lambda hit: hit.order)
    if earlier and earlier[-1].order == last.order and earlier[-1].file.data != last.file.data:
        why = f"{last.student} has {len(hits)} notebooks and none is later: remove one"
        intake.refused += [Refused(hit.file.path, why) for hit in hits]
        return
    intake.taken[last.student] = last
    if earlier:
        others = ", ".join(hit.file.path for hit in earlier)
        intake.remarks.append(
            Remark(last.student, f"{len(hits)} submissions, the later is taken: {last.file.path} (not {others})")
        )
    if last.late:
        intake.remarks.append(Remark(last.student, f"marked late by the platform: {last.file.path}"))


def _shared_names(items: Sequence[File | Refused]) -> set[str]:
    """Return the names that several people share in a download from Moodle."""
    matches = [match for item in items if (match := MOODLE.fullmatch(item.path.partition("/")[0]))]
    names_by_id = {match["id"]: folded_name(match["name"]) for match in matches}
    return {name for name, number in Counter(names_by_id.values()).items() if number > 1}


def _hit(file: File, assignment: str, known: Mapping[str, str], names: Mapping[str, str]) -> Hit | Refused:
    top, _, within = file.path.partition("/")
    written, person = "", ("", "")
    name, late, attempt = file.path.rpartition("/")[2], False, 0
    moodle, canvas = MOODLE.fullmatch(top), CANVAS.fullmatch(top)
    if (moodle and canvas) or top.count("_assignsubmission_") > 1:
        return Refused(file.path, "it bears the marks of two students or platforms. Whose is it? Rename it, or ask for it again")
    if match := moodle or canvas:
        listed = known.get(match["id"]) or (names.get(folded_name(match["name"])) if moodle else None)
        student, written = listed or f"{_slug(match['name'])}-{match['id']}", match["id"]
        person = (match["name"], "") if moodle else ("", match["id"])
        groups = match.groupdict()
        late, attempt = groups.get("late") is not None, int(groups.get("attempt") or 0)
        name = name if within else match["file"] or ""
    else:
        written = unicodedata.normalize("NFC", top.removesuffix(".zip").removeprefix(f"{assignment}-")) if within else ""
        student = _slug(written)
    if not student:
        return Refused(file.path, f"whose is it? Put it in a folder named for the student: <student>/{assignment}.ipynb")
    if len(student) > MAX_NAME:
        how = "Give the student a short id: nbgrader db student add --lms-user-id"
        return Refused(file.path, f"the name is too long for a folder. {how}")
    copied = _COPY.search(name)
    if copied is None:
        return Hit(file, student, (file.time, 0, attempt), late, written, person=person)
    named = folded(assignment) in folded(name)
    other = ""
    if not named and (lesson := _LESSON.search(name)) and not folded(assignment).startswith(folded(lesson[0])):
        other = (
            f"expected {assignment}.ipynb, got {name}, which is called like another lesson. `attn grade` reads what it can of it"
        )
    return Hit(file, student, (file.time, int(copied["again"] or 0), attempt), late, written, named, other, person)


def _whose(top: str) -> str:
    """Return a key for the owner of the outermost folder or file `top`.

    Several files may have the same owner, because some downloads have no folder for each student.
    """
    moodle, canvas = MOODLE.fullmatch(top), CANVAS.fullmatch(top)
    if (moodle and canvas) or top.count("_assignsubmission_") > 1:
        return "/"  # belongs to nobody: `_hit` refuses these files, and they must not count against a student
    match = moodle or canvas
    return f"/{match['id']}" if match else top


def _slug(name: str) -> str:
    """Turn a student's name into a folder name of letters, digits, `@`, `+`, dots and single hyphens or underscores.

    >>> _slug("Zoë  O'Neil_Jr.")
    'zoe-o-neil_jr'
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode() or name.encode("utf-8", "replace").hex()
    lowered = plain if re.fullmatch(r"[\w.@+-]+", plain) else plain.lower()
    return re.sub(r"([-_.])[-_.]+", r"\1", re.sub(r"[^A-Za-z0-9._@+-]+", "-", lowered)).strip("-_.")


def _keep_what_is_there(intake: Intake, root: Path, assignment: str, force: bool, clock: ZoneInfo | None) -> None:
    """Drop submissions of students who already have one, unless `force`. Report those that differ from what is there."""
    for student in list(intake.taken):
        folder = root / "submitted" / student / assignment
        if folder.is_symlink() or folder.parent.is_symlink():
            intake.refused.append(Refused(intake.taken.pop(student).file.path, f"{folder} is a link: nothing is written there"))
        elif folder.exists() and any(folder.iterdir()) and not force:
            hit, beside = intake.taken.pop(student), intake.beside.get(student, [])
            if _is_there(folder, {**_named(beside), f"{assignment}.ipynb": hit.file.data}, hit.file.time, clock):
                intake.unchanged.append(student)
            else:
                intake.refused.append(Refused(hit.file.path, f"{student} has a submission already: --force replaces it"))
    for student, hits in intake.beside.items():
        folder = root / "submitted" / student / assignment
        alone = not any(hit.is_notebook for hit in hits) and student not in {*intake.taken, *intake.unchanged}
        if not alone or force or not folder.exists() or not any(folder.iterdir()):
            continue
        paths = [hit.file.path for hit in hits]
        if (laid := _named(hits)) and _is_there(folder, laid, _last(hits), clock):
            intake.refused = [refusal for refusal in intake.refused if refusal.path not in paths]
            intake.unchanged.append(student)
        elif student in intake.scripts:
            script = next(path for path in paths if path.lower().endswith(TEXTS))
            intake.refused.append(Refused(script, f"{student} has a submission already: --force replaces it"))
            intake.remarks = [remark for remark in intake.remarks if remark.student != student]
        intake.scripts = [other for other in intake.scripts if other != student]
    intake.remarks = [remark for remark in intake.remarks if remark.student not in intake.unchanged]


def _name_strangers(intake: Intake, roster: Roster) -> None:
    """Report each new student who is not on the class list, and whether the list has several students of that name."""
    if not roster.students:
        return
    names = Counter(folded_name(listed.name) for listed in roster.students.values())
    for student in sorted({*intake.taken, *intake.beside} - {*roster.students, *intake.unchanged}):
        name = intake.people.get(student, ("", ""))[0]
        shared = names[folded_name(name)] if name else 0
        why = f"your class list has {shared} students called {name}" if shared > 1 else "not on your class list"
        intake.remarks.append(Remark(student, f"{why}. Write {student} there as the id of the right one, then collect again"))


def _is_there(folder: Path, files: Mapping[str, bytes], time: datetime, clock: ZoneInfo | None) -> bool:
    """Return whether `folder` already holds `files` and, if there is a `clock`, `time` as the time of submission."""
    if folder.is_symlink() or folder.parent.is_symlink():
        return False
    paths = {folder / name: data for name, data in files.items()}
    if not all(path.is_file() and not path.is_symlink() and path.read_bytes() == data for path, data in paths.items()):
        return False
    known, _ = handed_in(folder / "timestamp.txt")
    return clock is None or known == _utc(time, clock).replace(tzinfo=None, microsecond=0)


def _write(intake: Intake, extracted: Path, assignment: str, clock: ZoneInfo | None) -> None:
    """Write the taken notebooks below `extracted`, after deleting what an earlier collection left there.

    Raises CourseError if a folder to write in is a link.
    """
    for folder in (extracted, *list(extracted.parents)[:2], extracted.parents[2] / "submitted"):
        if folder.is_symlink():
            raise CourseError(f"expected a folder at {folder}, got a link. Nothing was collected: replace it by a folder.")
    if extracted.exists():
        shutil.rmtree(extracted)
    extracted.mkdir(parents=True)
    for student, hit in intake.taken.items():
        stamp = f"__{_utc(hit.file.time, clock):%Y%m%dT%H%M%S}" if clock else ""
        path = extracted / f"{student}{stamp}" / f"{assignment}.ipynb"
        path.parent.mkdir()
        path.write_bytes(hit.file.data)
        os.utime(path, (hit.file.time.timestamp(),) * 2)


def _utc(time: datetime, clock: ZoneInfo) -> datetime:
    return time.replace(tzinfo=clock).astimezone(UTC)


def _clock(zone: str | None) -> ZoneInfo | None:
    try:
        return ZoneInfo(zone) if zone else None
    except (KeyError, ValueError, OSError):
        raise CourseError(f"expected a time zone such as Europe/Berlin, got {zone!r}.") from None


class SafeCollector(FileNameCollectorPlugin):  # type: ignore[misc]  # nbgrader ships no types
    """Collects files with nbgrader's collector, under the names that `SafeExtractor` gives them."""

    named_regexp = Unicode(_COLLECTED).tag(config=True)


class SafeExtractor(ExtractorPlugin):  # type: ignore[misc]  # nbgrader ships no types
    """Extracts for `nbgrader zip_collect` only what `survey` accepts, under sanitised names."""

    zone = Unicode("", help="Time zone of the archive's file times, if those are the times of submission.").tag(config=True)

    def extract(self, archive_path: str, extracted_path: str) -> None:
        """Extract `archive_path` (a folder) to `extracted_path` and log what is not taken."""
        about: Any = self.parent.coursedir
        inside = list(Path(archive_path).iterdir())
        source = inside[0] if len(inside) == 1 and inside[0].suffix == ".zip" else Path(archive_path)  # one download
        clock, place = _clock(self.zone), Path(extracted_path)
        intake = _extract(about.db_url, Path(about.root), about.assignment_id, source, place, self.force, clock)
        for line in told(intake):
            self.log.warning("%s", line)
