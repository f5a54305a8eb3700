"""What `attn capstone` asks of a course: how a submitted file is prepared, judged and ranked."""

import json
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

from attention_course.capstone import rules

PRELUDE = "from attention_course.capstone.inside import serve\nglobals().update(serve(Cache))"  # runs behind the file
FILE_BYTES = rules.FILE_BYTES
QUESTION_S = 4.0  # for all 30 layers at 1,024 tokens; ours take a quarter of one. Running the model again takes longer


def judge(ask: Any, name: str, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """The result of one file, as data for a board."""
    from attention_course.capstone.score import judge as scored

    return scored(ask, name, seed=seed, say=say).as_dict()


def lines(results: Sequence[dict[str, Any]]) -> list[str]:
    """The leaderboard as text."""
    return rules.board([rules.Result(**result) for result in results])


def baselines(seed: int) -> list[dict[str, Any]]:
    """Our own entries, as recorded with this seed; none for other seeds."""
    recorded = json.loads(resources.files(__package__).joinpath("baselines.json").read_text(encoding="utf-8"))
    return [result for result in recorded if result["seed"] == seed]


def refused(name: str, seed: int, reason: str) -> dict[str, Any]:
    """The result of a file that could not be run at all."""
    return rules.Result(name, seed, refused=reason).as_dict()
