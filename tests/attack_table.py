"""`python -m tests.attack_table` measures one attack of each class in three graders and renews the table in SECURITY.md.

Plain nbgrader runs hostile code as the user who calls it, so it runs here in a bubblewrap without network, with a read-only
system; classes that would harm the machine even so are not run in it, and the table says so. Minutes; by hand, on
Linux with bubblewrap. `tests/attacks/test_attacks.py` runs *all* attacks through `attn grade`, in each sandbox there is.
"""

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import armed, sample

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / ".github" / "SECURITY.md"
LESSON = sample.LESSON
HONEST = "zz_honest"
PLAIN = 'c = get_config()\nc.CourseDirectory.course_id = "attention"\n'
TIMEOUT_S = 600


@dataclass(frozen=True)
class Class:
    """`attacks` are file names, of which some are `run`, `alone` if they may end the class; `not_run`: why not by nbgrader."""

    name: str
    attacks: str
    stops: str
    run: str
    not_run: str = ""
    alone: bool = False


CLASSES = [
    Class(
        "checks, comparisons or the shell are replaced in the process that runs the answer",
        """patched_engine patched_numpy_asserters patched_torch_asserters patched_observation shadowed_check ast_transformer
        input_transformer fake_clock renames_and_rebinds spoils_the_shared_process""",
        "marks are made in another process",
        run="shadowed_check",
    ),
    Class(
        "cells are tagged, deleted, moved or marked otherwise",
        """skip_execution_tags deleted_grade_cells reordered_cells changed_cell_types grade_cell_marked_as_solution
        raised_points""",
        "the notebook is rebuilt from the release",
        run="skip_execution_tags",
    ),
    Class(
        "the notebook is malformed, doubled or too large",
        """duplicated_cells clashing_ids deep_json huge_json odd_json many_cells half_a_character_in_the_source byte_order_mark
        code_bomb_for_the_parser slow_markdown slow_colours broken_timestamp no_notebook places_for_pictures""",
        "it is read as data, in bounds; one student at a time",
        run="duplicated_cells",
        alone=True,
    ),
    Class(
        "files, links and pipes lie beside the notebook or in its place",
        """extra_files ships_its_own_check symlinked_folder symlinked_notebook fifo_for_a_notebook fifo_for_a_timestamp
        folder_for_a_notebook odd_names_beside_the_notebook""",
        "nothing but the notebook is taken, and no link followed",
        run="ships_its_own_check",
    ),
    Class(
        "the answer is an object that lies about itself",
        """always_equal_object array_protocol torch_function_always_close ndarray_subclass_changes_its_mind lying_type_names
        float_and_str_subclasses generators_and_lazies many_invented_type_names""",
        "plain arrays alone cross the wire",
        run="always_equal_object",
    ),
    Class(
        "numbers, types and shapes that a lazy comparison lets through",
        """nan_and_infinity broadcast_and_zero_d odd_dtypes complex_number_for_a_number float128 extreme_magnitudes
        views_of_inputs mutates_inputs_to_look_right right_but_in_place""",
        "kind, shape, type and finiteness before values",
        run="nan_and_infinity",
    ),
    Class(
        "the visible answers are known by heart, or a forbidden built-in does the work",
        """visible_answers_by_heart memoised_across_probes hides_a_forbidden_name forbidden_name_in_another_answer
        forbidden_name_in_odd_letters forbidden_name_by_a_pattern forbidden_name_in_a_table""",
        "hidden inputs; names are flagged for a person",
        run="visible_answers_by_heart",
    ),
    Class(
        "solutions, tests, gradebook or other processes are read",
        "imports_the_reference reads_the_course searches_memory attaches_to_other_processes",
        "none of it is in the sandbox",
        run="imports_the_reference",
    ),
    Class(
        "hidden inputs are carried out by messages, files, memory, time or names",
        """leaks_by_a_file_into_the_shown_output leaks_by_a_second_run_of_the_cells leaks_by_shared_memory_into_a_prediction
        leaks_by_shared_memory_into_the_shown_output leaks_through_exception_type leaks_through_the_line
        leaks_through_warnings_and_prints leaks_through_written_names leaks_beside_a_listed_mistake
        leaks_beside_a_listed_mistake_2 leaks_through_time
        leaks_through_refusal_names leaks_through_builtin_exceptions leaks_through_dict_keys leaks_through_dtypes
        leaks_through_attributes_and_docstrings leaks_through_file_names leaks_through_numbers_in_tracebacks""",
        "what is shown is gathered before a hidden input enters",
        run="leaks_through_warnings_and_prints",
        not_run="it has no hidden inputs",
    ),
    Class(
        "replies to the grader are forged",
        """forged_frames_on_every_descriptor forged_reply_with_the_right_id right_output_with_a_forged_gradient endless_reply
        reduce_payload""",
        "random ids, checked lengths, no pickle",
        run="forged_frames_on_every_descriptor",
        not_run="it has no such wire",
    ),
    Class(
        "processes are killed, ended or hung",
        """kills_its_parent exits_in_every_way hang_that_ignores_signals threads_that_never_end daemon
        ends_the_shared_process_late""",
        "each exercise in its own fork, deadlines, strays killed",
        run="kills_its_parent",
        alone=True,
    ),
    Class(
        "bombs of memory, processes, disk and output; others made to wait",
        """memory_bomb fork_bomb fork_bomb_in_an_answer disk_bomb endless_output huge_output leases_and_memory_scores
        replies_slow_to_read""",
        "limits on all of them",
        run="memory_bomb",
        not_run="it would harm the machine",
    ),
    Class(
        "the network is used",
        "network",
        "no network, and no socket to one",
        run="network",
    ),
    Class(
        "something is left for the next submission",
        """persists_1_writes_everywhere persists_2_reads_everywhere persists_3_locks_the_scratch_folder persists_4_is_honest
        persists_5_plants_modules persists_6_sees_no_planted_module""",
        "a read-only system, a scratch folder for each",
        run="persists_1_writes_everywhere persists_2_reads_everywhere",
    ),
    Class(
        "script, markup or control characters in pages and terminals",
        "html_in_outputs html_in_markdown html_in_exceptions ansi_bidi_and_control_characters",
        "text is escaped, HTML filtered, and a policy forbids script",
        run="html_in_outputs",
    ),
]


