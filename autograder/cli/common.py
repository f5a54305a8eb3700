"""Define what the groups of commands share."""

import argparse
import os
import signal
from collections.abc import Callable
from typing import Protocol

Command = Callable[[argparse.Namespace], int]


class Add(Protocol):
    """Adds a command `name` to the parser, where `run` carries it out and `text` describes it."""

    def __call__(self, name: str, run: Command, text: str) -> argparse.ArgumentParser: ...


def one_thread() -> None:
    """Compute in one thread, because with small matrices more threads only wait for one another.

    Call this before NumPy is imported.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def heed_ctrl_c() -> None:
    """Let Ctrl-C stop this process even if its parent ignores it, as a script does in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
