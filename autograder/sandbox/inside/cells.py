"""Run a notebook's cells in this process as Jupyter would, and record what they show. Used in the sandbox only.

The shell is a plain IPython shell without history, colours or an event loop. As in `nbgrader autograde`, an error in one
cell doesn't stop the next one. A cell that runs too long is interrupted. Figures appear through Matplotlib's inline backend.
"""

import contextlib
import io
import os
import re
import resource
import signal
import sys
import time
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.path import compress_user
from traitlets import Type
from traitlets.config import Config

from autograder.sandbox.budget import shorter

KEPT = ("text/plain", "image/png")
WORKED = 0.75  # fraction of a cell's seconds; a cell with this much processor time did not have to wait for a processor
PROBE_S = 0.03  # processor seconds: a few time slices, after which the kernel lets other processes run
Output = dict[str, Any]
_OWN = re.compile(r"<ipython-input-\d+-[0-9a-f]+>")


class CellTimeout(KeyboardInterrupt):
    """The cell ran longer than its limit."""


@dataclass
class Recorder:
    """Records what the running cell shows, in nbformat's words. The whole submission may add `left` more bytes."""

    left: int
    outputs: list[Output] = field(default_factory=list)

    def stream(self, name: str, text: str) -> None:
        """Record text on stdout or stderr, joining it to the previous text on the same stream."""
        if self.left <= 0 or not text:
            return
        text = self._fit(text)
        if self.outputs and self.outputs[-1].get("name") == name:
            self.outputs[-1]["parts"].append(text)
        else:
            self.outputs.append({"output_type": "stream", "name": name, "parts": [text]})

    def display(self, data: dict[str, Any]) -> None:
        """Record a displayed object. Only its text and PNG versions are kept."""
        kept = {kind: self._fit(value) for kind, value in data.items() if kind in KEPT and isinstance(value, str)}
        if isinstance(picture := data.get("image/png"), str) and kept.get("image/png") != picture:
            del kept["image/png"]  # a truncated picture is useless
        if kept and self.left > 0:
            self.outputs.append({"output_type": "display_data", "data": kept})

    def error(self, name: str, value: str, traceback: list[str]) -> None:
        """Record the exception that ended the cell."""
        lines = [self._fit(line) for line in traceback[:100]]
        self.outputs.append({"output_type": "error", "ename": name[:200], "evalue": self._fit(value), "traceback": lines})

    def take(self) -> list[Output]:
        """Return the outputs so far and start afresh."""
        taken, self.outputs = self.outputs, []
        for output in taken:
            if "parts" in output:
                output["text"] = "".join(output.pop("parts"))
        return taken

    def _fit(self, text: str) -> str:
        kept = text[: max(self.left, 0)]
        self.left -= len(kept.encode("utf-8", "replace")) + 16  # empty texts cost something too, which bounds their number
        return kept


class Stream(io.TextIOBase):
    """Stand in for sys.stdout or sys.stderr. `record` is None if nobody reads what is printed."""

    encoding = "utf-8"
    errors = "replace"
    closed = False

    def __init__(self, name: str, record: Recorder | None):
        self.name = f"<{name}>"
        self._name, self._record = name, record

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self._record is not None:
            self._record.stream(self._name, text)
        return len(text)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError("this stream has no file descriptor")


class _Publisher(DisplayPublisher):
    recorder: Recorder

    def publish(self, data: dict[str, Any], *_: Any, **__: Any) -> None:
        self.recorder.display(data)

    def clear_output(self, wait: bool = False) -> None:
        self.recorder.outputs.clear()


class _Hook(DisplayHook):
    recorder: Recorder

    def write_output_prompt(self) -> None:
        """Suppress the prompt `Out[1]: `."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: dict[str, Any] | None = None) -> None:
        self.recorder.display(format_dict)

    def finish_displayhook(self) -> None:
        """Suppress the blank line after an output."""


class Shell(InteractiveShell):
    """An IPython shell that records outputs instead of printing them."""

    recorder: Recorder
    folders: tuple[str, ...] = ()
    run: Any = InteractiveShell.run_cell  # IPython leaves it untyped
    display_pub_class = Type(_Publisher)
    displayhook_class = Type(_Hook)

    def enable_gui(self, gui: str | None = None) -> None:
        """Do nothing: there is no event loop, so `%matplotlib qt` is harmless."""

    def _showtraceback(self, etype: type, evalue: BaseException, stb: list[str]) -> None:
        name = getattr(etype, "__name__", "Error")
        if name == "_IncompleteInputError":  # how IPython sees a SyntaxError from Python 3.13's parser
            name = "SyntaxError"
        self.recorder.error(name, self.short(_safely(evalue)), [self.short(str(line)) for line in stb])

    def short(self, text: str) -> str:
        """Shorten paths of Python and its packages, and IPython's cell names, in `text`."""
        text = _OWN.sub("your cell", text)
        for folder in self.folders:
            text = text.replace(folder, "…/")
        return text


