"""`attn capstone`: score a submitted file, or those of a class, and show the leaderboard."""

import argparse
import json
import sys
from pathlib import Path

from autograder.cli.common import Add, one_thread


def register(add: Add) -> None:
    """Add this command to the parser."""
    capstone = add("capstone", _capstone, "Score your entry to the course's contest in a sandbox, and show the leaderboard.")
    capstone.add_argument("target", type=Path, metavar="FILE", help="your Python file, or a folder with the files of a class")
    capstone.add_argument("--seed", type=int, default=0, help="draw other hidden texts (default: 0, with our own entries)")
    capstone.add_argument("--board", type=Path, default=None, help="the leaderboard's file (default: beside the target)")
    capstone.add_argument("--unsafe", action="store_true", help="run without a sandbox where there is none: only your own code")
    capstone.add_argument("--json", action="store_true", help="print JSON")


def _capstone(arguments: argparse.Namespace) -> int:
    one_thread()
    from autograder.workspace import capstone

    target: Path = arguments.target
    submissions = capstone.files(target)
    board = arguments.board or (target if target.is_dir() else target.parent) / capstone.BOARD

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    rows = capstone.run(submissions, board, seed=arguments.seed, unsafe=arguments.unsafe, say=say)
    print(json.dumps(rows, ensure_ascii=False) if arguments.json else "\n".join(capstone.contest().lines(rows)))
    return 1 if any(row["refused"] for row in rows if row["name"] in submissions) else 0