def main() -> None:
    """Measure, and renew the table."""
    from autograder.authoring.readme_tables import filled

    with sample.in_use(), tempfile.TemporaryDirectory(prefix="attack-table-") as folder:
        template = _template(Path(folder))
        told = {mode: _measure(template, mode) for mode in ("plain", "settings", "ours")}
    rows = [
        f"| {each.name} | {len(each.attacks.split())} | {' | '.join(told[mode][each.name] for mode in told)} | {each.stops} |"
        for each in CLASSES
    ]
    head = (
        "| attack | in the suite | plain nbgrader | nbgrader with our settings | `attn grade` | what stops it in `attn grade` |"
    )
    note = f"Measured on {datetime.date.today():%Y-%m-%d} by `python -m tests.attack_table`: one attack of each class."
    text = "\n".join([head, "|---|---|---|---|---|---|", *rows, "", note])
    DOCUMENT.write_text(filled(DOCUMENT.read_text(encoding="utf-8"), {"attacks": lambda: text}), encoding="utf-8")


def _measure(template: Path, mode: str) -> dict[str, str]:
    """What each class gains in `mode`, in words for the table: the harmless ones in one class of students, the others alone."""
    told = {each.name: f"*not run: {each.not_run}*" for each in CLASSES if each.not_run and mode != "ours"}
    asked = [each for each in CLASSES if each.name not in told]
    for number, group in enumerate([[each for each in asked if not each.alone], *([each] for each in asked if each.alone)]):
        root = template.parent / f"{mode}{number}"
        shutil.copytree(template, root)
        students = {}
        for each in group:
            for name in each.run.split():
                students[name] = f"{len(students):02d}_{name}"
                _submit(root, students[name], name)
        _submit(root, HONEST, HONEST)
        if mode == "plain":
            (root / "nbgrader_config.py").write_text(PLAIN)
        hung = _grade(root, mode, [student for name, student in students.items() if "html" in name])
        _check_markers(root, list(students), ours=mode == "ours")
        harm = ["the class is never done"] if hung else _harm(root)
        assert not harm or len(group) == 1, f"{mode}: {harm}: run the class that does it alone"
        for each in group:
            gained = [gain for name in each.run.split() for gain in _gains(root, name, students[name])] + harm
            told[each.name] = f"**{', '.join(gained)}**" if gained else "nothing"
            print(f"{mode}: {each.name}: {told[each.name]}", flush=True)
    return told


def _check_markers(root: Path, names: list[str], *, ours: bool) -> None:
    """Raise AssertionError where an attack has attacked nothing (`tests.armed`): it would be said to gain nothing."""
    from tests.attacks import test_attacks as suite

    found: armed.Markers = {}
    for path in root.rglob(armed.LOG):
        for name, points in armed.markers(path).items():
            for point, texts in points.items():
                found.setdefault(name, {}).setdefault(point, set()).update(texts)
    for name in names:
        attack: Any = suite.ATTACKS[name]
        if hasattr(attack, "ANSWERS"):
            assert found.get(name), f"{name} is inert"
            if ours:
                ran = getattr(attack, "RAN", {}) | dict.fromkeys(getattr(attack, "NO_OUTCOME", {}))
                assert armed.inert(found[name], ran) == [], name


