"""Nothing in `tests/attacks/corpus` earns a mark it does not deserve, learns what is hidden, harms another or stops the class.

Each attack is a small file whose docstring says what it tries, with any of

- `ANSWERS`: cell sources by exercise id, put into a blank notebook (`VISIBLE_INPUTS` becomes the visible queries of `gaussian`,
  `VISIBLE_DIGESTS` a checksum of each visible array of that exercise, in single precision);
- `tamper(notebook)`: a change of the submitted JSON, to other JSON or to bytes;
- `files(folder)`: links and extra files;
- `DESERVED`: the marks by exercise id that an honest evaluation gives (none elsewhere), `FORBIDDEN`: a pattern that must not be
  in any output or panel, `FLAG`: what a person must be told, `MAX_SECONDS`: what `StudentRow.seconds` may be.

Its payload says at each point of attack that it got there, and what came of it (`tests.armed`); an attack that does not is inert:

- `RAN`: the outcome at each point, as a pattern; `NO_OUTCOME`: points with no outcome, and why; `SEEN`: what the trusted side
  must have seen of an exercise ("value", or how it failed); `INNOCENT`: the cells of `ANSWERS` without a point, and why.
- What `tamper` and `files` change must differ from what it was; `REFUSED`: a pattern for the reason why the notebook is not read.
"""

import contextlib
import functools
import importlib.util
import json
import os
import re
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from autograder.authoring.course import course_root, find_lesson
from autograder.authoring.reference_source import BEGIN, solution_source
from autograder.grading import grade
from autograder.grading.grade import StudentRow
from autograder.grading.marking.needed_cells import supporting
from autograder.grading.marking.scheme import SECRET_FILE
from autograder.grading.trials import course_copy
from autograder.judging.exercise import Exercise, Prediction
from autograder.judging.observation import Observation, Probe
from autograder.judging.records import ExerciseRecord
from autograder.judging.values import encode
from autograder.packs import make_pack, pack_file
from autograder.sandbox.client import Sandbox
from autograder.sandbox.isolation_tiers import available_tiers
from autograder.sandbox.run_submission import Cell, Question, Submission
from autograder.sandbox.submission_limits import Limits
from tests import armed, sample

FOLDER = Path(__file__).parent / "corpus"
ROOT = Path(__file__).parents[2]
LESSONS = (sample.LESSON, "03_scaled_dot_product", "03c_backward_pass", "03d_reading_a_head", "07_kv_cache")
HONEST = "honest_work_of_another"
SECRET = "5" * 64  # hidden numbers, and so chance meetings with what a page shows, are the same in each run
TIERS = [tier.name for tier in available_tiers() if tier.available and tier.name != "none"]
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


def _course_of(lesson: str) -> AbstractContextManager[object]:
    """The sample course in use for its own lesson, the real one for the others."""
    return sample.in_use(sample.HOME if lesson == sample.LESSON else ROOT)


@functools.cache
def _exercises(lesson: str) -> tuple[Exercise, ...]:
    with _course_of(lesson):
        return find_lesson(lesson).in_code()


@functools.cache
def _points(lesson: str) -> float:
    """What all of the lesson's exercises give, predictions too."""
    with _course_of(lesson):
        return sum(exercise.points for exercise in find_lesson(lesson).exercises())


def _lesson(attack: ModuleType) -> str:
    ids = set(getattr(attack, "ANSWERS", {}))
    own = max(LESSONS, key=lambda name: len(ids & {exercise.id for exercise in _exercises(name)}))
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
    markers: armed.Markers
    seen: armed.Markers


SETTLED = "it changes the file alone, which is read and rebuilt before any sandbox: graded in the first tier"
PAIRS = [(tier, name) for tier in TIERS for name, attack in ATTACKS.items() if tier == TIERS[0] or hasattr(attack, "ANSWERS")]


def _pairs() -> Iterator[Any]:
    """Each attack in each tier; what is not run there says why."""
    for tier in available_tiers():
        for name in ATTACKS if tier.name != "none" else ():
            why = SETTLED if tier.available else f"{tier.name} does not work on this machine: {tier.reason}"
            marks = [] if (tier.name, name) in PAIRS else [pytest.mark.skip(reason=why)]
            yield pytest.param(tier.name, name, marks=[pytest.mark.slow, *marks])  # a class of a hundred is graded in each tier