def make_shell(output_bytes: int) -> Shell:
    """Create the shell, once per warm worker. Each submission gets a forked copy."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.cache_size = 1000
    config.InteractiveShell.xmode = "Context"
    main = types.ModuleType("__main__")  # pickle and dataclasses look up the learner's classes here by name
    sys.modules["__main__"] = main
    shell = Shell.instance(config=config, user_module=main)
    shell.recorder = Recorder(output_bytes)
    known = {f"{os.path.normpath(path)}/" for path in sys.path if os.path.isabs(path)}
    known |= {f"{sys.prefix}/"}
    known |= {compress_user(folder) for folder in known}  # IPython writes ~ for the home folder, which may contain them
    shell.folders = tuple(sorted(known, key=len, reverse=True))
    for part in (shell.display_pub, shell.displayhook):
        vars(part)["recorder"] = shell.recorder
    return shell


Asked = tuple[int, str, float]


def run(
    shell: Shell, cells: list[Asked], *, cell_s: float, own_s: float, until: float, patience: float = 1.0
) -> Iterator[tuple[int, str, list[Output]]]:
    """Run each `(index, source, seconds)` and yield `(index, status, outputs)`.

    `status` is "ok", "error", "timeout" or "not run". All cells together have `own_s` seconds and must end by the clock time
    `until`. A cell that has to wait for a processor may take up to `patience` times its seconds.
    """
    recorder = shell.recorder
    for index, source, limit_s in cells:
        seconds = min(cell_s, limit_s, own_s, until - time.monotonic())
        if seconds <= 0:
            yield index, "not run", []
            continue
        began, worked, put_off = time.monotonic(), _worked_s(), _put_off()
        status = _run_one(shell, recorder, source, seconds, min(patience * seconds, until - time.monotonic()))
        own_s -= _worked_s() - worked if _put_off() > put_off else time.monotonic() - began
        cell_s = shorter(cell_s) if status == "timeout" else cell_s
        yield index, status, recorder.take()


class _Line:
    """Tells whether a cell that used up its seconds spent them waiting for a processor.

    Other processes preempt a waiting cell again and again. The kernel reports this to the process itself, which matters because
    under Landlock there is no /proc to ask.
    """

    def __init__(self, seconds: float, most: float) -> None:
        self._enough, self._end = WORKED * seconds, time.monotonic() + most
        self._began, self._put_off = time.process_time(), _put_off()

    def more_s(self) -> float:
        """Return how many seconds to keep waiting: 0 if the cell has had a processor, sleeps, or has waited long enough."""
        missing, before = self._enough - (time.process_time() - self._began), self._put_off
        self._put_off = _put_off()
        stood = missing > 0 and (self._put_off > before or (_has_children() and _is_contended()))
        return max(0.0, min(missing, self._end - time.monotonic())) if stood else 0.0


def _has_children() -> bool:
    """Return whether a program that the cell started (`!pip install numpy`) is still running."""
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def _is_contended() -> bool:
    """Return whether other processes preempt a short piece of work, in which case a child of this process has to wait too.

    The kernel reports what children used only after they end. From outside, the waiting time of each child is known, and no
    cell gets more than that (`autograder.sandbox.submission_time`).
    """
    before, wall, used = _put_off(), time.monotonic(), time.process_time()
    while time.process_time() - used < PROBE_S:
        pass
    return _put_off() > before or time.monotonic() - wall > 2 * PROBE_S


def _worked_s() -> float:
    """Return the processor seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _put_off() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _run_one(shell: Shell, recorder: Recorder, source: str, seconds: float, most: float) -> str:
    fired: list[bool] = []
    line = _Line(seconds, most)

    def interrupt(*_: object) -> None:
        __tracebackhide__ = True  # makes IPython show the learner's line last
        if not fired and (more := line.more_s()) > 0:
            signal.setitimer(signal.ITIMER_REAL, more)
            return
        fired.append(True)
        signal.setitimer(signal.ITIMER_REAL, 1.0)  # fires again if a bare `except:` swallowed it
        raise CellTimeout(f"the cell was interrupted after {seconds:.0f} s")

    sys.stdout, sys.stderr = Stream("stdout", recorder), Stream("stderr", recorder)
    signal.signal(signal.SIGALRM, interrupt)
    status = "error"
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        result = shell.run(source, store_history=True)
        status = "ok" if result.success else "error"
    except BaseException as error:  # a learner who tampers with the shell must not end the run
        with contextlib.suppress(BaseException):
            recorder.error(type(error).__name__, _safely(error), [])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return "timeout" if fired else status


def warm_up(shell: Shell) -> None:
    """Run a few cells once, because first calls are slow, and leave no trace."""
    shell.run("1 + 1\nprint('warm')\n[i for i in range(3)]", store_history=False, silent=False)
    shell.run("1 / 0", store_history=False)  # loads the traceback formatter
    shell.recorder.take()
    shell.user_ns.pop("_", None)


def _safely(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # `__str__` may be the learner's
        return "(no message)"
