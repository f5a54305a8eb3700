"""A lesson of the real model run offline, for the tests of lessons 11 and 12."""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from autograder.authoring.course import course_root
from autograder.notebooks.roles import exercise_of

OFFLINE = """
import socket
connect = socket.socket.connect
def local_only(self, address):
    if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"the lesson must not use the network: {address}")
    return connect(self, address)
socket.socket.connect = local_only
"""


@dataclass(frozen=True)
class Run:
    """The executed notebook, the seconds after the first load of the model, and the cache that it filled."""

    notebook: Any
    seconds: float
    cache: Path

    @property
    def printed(self) -> str:
        """All that its cells printed."""
        outputs = [output for cell in self.notebook.cells for output in cell.get("outputs", [])]
        return "".join(output.text for output in outputs if output.output_type == "stream")

    def every_check_passes(self) -> None:
        """Asserts it, and that no cell failed or wrote to stderr."""
        for cell in self.notebook.cells:
            outputs = cell.get("outputs", [])
            assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"], cell.source
            if exercise_of(cell):
                assert float(outputs[0]["data"]["text/plain"]) == cell.metadata.nbgrader.points


def run_offline(name: str, folder: Path) -> Run:
    """The lesson `name` as built, with solutions, run without a network and with an empty cache of results in `folder`."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(OFFLINE)
    environment = {**os.environ, "ATTN_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    root = course_root()
    environment["PYTHONPATH"] = os.pathsep.join([str(folder / "site"), str(root.parent), str(root / "given")])
    load = "from attention_course.language_model import load_model; load_model()"
    subprocess.run([sys.executable, "-c", load], env=environment, check=True, timeout=120)
    path = root / "source" / name / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}})
    began, used = time.monotonic(), _cpu_seconds()
    client.execute(env=environment)
    clock, processor = time.monotonic() - began, _cpu_seconds() - used
    assert processor > 5  # the kernel is among what was counted
    measured = folder / "cache" / "results"
    if measured.exists():
        shutil.copytree(measured, Path(os.environ["ATTN_CACHE"]) / "results", dirs_exist_ok=True)  # for nbval
    return Run(notebook, min(clock, processor), folder / "cache")  # other work on the machine stretches the clock's time alone


def _cpu_seconds() -> float:
    """Of all processes that have ended since, the kernel among them."""
    times = os.times()
    return times.children_user + times.children_system