def _template(folder: Path) -> Path:
    """A course with one released lesson, in the gradebook."""
    from autograder.authoring.make_release import nbgrader_api
    from autograder.grading.trials import course_copy
    from tests.attacks import test_attacks as suite

    root = folder / "template"
    course_copy.make(root, [sample.lesson()])
    for kind in ("source", "release"):
        suite._shorten(root / kind / LESSON / f"{LESSON}.ipynb")
    outcome = nbgrader_api(root).generate_assignment(LESSON, force=True, create=True)
    assert outcome["success"], outcome
    return root


def _submit(root: Path, student: str, name: str) -> None:
    from tests.attacks import test_attacks as suite

    attack: Any = suite.ATTACKS.get(name)
    folder = root / "submitted" / student / LESSON
    folder.mkdir(parents=True)
    notebook = json.loads((root / "release" / LESSON / f"{LESSON}.ipynb").read_text(encoding="utf-8"))
    answers = suite._honest(LESSON) if attack is None else getattr(attack, "ANSWERS", {})
    suite._answer(notebook, answers, next((root / "release" / LESSON).glob("*.npz")), name)
    changed = attack.tamper(notebook) if hasattr(attack, "tamper") else notebook
    (folder / f"{LESSON}.ipynb").write_bytes(changed if isinstance(changed, bytes) else json.dumps(changed).encode())
    if hasattr(attack, "files"):
        attack.files(folder)


def _grade(root: Path, mode: str, pages: list[str]) -> bool:
    """Grade the class, and write the feedback `pages` of some; whether that never ended."""
    nbgrader = [sys.executable, "-m", "nbgrader"]
    script = "from pathlib import Path\nfrom autograder.grading.grade import grade_assignment as g\nfrom tests import armed"
    script += f"\nwith armed.listening(Path({armed.LOG!r})): g(Path('.').resolve(), {LESSON!r}, feedback={bool(pages)})"
    steps = [_boxed([*nbgrader, "autograde", LESSON], root)]
    steps += [_boxed([*nbgrader, "generate_feedback", LESSON, "--student", page], root) for page in pages]
    if mode == "ours":
        steps = [[sys.executable, "-c", script]]
    try:
        for step in steps:
            subprocess.run(step, cwd=root, env=_environment(root), capture_output=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def _boxed(command: list[str], root: Path) -> list[str]:
    places = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/dev/shm"]
    for place in (sys.prefix, str(ROOT)):
        places += ["--ro-bind", place, place]
    apart = ["--unshare-net", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session"]
    return ["bwrap", *places, "--bind", str(root), str(root), *apart, "--chdir", str(root), *command]


def _environment(root: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return {**kept, "PATH": path, "HOME": str(root), "PYTHONPATH": str(ROOT), "ATTN_COURSE": str(sample.ROOT)}


def _scores(root: Path) -> dict[str, float]:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as gradebook:
        return {
            one.student.id: sum(grade.auto_score or 0.0 for notebook in one.notebooks for grade in notebook.grades)
            for one in gradebook.assignment_submissions(LESSON)
        }


def _full() -> float:
    from autograder.authoring.course import find_lesson

    return sum(exercise.points for exercise in find_lesson(LESSON).exercises())


def _harm(root: Path) -> list[str]:
    """What became of the honest student, who comes last."""
    scores = _scores(root)
    if HONEST not in scores:
        return ["another student is not graded"]
    return ["another student loses marks"] if scores[HONEST] < _full() else []


def _gains(root: Path, name: str, student: str) -> list[str]:
    """What the attack gained: marks, knowledge, a script in a page."""
    from tests.attacks import test_attacks as suite

    attack, score = suite.ATTACKS[name], _scores(root).get(student, 0.0)
    deserved = sum(getattr(attack, "DESERVED", {}).values())
    found = [f"{score - deserved:g} of {_full():g} points unearned"] if score > deserved else []
    pattern = getattr(attack, "FORBIDDEN", "")
    if pattern.startswith("pwned") and re.search(pattern, _outputs(root / "autograded" / student / LESSON / f"{LESSON}.ipynb")):
        found.append("finds what it looks for")
    page = root / "feedback" / student / LESSON / f"{LESSON}.html"
    if page.exists() and suite._Live(page.read_text(encoding="utf-8").split("<body", 1)[1]).found:
        found.append("script in the feedback page")
    return found


def _outputs(path: Path) -> str:
    if not path.exists():
        return ""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return json.dumps([cell.get("outputs", []) for cell in cells])


if __name__ == "__main__":
    main()
