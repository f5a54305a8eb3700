"""What a learner meets in the first hour: where to go on, what to call in a cell, and errors in two lines."""

import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

from autograder import check, hint, solution, status
from autograder.authoring.course import CourseError, find_lesson, lessons
from autograder.authoring.read_lesson import read_lesson
from autograder.diagnosis.explain import make_report
from autograder.diagnosis.panel import ACCENT, to_html, to_text
from autograder.judging.compare import judge_choice
from autograder.judging.exercise import Prediction
from autograder.workspace import folder as workspace
from autograder.workspace import index, lab, progress
from autograder.workspace.in_cells import check as in_cells_check
from autograder.workspace.in_cells.check import check_in, find_record
from tests.learner import attn

ROOT = Path(__file__).resolve().parents[2]
RIGHT = "def average_pool(V):\n    return V.mean(axis=0)\n"


@pytest.fixture
def lesson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lesson 00's folder in a new workspace, as the working folder."""
    home = workspace.prepare(tmp_path / "work")
    folder = home / "00_start_here"
    monkeypatch.chdir(folder)
    return folder


def cells(source: str = RIGHT) -> dict[str, Any]:
    names: dict[str, Any] = {"_ih": ["", source]}
    exec(source, names)
    return names


def test_a_pass_says_how_far_and_what_is_next(lesson: Path) -> None:
    panel = check_in(cells(), "average_pool")._repr_html_()
    exercises = list(workspace.load_pack(lesson.parent, lesson.name).exercises)
    assert f"1 of {len(exercises)} exercises of this lesson done" in panel
    others = [name for name in exercises if name != "average_pool"]
    assert f"next: <code>{others[0]}</code>" in panel


def test_the_last_exercise_leads_to_the_next_lesson(lesson: Path) -> None:
    for record in workspace.load_pack(lesson.parent, lesson.name).exercises.values():
        if isinstance(record, Prediction):
            check_in({record.id: next(iter(record.choices))}, record.id)
    index.write(lesson.parent)
    panel = check_in(cells(), "average_pool")._repr_html_()
    assert 'href="../01_soft_lookup/01_soft_lookup.ipynb"' in panel
    assert 'href="../index.ipynb"' in panel


def test_the_function_itself_can_be_checked_instead_of_its_name(lesson: Path) -> None:
    assert check(cells()["average_pool"]) == 1
    with pytest.raises(CourseError, match="expected the name of an exercise"):
        check(7)  # type: ignore[call-overload]  # the mistake


def test_a_cell_that_does_not_compile_is_named_instead_of_an_old_verdict(lesson: Path) -> None:
    names = cells()
    names["_ih"].append("def average_pool(V):\n    return V.mean(axis=0\n")
    with pytest.raises(CourseError, match=r"does not compile \(line \d: .*older version"):
        check_in(names, "average_pool")
    names["_ih"].append(RIGHT)
    assert check_in(names, "average_pool") == 1


def test_a_copy_that_was_not_renamed_is_said_and_an_older_answer_is_not_judged_in_its_place(lesson: Path) -> None:
    asked, copy = 'check("average_pool")', RIGHT.replace("average_pool", "average_pool_as_shown")
    names = cells("def average_pool(V):\n    return V.sum(axis=0)")
    names["_ih"] += [copy, asked]
    with pytest.raises(CourseError, match=r"defines 'average_pool_as_shown', so an older .*Rename"):
        check_in(names, "average_pool")
    names = cells()
    names["_ih"] += [copy, asked]
    assert check_in(names, "average_pool") == 1  # what is right stays so
    names = cells("def average_pool(V):\n    return V.sum(axis=0)")
    names["_ih"] = [copy, *names["_ih"], copy, asked]  # the lesson's own cell, run again to look at it, is no copy
    assert check_in(names, "average_pool") == 0
    names["_ih"] = [copy, f"def average_pool(V):\n    return V.sum(axis=0)\n{asked}"]
    assert check_in(names, "average_pool") == 0


