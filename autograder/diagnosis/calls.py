"""Find which call of a class returned a part of a result, and say how that call is written.

In: the inputs of a case, and the path of a part of its result, such as `[1][0]`. Out: facts.
"""

import re

from autograder.diagnosis.finding import Fact, fact
from autograder.judging.script import AnyCall, Construct, Keeps, Read, encoded_script
from autograder.judging.values import EncodedValue

_PATH = re.compile(r"\[(\d+)\](.*)", re.DOTALL)


def written_call(call: AnyCall) -> Fact:
    """Return a fact that says how a call is written."""
    if isinstance(call, Keeps):
        return fact("call.kept")
    if isinstance(call, Read):
        return fact("call.attribute", name=call.attribute)
    name = "__class__" if isinstance(call, Construct) else "obj" if call.method == "__call__" else call.method
    return fact("call.method", name=name, arguments=", ".join(call.arguments))


def call_at(inputs: EncodedValue, path: str) -> tuple[int, Fact, str] | None:
    """Return the number of the call at `path` (from 1), how it is written, and the rest of the path; None if there is no call."""
    match, script = _PATH.fullmatch(path), encoded_script(inputs)
    if match is None or script is None or int(match[1]) >= len(script.calls):
        return None
    return int(match[1]) + 1, written_call(script.calls[int(match[1])]), match[2]


def place(inputs: EncodedValue, path: str) -> Fact | str:
    """Return where a part of a result is, as the call or output that contains it; "" for the whole result."""
    if not path.startswith("["):
        return ""
    called = call_at(inputs, path)
    if called is None:
        return fact("in_output", path=path)
    number, call, rest = called
    if rest:
        return fact("in_call.output", number=number, call=call, path=rest)
    return fact("in_call", number=number, call=call)
