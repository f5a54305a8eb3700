"""The code cells of executed lessons, with the course's device the pretend one: a JSON line for each lesson that is named.

    python -m tests.solutions.lessons_on_device 07_kv_cache

runs them in order in one namespace, as a kernel would, all but the checks, which look at inputs of their own on the CPU.
"""

import json
import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

os.environ["ATTN_DEVICE"] = "pretend:0"  # before the course asks
os.environ.setdefault("MPLBACKEND", "agg")

import torch

from autograder.authoring.course import find_lesson
from autograder.authoring.read_lesson import read_lesson
from autograder.notebooks.roles import exercise_of
from tests.solutions.pretend_device import There, pretend

torch.inference_mode = torch.no_grad  # type: ignore[misc]  # the pretend device knows no inference tensors


def problem(name: str) -> dict[str, Any]:
    """What goes wrong in which cell, and how many tensors of the namespace were on the device in the end."""
    notebook = read_lesson(find_lesson(name))
    space: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code" and not exercise_of(cell)]
    for number, source in enumerate(cells):
        try:
            with pretend(), warnings.catch_warnings():
                exec(compile(source, f"<cell {number}>", "exec"), space)
        except Exception as error:
            where = [frame for frame in traceback.extract_tb(error.__traceback__) if "pretend_device" not in frame.filename]
            last = next((frame for frame in reversed(where) if "site-packages" not in frame.filename), where[-1])
            said = f"{type(error).__name__}: {str(error)[:200]} ({Path(last.filename).name}:{last.lineno})"
            return {"name": name, "problem": said, "cell": source[:80], "there": 0}
    return {"name": name, "problem": "", "cell": "", "there": sum(isinstance(x, There) for x in space.values())}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("ATTN_CACHE", folder)
        for name in sys.argv[1:]:
            print("\n" + json.dumps(problem(name)), flush=True)
