"""Every command that the documents tell people to type is run: here, or in the test that `RUN_ELSEWHERE` names.

A command is a line of a fenced `sh` block. This module runs each document's commands from top to bottom in a copy of the
clone, every block from its root, as one would paste them. So a new command is tested by being written. One that cannot be
run so (it installs, opens a browser, takes minutes) is listed below with what does run it; one that needs something to
happen first has that in `FIRST`.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autograder.authoring.course import course_root
from autograder.sandbox.isolation_tiers import available_tiers

pytestmark = pytest.mark.timeout(600)

ROOT = course_root().parent
DOCUMENTS = (
    "README.md",
    "docs/learning.md",
    "docs/teaching.md",
    "docs/teaching/marks.md",
    "docs/teaching/term.md",
    "docs/teaching/exchange.md",
    "docs/teaching/platforms.md",
    "docs/teaching/large_classes.md",
    ".github/CONTRIBUTING.md",
)

# command: the file in which it, or the test that runs it, stands, and the text to find there
RUN_ELSEWHERE = {
    ". .venv/bin/activate": ("tests/documents/test_newcomer.py", '_commands("docs/learning.md", "attn check")'),
    "attn check": ("tests/documents/test_newcomer.py", '_commands("docs/learning.md", "attn check")'),
    "git clone ADDRESS-OF-THIS-PAGE attention && cd attention": (
        "tests/documents/test_newcomer.py",
        '_commands("README.md", "make lab")',
    ),
    "make lab": ("tests/documents/test_command_blocks.py", "def test_make_lab_opens_jupyterlab_at_the_index("),
    "make test": (".ci/run", "\nmake test\n"),
    "make demo": (".ci/run", "\nmake demo\n"),
    "attn mark 01_soft_lookup": ("tests/hand_marking/marking_class.py", '"-m", "autograder.cli", "mark", LESSON'),
    "attn bench grading": ("tests/grading/test_scale.py", '["bench", "grading", "--students", "4"'),
    "attn bench grading --sizes 50 200 2000": ("tests/grading/test_scale.py", '["bench", "grading", "--sizes", "2", "4"'),
    "python3 -m venv .venv && . .venv/bin/activate": ("Makefile", "$(PYTHON) -m venv $(VENV)"),
    "python autograder/workspace/torch_build.py -c constraints.txt": ("Makefile", "autograder/workspace/torch_build.py"),
    "pip install -c constraints.txt -e '.[learn,teach]'": ("Makefile", "$(PIP) -e '.[learn,teach,"),  # by `make test`
}

# What a student does before a command can work; they have the same account here, and a folder of their own.
_SUBMIT = "nbgrader submit 01_soft_lookup --course attention"
_DOWNLOAD = (
    "cd release && python -c \"import zipfile; zipfile.ZipFile('../moodle.zip', 'w').write("
    "'01_soft_lookup/01_soft_lookup.ipynb', 'Ann Smith_12345_assignsubmission_file_/01_soft_lookup.ipynb')\""
)
_HAND_IN = "mkdir -p submitted/ann/01_soft_lookup && cp release/01_soft_lookup/01_soft_lookup.ipynb submitted/ann/01_soft_lookup"
FIRST = {
    ("docs/teaching/platforms.md", "attn collect moodle.zip --assignment 01_soft_lookup"): _DOWNLOAD,
    ("docs/teaching/platforms.md", "attn feedback 01_soft_lookup --zip moodle.zip"): "attn grade 01_soft_lookup",
    ("docs/teaching.md", "attn collect moodle.zip --assignment 01_soft_lookup"): _DOWNLOAD,
    ("docs/teaching/marks.md", "attn grade 01_soft_lookup --again --dry-run"): _HAND_IN,
    ("docs/teaching/exchange.md", "nbgrader collect 01_soft_lookup --update"): f"cd .. && {_SUBMIT}",
}

Shell = tuple[subprocess.Popen[bytes], Path]  # what runs a document, and what it said
ISOLATED = any(tier.available and tier.name != "none" for tier in available_tiers())


def blocks(document: str) -> list[list[str]]:
    """The commands of each fenced `sh` block, without comments, continued lines joined."""
    text = (ROOT / document).read_text(encoding="utf-8")
    found = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [re.sub(r"\s*\\\n\s*", " ", block).splitlines() for block in found]
    return [[command for line in block if (command := re.sub(r"(^|\s+)#.*", "", line).strip())] for block in lines]


def commands() -> set[tuple[str, str]]:
    """Each document with each of its commands."""
    return {(document, command) for document in DOCUMENTS for block in blocks(document) for command in block}


def environment(clone: Path, lean: Path) -> dict[str, str]:
    """A shell's variables in which `clone` is what is installed, the hub's settings hold, and home and exchange are new."""
    home, exchange = clone.parent / "home", clone.parent / "exchange"
    for folder in (home, exchange):
        folder.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ATTN_", "JUPYTER"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {"JUPYTER_CONFIG_PATH": str(clone / "course" / "hub"), "ATTN_EXCHANGE": str(exchange)}
    return {**kept, "PATH": path, "PYTHONPATH": f"{lean}{os.pathsep}{clone}", "HOME": str(home), **settings}


def script(document: str, skip: Callable[[str], bool]) -> str:
    """The document as a shell script that ends at the first command that fails."""
    lines = ["set -euo pipefail"]
    for block in blocks(document):
        typed = []
        for command in block:
            typed += [f"({FIRST[document, command]})"] if (document, command) in FIRST else []
            typed += [f"echo {shlex.quote('$ ' + command)}", command] if not skip(command) else []
        lines += ["(", *typed, ")"] if typed else []
    return "\n".join(lines)


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, copy_clone: Callable[[Path], Path], lean: Path
) -> Iterator[dict[str, Shell]]:
    """A shell for each document, in a clone of its own: they run side by side."""
    shells = {}
    for document in DOCUMENTS:
        text = script(document, RUN_ELSEWHERE.__contains__)
        clone = copy_clone(tmp_path_factory.mktemp("docs") / "clone")
        used = set(re.findall(r"\b\d\d_[a-z_]+", text))
        for lesson in (clone / "course" / "lessons").glob("*.md"):
            if lesson.stem not in used:  # `attn build` enters every lesson in the gradebook, which takes seconds for each
                lesson.unlink()
        with (clone.parent / "said.txt").open("w") as said:
            shell = subprocess.Popen(["bash", "-c", text], cwd=clone, env=environment(clone, lean), stdout=said, stderr=said)
        shells[document] = (shell, clone.parent / "said.txt")
    yield shells
    for shell, _ in shells.values():
        shell.kill()
        shell.wait()


@pytest.mark.slow
@pytest.mark.skipif(not ISOLATED, reason="neither bubblewrap nor Landlock isolates on this machine")
@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_commands_of_a_document_work_from_top_to_bottom(document: str, running: dict[str, Shell]) -> None:
    shell, said = running[document]
    assert shell.wait() == 0, f"{document}: mend the last of these, or list it in RUN_ELSEWHERE:\n{said.read_text()[-4000:]}"


def test_what_is_run_elsewhere_is_in_a_document_and_is_run_there() -> None:
    known = {command for _, command in commands()}
    for command, (file, text) in RUN_ELSEWHERE.items():
        assert command in known, f"{command!r} is in no document any more: remove it from RUN_ELSEWHERE"
        assert text in (ROOT / file).read_text(encoding="utf-8"), f"{command!r}: {file} does not hold {text!r} any more"
    assert set(FIRST) <= commands()


def test_a_document_is_read_as_a_shell_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "```sh\ncd course  # there\n\n# a remark\nattn grade 01 \\\n    --json\n```\n```python\nx = 1\n```\n```sh\nls\n```\n"
    (tmp_path / "A.md").write_text(text)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert blocks("A.md") == [["cd course", "attn grade 01 --json"], ["ls"]]


def test_a_command_that_fails_fails_its_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "A.md").write_text("```sh\ncd /\nfalse\ntouch too_late\n```\n")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    done = subprocess.run(["bash", "-c", script("A.md", lambda command: False)], capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stdout.splitlines() == ["$ cd /", "$ false"]


@pytest.mark.skipif(os.name == "nt", reason="the Makefile's paths are POSIX here; CI runs `make test` on Windows")
def test_make_lab_opens_jupyterlab_at_the_index(tmp_path: Path, copy_clone: Callable[[Path], Path], lean: Path) -> None:
    """`make lab` with everything installed: the stamps say so, and `.venv/bin` is the environment of this test."""
    clone = copy_clone(tmp_path / "clone")
    (clone / ".venv").mkdir()
    (clone / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    total = subprocess.run("cat pyproject.toml constraints.txt | cksum", shell=True, cwd=clone, capture_output=True, text=True)
    for stamp in (".python", *(f".{made}-{total.stdout.split()[0]}" for made in ("torch", "lab"))):
        (clone / ".venv" / stamp).touch()
    variables = {**environment(clone, lean), "BROWSER": "true"}
    out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    make = subprocess.Popen(["make", "lab"], cwd=clone, env=variables, start_new_session=True, **out)
    said = []
    try:
        assert make.stdout is not None
        for line in make.stdout:
            said.append(line)
            if re.search(r"http://\S+/lab/tree/index", line):
                break
        else:
            raise AssertionError("".join(said))
    finally:
        os.killpg(make.pid, signal.SIGTERM)
        make.communicate(timeout=30)
    assert (clone / "work" / "00_start_here" / "00_start_here.ipynb").exists()


def test_the_readme_has_at_most_900_words() -> None:
    tokens = (ROOT / "README.md").read_text(encoding="utf-8").split()
    assert sum(any(sign.isalnum() for sign in token) for token in tokens) <= 900  # a table's bars are no words


def test_pytorchs_build_is_chosen_with_the_pins_of_the_course() -> None:
    """Without them pip takes the newest PyTorch, and the next command replaces it: twice the download."""
    lines = [line for name in DOCUMENTS for line in (ROOT / name).read_text(encoding="utf-8").splitlines()]
    told = re.findall(r"python \S*torch_build\.py[^`]*", "\n".join(lines))
    assert told
    assert all("-c constraints.txt" in command for command in told), told
