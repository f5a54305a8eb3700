"""Write a small course (`attn init`) or a lesson's four files (`attn new-lesson`). Both can be built before any edit."""

import re
from collections.abc import Mapping
from pathlib import Path
from string import Template

from autograder.authoring.course import FILE, PACKAGE, CourseError, course_root, lessons, references_folder
from autograder.authoring.settings import example
from autograder.notebooks import lesson_names

_LESSON = Template("""---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3 (ipykernel)
  language: python
  name: python3
---

# $title

**You will learn** to double numbers.

```{code-cell} ipython3
:nbgrader: {grade_id: setup, locked: true}

import numpy as np
from jaxtyping import Float

from autograder import check
```

### Exercise $number.1: Double

Write a function that doubles each entry.

```{code-cell} ipython3
:nbgrader: {grade_id: double, solution: true}

from $references.$slug import double
```

```{code-cell} ipython3
:nbgrader: {grade_id: double_check, grade: true}

check("double")
```

## What you now know

…
""")
_EXERCISES = Template('''"""Lesson $number $slug."""

from autograder import Case, Exercise, Misconception, Variant
from $references import $slug as ref

EXERCISES = (
    Exercise(
        "double",
        title="Double the entries",
        points=1,
        reference=ref.double,
        cases=(Case("a vector", lambda draw: {"x": draw.normal(5)}),),
        hints=("What happens to one entry?", "Multiply by a number.", "Multiply by 2."),
        misconceptions=(Misconception("squared", "squared the entries", "Doubling multiplies by 2.", lambda x: x**2),),
        variants=(Variant("sum", lambda x: x + x),),
        difficulty=1,
        minutes=2,
    ),
)
''')
_SOLUTIONS = Template('''"""Lesson $number $slug."""

import numpy as np
from jaxtyping import Float


def double(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Twice each entry.

    >>> double(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    return 2 * x
''')
_TESTS = Template('''"""Lesson $number $slug: every number in its text, and its reference against an independent oracle."""

import numpy as np

from $references import $slug as ref


def test_doubling_is_adding_to_itself() -> None:
    x = np.random.default_rng(0).normal(size=5)
    np.testing.assert_array_equal(ref.double(x), x + x)
''')


_CONFIG = Template('''"""Settings for plain `nbgrader …` commands run here: see autograder.plugins.nbgrader_settings."""

from autograder.plugins.nbgrader_settings import configure

c = get_config()  # noqa: F821 - traitlets puts it here
configure(c, course_id="$identity")
''')


def init(folder: Path, title: str) -> list[Path]:
    """Write a course of one lesson below `folder`, and return its files. Raises CourseError if there is a course already."""
    root = folder / PACKAGE
    if root.exists():
        raise CourseError(f"expected no folder {root}, but it is there. Name another folder.")
    identity = re.sub(r"\W+", "_", title).strip("_").lower() or "course"
    references = folder / "solutions"
    files = {
        root / FILE: example(title),
        root / "nbgrader_config.py": _CONFIG.substitute(identity=identity),
        references / "__init__.py": f'"""The answers of the course, {title}: a module for each lesson."""\n',
        **_lesson_files(root, references, "01_first"),
    }
    return _written(files)


def _written(files: Mapping[Path, str]) -> list[Path]:
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(files)


def _lesson_files(root: Path, references: Path, name: str) -> dict[Path, str]:
    number, slug = lesson_names.label_of(name), lesson_names.slug_of(name)
    words = {"number": number, "slug": slug, "title": slug.replace("_", " ").capitalize(), "references": references.name}
    files = {
        root / "lessons" / f"{name}.md": _LESSON,
        root / "exercises" / f"{slug}.py": _EXERCISES,
        references / f"{slug}.py": _SOLUTIONS,
        root.parent / "tests" / "lessons" / f"test_{slug}.py": _TESTS,
    }
    return {path: template.substitute(words) for path, template in files.items()}


def new_lesson(name: str) -> list[Path]:
    """Write the files of lesson `name` (`NN_slug`, or `NNx_slug` for a workshop) and return them.

    Raises CourseError, writing nothing, if a name or file is taken.
    """
    parts = lesson_names.parse(name)
    if parts is None:
        raise CourseError(f"expected a name like 12_linear_attention or 12b_delta_rule, got {name!r}.")
    if taken := [lesson.name for lesson in lessons() if lesson.slug == parts.slug or lesson.label == parts.label]:
        raise CourseError(f"expected a free number and slug, but {taken[0]!r} has one of them. Choose another.")
    files = _lesson_files(course_root(), references_folder(), name)
    if there := [path for path in files if path.exists()]:
        raise CourseError(f"expected no file {there[0]}, but it is there. Move it away first.")
    return _written(files)
