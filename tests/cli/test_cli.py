"""The `attn` command as people type it, and the documents that tell them to."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # PyYAML ships no types; myst-parser brings it

import autograder
from autograder.authoring import readme_tables
from autograder.authoring.course import CourseError, course_root, find_lesson, lessons
from autograder.authoring.verify import Verdict
from autograder.cli import main
from autograder.workspace import folder as workspace
from autograder.workspace import learner_status

ROOT = course_root().parent
DOCUMENTS = sorted(
    {ROOT / "README.md", *ROOT.glob("course/*.md"), *ROOT.glob(".github/*.md")} - {ROOT / "course" / "appendix.md"}
)


def test_a_workspace_holds_every_lesson_and_is_never_overwritten(
    work: Path, set_answer: Callable[[Path, str, str], None]
) -> None:
    assert workspace.names(work) == [lesson.name for lesson in lessons()]
    path = work / "00_start_here" / "00_start_here.ipynb"
    set_answer(path, "average_pool", "mine = 1")
    workspace.prepare(work)
    assert "mine = 1" in path.read_text(encoding="utf-8")


def test_lab_opens_the_lesson_asked_for_else_the_first_unsolved_one(work: Path) -> None:
    assert learner_status.next_notebook(work, None) == Path("00_start_here/00_start_here.ipynb")
    assert learner_status.next_notebook(work, "3").parent.name == "03_scaled_dot_product"
    with pytest.raises(CourseError, match="Did you mean '01_soft_lookup'"):
        learner_status.next_notebook(work, "soft_lokup")


def test_check_runs_the_notebook_and_status_remembers(
    work: Path, set_answer: Callable[[Path, str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    path = work / "00_start_here" / "00_start_here.ipynb"
    set_answer(path, "average_pool", "def average_pool(V):\n    return V.sum(axis=0)")
    assert main(["check", "00.average_pool", "--workspace", str(work)]) == 1
    assert "did not divide" in capsys.readouterr().out
    set_answer(path, "average_pool", "def average_pool(V):\n    return V.mean(axis=0)")
    assert main(["check", "start_here.average_pool", "--workspace", str(work)]) == 0
    capsys.readouterr()
    assert main(["status", "--json", "--workspace", str(work)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[0]["exercises"][1] == {
        "id": "average_pool", "title": "Average the values", "score": 1.0, "points": 1, "status": "pass", "attempts": 2,
        "mistake": None,
    }  # fmt: skip
    assert main(["status", "--workspace", str(work)]) == 0
    assert "✓ average_pool" in capsys.readouterr().out


def test_an_answer_cell_that_fails_leaves_the_other_checks_alone(
    work: Path, set_answer: Callable[[Path, str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    set_answer(work / "00_start_here" / "00_start_here.ipynb", "predict_shape", "predict_shape = (")
    assert main(["check", "00", "--workspace", str(work)]) == 1
    shown = capsys.readouterr().out
    assert re.search(r"Your cell stops with SyntaxError: .* \(line 1\)", shown)
    assert "Average the values · not started" in shown


def test_no_workspace_and_no_such_exercise_say_what_to_do(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "00.averge_pool", "--workspace", str(work)]) == 2
    assert "Did you mean 'average_pool'" in capsys.readouterr().err
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert main(["status", "--workspace", str(elsewhere)]) == 2
    assert "attn lab" in capsys.readouterr().err


def test_verify_prints_the_mutation_score_and_the_agreed_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "start_here", "--json"]) == 0
    total = json.loads(capsys.readouterr().out)
    expected = {"exercises": 2, "misconceptions": 6, "caught": 6, "variants": 3, "variants_full": 3, "blank_zero": True}
    assert total == expected
    assert main(["verify", "start_here"]) == 0
    assert "mutation score 100.0%" in capsys.readouterr().out


def test_a_score_that_was_not_measured_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readme_tables, "course_root", lambda: tmp_path / "course")
    measured = [Verdict("a", "b", 3, 3, 1, 1, True)]
    assert readme_tables.has_score(measured)  # a course without a README
    page = tmp_path / "README.md"
    page.write_text(f"<!-- score: by `attn build` -->\n{readme_tables.score_line(measured)}\n<!-- /score -->\n")
    assert readme_tables.has_score(measured)
    assert not readme_tables.has_score([Verdict("a", "b", 3, 2, 1, 1, True)])
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "grader.md").write_text("<!-- score: by `attn build` -->\nanother score\n<!-- /score -->\n")
    assert not readme_tables.has_score(measured)


def test_a_document_that_lost_its_markers_is_refused() -> None:  # what stands between them: `attn build --check`, `attn verify`
    with pytest.raises(CourseError, match="Put them back"):
        readme_tables.filled("no markers", {"score": lambda: "100%"})


def test_every_attn_command_in_the_documents_exists() -> None:
    help_text = subprocess.run(
        [sys.executable, "-m", "autograder.cli", "--help"], capture_output=True, text=True, check=True
    ).stdout
    known = set(re.findall(r"^  ([a-z][a-z-]*)  ", help_text, re.MULTILINE))
    for path in DOCUMENTS:
        named = set(re.findall(r"\battn ([a-z][a-z-]+)", path.read_text(encoding="utf-8")))
        assert named <= known, (path.name, named - known)


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for path in DOCUMENTS:
        for block in re.findall(r"```sh\n(.*?)```|`(make [a-z]+)`", path.read_text(encoding="utf-8"), re.DOTALL):
            assert set(re.findall(r"^make ([a-z]+)", "\n".join(block), re.MULTILINE)) <= targets


def test_every_file_that_the_documents_link_to_exists() -> None:
    for path in DOCUMENTS:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / link).exists(), link


def test_what_a_page_of_documents_names_exists() -> None:
    text = (ROOT / ".github" / "ACCESSIBILITY.md").read_text(encoding="utf-8")
    for name in re.findall(r"`(tests/\w+\.py)`", text):
        assert (ROOT / name).exists(), name


def test_the_citation_is_of_this_version_and_every_issue_form_asks_for_something() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["version"] == autograder.__version__
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert len(forms) > 1
    for path in forms:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.stem != "config":
            assert {"name", "description", "body"} <= set(form), path.name
            assert any(item.get("validations", {}).get("required") for item in form["body"]), path.name


def test_the_lesson_of_each_slug_has_its_four_files() -> None:
    for lesson in lessons():
        assert find_lesson(lesson.slug) == lesson
        slug = lesson.exercises_slug  # a workshop shares those of its chapter
        assert (ROOT / "solutions" / f"{slug}.py").exists()
        assert (ROOT / "tests" / "lessons" / f"test_{slug}.py").exists()
        assert any((ROOT / "course" / "exercises").glob(f"{slug}*"))
