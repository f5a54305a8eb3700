"""Nothing in `tests/attacks` earns a mark it does not deserve, learns what is hidden, harms another or stops the class.

Each attack is a small file whose docstring says what it tries, with any of

- `ANSWERS`: cell sources by exercise id, put into a blank notebook (`VISIBLE_INPUTS` becomes the visible queries of `gaussian`);
- `tamper(notebook)`: a change of the submitted JSON, to other JSON or to bytes;
- `files(folder)`: links and extra files;
- `DESERVED`: the marks by exercise id that an honest evaluation gives (none elsewhere), `FORBIDDEN`: a pattern that must not be
  in any output or panel, `FLAG`: what a person must be told, `MAX_SECONDS`: how long the grader may be kept busy.
"""

import contextlib
import functools
import importlib.util
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import autograder.sandbox as box
from autograder.authoring.course import course_root, find_lesson
from autograder.authoring.reference_source import BEGIN, solution_source
from autograder.grading import grade
from autograder.grading.grade import StudentRow
from autograder.grading.marking.needed_cells import supporting
from autograder.grading.marking.scheme import SECRET_FILE
from autograder.grading.trials import twin
from autograder.judging import pack

FOLDER = Path(__file__).parent / "attacks"
LESSONS = ("01_soft_lookup", "03_scaled_dot_product")
HONEST = "honest_work_of_another"
SECRET = "5" * 64  # hidden numbers, and so chance meetings with what a page shows, are the same in each run
TIERS = [tier.name for tier in box.available_tiers() if tier.available and tier.name != "none"]
pytestmark = [
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
    pytest.mark.skipif(not TIERS, reason="neither bubblewrap nor Landlock isolates on this machine"),
]


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"attack_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ATTACKS = {path.stem: _load(path) for path in sorted(FOLDER.glob("*.py"))}


def _lesson(attack: ModuleType) -> str:
    ids = set(getattr(attack, "ANSWERS", {}))
    own = next((name for name in LESSONS if ids & {e.id for e in find_lesson(name).exercises()}), LESSONS[0])
    return str(getattr(attack, "LESSON", own))


@dataclass
class Graded:
    """A class graded in one tier: rows, panels and pages by student, and what was found outside afterwards."""

    rows: dict[str, StudentRow]
    outputs: dict[str, str]
    panels: dict[str, list[str]]
    pages: dict[str, str]
    sources: dict[str, str]
    hidden: dict[str, set[str]]
    strays: list[str]


SETTLED = "it changes the file alone, which is read and rebuilt before any sandbox: graded in the first tier"
PAIRS = [(tier, name) for tier in TIERS for name, attack in ATTACKS.items() if tier == TIERS[0] or hasattr(attack, "ANSWERS")]


def _pairs() -> Iterator[Any]:
    """Each attack in each tier; what is not run there says why."""
    for tier in box.available_tiers():
        for name in ATTACKS if tier.name != "none" else ():
            why = SETTLED if tier.available else f"{tier.name} does not work on this machine: {tier.reason}"
            marks = [] if (tier.name, name) in PAIRS else [pytest.mark.skip(reason=why)]
            marks += [pytest.mark.slow] if TIERS and tier.name != TIERS[0] else []  # a second class, graded in the second tier
            yield pytest.param(tier.name, name, marks=marks)


each_attack = pytest.mark.parametrize(("tier", "name"), list(_pairs()))


@functools.cache
def grade_class(tier: str) -> Graded:
    """All attacks in one class for each lesson, with an honest student first, in the middle and last."""
    memory = Path("/dev/shm")  # nbgrader commits often, and a disk takes its time over each
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        return _grade_class(tier, Path(folder) / "course")


def _soon(asked: box.Question) -> box.Question:
    return replace(asked, timeout_s=min(asked.timeout_s, 1.5))


