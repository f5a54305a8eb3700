"""Provide `attn`, one command for learners, authors and instructors. This package parses and prints; others do the work."""

import argparse
import contextlib
import errno
import gc
import io
import os
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn

from autograder import __version__
from autograder.authoring.course import CourseError
from autograder.cli import author, instructor, learner
from autograder.cli.common import Command
from autograder.notebooks.grammars import spare_grammars
from autograder.sandbox.process import SandboxUnavailable


def main(argv: Sequence[str] | None = None) -> int:
    """Run `attn` and return the exit status: 0 fine, 1 something to fix, 2 wrong use or an error, 130 stopped by Ctrl-C."""
    spare_grammars()
    if argv is None:  # running as the command itself, not called from Python
        gc.set_threshold(50_000, 20, 20)  # Python's default would scan all imported objects again and again
    for stream in (sys.stdout, sys.stderr):  # a redirected stream may not support √ or ✓ (cp1252, ASCII)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    parser, words = _parser(), list(sys.argv[1:] if argv is None else argv)
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions
        with contextlib.suppress(ImportError):
            import argcomplete

            argcomplete.autocomplete(parser, always_complete_options=False)
    if not words:
        parser.print_help()
        return 0
    arguments = parser.parse_args(words)
    try:
        command: Command = arguments.run
        return command(arguments)
    except Exception as error:
        if (message := _explained(error)) is None:
            raise
        print(f"attn: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nattn: stopped", file=sys.stderr)
        return 130


def _explained(error: Exception) -> str | None:
    """Return the message for an error that may be expected, or None for any other. Doesn't import SQLAlchemy."""
    if isinstance(error, CourseError | SandboxUnavailable):
        return str(error)
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror or error}{where}. {_NEXT.get(error.errno or 0, '`attn doctor` looks at this machine.')}"
    if isinstance(error, ModuleNotFoundError):
        return f"expected the package {error.name!r}, found none. `attn doctor` says what to install."
    text = str(getattr(error, "orig", ""))
    if not type(error).__module__.startswith("sqlalchemy") or not text:
        return None
    other = "Is another program at work on gradebook.db, or is it damaged? Restore it from a backup."
    return f"the gradebook: {text}.\n{next((meaning for sign, meaning in _DATABASE.items() if sign in text), other)}"


_DATABASE = {
    "full": "Make room on that disk, then run it again: what is written so far is kept.",
    "readonly": "That course folder cannot be written by you: ask for the right, or copy the course and grade the copy.",
    "unable to open": "That course folder cannot be written by you: ask for the right, or copy the course and grade the copy.",
    "locked": "Another program writes to gradebook.db: wait until it is done (formgrader? nbgrader?), then run it again.",
}


_NEXT = {
    errno.ENOSPC: "Make room on that disk, then run it again: nothing is lost.",
    errno.EROFS: "That place cannot be written: use another, with --workspace FOLDER.",
    errno.EACCES: "You may not write there: use a folder of your own, with --workspace FOLDER.",
    errno.EPERM: "You may not write there: use a folder of your own, with --workspace FOLDER.",
    errno.EADDRINUSE: "That port is taken: say another, with --port N.",
}


class _Parser(argparse.ArgumentParser):
    """Suggests the command nearest to an unknown one instead of listing twenty."""

    def error(self, message: str) -> NoReturn:
        match = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if match is None:
            super().error(message)
        names = re.findall(r"[\w-]+", match[2])
        near = get_close_matches(match[1], names, n=1)
        more = f"Did you mean `{self.prog} {near[0]}`?" if near else f"`{self.prog}` alone lists them."
        self.exit(2, f"{self.prog}: there is no command {match[1]!r}. {more}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="attn",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Exercises that name your mistake: learn, author and grade.",
    )
    parser.add_argument("--version", action="version", version=f"attn {__version__}")
    commands = parser.add_subparsers(
        required=True, metavar="COMMAND", prog="attn", parser_class=argparse.ArgumentParser, help=argparse.SUPPRESS
    )
    lines: list[str] = []

    def add(name: str, run: Command, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, description=text)
        sub.set_defaults(run=run)
        lines.append(f"  {name:<16}{text}")
        return sub

    for title, group in (("to learn", learner), ("to write lessons", author), ("to teach a class", instructor)):
        lines.append(f"{title}:")
        group.register(add)
        lines.append("")
    parser.epilog = "\n".join([*lines, "`attn COMMAND --help` says more of one."])
    return parser
