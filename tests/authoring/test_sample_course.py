"""The sample course takes the place of the real one only while it is in use, and it is built."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.authoring import make_release
from autograder.authoring.course import adopt, course_root, find_lesson, lessons
from tests import sample


def test_the_sample_course_is_found_by_the_engine_and_by_programs_that_it_starts(sample_course: Path) -> None:
    assert course_root() == sample_course == sample.ROOT
    ask = "from autograder.authoring.course import course_root; print(course_root())"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(sample.ROOT)


def test_a_lesson_that_is_named_is_the_one_that_is_found(sample_course: Path) -> None:
    for lesson in lessons():
        assert sample.lesson(lesson.name) == lesson


def test_afterwards_the_real_course_and_its_packages_are_back() -> None:
    adopt(course_root())
    folder, path, real = Path.cwd(), list(sys.path), course_root()
    module = importlib.import_module("course.exercises.start_here")
    with sample.in_use():
        reference = find_lesson(sample.LESSON).in_code()[0].reference
        assert reference is not None
        assert reference.__module__ == "answers.soft_lookup"
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("course.exercises.start_here")
    assert (Path.cwd(), sys.path, course_root()) == (folder, path, real)
    assert sys.modules["course.exercises.start_here"] is module
    assert "answers" not in sys.modules


def test_the_real_course_can_be_used_within_the_sample_course(sample_course: Path) -> None:
    with sample.in_use(sample.HOME.parent.parent) as real:
        assert course_root() == real != sample_course
    assert course_root() == sample_course


def test_the_notebooks_of_the_sample_course_are_built_from_its_text(sample_course: Path) -> None:
    found = make_release.check(lessons())
    assert [problem for problem in found if "its pack" not in problem] == []  # `attn build --check` judges the packs