def _grade_class(tier: str, root: Path) -> Graded:
    twin.make(root, [find_lesson(lesson) for lesson in LESSONS])
    for kind in ("source", "release"):
        for lesson in LESSONS:
            _shorten(root / kind / lesson / f"{lesson}.ipynb")
    (root / SECRET_FILE).write_text(SECRET)
    found = Graded({}, {}, {}, {}, {}, {}, [])
    observe = box.Submission._observe
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autograder.grading.workers.choose_tier", lambda **_: tier)
        patch.setattr("autograder.sandbox.submission.GRACE_S", 1.0)
        patch.setattr(
            box.Submission,
            "_observe",
            lambda self, at, asked: observe(self, at, replace(asked, timeout_s=min(asked.timeout_s, 1.5))),
        )
        for lesson in LESSONS:
            names = _submit_all(root, lesson, tier)
            report = grade.grade_assignment(root, lesson, feedback=True, limits=box.Limits(wall_s=8.0, cell_s=1.0))
            assert report.tier == tier
            assert [row.student for row in report.rows] == names
            for row in report.rows:
                _collect(root, lesson, row, found)
            found.hidden[lesson] = _hidden_numbers(root, lesson)
    found.strays = _strays(root)
    return found


def _shorten(path: Path) -> None:
    """Leave out most of the prose and all figures: they take time and nobody attacks them."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    plain = [cell for cell in notebook["cells"] if "nbgrader" not in cell["metadata"]]
    kept = [cell["id"] for cell in plain if cell["cell_type"] == "markdown"][:3]
    marked = [cell for cell in notebook["cells"] if cell["cell_type"] == "code" and "nbgrader" in cell["metadata"]]
    given = ["".join(cell["source"]) for cell in marked if not cell["metadata"]["nbgrader"]["solution"]]
    kept += supporting(given, {cell["id"]: "".join(cell["source"]) for cell in plain if cell["cell_type"] == "code"})
    notebook["cells"] = [cell for cell in notebook["cells"] if "nbgrader" in cell["metadata"] or cell["id"] in kept]
    path.write_text(json.dumps(notebook), encoding="utf-8")


def _submit_all(root: Path, lesson: str, tier: str) -> list[str]:
    attacks = [name for where, name in PAIRS if where == tier and _lesson(ATTACKS[name]) == lesson]
    middle = len(attacks) // 2
    order = [HONEST, *attacks[:middle], HONEST, *attacks[middle:], HONEST]
    names = [f"{number:03d}_{'honest' if name == HONEST else name}" for number, name in enumerate(order)]
    for name, student in zip(order, names, strict=True):
        folder = root / "submitted" / student / lesson
        folder.mkdir(parents=True)
        notebook = json.loads((root / "release" / lesson / f"{lesson}.ipynb").read_text(encoding="utf-8"))
        answers = _honest(lesson) if name == HONEST else getattr(ATTACKS[name], "ANSWERS", {})
        _answer(notebook, answers, root / "release" / lesson / f"{find_lesson(lesson).slug}{pack.SUFFIX}")
        changed = ATTACKS[name].tamper(notebook) if hasattr(ATTACKS.get(name), "tamper") else notebook
        data = changed if isinstance(changed, bytes) else json.dumps(changed).encode()
        (folder / f"{lesson}.ipynb").write_bytes(data)
        if hasattr(ATTACKS.get(name), "files"):
            ATTACKS[name].files(folder)
    return names


def _honest(lesson: str) -> dict[str, str]:
    found = find_lesson(lesson)
    answers = {}
    for exercise in found.exercises():
        text = f'{exercise.id} = "{min(exercise.choices)}"' if exercise.choices else solution_source(found.slug, exercise.id)
        answers[exercise.id] = f"{text}\n# {HONEST}"
    return answers


def _answer(notebook: dict[str, Any], answers: dict[str, str], visible: Path) -> None:
    if any("VISIBLE_INPUTS" in text for text in answers.values()):
        cases = pack.load(visible).exercises["gaussian"].cases
        queries = ", ".join(f"np.array({case.probe.inputs.arrays[0].tolist()})" for case in cases)
        answers = {name: text.replace("VISIBLE_INPUTS", f"[{queries}]") for name, text in answers.items()}
    cells = {cell["metadata"]["nbgrader"]["grade_id"]: cell for cell in notebook["cells"] if "nbgrader" in cell["metadata"]}
    for name, text in answers.items():
        cells[name]["source"] = text


def _collect(root: Path, lesson: str, row: StudentRow, found: Graded) -> None:
    student = f"{lesson[:2]}_{row.student}"
    found.rows[student] = row
    outputs: list[str] = []
    panels: list[str] = []
    sources: list[str] = []
    kinds: set[str] = set()
    path = root / "autograded" / row.student / lesson / f"{lesson}.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []
    for cell in cells:
        sources.append("".join(cell["source"]))
        outputs += _texts(cell.get("outputs", []))
        kinds |= {kind for output in cell.get("outputs", []) for kind in output.get("data", {})}
        rich = [output for output in cell.get("outputs", []) if "text/html" in output.get("data", {})]
        if cell["metadata"].get("nbgrader", {}).get("grade") and cell["cell_type"] == "code":
            panels += ["".join(output["data"]["text/html"]) for output in rich]
        else:
            assert not rich, cell["source"]
    said = [row.problem or "", *row.flags, *(state.headline for state in row.exercises.values())]
    assert kinds <= {"text/plain", "text/html", "image/png"}
    found.outputs[student] = "\n".join([*outputs, *said])
    found.panels[student], found.sources[student] = panels, "\n".join(sources)
    page = root / "feedback" / row.student / lesson / f"{lesson}.html"
    found.pages[student] = page.read_text(encoding="utf-8").split("<body", 1)[1] if page.exists() else ""


def _texts(item: Any) -> list[str]:
    if isinstance(item, dict | list):
        return [text for part in (item.values() if isinstance(item, dict) else item) for text in _texts(part)]
    return [item] if isinstance(item, str) else []


def _hidden_numbers(root: Path, lesson: str) -> set[str]:
    """The first five decimals of each number that is in the hidden pack alone."""
    taught = find_lesson(lesson)
    secret = pack.make(taught.slug, taught.title, taught.exercises(), seed=pack.seed_from(SECRET, taught.slug))
    visible = pack.load(root / "release" / lesson / f"{taught.slug}{pack.SUFFIX}")

    def digits(packed: pack.Pack) -> set[str]:
        cases = [case for exercise in packed.exercises.values() for case in exercise.cases]
        arrays = [a for c in cases for a in c.probe.inputs.arrays + (c.expected.value.arrays if c.expected.value else [])]
        numbers = np.abs(np.concatenate([np.ravel(a).astype(float) for a in arrays]))
        return {f"{x:.8f}"[:7] for x in numbers if 0.01 < x < 10 and f"{x:.8f}"[4:7] not in ("000", "999")}

    return digits(secret) - digits(visible)


@functools.cache
def _solution_lines(lesson: str) -> list[str]:
    """The telling lines of the reference solutions, but those that the hints say anyway."""
    found = find_lesson(lesson)
    asked = [exercise for exercise in found.exercises() if not exercise.choices]
    said = "\n".join(text for e in asked for text in (*e.hints, *(m.fix for m in e.misconceptions)))
    bodies = [solution_source(found.slug, exercise.id).split(BEGIN)[1] for exercise in asked]
    lines = [line.strip() for body in bodies for line in body.splitlines()]
    return [line for line in lines if len(line) > 24 and line not in said]


def _strays(root: Path) -> list[str]:
    """What attacks would have left outside: files and processes by the name that they all use."""
    home, here = Path.home(), course_root().parent
    places = [Path("/tmp"), Path("/dev/shm"), Path("/var/tmp"), Path("/"), home, here, Path.cwd(), here / "autograder"]
    strays = [str(path) for place in places for path in place.glob("*pwned*")]
    strays += [str(path) for path in root.rglob("*") if "pwned" in path.name]
    strays += [str(path) for path in (root / "autograded").rglob("*") if path.is_symlink() or path.name == "sitecustomize.py"]
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            strays += [str(comm)] if "pwned" in comm.read_text() else []
    return strays


class _Live(HTMLParser):
    """The tags, handlers, addresses and scripts of a page that bear an attacker's mark."""

    def __init__(self, page: str):
        super().__init__()
        self.found: list[str] = []
        self._script = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._script = tag in ("script", "style")
        for name, value in attrs:
            text = re.sub(r"[\s\x00-\x20]", "", value or "").lower()
            live = name.startswith("on") or name in ("src", "action", "srcdoc", "content")
            if "pwned" in text and (live or ("href" in name and not text.startswith("http"))):
                self.found.append(f"<{tag} {name}={value!r}>")

    def handle_endtag(self, tag: str) -> None:
        self._script = False

    def handle_data(self, data: str) -> None:
        if self._script and ("pwned" in data or "*{display:none" in data):
            self.found.append(data[:80])


