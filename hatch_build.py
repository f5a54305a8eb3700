"""What the packages hold that no file of the clone does: what the executed lessons show, without their answers.

For each lesson a file {cell id: outputs} of the cells in which a learner writes nothing and nothing is checked. `attn book` puts
them into the released lessons. The sdist takes the files along, since it has no executed lessons.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "shown"


def shown(executed: Path) -> dict[str, list[Any]]:
    """The outputs of a lesson's own cells, by the cell's id."""
    cells = json.loads(executed.read_text(encoding="utf-8"))["cells"]
    marks = ("solution", "grade")
    own = [cell for cell in cells if not any(cell["metadata"].get("nbgrader", {}).get(mark) for mark in marks)]
    return {cell["id"]: cell["outputs"] for cell in own if cell.get("outputs")}


class ShownHook(BuildHookInterface):
    """Adds `course/shown` to a wheel or an sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # a clone has the executed lessons
            return
        course = Path(self.root) / "course"
        self.scratch = tempfile.TemporaryDirectory()
        for executed in sorted((course / "source").glob("*/*.ipynb")):
            made = Path(self.scratch.name) / f"{executed.stem}.json"
            made.write_text(json.dumps(shown(executed), ensure_ascii=False), encoding="utf-8")
        folder = course / FOLDER if (course / FOLDER).is_dir() else Path(self.scratch.name)
        target = "attention_course/course" if self.target_name == "wheel" else "course"
        if any(folder.iterdir()):
            build_data["force_include"][str(folder)] = f"{target}/{FOLDER}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self.scratch.cleanup()
