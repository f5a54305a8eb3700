"""The calls of a class: which one a part of a result belongs to, and how a call is written.

In: the inputs of a case, and the path of a part of its result, `[1][0]`. Out: facts.
"""

import re
from collections.abc import Sequence

from autograder.diagnosis.finding import Fact, fact
from autograder.judging.values import EncodedValue

_PATH = re.compile(r"\[(\d+)\](.*)", re.DOTALL)


def is_script(inputs: EncodedValue) -> bool:
    """Whether the inputs of a case are a `Script` for a class."""
    return set(inputs.items()) == {"init", "weights", "calls"}


def calls_of(inputs: EncodedValue) -> list[Sequence[EncodedValue]]:
    """The calls of a case for a class, each with its method, its arguments and whether it is an attribute that is read."""
    return [call.entries or () for call in inputs.items()["calls"].entries or ()] if is_script(inputs) else []


def written_call(call: Sequence[EncodedValue]) -> Fact:
    """How a call is written."""
    method, arguments, attribute = str(call[0].content), call[1].items(), call[2].content
    if method == "__kept__":
        return fact("call.kept")
    if attribute:
        return fact("call.attribute", name=method)
    return fact("call.method", name="obj" if method == "__call__" else method, arguments=", ".join(arguments))


def call_at(inputs: EncodedValue, path: str) -> tuple[int, Fact, str] | None:
    """The number of the call that a path leads to, how it is written, and the rest of the path; None where there is no call."""
    found, calls = _PATH.fullmatch(path), calls_of(inputs)
    if found is None or int(found[1]) >= len(calls):
        return None
    return int(found[1]) + 1, written_call(calls[int(found[1])]), found[2]


def place(inputs: EncodedValue, path: str) -> Fact | str:
    """Where a part of a result is: in which call, or in which output; "" for the whole."""
    if not path.startswith("["):
        return ""
    called = call_at(inputs, path)
    if called is None:
        return fact("in_output", path=path)
    number, call, rest = called
    if rest:
        return fact("in_call.output", number=number, call=call, path=rest)
    return fact("in_call", number=number, call=call)