def _student(graded: Graded, name: str) -> str:
    return next(student for student in graded.rows if student[7:] == name)


def test_there_are_at_least_fifty_attacks_and_each_says_what_it_tries() -> None:
    assert len(ATTACKS) >= 50
    for name, attack in ATTACKS.items():
        assert attack.__doc__, name
        assert len(attack.__doc__.splitlines()) == 1, name


def test_every_attack_is_in_one_class_and_the_documents_table_counts_them() -> None:
    path = FOLDER.parent / "attack_table.py"
    classes = {each.name: each.attacks.split() for each in _load(path).CLASSES}
    assert sorted(name for names in classes.values() for name in names) == sorted(ATTACKS)
    assert all(set(each.run.split()) <= set(each.attacks.split()) for each in _load(path).CLASSES)
    text = (FOLDER.parent.parent / ".github" / "SECURITY.md").read_text(encoding="utf-8")
    table = [line.strip("| ").split(" | ") for line in re.findall(r"^\| (?!attack \|).*\|$", text, re.MULTILINE)]
    assert {row[0]: int(row[1]) for row in table} == {name: len(names) for name, names in classes.items()}
    assert {len(row) for row in table} == {6}
    assert {row[4] for row in table} == {"nothing"}, "an attack gained something in `attn grade`"


