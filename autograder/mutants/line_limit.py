"""Run a program that may never end, and stop it after a number of lines, so that the outcome is the same on every machine.

In: a program and a probe. Out: an `Observation`, which is a failure where the program was stopped. Only lines of the course's
own code count. The clock is the last resort: a program that it has to stop is an error of the build, never a missing row.
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
_LIBRARIES = (sysconfig.get_paths()["stdlib"], str(Path(__file__).parents[1]), "<frozen")  # with the engine itself


class UnboundedError(RuntimeError):
    """A program ran for minutes without running many lines: its pack would depend on the speed of the machine."""


class _TooManyLinesError(BaseException):
    """Stops a program. No `except Exception` of its own catches it."""


def observe_bounded(answer: Any, probe: Probe, *, dtype: str | None = None) -> Observation:
    """`bare`, stopped after `MOST_LINES` lines. Raises UnboundedError where the program does not end for another reason."""
    result: list[Observation] = []

    def run() -> None:
        sys.settrace(_counter())
        try:
            result.append(bare(answer, probe, dtype=dtype))
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=run, daemon=True)  # a trace function is a thread's own
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
    """A trace function that counts the lines of the course's own code and raises after `MOST_LINES`."""
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
