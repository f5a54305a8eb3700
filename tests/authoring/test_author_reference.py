"""The reference for authors names everything that a course can import, and is renewed by the build."""

from pathlib import Path

import autograder
from autograder.authoring import author_reference

DOCUMENT = Path(__file__).parents[2] / "docs" / "authors.md"


def test_every_public_name_stands_in_one_group() -> None:
    names = [name for group in author_reference.GROUPS.values() for name in group]
    assert sorted(names) == sorted(autograder.__all__)


def test_the_page_holds_what_signatures_and_docstrings_say() -> None:
    assert author_reference.reference() in DOCUMENT.read_text(encoding="utf-8")


def test_a_long_signature_is_broken_and_examples_are_code() -> None:
    text = author_reference.reference()
    assert "\n    misconceptions: tuple[Misconception, ...] = (),\n" in text
    assert "```python\n>>> draw = Draw(0)\n" in text
    assert "<factory>" not in text
    assert "autograder." not in text.replace("`autograder.judging.behaviour`", "")