@pytest.mark.parametrize("tier", [*TIERS[:1], *(pytest.param(tier, marks=pytest.mark.slow) for tier in TIERS[1:])])
def test_honest_students_get_full_marks_before_among_and_after_the_attacks(tier: str) -> None:
    graded = grade_class(tier)
    honest = {student: row for student, row in graded.rows.items() if student[7:] == "honest"}
    assert len(honest) == 3 * len(LESSONS)
    for student, row in honest.items():
        assert (row.score, row.problem, row.flags) == (row.points, None, []), student


@each_attack
def test_an_attack_earns_what_an_honest_evaluation_gives(tier: str, name: str) -> None:
    graded = grade_class(tier)
    row = graded.rows[_student(graded, name)]
    scores = {exercise: state.score for exercise, state in row.exercises.items() if state.score}
    assert scores == {e: s for e, s in getattr(ATTACKS[name], "DESERVED", {}).items() if s}
    assert row.score == sum(scores.values())
    assert row.points == sum(exercise.points for exercise in find_lesson(_lesson(ATTACKS[name])).exercises())
    assert row.seconds < getattr(ATTACKS[name], "MAX_SECONDS", 30)
    assert any(getattr(ATTACKS[name], "FLAG", "") in flag for flag in row.flags) or not hasattr(ATTACKS[name], "FLAG")


@each_attack
def test_an_attack_learns_nothing_hidden(tier: str, name: str) -> None:
    graded = grade_class(tier)
    student = _student(graded, name)
    shown = graded.outputs[student] + "".join(graded.panels[student]) + graded.pages[student]
    told = {number for number in graded.hidden[_lesson(ATTACKS[name])] if number in shown}
    assert not told
    assert HONEST not in shown + graded.sources[student]
    assert SECRET not in shown
    lines = _solution_lines(_lesson(ATTACKS[name]))
    assert not [line for line in lines if line in shown and line not in graded.sources[student]]
    if pattern := getattr(ATTACKS[name], "FORBIDDEN", None):
        assert not re.search(pattern, graded.outputs[student] + "".join(graded.panels[student]))


@each_attack
def test_nothing_that_an_attack_wrote_is_live_in_a_page(tier: str, name: str) -> None:
    graded = grade_class(tier)
    student = _student(graded, name)
    assert _Live(graded.pages[student]).found == []
    assert _Live("".join(graded.panels[student])).found == []


@pytest.mark.parametrize("tier", [TIERS[0], *(pytest.param(tier, marks=pytest.mark.slow) for tier in TIERS[1:])] if TIERS else [])
def test_nothing_is_left_outside(tier: str) -> None:
    assert grade_class(tier).strays == []
