"""Read the class list, `students.csv` in the course folder: sections, markers, and who has more time.

    id,name,email,lms_user_id,section,marker,extensions,extra_time,late_days
    ada,Ada Lovelace,ada@example.org,4711,A,grace,01_soft_lookup=3 04_masking=1.5,,4
    ben,Ben Ma,ben@example.org,4712,B,,,2,

Only `id` is needed. `lms_user_id` is Canvas's number for the student. `extensions` are days beyond one assignment's due
date, `extra_time` days beyond every due date (an accommodation), and `late_days` a budget of days that cost nothing, spent
in order of due date. In: the file. Out: a `Roster`, or a CourseError that names the line and column of every problem, what
was expected, and what was found.
"""

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.authoring.course import CourseError, did_you_mean

FILE = "students.csv"
COLUMNS = ("id", "name", "email", "lms_user_id", "section", "marker", "extensions", "extra_time", "late_days")
DAY = 86_400.0
MAX_DAYS = 400.0


@dataclass(frozen=True)
class Listed:
    """A student on the class list. Times are in days."""

    id: str
    name: str = ""
    section: str = ""
    marker: str = ""
    extensions: Mapping[str, float] = field(default_factory=dict)
    extra_time: float = 0.0
    late_days: int = 0
    email: str = ""
    lms_user_id: str = ""


@dataclass(frozen=True)
class Roster:
    """The class list by student id; empty if the course has none."""

    students: Mapping[str, Listed] = field(default_factory=dict)

    def of(self, student: str) -> Listed:
        """Return the entry of `student`, empty if the student is not on the list."""
        return self.students.get(student) or Listed(student)

    def more_seconds(self, student: str, assignment: str) -> float:
        """Return how many seconds after the due date of `assignment` the work of `student` still counts as on time."""
        listed = self.of(student)
        return DAY * (listed.extensions.get(assignment, 0.0) + listed.extra_time)

    def by_platform_id(self) -> dict[str, str]:
        """Return `{learning platform's id: student id}` for the students whose platform id is listed."""
        return {listed.lms_user_id: listed.id for listed in self.students.values() if listed.lms_user_id}

    def by_name(self) -> dict[str, str]:
        """Return `{folded_name: student id}` for the names that only one student on the list has."""
        names = Counter(folded_name(listed.name) for listed in self.students.values())
        return {name: listed.id for listed in self.students.values() if names[name := folded_name(listed.name)] == 1 and name}


def folded_name(name: str) -> str:
    """Return a person's name in the form used for comparisons.

    >>> folded_name("O'Neil, Zoë"), folded_name("zoë  oneil")
    ('zoë oneil', 'zoë oneil')
    """
    last, comma, first = unicodedata.normalize("NFC", name).partition(",")
    return " ".join(re.sub(r"[^\w\s]", "", f"{first} {last}" if comma else last).casefold().split())


def read(root: Path, assignments: Collection[str] | None = None) -> Roster:
    """Return the roster of the course at `root`. Raises CourseError if the file is not valid.

    Extensions may name only `assignments`, by default the course's releases.
    """
    path = root / FILE
    if not path.is_file():
        return Roster()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise CourseError(f"{FILE}: expected UTF-8, got another encoding at byte {error.start}. Save it as CSV UTF-8.") from None
    if assignments is None:
        assignments = sorted(folder.name for folder in (root / "release").glob("*") if folder.is_dir())
    return parse(text, assignments)


