"""`attn style` and the line under an exercise's heading, on small lessons of their own."""

import re
from dataclasses import dataclass
from pathlib import Path

import jupytext
import pytest

from autograder import Exercise, Prediction
from autograder.authoring.course import Lesson, lessons
from autograder.authoring.prose import measure, paragraphs
from autograder.authoring.style import findings
from autograder.authoring.workload import STOP, announce, minutes
from tests.judging.test_compare import _exercise

HEAD = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# A lesson
"""
ANSWER = """
```{code-cell} ipython3
:nbgrader: {grade_id: weigh, solution: true}

from solutions.x import weigh
```
"""


@dataclass(frozen=True)
class _Lesson(Lesson):
    declared: tuple[Exercise, ...] = ()

    def exercises(self) -> tuple[Exercise, ...]:
        return self.declared


def _lesson(folder: Path, body: str, **changes: object) -> _Lesson:
    path = folder / "07_small.md"
    path.write_text(HEAD + body, encoding="utf-8")
    guess = Prediction("guess", "Guess", 1, choices={"a": "so"})
    return _Lesson(7, "", "small", path, declared=(_exercise(**{"minutes": 8, "difficulty": 3, **changes}), guess))


def _found(folder: Path, body: str, **changes: object) -> list[tuple[int, str]]:
    first = HEAD.count("\n")
    return [(one.line - first, one.rule) for one in findings(_lesson(folder, body, **changes))]


def test_a_lesson_in_order_has_no_findings(tmp_path: Path) -> None:
    body = f"\nShort and clear: $q$.\n\n### Exercise 07.1: Weigh\n\nWrite it.\n{ANSWER}"
    assert _found(tmp_path, body) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("\nOne.\n\n" + "word " * 41 + "end.\n", [(4, "sentence")]),
        ("\n" + "word " * 20 + "one. " + "word " * 20 + "two. $x + " + "y + " * 60 + "1$.\n<!-- local symbols: x, y -->\n", []),
        ("\n- " + "word " * 30 + "\n- " + "word " * 30 + "\n", []),
        ("\n| a | " + "word " * 60 + "|\n", []),
        ("\nNow $\\zeta$? no: $\\omega_i$ and $\\mathrm{Unknown}$.\n", [(2, "symbol")]),
        ('\nThe book says "every query has a weight for every element of it".\n', [(2, "claim")]),
        ('\n[The book](https://x.org) says "every query has a weight for every element of it".\n', []),
        ("\n> " + "word " * 14 + "\n", [(2, "claim")]),
        ("\n![](a.png)\n", [(2, "figure")]),
        ("\n```{code-cell} ipython3\nfig, ax = figure(2)\nax.plot(x)\n```\n", [(3, "figure")]),
        ('\n```{code-cell} ipython3\nfig, ax = figure(2)\nshow(fig, alt="Two lines that cross at 3.")\n```\n', []),
        ("\n```{code-cell} ipython3\n# alt: Two lines that cross at 3.\nfig, ax = figure(2)\n```\n", []),
        ("\n```{code-cell} ipython3\ndef figure(a):\n    return 1\n```\n", []),
        ("\n### Exercise 07.2: Weigh\n\nNumbered.\n", [(2, "exercise")]),
        (ANSWER, [(4, "exercise")]),
        ("\n### Exercise 07.1: Weigh\n" + ANSWER + "\n## Next\n" + ANSWER.replace("weigh", "written"), [(14, "exercise")]),
    ],
)
def test_each_rule_is_told_with_its_line(tmp_path: Path, body: str, expected: list[tuple[int, str]]) -> None:
    assert _found(tmp_path, body) == expected


def test_an_exercise_that_states_no_minutes_is_found(tmp_path: Path) -> None:
    body = f"\n### Exercise 07.1: Weigh\n{ANSWER}"
    assert _found(tmp_path, body, minutes=0) == [(6, "exercise")]


def test_what_an_exercise_asks_for_stands_under_its_heading(tmp_path: Path) -> None:
    lesson = _lesson(tmp_path, f"\n### Exercise 07.1: Weigh\n\nWrite it.\n{ANSWER}\nAfter.\n")
    notebook = jupytext.read(lesson.path)
    announce(notebook, {exercise.id: exercise for exercise in lesson.exercises()})
    text = "\n".join(cell.source for cell in notebook.cells)
    assert "### Exercise 07.1: Weigh\n\n*2 points · difficulty ●●●○○ · about 8 minutes · write*\n\nWrite it." in text


def test_a_lessons_minutes_stand_under_its_title_and_those_of_its_sittings_where_it_has_several(tmp_path: Path) -> None:
    found = []
    stop = f"\n{STOP} The question is answered.\n"
    for later in (
        "word " * 2800,
        f"{stop}{'word ' * 2800}",
        *(f"{stop}{'word ' * 1400}\n{cell}{stop}{'word ' * 1400}" for cell in ("+++\n", "")),
    ):
        lesson = _lesson(tmp_path, "\n" + "word " * 1400 + "\n" + later)
        text = jupytext.read(lesson.path)
        announce(text, {exercise.id: exercise for exercise in lesson.exercises()})
        found.append(next(line for line in text.cells[0].source.splitlines() if line.startswith("*")))
    assert found == [
        "*About 40 minutes.*",
        "*Two sittings: about 10 minutes to the good place to stop, then about 30.*",
        "*Three sittings: about 10 minutes to the good place to stop, then about 10 and 20.*",
        "*Three sittings: about 10 minutes to the good place to stop, then about 10 and 20.*",
    ]


def test_minutes_count_words_given_code_and_what_exercises_say(tmp_path: Path) -> None:
    assert minutes(_lesson(tmp_path, "")) == 10  # eight and one
    assert minutes(_lesson(tmp_path, "\n" + "word " * 1400)) == 20
    code = "\n```{code-cell} ipython3\n" + "x = 1\n" * 80 + "```\n"
    assert minutes(_lesson(tmp_path, code)) == 20
    figure = code.replace("ipython3\n", "ipython3\n:tags: [figure]\n\n", 1)
    assert [minutes(_lesson(tmp_path, figure * count)) for count in (1, 8)] == [10, 15]  # folded, and looked at


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.name)
def test_exercises_are_declared_in_the_order_in_which_a_lesson_asks_them(lesson: Lesson) -> None:
    declared = [exercise.id for exercise in lesson.exercises()]  # `status()` and the reports list them so
    asked = re.findall(r"grade_id: (\w+), solution: true", lesson.path.read_text(encoding="utf-8"))
    assert [name for name in asked if name in declared] == declared


def _edition(folder: Path, body: str, *, kind: str = "core", **changes: object) -> list[tuple[str, str]]:
    """What `attn style` says of a lesson that states its kind, by rule."""
    name, workshop = ("07_small.md", "") if kind == "core" else ("07b_small.md", "b")
    path = folder / name
    front = f"---\nkind: {kind}\n"
    path.write_text(HEAD.replace("---\n", front, 1) + body, encoding="utf-8")
    two = tuple(_exercise(**{"minutes": 8, "difficulty": 3, "id": name, **changes}) for name in ("weigh", "mix"))
    guess = Prediction("guess", "Guess", 1, choices={"a": "so"})
    lesson = _Lesson(7, workshop, "small", path, declared=(*two, guess))
    return [(one.rule, one.says) for one in findings(lesson)]


GOOD = "\n" + "A sentence of the kind that a reader takes in at once has about as many words as this.\n" * 10
CLAIM = '\n## Common claim, tested\n\n> Attention is an average.\n\n```{code-cell} ipython3\ncheck("guess")\n```\n'
TESTED = CLAIM + "\n```{code-cell} ipython3\nprint(1)\n```\n"


@pytest.mark.parametrize(
    ("body", "rules"),
    [
        (GOOD, []),
        (GOOD + TESTED, []),
        (GOOD + CLAIM, [("limit", "no cell tests the claim after the learner's decision")]),
        (
            GOOD + TESTED.replace("guess", "weigh"),
            [("limit", "the learner decides nothing: ask for a prediction, or fold the answer in <details>")],
        ),
        (GOOD + TESTED.replace('check("guess")', "x = 1").replace("> A", "<details>\n\n> A"), []),
        (GOOD + TESTED.replace("> ", ""), [("limit", "the box quotes no claim: put it into a block quotation (`> …`)")]),
        (GOOD * 2 + TESTED + TESTED, [("limit", "a notebook has at most 1 box `Common claim, tested`")]),
        ("\n" + "It is. " * 60, [("prose", "words per sentence: expected 14.5 to 20, got 2.0")]),
        (GOOD.replace("at once", "at once: now"), [("prose", "colons per 1,000 words: expected at most 9, got 50.0")]),
        (GOOD * 6, [("limit", "a core has at most 1000 words of prose, this one has 1140")]),
    ],
)
def test_a_notebook_that_states_its_kind_keeps_its_limits(tmp_path: Path, body: str, rules: list[tuple[str, str]]) -> None:
    assert [one for one in _edition(tmp_path, body) if one[0] in ("prose", "limit")][: max(len(rules), 1)] == rules


def test_a_workshop_may_have_more_words_and_minutes_than_a_core(tmp_path: Path) -> None:
    assert _edition(tmp_path, GOOD * 6, kind="workshop") == []
    assert _edition(tmp_path, GOOD, minutes=22) == [("limit", "a core takes at most 45 minutes, this one takes 50")]
    assert _edition(tmp_path, GOOD, kind="workshop", minutes=22) == []


def test_a_notebook_without_two_exercises_is_found(tmp_path: Path) -> None:
    lesson = _lesson(tmp_path, GOOD)
    lesson.path.write_text(lesson.path.read_text().replace("---\n", "---\nkind: core\n", 1))
    assert [one.says for one in findings(lesson)] == ["expected at least 2 exercises besides predictions, got 1"]


def test_measures_of_prose_leave_out_what_is_no_prose() -> None:
    text = "---\na: b\n---\n\n# A title: long\n\nOne idea, `f(x)`: attend. (We (all) do.)\n\n| a: (b) |\n\n```\nx: (1)\n```\n"
    found = measure(f"{text}\n$$\na: (b)\n$$\n\n- An item (short).\n\n## Sources\n\n- Vaswani (2017): a paper.\n")
    assert (found.sentences, found.short, found.colons, found.brackets, found.bracketed_sentences) == (3, 3, 1, 3, 1)
    assert found.words == 10


def test_dollars_in_code_hide_no_prose() -> None:
    text = "```\necho $$\n```\n\nMiddle words.\n\n```\nkill $$\n```\n\nAfter `a $$ b` words.\n"
    assert list(paragraphs(text)) == ["Middle words.", "After `a $$ b` words."]


def test_a_displayed_formula_does_not_end_its_sentence() -> None:
    assert list(paragraphs("We get\n$$\nx = y\n$$\nwhere y is the sum.\n")) == ["We get where y is the sum."]


def test_a_rule_at_the_start_of_a_part_is_no_front_matter(tmp_path: Path) -> None:
    long = " ".join(["word"] * 50) + "."
    assert _found(tmp_path, f"\n+++\n---\n\n{long}\n\n---\n") == [(5, "sentence")]


def test_a_form_feed_moves_no_cell(tmp_path: Path) -> None:
    body = f"\nSome words.\x0c\n\n### Exercise 07.1: Weigh\n\nWrite it.\n{ANSWER}"
    assert _found(tmp_path, body) == []
