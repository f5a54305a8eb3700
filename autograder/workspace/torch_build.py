"""Choose this machine's build of PyTorch, in one place. `make` runs this before anything else is installed.

    python autograder/workspace/torch_build.py            # says which build it chose and why, and installs it with pip
    GPU=1 python autograder/workspace/torch_build.py      # the CUDA build, whatever is found; GPU=0: the CPU build

On Linux, PyPI's own build brings CUDA, a download of 2.7 GB. No lesson needs CUDA, so without a GPU the build comes from
PyTorch's CPU index (`ATTN_TORCH_INDEX` names a mirror). This module uses only the standard library, because nothing is
installed yet when it runs.
"""

import os
import platform
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
CUDA_INDEX = "https://download.pytorch.org/whl/cu130"  # for Windows, where PyPI has the CPU build
PROBE_S = 10.0
PYPI_MB = 2700  # PyPI's build for Linux, which brings CUDA


@dataclass(frozen=True)
class Build:
    """A build of PyTorch. `index` is searched in addition to PyPI ("": only PyPI); `megabytes` is the approximate download."""

    kind: str  # "cpu", "cuda" or "mps"
    index: str
    megabytes: int
    why: str


def choose(system: str, gpu: bool, index: str = "") -> Build:
    """Return the build for an operating system (as `platform.system()` names it) with or without an NVIDIA GPU."""
    if system == "Darwin":
        return Build("mps", "", 110, "macOS: one build for all, which uses Apple's GPU where it may")
    if system == "Windows":
        if gpu:
            return Build("cuda", index or CUDA_INDEX, 2700, "Windows with an NVIDIA GPU")
        return Build("cpu", "", 120, "Windows: PyPI's build is the one for the CPU")
    if gpu:
        return Build("cuda", "", 2700, "Linux with an NVIDIA GPU: PyPI's build, which brings CUDA")
    return Build(
        "cpu", index or CPU_INDEX, 200, "Linux without an NVIDIA GPU: the CPU build, since PyPI's would bring CUDA (2.7 GB)"
    )


def has_gpu(environment: Mapping[str, str]) -> bool:
    """Return whether there is an NVIDIA GPU; `GPU=1` and `GPU=0` override what is found."""
    wish = environment.get("GPU", "").strip()
    if wish in ("0", "1"):
        return wish == "1"
    if Path("/proc/driver/nvidia/version").exists():
        return True
    tool = shutil.which("nvidia-smi")
    return tool is not None and subprocess.run([tool, "-L"], capture_output=True, check=False).returncode == 0


def reachable(index: str) -> bool:
    """Return whether the package index at `index` answers and has torch."""
    try:
        with urllib.request.urlopen(f"{index}/torch/", timeout=PROBE_S) as page:
            return bool(page.status == 200)
    except (OSError, ValueError):
        return False


def command(build: Build, constraints: Sequence[str]) -> list[str]:
    """Return the pip command. A CPU build's version 2.13.0+cpu counts as later than 2.13.0, so pip prefers it."""
    beside = ["--extra-index-url", build.index] if build.index else []
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *beside, *constraints, "torch"]


def main(arguments: Sequence[str]) -> int:
    """Install PyTorch, passing `arguments` to pip (`-c constraints.txt`), and return pip's exit status."""
    build = choose(platform.system(), has_gpu(os.environ), os.environ.get("ATTN_TORCH_INDEX", ""))
    print(f"PyTorch: {build.kind} build, about {build.megabytes:,} MB to download. {build.why}.", flush=True)
    if build.index and not reachable(build.index):
        build = Build(build.kind, "", PYPI_MB if platform.system() == "Linux" else build.megabytes, build.why)
        print(
            f"That index does not answer, so PyPI's build is taken instead: about {build.megabytes:,} MB. It works as well.",
            flush=True,
        )
    return subprocess.call(command(build, arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
