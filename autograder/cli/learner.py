"""Define the commands for learners.

They are doctor, lab, status, check, watch, hint, solution, reset, submit, update, export-answers and capstone.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.authoring.course import CourseError
from autograder.cli.common import Add, heed_ctrl_c, one_thread
from autograder.notebooks import lesson_names
from autograder.notebooks.lesson_names import label_of
from autograder.workspace import folder as workspace

if TYPE_CHECKING:
    from autograder.workspace.rerun import Checked


def register(add: Add) -> None:
    """Add these commands to the parser."""
    _common(add("doctor", _doctor, "Try everything the course needs on this machine, and say how to mend what fails."))

    lab = add("lab", _lab, "Open JupyterLab in your own copy of the lessons, at the page that lists them.")
    _completed(lab.add_argument("lesson", nargs="?", help="number, slug or name of a lesson"), _lessons)
    _common(lab, as_json=False)
    lab.add_argument("--prepare", action="store_true", help="make the copy and end: for VS Code or another editor")
    lab.add_argument("--no-browser", action="store_true", help="print the address instead of opening a browser")
    lab.add_argument("--port", type=int, default=8888, help="port to try first (default: 8888)")

    status = add("status", _status, "Show your progress, or how a lesson stands.")
    lesson_help = "number, slug or name of a lesson: show each of its exercises"
    _completed(status.add_argument("lesson", nargs="?", help=lesson_help), _lessons)
    status.add_argument("--all", action="store_true", help="name every exercise, of lessons not begun too")
    _common(status)

    check = add("check", _check, "Check your notebooks from top to bottom, without opening them.")
    target = "LESSON, EXERCISE or LESSON.EXERCISE"
    _completed(check.add_argument("target", nargs="?", help=f"{target} (default: every lesson that you began)"), _targets)
    _common(check)

    watch = add("watch", _watch, "Check what a save of a notebook has changed, until Ctrl-C.")
    _completed(watch.add_argument("lesson", nargs="?", help="watch this lesson only"), _lessons)
    _common(watch, as_json=False)

    hint = add("hint", _hint, "Show the next hint of an exercise.")
    _completed(hint.add_argument("exercise", help="EXERCISE or LESSON.EXERCISE"), _targets)
    hint.add_argument("--again", action="store_true", help="show the last one again")
    _common(hint)

    solution = add("solution", _solution, "Show our answer: once yours passes, or after the last hint.")
    _completed(solution.add_argument("exercise", help="EXERCISE or LESSON.EXERCISE; a question in words too"), _targets)
    solution.add_argument("--sure", action="store_true", help="before yours passes, after the last hint; it is noted")
    _common(solution, as_json=False)

    reset = add("reset", _reset, "Give an answer cell or a lesson back as it was released; a backup is kept.")
    _completed(reset.add_argument("target", help=target), _targets)
    reset.add_argument("--yes", action="store_true", help="do not ask")
    _common(reset, as_json=False)

    submit = add("submit", _submit, "Pack a lesson for upload, and say what the grader will find.")
    _completed(submit.add_argument("lesson", help="number, slug or name of a lesson"), _lessons)
    submit.add_argument("--as", dest="student", metavar="NAME", help="your name in the course (default: your login)")
    submit.add_argument("--to", type=Path, default=None, metavar="FOLDER", help="where to write it (default: the workspace)")
    _common(submit)

    _common(add("update", _update, "Bring your copy to the course's version; your answers are carried over."))

    export = add("export-answers", _export_answers, "Write your answers to work/answers/, to be imported (lesson 11 does).")
    _common(export, as_json=False)

    capstone = add("capstone", _capstone, "Score your entry to the course's contest in a sandbox, and show the leaderboard.")
    capstone.add_argument("target", type=Path, metavar="FILE", help="your Python file, or a folder with the files of a class")
    capstone.add_argument("--seed", type=int, default=0, help="draw other hidden texts (default: 0, with our own entries)")
    capstone.add_argument("--board", type=Path, default=None, help="the leaderboard's file (default: beside the target)")
    capstone.add_argument("--unsafe", action="store_true", help="run without a sandbox where there is none: only your own code")
    capstone.add_argument("--json", action="store_true", help="print JSON")


def _common(parser: argparse.ArgumentParser, *, as_json: bool = True) -> None:
    parser.add_argument("--workspace", type=Path, default=None, help="your copy of the lessons (default: ./work)")
    if as_json:
        parser.add_argument("--json", action="store_true", help="print JSON")


def _completed(action: argparse.Action, words: Callable[..., list[str]]) -> None:
    """Let argcomplete call `words` for the possible values of the argument."""
    action.completer = words  # type: ignore[attr-defined]  # argcomplete looks there


def _lessons(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the numbers of the workspace's lessons."""
    try:
        return [label_of(name) for name in workspace.names(workspace.locate(parsed_args.workspace))]
    except CourseError:
        return []


