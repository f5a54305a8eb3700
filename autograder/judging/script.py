"""The input of a case for a class: a script of calls on an object, as authors declare it and as packs hold it.

In: a `Script`, or the inputs of a case. Out: nested plain values for a pack or the wire, or the script again. How they are
written is known here alone.
"""

import builtins
from dataclasses import dataclass, field
from typing import Any

from autograder.judging.values import EncodedValue, decode

PARTS = frozenset(("init", "weights", "calls"))  # the names that the inputs of a class have
_CONSTRUCT, _KEEPS = "__class__", "__kept__"  # where a pack has the name of a method
_WRITE = {_CONSTRUCT: "Construct({...})", _KEEPS: "Keeps(numbers)"}


@dataclass(frozen=True)
class Call:
    """One step of a `Script`: `obj.method(**arguments)`, or `obj(**arguments)` where no `method` is named.

    `raises` is the exception that a right answer raises here; the script goes on behind it, so that it shows what is left.
    """

    method: str = "__call__"
    arguments: dict[str, Any] = field(default_factory=dict)
    raises: type[Exception] | None = None

    def __post_init__(self) -> None:
        if self.method in _WRITE:
            raise ValueError(f"expected a method, got Call({self.method!r}). Write {_WRITE[self.method]} instead.")


@dataclass(frozen=True)
class Read:
    """A step of a `Script` that reads an attribute of the object, as in `Read("length")`."""

    attribute: str


@dataclass(frozen=True)
class Construct:
    """A step of a `Script` that makes another object of the class, which is not used: what the two share shows later."""

    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Keeps:
    """A step of a `Script` that asks whether the object's arrays and tensors hold at most so many `numbers`.

    The arrays and tensors that the object was made from are left out.
    """

    numbers: int


AnyCall = Call | Read | Construct | Keeps


@dataclass(frozen=True)
class Script:
    """The input of a case for a class: construct with `init`, load `weights` (`load_state_dict`), run `calls`.

    The observed value is the tuple of the calls' results.
    """

    init: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Any] | None = None
    calls: tuple[AnyCall, ...] = (Call(),)


def script_to_data(script: Script) -> dict[str, Any]:
    """A `Script` as nested plain values (for a pack or the wire)."""
    return {"init": script.init, "weights": script.weights, "calls": [_call_to_data(call) for call in script.calls]}


def script_from_data(data: dict[str, Any]) -> Script:
    """The inverse of `script_to_data`."""
    return Script(data["init"], data["weights"], tuple(_call_from_data(*call) for call in data["calls"]))


def is_script(inputs: EncodedValue) -> bool:
    """Whether the inputs of a case are a `Script` for a class."""
    return inputs.items().keys() == PARTS


def encoded_script(inputs: EncodedValue) -> Script | None:
    """The script in the inputs of a case, its arguments still encoded; None where they are those of a function."""
    if not is_script(inputs):
        return None
    parts = inputs.items()
    calls = []
    for call in parts["calls"].entries or ():
        method, arguments, *rest = call.entries or ()
        given = decode(arguments) if method.content == _KEEPS else arguments.items()
        calls.append(_call_from_data(method.content, given, *(each.content for each in rest)))
    return Script(parts["init"].items(), parts["weights"].items() or None, tuple(calls))


def _call_to_data(call: AnyCall) -> list[Any]:
    """A call as `[method, arguments, whether it is an attribute, the exception's name]`."""
    match call:
        case Read():
            return [call.attribute, {}, True, None]
        case Construct():
            return [_CONSTRUCT, call.arguments, False, None]
        case Keeps():
            return [_KEEPS, {"numbers": call.numbers}, False, None]
        case Call():
            return [call.method, call.arguments, False, call.raises and call.raises.__name__]


def _call_from_data(method: str, arguments: dict[str, Any], attribute: bool, raises: str | None = None) -> AnyCall:
    if attribute:
        return Read(method)
    if method == _CONSTRUCT:
        return Construct(arguments)
    if method == _KEEPS:
        return Keeps(arguments["numbers"])
    return Call(method, arguments, _exception(raises))


def _exception(name: str | None) -> type[Exception] | None:
    found = getattr(builtins, name or "", None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None
