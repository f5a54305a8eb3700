"""The calls of a class: which one a part of a result belongs to, and how a call is written.

In: the inputs of a case, and the path of a part of its result, `[1][0]`. Out: facts.
"""

import re

from autograder.diagnosis.finding import Fact, fact
from autograder.judging.script import AnyCall, Call, Construct, Keeps, Read, encoded_script
from autograder.judging.values import EncodedValue

_PATH = re.compile(r"\[(\d+)\](.*)", re.DOTALL)


def written_call(call: AnyCall) -> Fact:
    """How a call is written."""
    match call:
        case Keeps():
            return fact("call.kept")
        case Read():
            return fact("call.attribute", name=call.attribute)
        case Construct():
            return fact("call.method", name="__class__", arguments=", ".join(call.arguments))
        case Call():
            name = "obj" if call.method == "__call__" else call.method
            return fact("call.method", name=name, arguments=", ".join(call.arguments))


def call_at(inputs: EncodedValue, path: str) -> tuple[int, Fact, str] | None:
    """The number of the call that a path leads to, how it is written, and the rest of the path; None where there is no call."""
    found, script = _PATH.fullmatch(path), encoded_script(inputs)
    if found is None or script is None or int(found[1]) >= len(script.calls):
        return None
    return int(found[1]) + 1, written_call(script.calls[int(found[1])]), found[2]


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