def parse(text: str, assignments: Collection[str] = ()) -> Roster:
    """Return the roster in `text`. Raises CourseError if the text is not valid.

    If `assignments` is not empty, extensions may name no others.

    >>> parse("id,section,late_days\\nada,A,2").of("ada").late_days
    2
    >>> parse("id;extra_time\\nada;1,5").of("ada").extra_time
    1.5
    """
    lines = text.splitlines()
    head = next((line for line in lines if line.strip()), "")
    delimiter = max(",;\t", key=head.count)  # the delimiter that a spreadsheet writes depends on its locale
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    problems: list[str] = []
    students: dict[str, Listed] = {}
    first: dict[str, int] = {}
    columns: list[str] = []
    for row in rows:
        line = rows.line_num
        if not any(value.strip() for value in row):
            continue
        if not columns:
            columns = [name.strip().lower() for name in row]
            problems += _head(columns, line)
            if problems:
                break
            continue
        student, wrong = _listed(dict(zip(columns, (value.strip() for value in row), strict=False)), assignments)
        if len(row) > len(columns) and any(value.strip() for value in row[len(columns) :]):
            wrong.append(f"expected {len(columns)} values, got {len(row)}. A value with a comma stands in quotation marks")
        if student.id in first:
            wrong.append(f"column id: expected each student once, got {student.id!r} again (first in line {first[student.id]})")
        if (number := student.lms_user_id) and number in (known := Roster(students).by_platform_id()):
            wrong.append(
                f"column lms_user_id: expected a number of each student's own, got that of {known[number]!r} again: {number}"
            )
        problems += [f"line {line}, {text}" for text in wrong]
        first.setdefault(student.id, line)
        students[student.id] = student
    if not columns:
        problems.append(f"line 1: expected the columns {', '.join(COLUMNS)}, got an empty file")
    if problems:
        raise CourseError(f"{FILE}:\n" + "\n".join(f"  {text}." for text in problems))
    return Roster(students)


def _head(columns: list[str], line: int) -> list[str]:
    problems = []
    if "id" not in columns:
        problems.append(f"line {line}: expected a column id, got {', '.join(columns)}")
    for name in dict.fromkeys(columns):
        if name not in COLUMNS:
            near = did_you_mean(name, list(COLUMNS)).rstrip(".")
            problems.append(f"line {line}, column {name}: expected one of {', '.join(COLUMNS)}, got {name!r}.{near}".rstrip("."))
        elif columns.count(name) > 1:
            problems.append(f"line {line}, column {name}: expected it once, got it {columns.count(name)} times")
    return problems


def _listed(row: Mapping[str, str], assignments: Collection[str]) -> tuple[Listed, list[str]]:
    """Return the student on a line, and the problems with the line."""
    wrong: list[str] = []
    name = row.get("id", "")
    if not name or len(name) > 128 or not name.isprintable() or "/" in name:
        wrong.append(f"column id: expected a student's folder name of at most 128 characters, got {name[:40]!r}")
    extensions: dict[str, float] = {}
    for part in re.split(r"[\s;,]+", row.get("extensions", "")):
        if not part:
            continue
        assignment, _, days = part.partition("=")
        number = _days(days)
        if number is None:
            wrong.append(f"column extensions: expected ASSIGNMENT=DAYS such as 01_soft_lookup=2.5, got {part!r}")
        elif assignments and assignment not in assignments:
            near = did_you_mean(assignment, list(assignments)).rstrip(".")
            wrong.append(f"column extensions: expected an assignment of this course, got {assignment!r}.{near}".rstrip("."))
        else:
            extensions[assignment] = number
    extra = _days(row.get("extra_time") or "0")
    if extra is None:
        wrong.append(f"column extra_time: expected days such as 1.5, from 0 to {MAX_DAYS:g}, got {row['extra_time']!r}")
    late = row.get("late_days") or "0"
    if not re.fullmatch(r"\d{1,3}", late):
        wrong.append(f"column late_days: expected a whole number of days, from 0 to 999, got {late!r}")
        late = "0"
    if (email := row.get("email", "")) and not re.fullmatch(r"[^@\s]+@[^@\s]+", email):
        wrong.append(f"column email: expected an address such as ada@example.org, got {email[:60]!r}")
    if (number_there := row.get("lms_user_id", "")) and not re.fullmatch(r"[\w.-]{1,128}", number_there):
        wrong.append(f"column lms_user_id: expected the platform's number for the student, got {number_there[:40]!r}")
    texts: dict[str, Any] = {key: row.get(key, "") for key in ("name", "section", "marker", "email", "lms_user_id")}
    return Listed(name, **texts, extensions=extensions, extra_time=extra or 0.0, late_days=int(late)), wrong


def _days(text: str) -> float | None:
    if not re.fullmatch(r"\d{1,3}([.,]\d{1,3})?", text):
        return None
    number = float(text.replace(",", "."))
    return number if number <= MAX_DAYS else None
