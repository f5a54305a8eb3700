"""`attn new-lesson`: the four files of a lesson, small but complete, so that build and verify pass before the first edit."""

import re
from pathlib import Path
from string import Template

from autograder.authoring.course import CourseError, course_root, lessons

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

**You will learn** …

```{code-cell} ipython3
:nbgrader: {grade_id: setup, locked: true}

import numpy as np
from jaxtyping import Float

from autograder import check
```

## The question

…

```{code-cell} ipython3
:nbgrader: {grade_id: double, solution: true}

from solutions.$slug import double
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
from solutions import $slug as ref

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

from solutions import $slug as ref


def test_doubling_is_adding_to_itself() -> None:
    x = np.random.default_rng(0).normal(size=5)
    np.testing.assert_array_equal(ref.double(x), x + x)
''')


def new_lesson(name: str) -> list[Path]:
    """Write the files of lesson `name` (`NN_slug`). Raises CourseError, writing nothing, where a name or file is taken."""
    match = re.fullmatch(r"(\d\d)_([a-z][a-z0-9_]*)", name)
    if match is None:
        raise CourseError(f"expected a name like 12_linear_attention, got {name!r}.")
    number, slug = match[1], match[2]
    if taken := [lesson.name for lesson in lessons() if lesson.slug == slug or lesson.number == int(number)]:
        raise CourseError(f"expected a free number and slug, but {taken[0]!r} has one of them. Choose another.")
    root = course_root()
    files = {
        root / "lessons" / f"{name}.md": _LESSON,
        root / "exercises" / f"{slug}.py": _EXERCISES,
        root.parent / "solutions" / f"{slug}.py": _SOLUTIONS,
        root.parent / "tests" / f"test_{slug}.py": _TESTS,
    }
    if there := [path for path in files if path.exists()]:
        raise CourseError(f"expected no file {there[0]}, but it is there. Move it away first.")
    for path, template in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            template.substitute(number=number, slug=slug, title=slug.replace("_", " ").capitalize()), encoding="utf-8"
        )
    return list(files)
