"""The probe pack of a lesson, for a seed; a reference that cannot be packed is an error of the course, named."""

from autograder.authoring.course import CourseError, Lesson
from autograder.judging import pack


def make(lesson: Lesson, *, seed: int = pack.VISIBLE_SEED) -> pack.Pack:
    """The lesson's exercises as data. Raises CourseError where a reference fails, or returns what cannot be compared."""
    try:
        return pack.make(lesson.slug, lesson.title, lesson.exercises(), seed=seed)
    except ValueError as error:
        raise CourseError(str(error)) from None
