"""Build a JupyterLite site with the notebooks that a browser can run, and the course's wheel in it (`attn lite`).

JupyterLite runs all of JupyterLab in a browser tab. Unlike the live book, it cannot interrupt an endless loop.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autograder.authoring import book
from autograder.authoring.course import CourseError, Lesson, settings
from autograder.live import packing, pyodide
from autograder.notebooks.roles import INSTALL
from autograder.workspace import lab

NEEDS = {"jupyterlite_core": "jupyterlite-core", "jupyterlite_pyodide_kernel": "jupyterlite-pyodide-kernel"}
KERNEL = ("ipython", "jedi", "micropip", "packaging", "pygments", "sqlite3", "ssl", "traitlets")  # loaded by the kernel
BESIDE_KERNEL = ("comm",)  # imported by the kernel but missing from its wheels
SET_UP = "%pip install -q {name}\n\nimport os\n\nos.environ['MPLBACKEND'] = 'module://matplotlib_inline.backend_inline'"


def build(lessons: Sequence[Lesson], folder: Path, *, pyodide_folder: Path | None = None) -> list[Lesson]:
    """Write the site into `folder` and return the lessons in it. Pyodide comes from a folder (see `pyodide.find`) or its CDN.

    Raises CourseError if a package is missing or JupyterLite fails.
    """
    book.require("attn lite", NEEDS, "'attention-course[lite]'")
    live = [lesson for lesson in lessons if packing.runs_in_browser(lesson)]
    runtime = pyodide.find(pyodide_folder)
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        for lesson in live:
            _put_notebook(lesson, home / "contents" / lesson.name)
        wheels = [packing.course_wheel(live, home / "wheels"), *packing.dependency_wheels(live, home / "wheels")]
        wheels += [packing.repacked(name, home / "wheels") for name in BESIDE_KERNEL]
        data: dict[str, Any] = {"appName": settings().title}
        if runtime:
            pyodide.copy(runtime, home / "static" / "pyodide", (*packing.IN_PYODIDE, *KERNEL))
            address = {"pyodideUrl": "./static/pyodide/pyodide.js"}
            data["litePluginSettings"] = {"@jupyterlite/pyodide-kernel-extension:kernel": address}
        configuration = {"jupyter-lite-schema-version": 0, "jupyter-config-data": data}
        (home / "jupyter-lite.json").write_text(json.dumps(configuration), encoding="utf-8")
        command = [sys.executable, "-m", "jupyterlite_core", "build", "--lite-dir", str(home), "--output-dir", str(home / "site")]
        command += ["--contents", str(home / "contents"), *(part for path in wheels for part in ("--piplite-wheels", str(path)))]
        # other extensions in this environment, such as nbgrader's, need a JupyterLab with a server
        kernel = Path(sys.prefix) / "share" / "jupyter" / "labextensions" / "@jupyterlite" / "pyodide-kernel-extension"
        extensions = [str(path) for path in (kernel, *sorted((lab.BUTTONS / "labextensions").iterdir()))]
        own = {"ignore_sys_prefix": True, "federated_extensions": extensions}
        (home / "jupyter_lite_config.json").write_text(json.dumps({"LiteBuildConfig": own}), encoding="utf-8")
        done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CourseError(
                f"attn lite: expected JupyterLite to build the site, but it failed:\n{(done.stdout + done.stderr)[-2000:]}"
            )
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(home / "site", folder)
    return live


def _put_notebook(lesson: Lesson, target: Path) -> None:
    """Copy the released notebook and its pack. The copy's installation cell installs this site's wheel of the course."""
    shutil.copytree(packing.released(lesson), target)
    path = target / f"{lesson.name}.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if INSTALL in cell["metadata"].get("tags", ()):
            cell["source"] = SET_UP.format(name=packing.distribution_name()).splitlines(keepends=True)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
