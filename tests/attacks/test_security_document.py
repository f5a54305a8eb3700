"""SECURITY.md: each promise names a test that there is, and the exercises with inputs from a pool are all listed."""

import re
from pathlib import Path

from autograder.authoring.course import course_root, lessons
from autograder.grading.marking.hidden_draws import SLOW

SECURITY = course_root().parent / ".github" / "SECURITY.md"


def test_each_promise_names_a_test_that_there_is() -> None:
    """A promise without a test, or with one that has another name by now, is none."""
    text = SECURITY.read_text(encoding="utf-8")
    promised = text.split("\n## What is promised\n")[1].split("\n## ")[0]
    numbers = re.findall(r"^(\d+)\. ", promised, re.MULTILINE)
    assert len(numbers) >= 22
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
    assert not re.search(r"^ *[-*] ", promised, re.MULTILINE), "a promise has a number, by which its tests are found"
    held = text.split("\n## How each promise is held\n")[1]
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", held, re.MULTILINE)
    assert [number for number, _ in rows] == numbers
    for number, row in rows:
        assert re.fullmatch(r"`test_\w+\.py::test_\w+`(, `test_\w+\.py::test_\w+`)*", row), number
    for file, name in re.findall(r"`(test_\w+\.py)::(test_\w+)`", text):
        (path,) = Path(__file__).parents[1].rglob(file)
        assert f"\ndef {name}(" in path.read_text(encoding="utf-8"), f"{file}::{name}"


def test_the_exercises_with_inputs_from_a_pool_are_listed() -> None:
    sentence = re.search(r"In this course these are (.+?)\. ", SECURITY.read_text(encoding="utf-8"), re.DOTALL)
    assert sentence is not None
    slow = {each.id for lesson in lessons() for each in lesson.in_code() if each.search < SLOW}
    assert set(re.findall(r"`(\w+)`", sentence[1])) == slow
