"""A newcomer who follows the README and nothing else: from `git clone` to the first green check."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from autograder.authoring.course import course_root

ROOT = course_root().parent
SECONDS = 300
# The stand-in for downloads: a Python whose new virtual environments see this one's packages, and Jupyter's files.
PYTHON = """#!/bin/sh
'{python}' "$@" || exit
if [ "$1 $2" = "-m venv" ]; then
    site=$("$3/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    rm -rf "$site"/setuptools*  # older Pythons bring their own, too old for torch
    echo '{packages}' > "$site/here.pth"
    mkdir -p "$3/share/jupyter/labextensions"  # where the course adds its own
    for each in '{jupyter}'/* '{jupyter}'/labextensions/*; do
        place="$3/share/jupyter/${{each#'{jupyter}'/}}"
        [ -e "$place" ] || [ "${{each##*/}}" = attn-exercises ] || ln -s "$each" "$place"
    done
fi
"""

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the README's first commands are for a POSIX shell"),
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone: there is nothing to clone"),
    pytest.mark.skipif(not (shutil.which("make") and shutil.which("git")), reason="the README asks for git and make"),
]


def _commands(document: str, word: str) -> str:
    """The lines of the one shell block of `document` that holds `word`, without comments."""
    text = (ROOT / document).read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) if word in block]
    assert len(blocks) == 1, f"expected one block with {word!r} in {document}, found {len(blocks)}"
    return re.sub(r" +#.*", "", blocks[0])


def _environment(tmp_path: Path) -> dict[str, str]:
    """A newcomer's: no package index, packages taken from here."""
    python = tmp_path / "python"
    jupyter = Path(sysconfig.get_path("data")) / "share" / "jupyter"
    python.write_text(PYTHON.format(python=sys.executable, packages=sysconfig.get_path("purelib"), jupyter=jupyter))
    python.chmod(0o755)
    git = {"safe.directory": "*"}
    places = {f"JUPYTER_{kind}_DIR": str(tmp_path / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    return {
        **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "ATTN_COURSE")},
        **{f"GIT_CONFIG_KEY_{i}": key for i, key in enumerate(git)},
        **{f"GIT_CONFIG_VALUE_{i}": value for i, value in enumerate(git.values())},
        **places,
        "GIT_CONFIG_COUNT": str(len(git)),
        "PYTHON": str(python),  # read by the Makefile
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say: build with what is installed
        "BROWSER": "true",
    }


def test_a_newcomer_gets_from_git_clone_to_a_green_check_in_five_minutes(
    tmp_path: Path, set_answer: Callable[[Path, str, str], None]
) -> None:
    lab = _commands("README.md", "make lab").replace("ADDRESS-OF-THIS-PAGE", f"'{ROOT}'")
    env = _environment(tmp_path)
    home, log = tmp_path / "attention", tmp_path / "log.txt"
    started = time.monotonic()
    with log.open("w") as out:
        terminal = subprocess.Popen(
            ["sh", "-ec", lab],
            cwd=tmp_path,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        while not (found := re.search(r"http://localhost:\S+/lab/tree/index\S+", log.read_text(encoding="utf-8"))):
            assert terminal.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() - started < SECONDS, log.read_text(encoding="utf-8")
            time.sleep(0.2)
        with urllib.request.urlopen(found[0], timeout=30) as page:
            assert page.status == 200
        notebook = home / "work" / "00_start_here" / "00_start_here.ipynb"
        set_answer(notebook, "predict_shape", 'predict_shape = "b"')
        set_answer(notebook, "average_pool", "def average_pool(V):\n    return V.mean(axis=0)")
        second = _commands("docs/learning.md", "attn check")
        checked = subprocess.run(
            ["sh", "-ec", second], cwd=home, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    finally:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself: an assertion above says why
            os.killpg(terminal.pid, signal.SIGTERM)
        terminal.wait(30)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "✓ Average the values · passed · 1 / 1" in checked.stdout
    assert "2 of 2 checks pass" in checked.stdout
    assert time.monotonic() - started < SECONDS
