"""What the groups of commands share."""

import argparse
from collections.abc import Callable
from typing import Protocol

Command = Callable[[argparse.Namespace], int]


class Add(Protocol):
    """Adds a command `name` to the parser: `run` does it, `text` says what it does."""

    def __call__(self, name: str, run: Command, text: str) -> argparse.ArgumentParser: ...
