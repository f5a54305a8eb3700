"""Pack what a browser needs to check answers: the engine, the modules that lessons import, and other pure Python packages.

Everything is read from what is installed here, so nothing is downloaded when a site is built.
"""

import base64
import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

import autograder
from autograder.authoring.course import CourseError, Lesson, course_root, settings
from autograder.authoring.reference_source import files_behind, imported_names
from autograder.packs import pack_file

# the parts of the engine that a check needs
ENGINE = ("", "authoring", "diagnosis", "judging", "live", "mutants", "notebooks", "packs", "workspace")
IN_PYODIDE = ("numpy", "matplotlib")  # compiled packages that lessons import and Pyodide provides
HOME = "attn_live_course"  # the package that holds a course's packs in JupyterLite's wheel
Files = dict[str, bytes]


def released(lesson: Lesson) -> Path:
    """Return the lesson's folder as learners get it, with the notebook and its pack."""
    return course_root() / "release" / lesson.name


def code_of(lesson: Lesson) -> list[str]:
    """Return the sources of the released notebook's code cells. Raises CourseError if it is missing."""
    path = lesson.notebook_in(course_root() / "release")
    if not path.exists():
        raise CourseError(f"expected the released notebook at {path}, found none. Run `attn build {lesson.name}`.")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def runs_in_browser(lesson: Lesson) -> bool:
    """Return whether a browser can run the notebook: its cells import nothing that Pyodide lacks, such as PyTorch."""
    return not {"torch", "tokenizers", "triton"} & _top_level([lesson])


def given_packages() -> dict[str, Path]:
    """Return the given packages by name: those beside the lessons in a clone, or the package around an installed course."""
    folders = [course_root() / name for name in settings().given]
    if all(folder.is_dir() for folder in folders):
        return {path.stem: path for folder in folders for path in folder.iterdir() if path.is_dir() or path.suffix == ".py"}
    return {course_root().parent.name: course_root().parent}


def bundle(lessons: Sequence[Lesson], *, data: bool = False) -> Files:
    """Return the engine, the given modules that `lessons` import, and other pure packages, by path in `site-packages`.

    `data` adds files beside the modules, such as arrays, and packages that only figures use.
    """
    files = _engine() | {name: content for name, content in _given(lessons).items() if data or name.endswith(".py")}
    for name in distributions(lessons, data=data):
        files |= dict(_installed(name))
    return files


def distributions(lessons: Sequence[Lesson], *, data: bool = False) -> list[str]:
    """Return the installed distributions that `lessons` and the engine import and Pyodide lacks, and all that these require.

    `data` adds the distributions that the course's settings require.
    """
    known = {*sys.stdlib_module_names, *IN_PYODIDE, *given_packages(), "autograder", "torch"}
    engine = imported_names(Path(autograder.__file__).read_text(encoding="utf-8"))
    wanted = {*_top_level(lessons), *engine} | (set(settings().requires) if data else set())
    homes = metadata.packages_distributions()
    left = sorted(homes[name][0] for name in wanted - known if name in homes)
    names: dict[str, None] = {}
    while left:
        name = left.pop(0)
        if name not in names:
            names[name] = None
            named = (re.match(r"[\w.-]+", line) for line in _requirements(name))
            left += [match[0] for match in named if match and match[0] not in IN_PYODIDE]
    return list(names)


def _requirements(name: str) -> list[str]:
    return [line for line in metadata.distribution(name).requires or () if "extra ==" not in line]


