"""Explain in two lines, instead of a page of traceback, that a cell has called an exercise that is not written yet."""

import sys
import traceback
from types import TracebackType
from typing import Any

STUB = "not written yet"  # the message that a released answer cell raises


def explain_here() -> None:
    """Explain in the kernel that imports this module; do nothing outside a kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        explain_in(shell)


def explain_in(shell: Any) -> None:
    """Replace the traceback that `shell` shows for a call of an unwritten exercise. Other errors look as before."""
    shell.set_custom_exc((NotImplementedError,), _show)


def _show(
    shell: Any, kind: type[BaseException], error: BaseException, trace: TracebackType, tb_offset: int | None = None
) -> None:
    lines = describe(error, trace) or shell.InteractiveTB.structured_traceback(kind, error, trace, tb_offset=tb_offset)
    shell._showtraceback(kind, error, lines)


def describe(error: BaseException, trace: TracebackType | None) -> list[str]:
    """Return two lines that name the unwritten exercise; empty if the error is not from a release's stub.

    >>> describe(NotImplementedError("no kernel for this dtype"), None)
    []
    """
    frames = traceback.extract_tb(trace)
    if str(error) != STUB or not frames:
        return []
    name = frames[-1].name
    if name.startswith("__"):  # an unwritten class: its first method raises the error
        *_, (frame, _line) = traceback.walk_tb(trace)
        owner = frame.f_locals.get("self")
        name = type(owner).__name__ if owner is not None else name
    from autograder.diagnosis.finding import fact
    from autograder.diagnosis.phrase import next_step, say

    needed = fact("unwritten", name=name)
    return [say(needed), next_step(needed)]