def test_a_loop_that_nothing_stops_is_said_to_keep_a_core_busy(lesson: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = dataclasses.replace(find_record("average_pool"), timeout_s=0.2)
    monkeypatch.setattr(in_cells_check, "find_record", lambda exercise: record)
    go = [True]

    def stubborn(V: Any) -> Any:
        while go:
            try:
                while go:
                    pass
            except:  # noqa: E722 - what a learner may write
                pass

    def polite(V: Any) -> Any:
        while go:
            pass

    said = [str(check_in({"average_pool": answer}, "average_pool")) for answer in (stubborn, polite)]
    go.clear()
    assert all("Your function does not finish." in text for text in said)
    assert ["restart the kernel" in " ".join(text.split()) for text in said] == [True, False]


def test_our_own_errors_show_no_source_of_ours_in_a_notebook() -> None:
    error = CourseError("expected this, got that.")
    assert error._render_traceback_() == ["expected this, got that."]


def test_a_notebook_beside_another_lessons_pack_is_checked_by_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("*.ipynb", "*.npz"):
        for path in (ROOT / "course" / "release" / "01_soft_lookup").glob(kind):
            shutil.copyfile(path, tmp_path / path.name)
    monkeypatch.setenv("ATTN_COURSE", str(ROOT / "course"))  # as installed: this folder is no course
    monkeypatch.chdir(tmp_path)
    assert check_in(cells(), "average_pool") == 1
    with pytest.raises(CourseError, match="Did you mean 'attention_pool'"):
        check_in({}, "atention_pool")


def test_alone_a_question_in_words_is_said_to_have_no_hints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (ROOT / "course" / "release" / "00_start_here").glob("*.npz"):
        shutil.copyfile(path, tmp_path / path.name)
    monkeypatch.setenv("ATTN_COURSE", str(ROOT / "course"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CourseError, match=r"hint\('written_average'\): .* that has hints \(a question in words has none"):
        hint("written_average")
    with pytest.raises(CourseError, match=r"check\('written_average'\): .* that has a check"):
        check_in({}, "written_average")


def test_in_a_workspace_only_the_lessons_own_exercises_are_checked(lesson: Path) -> None:
    with pytest.raises(CourseError, match="expected an exercise of this lesson"):
        check_in({}, "attention_pool")


def test_hints_in_a_cell_come_one_by_one(lesson: Path) -> None:
    texts = [repr(hint("average_pool")) for _ in range(3)]
    assert [text.partition(":")[0] for text in texts] == ["Hint 1 of 3", "Hint 2 of 3", "Hint 3 of 3"]
    with pytest.raises(CourseError, match="Did you mean 'average_pool'"):
        hint("average_pol")


def test_what_has_no_name_or_no_check_says_what_to_call_instead(lesson: Path) -> None:
    for call in (hint, solution):
        with pytest.raises(CourseError, match=rf'{call.__name__}\(\): .* Say which: {call.__name__}\("predict_shape"\)'):
            call()
    for say in (hint, lambda name: check_in({}, name)):
        with pytest.raises(CourseError, match=r"is answered in words.* `solution\(\"written_average\"\)`"):
            say("written_average")


def test_the_solution_comes_after_a_pass_or_after_three_hints_and_is_noted(lesson: Path) -> None:
    with pytest.raises(CourseError, match="your own answer comes first"):
        solution("average_pool", sure=True)
    for _ in range(3):
        hint("average_pool")
    with pytest.raises(CourseError, match="sure=True"):
        solution("average_pool")
    assert "def average_pool" in repr(solution("average_pool", sure=True))
    assert progress.were_looked_up(lesson.parent) == {(lesson.name, "average_pool")}


def test_the_solution_after_a_pass_is_not_noted(lesson: Path) -> None:
    check_in(cells(), "average_pool")
    assert "def average_pool" in repr(solution("average_pool"))
    assert progress.were_looked_up(lesson.parent) == set()


def test_what_we_would_write_is_shown_once_the_learner_has_written(
    work: Path, set_answer: Callable[[Path, str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = work / "01_soft_lookup"
    monkeypatch.chdir(folder)
    with pytest.raises(CourseError, match="save the notebook"):
        solution("written_where")
    set_answer(folder / "01_soft_lookup.ipynb", "written_where", "Its derivative is 0.")
    assert "derivative" in repr(solution("written_where"))
    with pytest.raises(CourseError, match="Did you mean 'written_where'"):
        solution("written_were")


def test_a_wrong_prediction_keeps_its_marks_and_is_not_green() -> None:
    record = find_record("predict_shape")
    right, wrong = (make_report(judge_choice(record, choice)) for choice in "ba")
    assert right.score == wrong.score == record.points
    assert (right.headline, wrong.headline) == ("Correct.", 'No: it is "b".')
    assert ACCENT["pass"] in to_html(right)
    assert ACCENT["pass"] not in to_html(wrong)
    assert to_text(wrong).startswith("• Predict the shape of an average · noted")


def test_a_prediction_may_be_in_capitals_and_what_is_no_text_is_named_by_its_type() -> None:
    record = find_record("predict_shape")
    assert [judge_choice(record, choice).chosen for choice in ("B", " b ", "a", "ab", "")] == ["b", "b", "a", None, None]
    assert make_report(judge_choice(record, "ab")).headline == "No prediction yet (got 'ab')."
    no_text = make_report(judge_choice(record, np.zeros(3)))
    assert no_text.headline == "No prediction yet (got a value of type ndarray, no letter in quotation marks)."
    assert make_report(judge_choice(record, None)).headline == "No prediction yet."


def test_status_in_a_cell_names_this_lesson(lesson: Path) -> None:
    assert "average_pool" in repr(status())


def test_points_that_no_check_counts_are_said_to_be_a_persons(lesson: Path) -> None:
    text = "\n".join(cell.source for cell in read_lesson(find_lesson("00")).cells if cell.cell_type == "markdown")
    assert "\n\n*1 point · difficulty" in text
    assert "\n\n*1 point marked by hand · about 4 minutes · in words* · *when you have written your answer, compare" in text
    assert " / 1.5 by checks" in repr(status())


def test_the_index_follows_progress_and_leaves_the_learners_cells(lesson: Path) -> None:
    home = lesson.parent
    page = index.write(home)
    notebook = workspace.load(page)
    table = notebook.cells[1].outputs[0].data["text/markdown"]
    assert table.startswith("**Next:** [00 Start here](00_start_here/00_start_here.ipynb)")
    assert table.count("](") - 1 == len(workspace.names(home))
    assert "| lesson | state | checks passed | in words | points by checks |" in table
    assert "*state*: begun or done. *in words*: questions that you answer in words" in notebook.cells[0].source
    assert "stands *appendix.md* (Appendix: is this true?), to which the lessons lead." in notebook.cells[0].source
    notebook.cells.append(nbformat.v4.new_markdown_cell("My notes."))
    workspace.save(notebook, page)
    check_in(cells(), "average_pool")
    assert index.write(home) == page
    after = workspace.load(page)
    assert "| ◐ begun | 1 of 2 | 0 of 1 | 1 of 1.5 |" in after.cells[1].outputs[0].data["text/markdown"]
    assert after.cells[2].source == "My notes."
    before = page.stat().st_mtime_ns
    index.write(home)
    assert page.stat().st_mtime_ns == before  # nothing new: an open tab has nothing to ask


def test_the_index_says_the_same_in_a_cell(lesson: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lesson.parent)
    assert repr(status()).startswith("Next: 00 Start here\n\n00 Start here: 0 of 2 exercises\n")


def test_an_index_that_is_no_notebook_is_left_and_the_lesson_opened(lesson: Path) -> None:
    (lesson.parent / index.NAME).write_text("{")
    assert index.write(lesson.parent) == lesson / f"{lesson.name}.ipynb"
    assert (lesson.parent / index.NAME).read_text() == "{"


def test_the_labs_terminal_finds_attn(tmp_path: Path) -> None:
    path = lab.lab_environment(tmp_path)["PATH"]
    assert path.split(os.pathsep)[0] == str(Path(sys.executable).parent)


@pytest.mark.skipif(os.name == "nt", reason="login shells")
def test_the_labs_terminal_is_no_login_shell_which_would_forget_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the server's output is no terminal, Jupyter starts login shells, and Debian's /etc/profile sets PATH anew."""
    from jupyter_server.serverapp import ServerApp

    for name, value in lab.lab_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    app = ServerApp(config_dir=str(tmp_path / "none"))
    app.config_file_name = "jupyter_server_config"
    app.load_config_file()
    (shell,) = app.terminado_settings["shell_command"]
    said = subprocess.run([shell, "-c", "command -v attn"], capture_output=True, text=True, check=False)
    assert said.stdout.strip() == str(Path(sys.executable).parent / "attn")


@pytest.mark.skipif(os.name == "nt", reason="signals of a terminal")
def test_ctrl_c_lets_the_server_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers the first Ctrl-C with a question; `attn lab` must not end it before it is answered."""
    server = tmp_path / "jupyterlab" / "__main__.py"
    server.parent.mkdir()
    (server.parent / "__init__.py").touch()
    server.write_text(
        "import os, signal, time\n"
        "signal.signal(signal.SIGINT, lambda *_: os.write(1, b'Shut down?\\n'))\n"  # print may not be entered twice
        "os.write(1, b'serving\\n')\ntime.sleep(1.5)\nos.write(1, b'saved\\n')\n"
    )
    code = (
        "from pathlib import Path; from autograder.workspace import lab; lab._running = lambda _: None\n"
        f"raise SystemExit(lab.open_lab(Path({str(tmp_path)!r}), Path('x.ipynb'), port=1, browser=False))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True, env=env)
    assert run.stdout is not None
    assert run.stdout.readline() == "serving\n"
    os.killpg(run.pid, signal.SIGINT)
    rest, _ = run.communicate(timeout=60)
    assert rest == "Shut down?\nsaved\n"
    assert run.returncode == 0


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["chek"], "there is no command 'chek'. Did you mean `attn check`?"),
        (["lab", "--workspace", "/proc/nowhere", "--no-browser"], "No such file or directory (/proc/nowhere)"),
        (["check", "--workspace", "/nowhere"], "expected a workspace, found none"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_wrong_road_ends_in_two_lines(command: list[str], says: str) -> None:
    done = subprocess.run([sys.executable, "-m", "autograder.cli", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(textwrap.wrap(done.stderr, 160)) <= 2
    assert "Traceback" not in done.stderr


def test_attn_alone_shows_its_commands_by_reader() -> None:
    done = subprocess.run([sys.executable, "-m", "autograder.cli"], capture_output=True, text=True, check=True)
    heads = [line for line in done.stdout.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert heads[-3:] == ["to learn:", "to write lessons:", "to teach a class:"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("attn ch", {"check"}),
        ("attn check 0", {each.label for each in lessons() if each.chapter < 10}),
        ("attn hint 00.", {"00.predict_shape", "00.average_pool"}),
        ("attn check 99.", set()),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="a shell's file descriptors")
def test_tab_offers_commands_lessons_and_exercises(line: str, offered: set[str], lesson: Path, tmp_path: Path) -> None:
    out = tmp_path / "offered"
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_STDOUT_FILENAME": str(out)}
    asked |= {"_ARGCOMPLETE_COMP_WORDBREAKS": "", "_ARGCOMPLETE_IFS": "\n"}
    subprocess.run([sys.executable, "-m", "autograder.cli"], env={**os.environ, **asked}, check=True)
    assert {word.strip() for word in out.read_text().splitlines()} == offered


def test_output_that_knows_no_tick_is_still_written() -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-m", "autograder.cli"], capture_output=True, env=env, check=True)
    assert b"to learn:" in done.stdout


def test_a_damaged_workspace_costs_no_check(lesson: Path) -> None:
    shutil.rmtree(lesson.parent / progress.MARKER / "release")
    assert check_in(cells(), "average_pool") == 1


def test_every_output_can_be_written_to_a_file_of_windows(lesson: Path) -> None:
    for encoding, commands in {"cp1252": (["status", "--all"], ["check", "00"]), "ascii": (["hint", "00.average_pool"],)}.items():
        env = {**os.environ, "PYTHONIOENCODING": encoding}
        for command in commands:
            run = [sys.executable, "-m", "autograder.cli", *command, "--workspace", str(lesson.parent)]
            done = subprocess.run(run, capture_output=True, env=env, check=False)
            assert b"Traceback" not in done.stderr + done.stdout, (encoding, command)
            assert done.stdout


def test_a_notebook_that_was_renamed_costs_no_other_its_check(
    lesson: Path, set_answer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    set_answer(lesson / f"{lesson.name}.ipynb", "average_pool", RIGHT)
    other = lesson.parent / "02_scoring_functions" / "02_scoring_functions.ipynb"
    other.rename(other.with_name("mine.ipynb"))
    assert attn(lesson.parent, "check") == 1
    out, err = capsys.readouterr()
    assert "Average the values · passed" in out
    assert "expected a notebook at" in err
    assert err.count("\n") == 1


def test_a_package_that_a_lesson_lacks_is_named_instead_of_the_names_it_would_have_brought(lesson: Path, tmp_path: Path) -> None:
    (tmp_path / "st").mkdir()
    (tmp_path / "st" / "sitecustomize.py").write_text("import sys\nsys.modules['jaxtyping'] = None\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "st"), os.environ.get("PYTHONPATH", "")])}
    run = [sys.executable, "-m", "autograder.cli", "check", "00", "--workspace", str(lesson.parent)]
    done = subprocess.run(run, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 2
    assert "expected the package 'jaxtyping', found none. `attn doctor`" in done.stderr
    assert len(textwrap.wrap(done.stderr, 160)) <= 2


MOUNT = """
set -e
mount -t tmpfs -o size={size} tmpfs {place}
{before}
set +e
{python} -m autograder.cli {command} >{log} 2>&1
echo status $? >>{log}
{python} -c 'import pathlib; print([str(p) for p in pathlib.Path("{place}").rglob(".*.*") if p.is_file()])' >>{log}
"""


def _on_a_disk(tmp_path: Path, command: str, *, size: str = "16m", before: str = "") -> list[str]:
    """What a command says whose workspace is on a small file system of its own: `{place}` in `command`."""
    place, log = tmp_path / "disk", tmp_path / "log.txt"
    place.mkdir()
    words = {"place": place, "python": sys.executable}
    script = MOUNT.format(size=size, log=log, before=before.format(**words), command=command.format(**words), **words)
    alone = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    done = subprocess.run([*alone, "bash", "-c", script], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0 and not log.exists():
        pytest.skip(f"no file system of its own can be mounted here: {done.stderr.strip()[-100:]}")
    return log.read_text(encoding="utf-8").splitlines()


PREPARE = "{python} -m autograder.cli lab --prepare --workspace {place}/work >/dev/null"
READ_ONLY = PREPARE + "\nmount -o remount,ro {place}"
FULL = PREPARE + "\ndd if=/dev/zero of={place}/rest bs=1k 2>/dev/null || true"


@pytest.mark.skipif(sys.platform != "linux", reason="mounts")
@pytest.mark.parametrize(
    ("command", "size", "before", "says"),
    [
        ("lab --no-browser --workspace {place}/new", "16m", READ_ONLY, "Read-only file system"),
        ("hint 00.average_pool --workspace {place}/work", "16m", READ_ONLY, "use a workspace of your own"),
        ("lab --no-browser --workspace {place}/new", "500k", "", "Make room on that disk"),
        ("hint 00.average_pool --workspace {place}/work", "16m", FULL, "Make room on that disk"),
        ("reset 00 --yes --workspace {place}/work", "16m", FULL, "Make room on that disk"),
    ],
)
def test_a_disk_that_cannot_be_written_is_named_in_two_lines(
    command: str, size: str, before: str, says: str, tmp_path: Path
) -> None:
    *said, status, halves = _on_a_disk(tmp_path, command, size=size, before=before)
    assert status == "status 2"
    assert says in "\n".join(said)
    assert len(said) <= 2, said
    assert halves == "[]"  # no half of a file was left behind


@pytest.mark.skipif(sys.platform != "linux", reason="mounts")
def test_on_a_disk_that_was_full_the_lessons_are_whole_once_there_is_room(tmp_path: Path) -> None:
    again = "lab --prepare --workspace {place}/work"
    first = "{python} -m autograder.cli " + again + " >/dev/null 2>&1 && exit 1\nmount -o remount,size=16m {place}"
    *_, status, halves = _on_a_disk(tmp_path, again, size="500k", before=first)
    assert (status, halves) == ("status 0", "[]")


@pytest.mark.skipif(os.name == "nt", reason="signals of a terminal")
def test_a_port_in_use_leads_to_the_next(lesson: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run = [sys.executable, "-m", "autograder.cli", "lab", "--no-browser", f"--port={port}", f"--workspace={lesson.parent}"]
        with subprocess.Popen(
            run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, cwd=ROOT
        ) as server:
            assert server.stdout is not None
            try:
                said: list[str] = []
                for line in server.stdout:
                    said.append(line)
                    if "token=" in line:
                        break
            finally:
                os.killpg(server.pid, signal.SIGTERM)
    assert "token=" in said[-1], said
    assert f":{port}/" not in said[-1]
    assert "/lab/tree/index.ipynb" in said[-1]