def write_zip(files: Files, target: Path) -> Path:
    """Write a zip file of `files` and return it. The same content gives the same bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            packed.writestr(entry, files[name])
    return target


def write_wheel(name: str, version: str, requires: Sequence[str], files: Files, folder: Path, *, entry_points: str = "") -> Path:
    """Write a wheel of pure Python with `files`, installable by pip and micropip, and return it."""
    stem = f"{name.replace('-', '_')}-{version}"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {line}" for line in requires)]
    inside = {
        **files,
        f"{stem}.dist-info/METADATA": "\n".join([*lines, ""]).encode(),
        f"{stem}.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: attn\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if entry_points:
        inside[f"{stem}.dist-info/entry_points.txt"] = entry_points.encode()
    record = "".join(f"{path},sha256={_digest(content)},{len(content)}\n" for path, content in sorted(inside.items()))
    inside[f"{stem}.dist-info/RECORD"] = f"{record}{stem}.dist-info/RECORD,,\n".encode()
    return write_zip(inside, folder / f"{stem}-py3-none-any.whl")


def course_wheel(lessons: Sequence[Lesson], folder: Path) -> Path:
    """Write the course's wheel for JupyterLite (engine, given modules with their data, `lessons` as released) and return it."""
    files = _engine() | _given(lessons)
    files[f"{HOME}/__init__.py"] = b""
    files[f"{HOME}/course/course.toml"] = (course_root() / "course.toml").read_bytes()
    for lesson in lessons:
        for path in released(lesson).iterdir():
            files[f"{HOME}/course/release/{lesson.name}/{path.name}"] = path.read_bytes()
    requires = [*IN_PYODIDE, *distributions(lessons, data=True)]
    announced = f"[autograder.courses]\nlive = {HOME}\n"
    return write_wheel(distribution_name(), autograder.__version__, requires, files, folder, entry_points=announced)


def dependency_wheels(lessons: Sequence[Lesson], folder: Path) -> list[Path]:
    """Write wheels of the pure packages that `course_wheel` requires, and return them."""
    return [repacked(name, folder) for name in distributions(lessons, data=True)]


def repacked(name: str, folder: Path) -> Path:
    """Write a wheel of an installed pure package and return it."""
    installed = metadata.distribution(name)
    files = {path: content for path, content in _installed(name) if ".dist-info/" not in path}
    return write_wheel(installed.name, installed.version, _requirements(name), files, folder)


def distribution_name() -> str:
    """Return the name of the distribution that contains the engine."""
    return metadata.packages_distributions().get("autograder", ["attention-course"])[0]


def _top_level(lessons: Sequence[Lesson]) -> set[str]:
    return {name.partition(".")[0] for lesson in lessons for source in code_of(lesson) for name in imported_names(source)}


def _imports(lessons: Sequence[Lesson]) -> list[str]:
    """Return the modules that the notebooks' cells import, that judge a behaviour, and that hold the course's operators."""
    imported = [name for lesson in lessons for source in code_of(lesson) for name in imported_names(source)]
    packs = [path for lesson in lessons for path in released(lesson).glob("*.probes.npz")]
    records = [record for path in packs for record in pack_file.load(path).in_code.values()]
    named = {name for record in records for name in (record.behaviour.partition(":")[0], record.operators)}
    return [*imported, *sorted(named - {""})]


def _given(lessons: Sequence[Lesson]) -> Files:
    """Return the files of the given modules that `lessons` need, and the data beside them."""
    asked = _imports(lessons)
    places = [(place.parent, path) for name, place in given_packages().items() for path in files_behind(asked, {name: place})]
    return {path.relative_to(home).as_posix(): path.read_bytes() for home, path in places}


def _engine() -> Files:
    root = Path(autograder.__file__).parent
    paths = [path for name in ENGINE for path in (root / name).glob("*.py*" if name == "" else "**/*.py")]
    return {path.relative_to(root.parent).as_posix(): path.read_bytes() for path in paths}


def _installed(name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an installed pure distribution, by path in `site-packages`. Raises CourseError if it is not pure."""
    installed = metadata.distribution(name)
    if "Root-Is-Purelib: true" not in (installed.read_text("WHEEL") or ""):
        raise CourseError(f"expected {name} to be pure Python, but it has compiled parts: a browser can't use this machine's.")
    for path in installed.files or ():
        if ".." not in path.parts and path.suffix != ".pyc" and path.name not in ("RECORD", "INSTALLER", "REQUESTED"):
            yield path.as_posix(), Path(str(installed.locate_file(path))).read_bytes()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
