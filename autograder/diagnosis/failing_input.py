"""Show the smallest failing input as code to paste if it is short. A longer input is summarised, with the code that reads it.

In: the inputs of a case. Out: at most `MOST_LINES` lines of Python. For a longer input the learner calls `case_inputs`.
"""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograder.diagnosis.finding import fact
from autograder.diagnosis.phrase import say
from autograder.judging.script import AnyCall, Construct, Keeps, Read, encoded_script
from autograder.judging.values import ArrayNode, EncodedValue, decode, show
from autograder.packs import pack_file

MOST_LINES, WIDTH = 12, 110


def snippet(name: str, case: str, inputs: EncodedValue) -> str:
    """Return the code that calls the exercise `name` on the inputs of `case`."""
    for text in ("\n".join(_lines(name, inputs, compact=compact)) for compact in (False, True)):
        if text.count("\n") < MOST_LINES:
            return text
    return "\n".join(_summary(name, case, inputs))


def case_inputs(name: str, case: str, folder: Path | str = ".") -> Any:
    """Read the inputs of a case from the pack beside the notebook.

    Out: for a function, its arguments by name. For a class, the constructor's arguments (`init`), the `weights` and the `calls`.
    Raises LookupError if no pack in `folder` has such a case.
    """
    for path in sorted(Path(folder).glob(f"*{pack_file.SUFFIX}")):
        record = pack_file.load(path).in_code.get(name)
        for candidate in record.cases if record is not None else ():
            if candidate.name == case:
                return decode(candidate.probe.inputs)
    raise LookupError(
        f"no file *{pack_file.SUFFIX} in {Path(folder).resolve()} has a case {case!r} of {name!r}. "
        "Run this beside the notebook, or give its folder as the third argument."
    )


def _lines(name: str, inputs: EncodedValue, *, compact: bool) -> list[str]:
    items, script = inputs.items(), encoded_script(inputs)
    if script is None:
        given = [_fitted(f"{key} = ", value, compact=compact) for key, value in items.items()]
        return [*given, f"{name}({', '.join(f'{key}={key}' for key in items)})"]
    lines = [f"obj = {name}(**{show(items['init'])})"]
    if script.weights is not None:
        lines.append(say(fact("snippet.weights")))
    return [*lines, *(_line(call, compact=compact) for call in script.calls)]


def _line(call: AnyCall, *, compact: bool) -> str:
    if isinstance(call, Keeps):
        return say(fact("snippet.kept", count=str(call.numbers)))
    if isinstance(call, Read):
        return f"obj.{call.attribute}"
    given = ", ".join(_fitted(f"{key}=", value, compact=compact) for key, value in call.arguments.items())
    if isinstance(call, Construct):
        return f"obj.__class__({given})"
    line = f"obj({given})" if call.method == "__call__" else f"obj.{call.method}({given})"
    return line if call.raises is None else line + say(fact("snippet.raises", type=call.raises.__name__))


def _fitted(before: str, value: EncodedValue, *, compact: bool) -> str:
    """Return the value as code. With `compact`, the rows of an array share lines instead of having one each."""
    text = before + show(value)
    if not compact or not isinstance(value, ArrayNode):
        return text
    return "\n".join(textwrap.wrap(re.sub(r"(?<=\[) +| +(?= )", "", re.sub(r"\s+", " ", text)), WIDTH, subsequent_indent="    "))


def _summary(name: str, case: str, inputs: EncodedValue) -> Iterator[str]:
    """Yield the lines that say what a longer input contains and how to get it."""
    items = inputs.items()
    yield say(fact("snippet.long", case=case))
    read = f"case_inputs({name!r}, {case!r})"
    script = encoded_script(inputs)
    parts = list(map(_part, script.calls)) if script else [f"{key}: {_shape(value)}" for key, value in items.items()]
    room = MOST_LINES - (6 if script else 4)
    yield from (say(fact("snippet.part", text=part)) for part in parts[:room])
    if len(parts) > room:
        yield say(fact("snippet.more", count=len(parts) - room))
    yield "from autograder.diagnosis.failing_input import case_inputs"
    if script:
        yield f"given = {read}"
        yield f'obj = {name}(**given["init"])'
        yield say(fact("snippet.calls"))
    else:
        yield f"{name}(**{read})"


def _part(call: AnyCall) -> str:
    if isinstance(call, Keeps):
        return say(fact("call.kept"))
    if isinstance(call, Read):
        return call.attribute
    name = "__class__" if isinstance(call, Construct) else call.method
    return f"{name}({', '.join(f'{key}: {_shape(value)}' for key, value in call.arguments.items())})"


def _shape(value: EncodedValue) -> str:
    """Return the dtype and shape of an array, or how many arrays a nested value contains."""
    if isinstance(value, ArrayNode):
        return f"{value.content.dtype} {value.content.shape}"
    text = show(value)
    return text if len(text) <= WIDTH // 2 and "\n" not in text else say(fact("snippet.nested", count=len(value.arrays)))