each_attack = pytest.mark.parametrize(("tier", "name"), list(_pairs()))


@functools.cache
def grade_class(tier: str) -> Graded:
    """All attacks in one class for each lesson, with an honest student first, in the middle and last."""
    memory = Path("/dev/shm")  # nbgrader commits often, and a disk takes its time over each
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        return _grade_class(tier, Path(folder))


def _soon(asked: Question) -> Question:
    return replace(asked, timeout_s=min(asked.timeout_s, 1.5))


def _grade_class(tier: str, place: Path) -> Graded:
    found = Graded({}, {}, {}, {}, {}, {}, [], {}, {})
    log, seen = place / "markers", place / "seen"
    with pytest.MonkeyPatch.context() as patch, armed.listening(log):
        patch.setattr("autograder.grading.workers.choose_tier", lambda **_: tier)
        patch.setattr("autograder.sandbox.run_submission.GRACE_S", 1.0)
        patch.setattr(Submission, "_observe", _observing(seen))
        for lesson in LESSONS:
            root = place / lesson / "course"
            with _course_of(lesson):
                _make_course(root, lesson)
                names = _submit_all(root, lesson, tier, log)
                report = grade.grade_assignment(root, lesson, feedback=True, limits=Limits(wall_s=8.0, cell_s=1.0))
                assert report.tier == tier
                assert [row.student for row in report.rows] == names
                for row in report.rows:
                    _collect(root, lesson, row, found)
                found.hidden[lesson] = _hidden_numbers(root, lesson)
            found.strays += _strays(root)
    found.markers, found.seen = armed.markers(log), armed.markers(seen)
    return found


def _observing(seen: Path) -> Any:
    """`Submission._observe` with little time, which notes in the file `seen` what comes of each attack."""
    observe = Submission._observe

    def observed(self: Submission, channel: Any, asked: Question) -> list[Observation]:
        given = observe(self, channel, _soon(asked))
        if name := armed.attacker(cell.source for cell in self._cells):
            for how in {one.failure.kind if one.failure else "value" for one in given}:
                armed.note(seen, name, asked.name, how)
        return given

    return observed


def _make_course(root: Path, lesson: str) -> None:
    course_copy.make(root, [find_lesson(lesson)])
    for kind in ("source", "release"):
        _shorten(root / kind / lesson / f"{lesson}.ipynb")
    (root / SECRET_FILE).write_text(SECRET)


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


def _submit_all(root: Path, lesson: str, tier: str, log: Path) -> list[str]:
    attacks = [name for where, name in PAIRS if where == tier and _lesson(ATTACKS[name]) == lesson]
    middle = len(attacks) // 2
    order = [HONEST, *attacks[:middle], HONEST, *attacks[middle:], HONEST]
    names = [f"{number:03d}_{'honest' if name == HONEST else name}" for number, name in enumerate(order)]
    for name, student in zip(order, names, strict=True):
        folder = root / "submitted" / student / lesson
        folder.mkdir(parents=True)
        notebook = json.loads((root / "release" / lesson / f"{lesson}.ipynb").read_text(encoding="utf-8"))
        answers = _honest(lesson) if name == HONEST else getattr(ATTACKS[name], "ANSWERS", {})
        _answer(notebook, answers, root / "release" / lesson / f"{find_lesson(lesson).slug}{pack_file.SUFFIX}", name)
        path = folder / f"{lesson}.ipynb"
        path.write_text(json.dumps(notebook))
        before = _tree(folder)
        if hasattr(ATTACKS.get(name), "tamper"):
            changed = ATTACKS[name].tamper(notebook)
            path.write_bytes(changed if isinstance(changed, bytes) else json.dumps(changed).encode())
        if hasattr(ATTACKS.get(name), "files"):
            ATTACKS[name].files(folder)
        armed.note(log, name, "file", "as it was" if _tree(folder) == before else "changed")
    return names


