"""Every PyTorch reference on a device that is not there: what it makes itself, it makes where its inputs are."""

import json
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]


def test_no_reference_of_the_course_leaves_a_tensor_behind_on_the_cpu() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.devices_script"], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) > 30
    assert {one["name"]: one["problem"] for one in found if one["problem"]} == {}


def test_the_pretend_device_notices_a_tensor_that_stayed_behind() -> None:
    code = (
        "import torch\nfrom tests.pretend_device import move, pretend\n"
        "with pretend():\n"
        "    x = move(torch.ones(3))\n"
        "    assert (x + x.new_zeros(3)).sum().item() == 3\n"
        "    try:\n        x + torch.zeros(3)\n"
        "    except RuntimeError as error:\n        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert "same device" in done.stdout


def test_kernels_are_asked_only_for_what_they_are_made_for() -> None:
    from solutions import kernels

    assert not kernels.serve(torch.zeros(2, 3, 4), torch.zeros(2, 5, 4), torch.zeros(2, 5, 4)), "no GPU here"
