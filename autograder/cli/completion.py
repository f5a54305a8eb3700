"""Complete lessons and exercises with Tab in a learner's shell."""

import argparse
from collections.abc import Callable
from typing import Any

from autograder.authoring.course import CourseError
from autograder.notebooks.lesson_names import label_of


def completed(action: argparse.Action, words: Callable[..., list[str]]) -> None:
    """Let argcomplete call `words` for the possible values of the argument."""
    action.completer = words  # type: ignore[attr-defined]  # the place where it looks


def lessons(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the numbers of the workspace's lessons."""
    from autograder.workspace import folder as workspace

    try:
        return [label_of(name) for name in workspace.names(workspace.locate(parsed_args.workspace))]
    except CourseError:
        return []


def targets(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the lessons, or once a lesson is named, its exercises."""
    from autograder.workspace import folder as workspace

    head, dot, _tail = prefix.partition(".")
    if not dot:
        return lessons(parsed_args)
    try:
        home = workspace.locate(parsed_args.workspace)
        return [f"{head}.{name}" for name in workspace.answer_ids(home, workspace.find(home, head), False)]
    except CourseError:
        return []
