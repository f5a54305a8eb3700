"""Run a submitted file in the sandbox, let the course score it, and keep a leaderboard (`attn capstone`).

The course names a module (`capstone` in course.toml) with `judge(ask, name, seed, say)`, `lines(results)`,
`baselines(seed)`, `refused(name, seed, reason)`, and `PRELUDE`, `FILE_BYTES` and `QUESTION_S`. The scoring runs here, on the
trusted side, and never imports the file: `ask(name, given)` calls a function that the file or the prelude defined. Each
question is a separate submission that starts from the file's text and is wiped afterwards. Whatever one question leaves in
memory, in a thread or on disk is gone before the next, so only returned values count.
"""

import contextlib
import importlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from autograder.authoring.course import FILE, CourseError, adopt, course_root, given_here, learners_course
from autograder.authoring.settings import read
from autograder.judging.observation import Probe
from autograder.judging.values import decode, encode
from autograder.notebooks.atomic_write import write_whole
from autograder.sandbox import codec
from autograder.sandbox.client import Sandbox
from autograder.sandbox.isolation_tiers import choose_tier
from autograder.sandbox.run_submission import Cell
from autograder.sandbox.submission_limits import Limits

BOARD = "capstone_board.json"
REPLY_BYTES = 64 << 20
Say = Callable[[str], None]


def contest() -> Any:
    """Return the course's capstone module. Raises CourseError if there is none."""
    home = learners_course()
    name = read(home / FILE).capstone
    if not name:
        raise CourseError(f"expected a capstone in {home / FILE}, found none: this course has no contest.")
    if (home / "lessons").is_dir() and home == course_root():
        adopt(home)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise CourseError(f"{home / FILE}: capstone: expected the module {name!r}, but {error}.") from None


def files(target: Path) -> dict[str, Path]:
    """Return the submissions at `target`, a file or a class folder, by name. Raises CourseError if there are none."""
    if target.is_file():
        return {target.stem: target}
    if not target.is_dir():
        raise CourseError(f"expected a Python file with your cache, or a folder of them, found no {target}.")
    submissions = {path.stem: path for path in sorted(target.glob("*.py"))}
    for folder in sorted(path for path in target.iterdir() if path.is_dir()):
        inside = sorted(folder.glob("*.py"))
        submissions |= {folder.name if len(inside) == 1 else f"{folder.name}/{path.stem}": path for path in inside}
    if not submissions:
        raise CourseError(f"expected Python files in {target} or in its folders, found none.")
    return submissions


def run(found: dict[str, Path], board: Path, *, seed: int = 0, unsafe: bool = False, say: Say = print) -> list[dict[str, Any]]:
    """Judge the files in `found`, write the leaderboard, and return the results with this seed, including our baselines."""
    module = contest()
    rows = {(row["name"], row["seed"]): row for row in _kept(board)}
    with Sandbox(choose_tier(unsafe=unsafe), Limits(), given=[str(folder) for folder in given_here()]) as sandbox:
        for name, path in found.items():
            rows[name, seed] = _judged(module, sandbox, name, path, seed, say)
            write_whole(board, json.dumps(list(rows.values()), indent=1).encode())
    return [*module.baselines(seed), *(row for row in rows.values() if row["seed"] == seed)]


def _judged(module: Any, sandbox: Sandbox, name: str, path: Path, seed: int, say: Say) -> dict[str, Any]:
    data = path.read_bytes()
    if len(data) > module.FILE_BYTES:
        reason = f"the file has {len(data):,} bytes, and at most {module.FILE_BYTES:,} are allowed."
        return dict(module.refused(name, seed, reason))
    try:
        source = data.decode("utf-8")
    except UnicodeDecodeError:
        return dict(module.refused(name, seed, "the file is not UTF-8 text."))

    def ask(question: str, given: dict[str, Any]) -> Any:
        return answer(sandbox, source, module.PRELUDE, question, given, module.QUESTION_S)

    return dict(module.judge(ask, name, seed, lambda text: say(f"{name}: {text}")))


def answer(sandbox: Sandbox, source: str, prelude: str, question: str, given: dict[str, Any], seconds: float) -> Any:
    """Return the result of `question` for `given`, in a fresh process, or `{"refused": reason}` if it cannot be computed."""
    cells = [Cell("file", source), Cell("prelude", prelude)]
    with contextlib.ExitStack() as stack:
        stack.callback(codec.probe_to_wire.cache_clear)  # the cached probes are large, and no other submission gets the same ones
        submission = stack.enter_context(sandbox.submission(cells))
        for cell, output in zip(("the file", "a class Cache"), submission.outputs, strict=True):
            if output.status != "ok":
                return {"refused": _why(cell, output.status, output.outputs)}
        (observed,) = submission.observe(question, [Probe(encode(given))], seconds, REPLY_BYTES)
    if observed.failure is not None:
        kind, error = observed.failure.kind, observed.failure.type
        what = {"timeout": f"takes longer than {seconds:g} s", "crashed": "ends the process"}.get(kind)
        what = what or ("returns too much" if error == "OutputTooLarge" else f"fails ({error or kind})")
        return {"refused": f"`{question.removeprefix('capstone_')}` {what}."}
    return None if observed.value is None else decode(observed.value)


def _why(what: str, status: str, outputs: Sequence[dict[str, Any]]) -> str:
    if status == "timeout":
        return f"{what} takes too long to run."
    error = next((output for output in outputs if output["output_type"] == "error"), None)
    reason = f"{error['ename']}: {error['evalue']}"[:300] if error else status
    return f"expected {what} that runs, got {reason}."


def _kept(board: Path) -> list[dict[str, Any]]:
    if not board.exists():
        return []
    try:
        rows = json.loads(board.read_text(encoding="utf-8"))
        return [row for row in rows if isinstance(row["name"], str) and isinstance(row["seed"], int)]
    except (ValueError, TypeError, KeyError):
        raise CourseError(
            f"expected a leaderboard in {board}, found something else. Move it away, or say --board FILE."
        ) from None
