"""The smallest failing input as code: ready to paste where it is short, else what it is made of and how to get it.

In: the inputs of a case. Out: at most `MOST_LINES` lines of Python. `case_inputs` is what a learner calls for a longer input.
"""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograder.diagnosis.calls import is_script
from autograder.diagnosis.finding import fact
from autograder.diagnosis.phrase import say
from autograder.judging.values import ArrayNode, EncodedValue, PlainNode, decode, show
from autograder.packs import pack_file

MOST_LINES, WIDTH = 12, 110


def snippet(name: str, case: str, inputs: EncodedValue) -> str:
    """The call of the exercise `name` on the inputs of `case`."""
    for text in ("\n".join(_lines(name, inputs, compact=compact)) for compact in (False, True)):
        if text.count("\n") < MOST_LINES:
            return text
    return "\n".join(_summary(name, case, inputs))


def case_inputs(name: str, case: str, folder: Path | str = ".") -> Any:
    """Read the inputs of a case from the pack beside the notebook.

    Out: the arguments of a function by name. For a class, what it is made from (`init`), its `weights`, and its `calls`.
    """
    for path in sorted(Path(folder).glob(f"*{pack_file.SUFFIX}")):
        record = pack_file.load(path).exercises.get(name)
        for found in record.cases if record is not None else ():
            if found.name == case:
                return decode(found.probe.inputs)
    raise LookupError(
        f"no file *{pack_file.SUFFIX} in {Path(folder).resolve()} has a case {case!r} of {name!r}. "
        "Run this beside the notebook, or give its folder as the third argument."
    )


def _lines(name: str, inputs: EncodedValue, *, compact: bool) -> list[str]:
    items = inputs.items()
    if not is_script(inputs):
        return [*(_fitted(f"{key} = ", value, compact=compact) for key, value in items.items()), _call(name, items)]
    lines = [f"obj = {name}(**{show(items['init'])})"]
    if not isinstance(items["weights"], PlainNode):
        lines.append(say(fact("snippet.weights")))
    for call in items["calls"].entries or ():
        method, arguments, attribute, *wanted = call.entries or ()
        if method.content == "__kept__":
            lines.append(say(fact("snippet.kept", count=show(arguments.items()["numbers"]))))
            continue
        target = "obj" if method.content == "__call__" else f"obj.{method.content}"
        given = ", ".join(_fitted(f"{key}=", value, compact=compact) for key, value in arguments.items().items())
        lines.append(target if attribute.content else f"{target}({given})")
        if wanted and wanted[0].content:
            lines[-1] += say(fact("snippet.raises", type=wanted[0].content))
    return lines


def _call(name: str, items: dict[str, EncodedValue]) -> str:
    return f"{name}({', '.join(f'{key}={key}' for key in items)})"


def _fitted(before: str, value: EncodedValue, *, compact: bool) -> str:
    """The value as code; where it is `compact`, an array's rows follow one another in a line instead of each having its own."""
    text = before + show(value)
    if not compact or not isinstance(value, ArrayNode):
        return text
    return "\n".join(textwrap.wrap(re.sub(r"(?<=\[) +| +(?= )", "", re.sub(r"\s+", " ", text)), WIDTH, subsequent_indent="    "))


def _summary(name: str, case: str, inputs: EncodedValue) -> Iterator[str]:
    """What a longer input is made of, and how to get it."""
    items = inputs.items()
    yield say(fact("snippet.long", case=case))
    read = f"case_inputs({name!r}, {case!r})"
    script = is_script(inputs)
    calls = items["calls"].entries or () if script else ()
    parts = [_called(call) for call in calls] if script else [f"{key}: {_shape(value)}" for key, value in items.items()]
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


def _called(call: EncodedValue) -> str:
    method, arguments, *_ = call.entries or ()
    return f"{method.content}({', '.join(f'{key}: {_shape(value)}' for key, value in arguments.items().items())})"


def _shape(value: EncodedValue) -> str:
    """The shape and number type of an array, and how many parts something nested has."""
    if isinstance(value, ArrayNode):
        return f"{value.content.dtype} {value.content.shape}"
    text = show(value)
    return text if len(text) <= WIDTH // 2 and "\n" not in text else say(fact("snippet.nested", count=len(value.arrays)))
