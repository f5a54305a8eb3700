"""What a stranger's machine sees: the pins go together on every platform, by PyPI's own metadata and nothing local."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
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
