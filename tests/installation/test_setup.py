"""What a stranger's machine sees: the pins go together on every platform, by PyPI's own metadata and nothing local."""

import ast
import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from autograder.diagnosis.explain import Report
from autograder.workspace import torch_build
from autograder.workspace.progress import record

ROOT = Path(__file__).resolve().parents[2]
PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "windows", "aarch64-apple-darwin")
PYTHONS = ("3.11", "3.12", "3.13")


def uv(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`uv` without this machine's settings: no local wheels, no other index; macOS as version 14."""
    here = Path(sys.executable).parent / "uv"
    program = str(here) if here.exists() else shutil.which("uv")
    if program is None:
        pytest.skip("uv is not installed: pip install uv")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
    env["MACOSX_DEPLOYMENT_TARGET"] = "14.0"
    return subprocess.run([program, "--no-config", *arguments], capture_output=True, text=True, env=env, cwd=ROOT, timeout=240)


@pytest.fixture(scope="module")
def resolved(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], subprocess.CompletedProcess[str]]:
    """What the resolver says for each question; several are asked at once, since they wait for the network."""
    out = tmp_path_factory.mktemp("locks")
    probe = out / "probe.in"
    probe.write_text("packaging\n", encoding="utf-8")
    asked = uv("pip", "compile", "-q", "--refresh", "-o", str(out / "probe.txt"), str(probe))
    if asked.returncode != 0:
        pytest.skip(f"no package index can be reached, so nothing can be resolved: {asked.stderr.strip()[-200:]}")

    def resolve(question: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        name = re.sub(r"\W+", "-", "".join(question))
        return uv("pip", "compile", "-q", "pyproject.toml", "-c", "constraints.txt", *question, "-o", str(out / name))

    questions = [everything(platform, python) for platform in PLATFORMS for python in PYTHONS]
    questions += [learning(platform) for platform in PLATFORMS]
    answers = {questions[0]: resolve(questions[0])}  # alone: it fills the cache that the others read
    with ThreadPoolExecutor(4) as pool:
        return answers | dict(zip(questions[1:], pool.map(resolve, questions[1:]), strict=True))


def everything(platform: str, python: str) -> tuple[str, ...]:
    return ("--all-extras", "--python-platform", platform, "--python-version", python)


def learning(platform: str) -> tuple[str, ...]:
    extras = ("--extra", "learn", "--extra", "models", "--only-binary", ":all:")
    return (*extras, "--python-platform", platform, "--python-version", PYTHONS[-1])


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_extra_resolves_with_the_pins(platform: str, python: str, resolved: Any) -> None:
    done = resolved[everything(platform, python)]
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_a_learner_installs_comes_in_wheels_alone(platform: str, resolved: Any) -> None:
    done = resolved[learning(platform)]
    assert done.returncode == 0, done.stderr


def test_the_written_constraints_hold_every_pin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pins = project["tool"]["uv"]["constraint-dependencies"]
    written = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().splitlines()
    missing = [pin for pin in pins if pin.lower() not in written]
    assert not missing, f"pyproject.toml pins {missing}, constraints.txt does not: run `make lock`"


# imported under another name than they are installed by
INSTALLED_AS = {"markdown-it": "markdown-it-py", "pil": "pillow", "yaml": "pyyaml"}
OURS = {"autograder", "attention_course", "solutions"}


def test_every_package_that_we_import_is_declared() -> None:
    """A package that comes only because another one needs it is gone as soon as that other one stops needing it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    declared = {canonicalize_name(Requirement(line).name) for group in groups for line in group}
    undeclared: dict[str, set[str]] = {}
    for folder in ("autograder", "solutions", "course/given"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for module in imported_modules(path):
                name = canonicalize_name(module)
                if module not in sys.stdlib_module_names | OURS and INSTALLED_AS.get(name, name) not in declared:
                    undeclared.setdefault(module, set()).add(str(path.relative_to(ROOT)))
    assert not undeclared, f"no dependency and no extra of pyproject.toml names what these files import: {undeclared}"


def test_the_reusable_modules_need_pytorch_and_jaxtyping_and_for_kernels_triton() -> None:
    allowed = sys.stdlib_module_names | {"torch", "jaxtyping", "triton"}
    for path in sorted((ROOT / "solutions" / "lib").rglob("*.py")):
        names = {name for name in imported_names(path) if not f"{name}.".startswith("solutions.lib.")}
        assert {name.partition(".")[0] for name in names} <= allowed, path


def imported_modules(path: Path) -> set[str]:
    """The top-level modules that a file imports, wherever in it."""
    return {name.partition(".")[0] for name in imported_names(path)}


def imported_names(path: Path) -> set[str]:
    """The dotted names of the modules that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


@pytest.mark.parametrize(
    ("system", "gpu", "kind", "index"),
    [
        ("Linux", False, "cpu", torch_build.CPU_INDEX),
        ("Linux", True, "cuda", ""),
        ("Darwin", False, "mps", ""),
        ("Windows", False, "cpu", ""),
        ("Windows", True, "cuda", torch_build.CUDA_INDEX),
    ],
)
def test_each_machine_gets_the_torch_that_it_can_use(system: str, gpu: bool, kind: str, index: str) -> None:
    build = torch_build.choose(system, gpu)
    assert (build.kind, build.index) == (kind, index)
    assert build.megabytes >= 2000 if kind == "cuda" else build.megabytes < 700


def test_the_users_word_on_the_gpu_counts() -> None:
    assert torch_build.has_gpu({"GPU": "1"})
    assert not torch_build.has_gpu({"GPU": "0"})


@pytest.fixture
def indexes(tmp_path: Path) -> Iterator[str]:
    """Two small package indexes on loopback: "pypi" has torch 2.13.0, "cpu" has torch 2.13.0+cpu."""
    for name, version in (("pypi", "2.13.0"), ("cpu", "2.13.0+cpu")):
        folder = tmp_path / name / "torch"
        folder.mkdir(parents=True)
        wheel = f"torch-{version}-py3-none-any.whl"
        info = f"torch-{version}.dist-info"
        with zipfile.ZipFile(folder / wheel, "w") as file:
            file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
            file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            file.writestr(f"{info}/RECORD", "")
        (folder / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')
    handler = functools.partial(QuietHandler, directory=str(tmp_path))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def taken(build: torch_build.Build, pypi: str, tmp_path: Path) -> str:
    """The version that pip would install for `build`, asked of an index and nothing local."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    env |= {"PIP_INDEX_URL": pypi, "PIP_CONFIG_FILE": os.devnull}
    report = tmp_path / "report.json"
    command = torch_build.command(build, ["--dry-run", "--quiet", "--ignore-installed", "--report", str(report)])
    subprocess.run(command, check=True, env=env, capture_output=True, timeout=120)
    version: str = json.loads(report.read_text())["install"][0]["metadata"]["version"]
    return version


def test_pip_takes_the_cpu_build_from_its_index_and_pypis_elsewhere(indexes: str, tmp_path: Path) -> None:
    assert torch_build.reachable(f"{indexes}/cpu")
    assert taken(torch_build.choose("Linux", False, f"{indexes}/cpu"), f"{indexes}/pypi", tmp_path) == "2.13.0+cpu"
    assert taken(torch_build.choose("Linux", True), f"{indexes}/pypi", tmp_path) == "2.13.0"


def test_an_index_that_does_not_answer_is_noticed(indexes: str) -> None:
    assert not torch_build.reachable(f"{indexes}/nowhere")
    assert not torch_build.reachable("http://127.0.0.1:9")


LOOKED_UP = """
import importlib.abc, json, sys
hidden = set(json.loads(sys.argv[1]))

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from autograder import check, solution
print(solution("written_average"))
print(solution("average_pool", sure=True))
"""


def _brought(*extras: str) -> set[str]:
    """The distributions that the package brings with `extras`, and what they bring in turn, of those that are here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    left, found = [(line, "") for line in project["dependencies"]], set[tuple[str, str]]()
    for extra in extras:
        left += [(line, "") for line in project["optional-dependencies"][extra]]
    while left:
        line, asked = left.pop()
        needed = Requirement(line)
        if needed.marker and not needed.marker.evaluate({"extra": asked}):
            continue
        name = canonicalize_name(needed.name)
        for extra in ("", *sorted(needed.extras)):
            if (name, extra) in found:
                continue
            found.add((name, extra))
            if name == project["name"]:
                left += [(each, "") for each in project["optional-dependencies"].get(extra, ())]
                continue
            with contextlib.suppress(metadata.PackageNotFoundError):
                left += [(each, extra) for each in metadata.requires(name) or ()]
    return {name for name, _ in found}


def test_our_answers_need_no_more_than_what_a_learner_installs(
    work: Path, path: Path, set_answer: Callable[[Path, str, str], None]
) -> None:
    """Both kinds, with every package hidden that the extras `learn` and `models` do not bring."""
    brought = _brought("learn", "models")
    owners = metadata.packages_distributions()
    hidden = [module for module, by in owners.items() if not brought & {canonicalize_name(name) for name in by}]
    assert "nbgrader" in hidden
    assert "torch" not in hidden
    set_answer(path, "written_average", "Noise averages out.")
    record(path.parent, "average_pool", Report("pass", "t", 1, 1, "Correct."))
    command = [sys.executable, "-c", LOOKED_UP, json.dumps(hidden)]
    here = {**os.environ, "ATTN_COURSE": str(ROOT / "course")}
    done = subprocess.run(command, cwd=path.parent, env=here, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "return total / len(V)" in done.stdout
    assert "**Model answer.**" in done.stdout
    del here["ATTN_COURSE"]
    done = subprocess.run(command, cwd=path.parent, env=here, capture_output=True, text=True, timeout=120)
    assert "our answers come with the course's repository, and are not here" in done.stderr
    assert "set ATTN_COURSE to the folder `course` of a clone" in done.stderr