def _tree(folder: Path) -> dict[str, object]:
    """What is in a submission's folder, by path: where a link leads, bytes of a file, or the kind of anything else."""
    if folder.is_symlink():
        return {"": os.readlink(folder)}
    return {
        str(path.relative_to(folder)): os.readlink(path)
        if path.is_symlink()
        else (path.read_bytes() if path.is_file() else path.lstat().st_mode)
        for path in folder.rglob("*")
    }


def _honest(lesson: str) -> dict[str, str]:
    found = find_lesson(lesson)
    answers = {}
    for exercise in found.exercises():
        text = (
            f'{exercise.id} = "{min(exercise.choices)}"'
            if isinstance(exercise, Prediction)
            else solution_source(found.exercises_slug, exercise.id)
        )
        answers[exercise.id] = f"{text}\n# {HONEST}"
    return answers


def _answer(notebook: dict[str, Any], answers: dict[str, str], visible: Path, name: str) -> None:
    """Put `answers` into `notebook`, armed where they are those of the attack `name`."""
    if any("VISIBLE_INPUTS" in text for text in answers.values()):
        cases = pack_file.load(visible).exercises["gaussian"].cases
        queries = ", ".join(f"np.array({case.probe.inputs.arrays[0].tolist()})" for case in cases)
        answers = {each: text.replace("VISIBLE_INPUTS", f"[{queries}]") for each, text in answers.items()}
    if any("VISIBLE_DIGESTS" in text for text in answers.values()):
        packed = pack_file.load(visible).exercises
        answers = {each: text.replace("VISIBLE_DIGESTS", repr(_digests(packed[each]))) for each, text in answers.items()}
    cells = {cell["metadata"]["nbgrader"]["grade_id"]: cell for cell in notebook["cells"] if "nbgrader" in cell["metadata"]}
    for exercise, text in answers.items():  # an answer without a cell raises: the attack would be inert
        cells[exercise]["source"] = armed.armed(name, text) if name in ATTACKS else text


def _digests(record: ExerciseRecord) -> set[int]:
    arrays = [array for case in record.cases for array in case.probe.inputs.arrays]
    return {zlib.crc32(array.astype("<f4").tobytes()) for array in arrays}


def _collect(root: Path, lesson: str, row: StudentRow, found: Graded) -> None:
    student = f"{find_lesson(lesson).label:_<3}_{row.student}"
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
    """The first five decimals, and four digits, of each number that is in the hidden pack alone."""
    taught = find_lesson(lesson)
    secret = make_pack.make(
        taught.slug, taught.title, taught.exercises(), seed=make_pack.seed_from(SECRET, taught.slug), naming="listed"
    )
    visible = pack_file.load(root / "release" / lesson / f"{taught.slug}{pack_file.SUFFIX}")

    def digits(packed: pack_file.Pack) -> set[str]:
        cases = [case for exercise in packed.in_code.values() for case in exercise.cases]
        arrays = [a for c in cases for a in c.probe.inputs.arrays + (c.expected.value.arrays if c.expected.value else [])]
        numbers = np.abs(np.concatenate([np.ravel(a).astype(float) for a in arrays]))
        plain = [x for x in numbers if 0.01 < x < 10 and f"{x:.8f}"[4:7] not in ("000", "999")]
        four = {f"{x:.4g}" for x in plain}
        return {f"{x:.8f}"[:7] for x in plain} | {text for text in four if len(text.lstrip("0.")) >= 4}

    return digits(secret) - digits(visible)


@functools.cache
def _solution_lines(lesson: str) -> list[str]:
    """The telling lines of the reference solutions, but those that the hints say anyway."""
    asked = _exercises(lesson)
    said = "\n".join(text for e in asked for text in (*e.hints, *(m.fix for m in e.misconceptions)))
    with _course_of(lesson):
        module = find_lesson(lesson).exercises_slug
        bodies = [solution_source(module, exercise.id).split(BEGIN)[1] for exercise in asked]
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
    return next(student for student in graded.rows if student[8:] == name)


def test_there_are_at_least_fifty_attacks_and_each_says_what_it_tries() -> None:
    assert len(ATTACKS) >= 50
    for name, attack in ATTACKS.items():
        assert attack.__doc__, name
        assert len(attack.__doc__.splitlines()) == 1, name


