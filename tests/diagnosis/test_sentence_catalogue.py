"""Findings are data: sentences live in the catalogue of `phrase`, no code reads one, and a second language changes no finding."""

import ast
import functools
import html
import re
import string
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder.authoring.course import find_lesson, settings
from autograder.diagnosis import panel
from autograder.diagnosis.attempt import check_answer
from autograder.diagnosis.explain import ExerciseRow, Grid, LessonRow, QuestionRow, Report, make_report
from autograder.diagnosis.phrase import briefly, say, translated
from autograder.diagnosis.sentences import ENGLISH
from autograder.judging.call_answer import observe
from autograder.judging.exercise import Exercise, Misconception
from autograder.judging.records import ExerciseRecord, Result
from autograder.mutants.course_operators import load
from autograder.mutants.operators import edits
from autograder.mutants.result_and_input_operators import slips
from autograder.mutants.source import source_of
from autograder.notebooks import lesson_names
from autograder.packs import make_pack
from autograder.workspace import folder, learner_status, progress
from autograder.workspace.in_cells import overview
from tests.diagnosis.test_repair import ATTEND, COUNTER, OWN_WAY, cell
from tests.mutants.test_mutants import ATTEND as NEAR
from tests.mutants.test_mutants import records as near_records

ENGINE = Path(__file__).parents[2] / "autograder"
# what is found out about an answer, and all else that is said of one; commands speak of files and are not among these
FOLDERS = ("judging", "mutants", "packs", "diagnosis", "grading/marking", "workspace/in_cells")
FILES = ("workspace/rerun.py", "workspace/learner_status.py", "live/session.py")
MAY_HOLD_SENTENCES = {
    "diagnosis/sentences.py": "the catalogue itself",
    "packs/pack_file.py": "what differs between two packs, for who builds them",
    "workspace/in_cells/check.py": "errors about names and cells, made in one function and raised in another",
    "workspace/in_cells/solutions.py": "an error that is raised in two places",
}
MAY_READ_SENTENCES = {"diagnosis/phrase.py": "shortens what an author wrote, where two mistakes are told at once"}

MAY_READ_REMARKS = {"cli/learner.py": "compares with the constant that was given, and not with its words"}

READ = {"headline", "advice", "says", "fix", "detail", "change"}
SAYING = {"say", "text_of", "clause", "clauses", "briefly", "next_step", "headline_of", "advice_of", "change_of", "to_text"}
MATCHING = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "replace", "find",
            "index", "search", "match", "fullmatch", "findall", "finditer", "sub"}  # fmt: skip
REMARKS = {"flag", "flags", "note", "notes", "remark", "remarks", "problem", "problems"}  # words about a submission or answer
STEPS_ALONE = {key for key in ENGLISH if key.startswith(("unlisted", "repaired"))}  # steps of a finding, not of a fact


