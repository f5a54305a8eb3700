"""The class list: what it says, and every bad line of it at once, by line and column."""

from pathlib import Path

import pytest

from autograder.authoring.course import CourseError
from autograder.grading.grades import Grades
from autograder.grading.roster import DAY, parse, read

LESSONS = ("01_soft_lookup", "04_masking")
GOOD = """id,name,section,marker,extensions,extra_time,late_days
ada,"Lovelace, Ada",A,grace,01_soft_lookup=3 04_masking=1.5,,4

ben,Ben Ma,B,,,2,
"""


def test_a_list_gives_each_student_section_marker_and_time() -> None:
    roster = parse(GOOD, LESSONS)
    assert (roster.of("ada").name, roster.of("ada").section, roster.of("ada").marker) == ("Lovelace, Ada", "A", "grace")
    assert roster.of("ada").late_days == 4
    assert roster.more_seconds("ada", "01_soft_lookup") == 3 * DAY
    assert roster.more_seconds("ada", "02_other") == 0
    assert roster.more_seconds("ben", "04_masking") == 2 * DAY
    assert roster.more_seconds("stranger", "04_masking") == 0


def test_every_bad_line_is_said_at_once_with_line_column_expected_and_got() -> None:
    text = (
        "id,section,extensions,extra_time,late_days\n"
        "ada,A,01_soft_lookup=3,,\n"
        ",A,,,\n"
        "ben,A,01_softlookup=3,,\n"
        "cy,A,01_soft_lookup=soon,,\n"
        "dee,A,,two,\n"
        "eve,A,,,1.5\n"
        "ada,B,,,\n"
        "fay,A,,,,too,many\n"
        "gus,A,,-1,\n"
    )
    with pytest.raises(CourseError) as caught:
        parse(text, LESSONS)
    said = str(caught.value).splitlines()
    assert said[0] == "students.csv:"
    assert [line.strip().split(":")[0] for line in said[1:]] == [
        "line 3, column id",
        "line 4, column extensions",
        "line 5, column extensions",
        "line 6, column extra_time",
        "line 7, column late_days",
        "line 8, column id",
        "line 9, expected 5 values, got 7. A value with a comma stands in quotation marks.",
        "line 10, column extra_time",
    ]
    assert "expected an assignment of this course, got '01_softlookup'. Did you mean '01_soft_lookup'?" in said[2]
    assert "got '01_soft_lookup=soon'" in said[3]
    assert "expected a whole number of days, from 0 to 999, got '1.5'" in said[5]
    assert "got 'ada' again (first in line 2)" in said[6]


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_a_list_may_give_addresses_and_the_platforms_ids_and_reach_the_gradebook() -> None:
    from nbgrader.api import Gradebook

    roster = parse('id,name,email,lms_user_id\nada,"Lovelace, Ada",ada@x.org,4711\nben,Ben Ma,,\ncy,BEN MA,,12\n')
    assert (roster.of("ada").email, roster.of("ada").lms_user_id) == ("ada@x.org", "4711")
    assert roster.by_platform_id() == {"4711": "ada", "12": "cy"}
    assert roster.by_name() == {"ada lovelace": "ada"}, "of two with one name, the name says nothing"
    with Gradebook("sqlite:///:memory:") as book:
        book.add_student("ada", lms_user_id="1")
        Grades(book, lambda *_: None, roster).enrol()
        found = {student.id: (student.email, student.lms_user_id) for student in book.students}
    assert found == {"ada": ("ada@x.org", "4711"), "ben": (None, None), "cy": (None, "12")}
    for line, says in (
        ("a@b@c,1", "column email: .*ada@example.org, got 'a@b@c'"),
        ("a@b,1 2", "column lms_user_id"),
        ("a@b,4711", "got that of 'ada'"),
    ):
        with pytest.raises(CourseError, match=says):
            parse(f"id,email,lms_user_id\nada,,4711\neve,{line}\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected the columns id, name"),
        ("name,section\nAda,A\n", "line 1: expected a column id, got name, section"),
        ("id,sektion\nada,A\n", "line 1, column sektion: expected one of id, name"),
        ("id,id\nada,ada\n", "line 1, column id: expected it once, got it 2 times"),
    ],
)
def test_a_head_that_cannot_be_read_says_so(text: str, says: str) -> None:
    with pytest.raises(CourseError, match=says):
        parse(text, LESSONS)


def test_a_spreadsheets_semicolons_tabs_commas_and_byte_order_mark_are_read(tmp_path: Path) -> None:
    assert read(tmp_path).students == {}
    (tmp_path / "students.csv").write_bytes("\ufeffid;name;extra_time\nada;Zoë;1,5\n".encode())
    assert read(tmp_path).of("ada").name == "Zoë"
    assert parse("id\tlate_days\nada\t3\n").of("ada").late_days == 3
    (tmp_path / "students.csv").write_bytes("id,name\nada,Zoë\n".encode("latin-1"))
    with pytest.raises(CourseError, match="expected UTF-8"):
        read(tmp_path)


def test_the_releases_of_the_course_are_what_an_extension_may_name(tmp_path: Path) -> None:
    (tmp_path / "release" / "01_soft_lookup").mkdir(parents=True)
    (tmp_path / "students.csv").write_text("id,extensions\nada,04_masking=1\n")
    with pytest.raises(CourseError, match="got '04_masking'"):
        read(tmp_path)