def test_every_payload_has_a_point_of_attack_or_a_reason_for_none() -> None:
    for name, attack in ATTACKS.items():
        innocent = getattr(attack, "INNOCENT", {})
        answers = getattr(attack, "ANSWERS", {})
        assert innocent.keys() <= answers.keys(), name
        assert all([*innocent.values(), *getattr(attack, "NO_OUTCOME", {}).values()]), name
        for exercise, text in answers.items():
            assert re.search(r"\battack(\.on|\.after)?\(", text) or exercise in innocent, (name, exercise)
        assert _expected(attack) or innocent.keys() == answers.keys(), name


def _expected(attack: ModuleType) -> dict[str, str | None]:
    """What `armed.inert` asks for."""
    expected = getattr(attack, "RAN", {}) | dict.fromkeys(getattr(attack, "NO_OUTCOME", {}))
    return expected | ({"file": "changed"} if hasattr(attack, "tamper") or hasattr(attack, "files") else {})


def test_what_attacks_look_for_is_there_outside_the_sandbox() -> None:
    with sample.in_use():
        sys.path.insert(0, str(sample.HOME))  # `in_use` takes it out again
        assert [name for name in ATTACKS["imports_the_reference"]._NAMES if importlib.util.find_spec(name) is None] == []
    assert all((ROOT / path).is_file() for path in ATTACKS["reads_the_course"].GUESSED)


PAYLOADS: dict[str, tuple[str, dict[str, str | None], str | None]] = {
    "moved": ("import autograder.moved_away as engine\nattack('patch', print)", {"patch": "ran .*"}, "patch: never reached"),
    "half": ("with attack.on('first'): pass\n1 / 0\nattack('second', print)", {"first": "ran", "second": "ran"}, "second: never"),
    "harmless": ("attack('call', int)", {"call": "refused EPERM"}, "call: expected 'refused EPERM', got ['ran int']"),
    "gone": ("import os\nattack('end', os._exit, 0)", {"end": "ran"}, "end: expected 'ran', got nothing afterwards"),
    "unsaid": ("attack('one', int)\nattack('two', int)", {"one": "ran int"}, "two: reached, but not in RAN"),
    "ended": ("import os\nattack('end', os._exit, 0)", {"end": None}, None),
    "real": ("import socket\nattack('socket', socket.socket)", {"socket": "refused EPERM"}, None),
}


@pytest.mark.parametrize("tier", TIERS)
def test_an_attack_that_does_not_attack_is_found_out(tier: str, tmp_path: Path) -> None:
    with armed.listening(tmp_path / "log"), Sandbox(tier, preload=("numpy",)) as sandbox:
        for name, (source, _, _) in PAYLOADS.items():
            with sandbox.submission([Cell("a", armed.armed(name, source))]):
                pass
        with sandbox.submission([Cell("a", PAYLOADS["real"][0])]):  # not armed: a NameError
            pass
    found = armed.markers(tmp_path / "log")
    for name, (_, ran, missing) in PAYLOADS.items():
        lines = armed.inert(found[name], ran)
        assert lines == [] if missing is None else len(lines) == 1 and lines[0].startswith(missing), (name, lines)
    assert armed.inert(found["no such attack"], {"socket": "refused EPERM"}) == ["socket: never reached"]


@pytest.mark.parametrize("tier", TIERS)
def test_what_one_submission_leaves_in_a_sandbox_the_next_does_not_find(tier: str, tmp_path: Path) -> None:
    """In a class the two of a pair may be in two workers, where the second finds nothing anyway."""
    names = [name for name in ATTACKS if name.startswith("persists_")]
    asked = Probe(encode({"q": np.zeros(2), "K": np.ones((3, 2))}))
    with armed.listening(tmp_path / "log"), Sandbox(tier, preload=("numpy",)) as sandbox:
        for name in names:
            sources = ("import numpy as np", armed.armed(name, ATTACKS[name].ANSWERS["gaussian"]))
            with sandbox.submission([Cell(text[:1], text) for text in sources]) as submission:
                (seen,) = submission.observe("gaussian", [asked], 5.0)
            assert not re.search(getattr(ATTACKS[name], "FORBIDDEN", "(?!)"), str(submission.outputs)), name
            if hasattr(ATTACKS[name], "DESERVED"):
                assert seen.value is not None
                np.testing.assert_allclose(seen.value.arrays[0], np.exp(-np.ones(3)))
    found = armed.markers(tmp_path / "log")
    assert [line for name in names for line in armed.inert(found[name], _expected(ATTACKS[name]))] == []