@functools.cache
def _modules() -> Mapping[str, ast.Module]:
    paths = [path for folder in FOLDERS for path in sorted((ENGINE / folder).rglob("*.py"))]
    paths += [ENGINE / name for name in FILES]
    return {path.relative_to(ENGINE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def _texts(tree: ast.Module) -> Iterator[str]:
    """The strings of a module without docstrings, errors that are raised, and patterns for the messages of libraries."""
    unread = set[int]()
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
        if documented and isinstance(node.body[0], ast.Expr):
            unread |= {id(part) for part in ast.walk(node.body[0])}
        if isinstance(node, ast.Raise):
            unread |= {id(part) for part in ast.walk(node)}
        if isinstance(node, ast.Assign) and any(isinstance(name, ast.Name) and name.id == "_RAISED" for name in node.targets):
            unread |= {id(part) for part in ast.walk(node)}
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("re.search", "re.match", "re.compile"):
            unread |= {id(part) for part in ast.walk(node.args[0])}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in unread:
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in unread:
            yield node.value


def _is_sentence(text: str) -> bool:
    """Whether a text has four words in a row, or four in all and a full stop: code, keys and names have not."""
    if " " not in text or "://" in text or "border:" in text:
        return False
    in_a_row = re.search(r"\b[A-Za-z']+(?:,? [A-Za-z']{2,}){3}", text) is not None
    return in_a_row or (re.search(r"[a-z`…][.?!][”)]?\s*$", text) is not None and len(re.findall(r"[A-Za-z']{2,}|…", text)) > 3)


def test_no_module_but_the_catalogue_holds_a_sentence() -> None:
    loose = {"judging", "diagnosis"}  # elsewhere a row of words may be a title, or SQL
    for name, tree in _modules().items():
        found = [text for text in _texts(tree) if _is_sentence(text)]
        if name.partition("/")[0] not in loose:
            found = [text for text in found if text.rstrip().endswith((".", "?", "!"))]
        assert not found or name in MAY_HOLD_SENTENCES, (name, found)


def test_what_may_hold_a_sentence_does() -> None:
    for name in MAY_HOLD_SENTENCES:
        assert any(_is_sentence(text) for text in _texts(_modules()[name])), name


def _readings(tree: ast.Module) -> Iterator[str]:
    """Where a sentence is compared or searched."""
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MATCHING:
            parts = [node.func.value, *node.args]
        elif isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        within = [inner for part in parts for inner in ast.walk(part)]
        read = any(isinstance(part, ast.Attribute) and part.attr in READ for part in within)
        said = any(isinstance(part, ast.Call) and ast.unparse(part.func).rpartition(".")[2] in SAYING for part in within)
        held = any(isinstance(part, ast.Subscript) and ast.unparse(part.slice) == "'text'" for part in within)
        if read or said or (held and isinstance(node, ast.Call)):
            yield ast.unparse(node)


def test_no_code_matches_on_the_text_of_a_sentence() -> None:
    for path in sorted(ENGINE.rglob("*.py")):
        name = path.relative_to(ENGINE).as_posix()
        found = list(_readings(ast.parse(path.read_text(encoding="utf-8"))))
        assert not found or name in MAY_READ_SENTENCES, (name, found)


def _is_remark(node: ast.expr) -> bool:
    """Whether an expression is by its name a remark or a list of them, or the text of one."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "str" and node.args:
        return _is_remark(node.args[0])
    return getattr(node, "attr", getattr(node, "id", None)) in REMARKS


def _remarks_read(tree: ast.Module) -> Iterator[str]:
    """Where a remark is searched, or compared with anything but None: its kind is data, its words are for people."""
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MATCHING:
            parts = [node.func.value, *node.args]
        elif isinstance(node, ast.Compare) and not all(isinstance(way, ast.Is | ast.IsNot) for way in node.ops):
            parts = [node.left, *node.comparators]
        if any(_is_remark(part) for part in parts):
            yield ast.unparse(node)


@pytest.mark.parametrize("line", [
    "flag.startswith('missing')", "re.search('missing', str(flag))", "self.problem not in flag", "remark == row.problem",
])  # fmt: skip
def test_reading_a_remark_is_found(line: str) -> None:
    assert list(_remarks_read(ast.parse(line)))
    assert not list(_remarks_read(ast.parse("flag.kind == 'missing' or row.problem is None or f'{flag}.'.strip()")))


def test_no_code_matches_on_the_text_of_a_flag_or_a_problem() -> None:
    for path in sorted(ENGINE.rglob("*.py")):
        name = path.relative_to(ENGINE).as_posix()
        found = list(_remarks_read(ast.parse(path.read_text(encoding="utf-8"))))
        assert bool(found) == (name in MAY_READ_REMARKS), (name, found)


def _keys_made(tree: ast.Module) -> Iterator[str]:
    """Patterns of the keys of the facts that a module makes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("fact", "called", "times_or_over"):
            for arg in node.args[:2]:
                yield from _patterns(arg)


def _patterns(key: ast.expr) -> Iterator[str]:
    """The keys that an expression may be, as patterns."""
    if isinstance(key, ast.IfExp):
        yield from (*_patterns(key.body), *_patterns(key.orelse))
    elif isinstance(key, ast.JoinedStr):
        yield "".join(re.escape(part.value) if isinstance(part, ast.Constant) else ".*" for part in key.values)  # type: ignore[arg-type]  # a text
    elif isinstance(key, ast.Constant) and isinstance(key.value, str) and "." in key.value:
        yield re.escape(key.value)


def test_every_fact_has_words() -> None:
    made = {pattern for tree in _modules().values() for pattern in _keys_made(tree)}
    assert made
    assert [pattern for pattern in made if not any(re.fullmatch(pattern, key) for key in ENGLISH)] == []


def test_a_next_step_belongs_to_a_sentence() -> None:
    behind = (".one", ".fix", ".change", ".question", ".brief")
    for key in ENGLISH:
        whole = functools.reduce(str.removesuffix, behind, key)
        assert whole in ENGLISH or key in STEPS_ALONE, key


# ------------------------------------------------------------------------------------------ another language

_STRANGE = str.maketrans({letter: chr(0x1D4D0 + place) for place, letter in enumerate(string.ascii_letters)})


@functools.cache
def _in_another_language() -> Mapping[str, str]:
    """The catalogue with every letter another one, and every gap kept. What an author writes stays in the author's language."""

    def gap(name: str | None, spec: str | None, how: str | None) -> str:
        return "" if name is None else f"{{{name}{f'!{how}' if how else ''}{f':{spec}' if spec else ''}}}"

    parse = string.Formatter().parse
    return {
        key: says if key.startswith("author.") else "".join(
            text.translate(_STRANGE) + gap(name, spec, how) for text, name, spec, how in parse(says)
        )
        for key, says in ENGLISH.items()
    }  # fmt: skip


def test_every_slip_has_words_in_both_languages() -> None:
    made = [slip.what for result in (np.ones((2, 3)), np.ones((2, 3)) > 0, (np.ones((2, 3)), 1.5), 7, 2.5)
            for slip in slips({"x": np.ones((2, 3)), "keep": np.ones(3) > 0, "n": 3, "flag": True}, result)]  # fmt: skip
    for exercise in (ATTEND, *(one for name, _ in EXERCISES for one in _lesson(name).values())):
        source = source_of(exercise.reference)
        made += [edit.what for edit in edits(source) if edit.what is not None] if source is not None else []
    assert len({what.key for what in made}) > 50
    for what in dict.fromkeys(made):
        english = say(what)
        with translated(_in_another_language()):
            assert say(what) != english


EXERCISES = (("01", "attention_pool"), ("03", "sdpa"), ("04b", "masked_sdpa"))


@functools.cache
def _lesson(name: str) -> Mapping[str, Exercise]:
    return {exercise.id: exercise for exercise in find_lesson(name).in_code()}


def _wrong(exercise: Exercise, many: int) -> Iterator[Any]:
    """The listed mistakes of an exercise, and its reference with a slip."""
    for mistake in exercise.misconceptions:
        yield from (answer for answer in mistake.answers().values() if callable(answer))
    source = source_of(exercise.reference)
    assert source is not None
    made = edits(source, load(settings().operators))
    yield from (source.build([edit]) for edit in made[:: max(1, len(made) // many)])


def _both(record: ExerciseRecord, answer: Any, *, repair: bool = False) -> tuple[Result, Report, Report]:
    """The verdict, and its report in English and in the other language; the verdict must be the same in both."""
    result = check_answer(record, answer, repair=repair)
    with translated(_in_another_language()):
        again = check_answer(record, answer, repair=repair)
        strange = make_report(again)
    assert (result.score, result.failure, result.diagnosis) == (again.score, again.failure, again.diagnosis)
    for one, two in zip(result.cases, again.cases, strict=True):
        assert (one.mismatch and (one.mismatch.check, one.mismatch.what, one.mismatch.path, one.mismatch.at)) == (
            two.mismatch and (two.mismatch.check, two.mismatch.what, two.mismatch.path, two.mismatch.at)
        )
    return result, make_report(result), strange


WORDS = {"headline", "advice", "detail", "snippet", "effort", "change", "grids", "checks", "notes"}  # of a report, what is said


def _assert_same_findings(result: Result, english: Report, strange: Report) -> None:
    for field in fields(Report):
        if field.name not in WORDS:
            assert getattr(english, field.name) == getattr(strange, field.name), field.name
    assert [state for _, state in english.checks] == [state for _, state in strange.checks]
    authors = [text for known in result.exercise.known for text in (known.says, known.fix, briefly(known))]
    left = f"{strange.headline} {strange.advice}"
    for text in sorted(authors, key=len, reverse=True):
        left = left.replace(text, "")
    left = re.sub(r"`[^`]*`|“[^”]*”", "", left)
    assert re.search(r"[a-z]+ [a-z]+ [a-z]+", left) is None or result.failure is not None, left


@pytest.mark.parametrize(("lesson", "name"), EXERCISES)
def test_the_same_is_found_in_another_language(lesson: str, name: str) -> None:
    exercise = _lesson(lesson)[name]
    record = make_pack.make_record(lesson, exercise, 0, naming="pairs")
    _assert_told_alike(record, _wrong(exercise, 60))


def test_the_same_slips_that_nobody_listed_are_found_in_another_language() -> None:
    _assert_told_alike(near_records()["attend"], _wrong(NEAR, 40))


def _assert_told_alike(record: ExerciseRecord, answers: Iterator[Any]) -> None:
    told = set[str]()
    for answer in answers:
        if all(observe(answer, case.probe).failure is None for case in record.cases):  # an edited text has no lines to name
            result, english, strange = _both(record, answer)
            _assert_same_findings(result, english, strange)
            told.add(english.headline)
    assert len(told) > 8


OWN = (
    OWN_WAY.format(axis=0, width="K.shape[1]"),  # mended in one place
    OWN_WAY.format(axis=-1, width="K.shape[1] ** 2"),  # a listed mistake
    "def attend(Q, K, V):\n    return Q @ K",  # stops
    "def attend(Q, K, V):\n    return [V]",
    "def attend(Q, K, V):\n    K /= np.sqrt(K.shape[-1])\n    E = np.exp(Q @ K.T)\n    return E / E.sum(-1, keepdims=True) @ V",
    "def attend(Q, K, V):\n    pass",
    "def attend(Q, K, V, mask):\n    return V",
    "def attend(Q, K, V):\n    raise ValueError('no')",
    "def attend(Q, K, V):\n    return np.full((len(Q), V.shape[1]), np.nan)",
)


@pytest.mark.parametrize("text", OWN)
def test_the_same_is_found_in_a_learners_own_code_in_another_language(text: str) -> None:
    listed = (*ATTEND.misconceptions, Misconception("half", "halved it", "Don't.", lambda Q, K, V: ATTEND.reference(Q, K, V) / 2))
    record = make_pack.make_record("a_lesson", replace(ATTEND, misconceptions=listed), 0, naming="pairs")
    _assert_same_findings(*_both(record, cell("attend", text), repair=True))


def test_the_same_is_found_of_a_class_in_another_language() -> None:
    record = make_pack.make_record("a_lesson", COUNTER, 0, naming="listed")
    text = "class Counter:\n    def __init__(self):\n        self.total = 0\n    def add(self, k):\n        return k"
    _assert_same_findings(*_both(record, cell("Counter", text)))


# ------------------------------------------------------------------------------------------ what surrounds the sentences

NOTE, GRID = "12", Grid("34", np.eye(2), np.eye(2) > 0, (0, 0), diverging=True)  # without letters, as all that is not ours here
ROW = LessonRow(
    "01_2", NOTE, True, ("00",), "", 5, 1.0, 4.0, False,
    tuple(ExerciseRow("1", NOTE, 1.0, 2.0, status, 1, NOTE) for status in ("pass", "part", "fail", "todo")),
    tuple(QuestionRow("2", NOTE, "3", 1.0, answered) for answered in (True, False)),
)  # fmt: skip


def _report(status: str, *, hidden: bool) -> Report:
    """A report with everything that a panel can show, in which no text has a letter."""
    return Report(
        status, NOTE, 1.0, 2.0, NOTE, NOTE, NOTE, (GRID,), snippet=NOTE, checks=(("1", "pass"), ("2", "fail"), ("3", "skip")),
        cases=(("1", True), ("2", False)), notes=(NOTE,), hints=("1", "2", "3"), hidden=hidden, following=((NOTE, ""),),
        effort=NOTE, change=NOTE,
    )  # fmt: skip


def _seen(markup: str) -> str:
    """What a reader sees of HTML, or of Markdown with links."""
    return html.unescape(re.sub(r"<[^>]*>|&[a-z]+;|\]\([^)]*\)", " ", markup))


def _rendered() -> Iterator[tuple[str, str]]:
    """The name of each kind of panel, and what it shows where nothing but the engine's own words has letters."""
    for status in panel.SYMBOL:
        for hidden in (False, True):
            report = _report(status, hidden=hidden)
            yield from (("to_html", _seen(panel.to_html(report))), ("to_text", panel.to_text(report)))
    one_open = replace(ROW, questions=ROW.questions[1:])
    for row in (ROW, one_open, replace(ROW, questions=ROW.questions * 2)):
        yield from (("overview_html", _seen(panel.overview_html(row))), ("overview_text", panel.overview_text(row)))
    for row in (ROW, replace(ROW, done=True, workshop=False)):
        contents = overview.Contents([row], (NOTE, "1"), ((NOTE, "2"),))
        yield from (("contents", repr(contents)), ("contents", _seen(contents._repr_markdown_())))


def _letters(text: str) -> list[str]:
    return re.findall(r"[A-Za-z]+", text)


def test_every_word_of_a_panel_is_the_catalogues() -> None:
    assert all(_letters(shown) for _, shown in _rendered())
    with translated(_in_another_language()):
        for name, shown in _rendered():
            assert _letters(shown) == [], (name, shown)


def test_a_report_with_everything_leaves_nothing_out_of_its_panel() -> None:
    """Else the test above would miss the words around it."""
    left_out = {"surprise", "carried", "known", "unknown", "hedged", "unfinished", "unread"}  # without words of their own
    assert [name for name, value in asdict(_report("fail", hidden=True)).items() if not value and name not in left_out] == []


@pytest.mark.parametrize("left", [True, False])
def test_every_word_of_the_next_step_is_the_catalogues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: bool) -> None:
    (tmp_path / progress.MARKER).mkdir()
    (tmp_path / "index.ipynb").touch()
    exercises = tuple(replace(one, id=str(place), status="pass") for place, one in enumerate(ROW.exercises))
    here = replace(ROW, exercises=(*exercises[:-1], replace(exercises[-1], status="fail")) if left else exercises)
    rows = {"01_2": here, "01_3": replace(ROW, lesson="01_3")}
    monkeypatch.setattr(learner_status, "status", lambda _, only: [rows[name] for name in only])
    monkeypatch.setattr(learner_status, "link", lambda *_: "")
    monkeypatch.setattr(folder, "names", lambda _: ("01_2", "01_3"))
    monkeypatch.setattr(lesson_names, "workshops_beside", lambda *_: ("01_3",))
    monkeypatch.setattr(lesson_names, "next_core", lambda *_: None)
    assert overview.ahead(tmp_path / "01_2", "0")
    with translated(_in_another_language()):
        shown = [overview.ahead(tmp_path / "01_2", "0"), *(text for text, _ in overview.next_step(tmp_path / "01_2", "0"))]
    assert len(shown) == (3 if left else 7)
    assert _letters(" ".join(shown)) == [], shown
