"""Run a program that may never end, and stop it after a number of lines, so that the outcome is the same on every machine.

In: a program and a probe. Out: an `Observation`, which is a failure if the program was stopped. Only lines of the course's own
code count. The clock is the last resort: if it has to stop a program, the build fails, because a pack must not depend on speed.
"""

import ctypes
import sys
import sysconfig
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from autograder.judging.call_answer import bare
from autograder.judging.observation import Observation, Probe

MOST_LINES = 50_000  # the slowest right program of the course that has a loop runs a few thousand
LONGEST = 600.0  # seconds
_LIBRARIES = (sysconfig.get_paths()["stdlib"], str(Path(__file__).parents[1]), "<frozen")  # the engine counts as a library


class UnboundedError(RuntimeError):
    """A program ran for minutes without reaching the line limit, so its pack would depend on the speed of the machine."""


class _TooManyLinesError(BaseException):
    """Stops a program. No `except Exception` in the program catches it."""


def observe_bounded(answer: Any, probe: Probe, *, dtype: str | None = None) -> Observation:
    """Observe the answer with `bare`, and stop it after `MOST_LINES` lines. Raises UnboundedError if it runs for `LONGEST` s."""
    result: list[Observation] = []

    def run() -> None:
        sys.settrace(_counter())
        try:
            result.append(bare(answer, probe, dtype=dtype))
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=run, daemon=True)  # a trace function applies only to its own thread
    thread.start()
    thread.join(LONGEST)
    if not result:
        if thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_TooManyLinesError))
        raise UnboundedError(
            f"expected every program near the reference to end within {MOST_LINES} lines or {LONGEST:g} s, "
            "got one that does not. Make the inputs of the exercise smaller."
        )
    return result[0]


def _counter() -> Any:
    """Return a trace function that counts the lines of the course's own code and raises after `MOST_LINES`."""
    left = MOST_LINES

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        path = frame.f_code.co_filename
        if event == "call" and ("site-packages" in path or path.startswith(_LIBRARIES)):
            return None
        left -= event == "line"
        if left < 0:
            raise _TooManyLinesError
        return count

    return count