def test_every_attack_is_in_one_class_and_the_documents_table_counts_them() -> None:
    path = ROOT / "tests" / "attack_table.py"
    classes = {each.name: each.attacks.split() for each in _load(path).CLASSES}
    assert sorted(name for names in classes.values() for name in names) == sorted(ATTACKS)
    assert all(set(each.run.split()) <= set(each.attacks.split()) for each in _load(path).CLASSES)
    document = (ROOT / ".github" / "SECURITY.md").read_text(encoding="utf-8")
    text = document.split("<!-- attacks")[1].split("<!-- /attacks")[0]
    table = [line.strip("| ").split(" | ") for line in re.findall(r"^\| (?!attack \|).*\|$", text, re.MULTILINE)]
    assert {row[0]: int(row[1]) for row in table} == {name: len(names) for name, names in classes.items()}
    assert {len(row) for row in table} == {6}
    gains = [gain for row in table for gain in row[2:5]]
    assert [gain for gain in gains if not re.fullmatch(r"nothing|\*\*[^*`]+\*\*|\*not run: [^*`]+\*", gain)] == []
    assert {row[4] for row in table} == {"nothing"}, "an attack gained something in `attn grade`"


@pytest.mark.slow
@pytest.mark.timeout(1800)  # grades every attack: a busy machine takes long
@pytest.mark.parametrize("tier", TIERS)
def test_honest_students_get_full_marks_before_among_and_after_the_attacks(tier: str) -> None:
    graded = grade_class(tier)
    honest = {student: row for student, row in graded.rows.items() if student[8:] == "honest"}
    assert len(honest) == 3 * len(LESSONS)
    for student, row in honest.items():
        assert (row.score, row.problem, row.flags) == (row.points, None, []), student


@each_attack
def test_an_attack_reaches_the_point_where_it_attacks(tier: str, name: str) -> None:
    graded = grade_class(tier)
    attack = ATTACKS[name]
    found = {point: texts for point, texts in graded.markers[name].items() if point != "file" or "file" in _expected(attack)}
    assert armed.inert(found, _expected(attack)) == []
    flags = graded.rows[_student(graded, name)].flags
    refused = next((flag for flag in flags if flag.startswith("unreadable: ")), "")
    assert re.fullmatch(getattr(attack, "REFUSED", ""), refused), "nobody reads what is refused at once"
    for exercise, how in getattr(attack, "SEEN", {}).items():
        assert f"after {how}" in graded.seen[name][exercise]


@each_attack
def test_an_attack_earns_what_an_honest_evaluation_gives(tier: str, name: str) -> None:
    graded = grade_class(tier)
    row = graded.rows[_student(graded, name)]
    scores = {exercise: state.score for exercise, state in row.exercises.items() if state.score}
    assert scores == {e: s for e, s in getattr(ATTACKS[name], "DESERVED", {}).items() if s}
    assert row.score == sum(scores.values())
    assert row.points == _points(_lesson(ATTACKS[name]))
    assert row.seconds < getattr(ATTACKS[name], "MAX_SECONDS", 30)
    assert any(getattr(ATTACKS[name], "FLAG", "") in flag for flag in row.flags) or not hasattr(ATTACKS[name], "FLAG")


@each_attack
def test_an_attack_learns_nothing_hidden(tier: str, name: str) -> None:
    graded = grade_class(tier)
    student = _student(graded, name)
    shown = graded.outputs[student] + "".join(graded.panels[student]) + graded.pages[student]
    read = re.sub(r"(?<=\d)[p_](?=\d)", ".", shown)  # as a name would have to spell it
    numbers = {*re.findall(r"\d+\.\d+", read), *(number[:7] for number in re.findall(r"\d+\.\d+", read))}
    told = graded.hidden[_lesson(ATTACKS[name])] & numbers
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


@pytest.mark.slow
@pytest.mark.parametrize("tier", TIERS)
def test_nothing_is_left_outside(tier: str) -> None:
    assert grade_class(tier).strays == []
