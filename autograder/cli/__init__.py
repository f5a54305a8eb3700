"""`attn`: one command for learners, authors and instructors. These modules parse and print; the work is done elsewhere."""

import argparse
import gc
import sys
from collections.abc import Sequence

from autograder import __version__
from autograder.authoring.course import CourseError, spare_grammars
from autograder.cli import author, bench, instructor, learner
from autograder.cli.common import Command
from autograder.sandbox.process import SandboxUnavailable


def main(argv: Sequence[str] | None = None) -> int:
    """Run `attn`; returns the exit status (0 well, 1 something to mend, 2 wrong use)."""
    spare_grammars()
    if argv is None:  # a process of our own
        gc.set_threshold(50_000, 20, 20)  # Python's would look through every import's objects, again and again
    arguments = _parser().parse_args(argv)
    try:
        command: Command = arguments.run
        return command(arguments)
    except (CourseError, SandboxUnavailable) as error:
        print(f"attn: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nattn: stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="attn", description="Exercises that name your mistake: learn, author and grade.")
    parser.add_argument("--version", action="version", version=f"attn {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, run: Command, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    for group in (learner, author, instructor, bench):
        group.register(add)
    return parser