def _targets(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the lessons or, once `prefix` names a lesson, its exercises."""
    head, dot, _tail = prefix.partition(".")
    if not dot:
        return _lessons(parsed_args)
    try:
        home = workspace.locate(parsed_args.workspace)
        return [f"{head}.{name}" for name in workspace.answer_ids(home, workspace.find(home, head), False)]
    except CourseError:
        return []


def _put(value: Any) -> None:
    print(json.dumps(value, default=str, ensure_ascii=False))


def _doctor(arguments: argparse.Namespace) -> int:
    from autograder.cli.learner_output import print_finding
    from autograder.workspace import doctor

    findings = []
    for finding in doctor.examine(arguments.workspace or Path.cwd()):
        findings.append(finding)
        if not arguments.json:
            print_finding(finding)
    if arguments.json:
        _put([dataclasses.asdict(finding) for finding in findings])
    return 1 if any(finding.status == "fail" for finding in findings) else 0


def _lab(arguments: argparse.Namespace) -> int:
    from autograder.workspace import index, lab, learner_status

    folder = workspace.prepare(arguments.workspace)
    page = index.write(folder).relative_to(folder)
    target = learner_status.next_notebook(folder, arguments.lesson) if arguments.lesson else page
    if waiting := workspace.outdated(folder):
        print(f"The course has a new version of: {', '.join(waiting)}. `attn update` brings it in and keeps your answers.")
    if arguments.prepare:
        lab.for_editors(folder)
        print(f"Your copy of the lessons: {folder}\nOpen that folder in your editor (VS Code: `code {folder}`), then {target}.")
        print(f"Kernel: {sys.executable}")
        return 0
    print(f"Your copy of the lessons: {folder}\nOpening {target}", flush=True)
    return lab.open_lab(folder, target, port=arguments.port, browser=not arguments.no_browser)


def _status(arguments: argparse.Namespace) -> int:
    from autograder.cli.learner_output import print_lesson, print_status
    from autograder.workspace import learner_status

    folder = workspace.locate(arguments.workspace)
    lesson = workspace.find(folder, arguments.lesson) if arguments.lesson else None
    rows = learner_status.status(folder, only=(lesson,) if lesson else None)
    if arguments.json:
        _put([dataclasses.asdict(row) for row in rows])
    elif lesson:
        later = lesson_names.next_core(workspace.names(folder), lesson)
        print_lesson(rows[0], later=later)
    else:
        print_status(rows, every=arguments.all)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from autograder.cli.learner_output import print_checked
    from autograder.workspace import learner_status, rerun

    heed_ctrl_c()
    folder = workspace.locate(arguments.workspace)
    if arguments.target is None:
        begun, problems = rerun.started(folder)
        wanted: list[tuple[str, list[str] | None]] = [(lesson, None) for lesson in begun]
        for problem in problems:  # a renamed or damaged notebook doesn't stop the others from being checked
            print(f"attn: {problem}", file=sys.stderr)
        if not wanted:
            raise CourseError("expected an answer in one of your notebooks, found none. Write one (`attn lab`), and save.")
    else:
        lesson, exercise = workspace.resolve(folder, arguments.target)
        wanted, problems = [(lesson, [exercise] if exercise else None)], []
    checked = [check for lesson, only in wanted for check in rerun.run(folder, lesson, only)]
    if arguments.json:
        _put([dataclasses.asdict(check) for check in checked])
    else:
        whole = [lesson for lesson, only in wanted if only is None]
        words = [(lesson, question) for lesson in whole for question in learner_status.questions(folder, lesson)]
        print_checked(checked, words, _steps(folder, checked))
    return 0 if all(check.status == "pass" for check in checked) and not problems else 1


def _steps(folder: Path, checked: Sequence["Checked"]) -> list[str]:
    """Return a line for each lesson in `checked`: how much of it is done, and the next step."""
    from autograder.workspace.in_cells.overview import ahead

    last = {check.lesson: check.exercise for check in checked}
    return [ahead(folder / lesson, exercise) for lesson, exercise in last.items()]


def _watch(arguments: argparse.Namespace) -> int:
    from autograder.cli.learner_output import print_checked
    from autograder.workspace import rerun, watch

    heed_ctrl_c()
    folder = workspace.locate(arguments.workspace)
    lessons = [workspace.find(folder, arguments.lesson)] if arguments.lesson else workspace.names(folder)
    try:
        saves = watch.saves(folder, lessons)
        print(f"Watching {len(lessons)} notebooks in {folder}. Save one to check it; Ctrl-C ends.", flush=True)
        for lesson, exercises in saves:
            print(f"\n{lesson}: {', '.join(sorted(exercises))}", flush=True)
            checked = rerun.run(folder, lesson, exercises)
            print_checked(checked, steps=_steps(folder, checked))
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("\nStopped watching.")
    return 0


def _hint(arguments: argparse.Namespace) -> int:
    from autograder.cli.learner_output import print_hint
    from autograder.workspace.in_cells import choose_hint, solutions

    folder = workspace.locate(arguments.workspace)
    lesson, exercise = _exercise(folder, arguments.exercise, "hint")
    hint = choose_hint.hint(folder, lesson, exercise, again=arguments.again)
    if arguments.json:
        _put(dataclasses.asdict(hint))
    else:
        print_hint(hint, answers=solutions.are_here(lesson))
    return 0


def _solution(arguments: argparse.Namespace) -> int:
    from autograder.cli.learner_output import print_solution
    from autograder.workspace.in_cells import solutions

    folder = workspace.locate(arguments.workspace)
    lesson, exercise = _exercise(folder, arguments.exercise, "solution", written=True)
    name = f"{label_of(lesson)}.{exercise}"
    calls = {"call": name, "hint_call": f"attn hint {name}", "sure_call": f"attn solution {name} --sure"}
    print_solution(name, solutions.solution(folder, lesson, exercise, sure=arguments.sure, **calls).text)
    return 0


def _exercise(folder: Path, target: str, command: str, *, written: bool = False) -> tuple[str, str]:
    """Return the lesson and the exercise that `target` names for `command`. Raises CourseError if it names a whole lesson."""
    lesson, exercise = workspace.resolve(folder, target, written=written)
    if exercise is None:
        example = f"attn {command} {label_of(lesson)}.{workspace.answer_ids(folder, lesson, False)[-1]}"
        raise CourseError(f"expected an exercise, got the lesson {lesson}. For example: `{example}`.")
    return lesson, exercise


def _reset(arguments: argparse.Namespace) -> int:
    from autograder.cli.learner_output import ask
    from autograder.workspace import update

    folder = workspace.locate(arguments.workspace)
    lesson, exercise = workspace.resolve(folder, arguments.target, written=True)
    what = f"the answer cell `{exercise}` of {lesson}" if exercise else f"the whole notebook {lesson}"
    if not arguments.yes:
        agreed = ask(f"Give {what} back as it was released? A backup is kept.")
        if agreed is None:
            raise CourseError(f"expected somebody to answer whether to reset {what}, found no terminal. Say --yes.")
        if not agreed:
            print("Nothing was changed.")
            return 1
    kept = update.reset(folder, lesson, exercise)
    print(f"Reset {what}. Before: {kept}\nIf it is open in JupyterLab: File > Reload Notebook from Disk.")
    return 0


def _submit(arguments: argparse.Namespace) -> int:
    from autograder.cli.learner_output import print_handin
    from autograder.notebooks.rebuild_submission import UnreadableError
    from autograder.workspace import submit

    folder = workspace.locate(arguments.workspace)
    lesson = workspace.find(folder, arguments.lesson)
    try:
        packed = submit.submit(folder, lesson, student=arguments.student, to=arguments.to)
    except UnreadableError as error:
        print(f"attn: {workspace.notebook(folder, lesson)}: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        _put(dataclasses.asdict(packed))
    else:
        print_handin(packed)
    return 0


def _update(arguments: argparse.Namespace) -> int:
    from autograder.cli.learner_output import print_carried
    from autograder.workspace import update

    folder = workspace.locate(arguments.workspace)
    carried = update.update(folder)
    if arguments.json:
        _put([dataclasses.asdict(change) for change in carried])
    else:
        print_carried(carried, folder)
    return 1 if any(change.problem for change in carried) else 0


def _export_answers(arguments: argparse.Namespace) -> int:
    from autograder.workspace import export

    folder = workspace.locate(arguments.workspace)
    exported = export.export(folder)
    written = [answer for answer in exported if not answer.problem]
    todo = [answer for answer in exported if answer.problem == export.UNWRITTEN]
    broken = [answer for answer in exported if answer.problem and answer not in todo]
    lessons = len({answer.lesson for answer in written})
    print(f"{len(written)} answers of {lessons} lessons are in {folder / export.FOLDER}; {len(todo)} are not written yet.")
    for answer in broken:
        print(f"{answer.lesson}.{answer.exercise}: {answer.problem}")
    return 1 if broken else 0


def _capstone(arguments: argparse.Namespace) -> int:
    one_thread()
    from autograder.workspace import capstone

    target: Path = arguments.target
    submissions = capstone.files(target)
    board = arguments.board or (target if target.is_dir() else target.parent) / capstone.BOARD

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    rows = capstone.run(submissions, board, seed=arguments.seed, unsafe=arguments.unsafe, say=say)
    print(json.dumps(rows, ensure_ascii=False) if arguments.json else "\n".join(capstone.contest().lines(rows)))
    return 1 if any(row["refused"] for row in rows if row["name"] in submissions) else 0
