"""Test a class: a script of calls on an object, as authors declare it and as packs store it.

In: a `Script`, or the encoded inputs of a case. Out: nested plain values for a pack or the wire, or the script again. Only this
module knows the stored form.
"""

import builtins
from dataclasses import dataclass, field
from typing import Any

from autograder.judging.values import EncodedValue, decode

PARTS = frozenset(("init", "weights", "calls"))  # the keys of a script's inputs
_CONSTRUCT, _KEEPS = "__class__", "__kept__"  # stored in a pack in place of a method's name
_WRITE = {_CONSTRUCT: "Construct({...})", _KEEPS: "Keeps(numbers)"}


@dataclass(frozen=True)
class Call:
    """A step of a `Script` that calls the object: `Call("append", {"k": k, "v": v})` runs `obj.append(k=k, v=v)`.

    Without a `method`, it runs `obj(**arguments)`. `raises` is the exception that a right answer raises here. The script
    continues after it, so later steps can show what state the exception left behind.

    Raises ValueError if `method` is one of the internal names for `Construct` and `Keeps`.
    """

    method: str = "__call__"
    arguments: dict[str, Any] = field(default_factory=dict)
    raises: type[Exception] | None = None

    def __post_init__(self) -> None:
        if self.method in _WRITE:
            raise ValueError(f"expected a method, got Call({self.method!r}). Write {_WRITE[self.method]} instead.")


@dataclass(frozen=True)
class Read:
    """A step of a `Script` that reads an attribute: `Read("length")` observes `obj.length`."""

    attribute: str


@dataclass(frozen=True)
class Construct:
    """A step of a `Script` that makes a second object of the class and ignores it. Later steps show whether they share state."""

    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Keeps:
    """A step of a `Script` that checks memory: whether the object's arrays and tensors hold at most `numbers` numbers in total.

    Arrays and tensors that were passed to the constructor don't count.
    """

    numbers: int


AnyCall = Call | Read | Construct | Keeps


@dataclass(frozen=True)
class Script:
    """The input of a case for a class. The engine constructs the object with `init`, loads `weights`, and runs `calls` in order.

    For example, `Script({"d": 4}, calls=(Call("append", {"x": x}), Read("length")))` makes an object with `d=4`, calls
    `append` and reads `length`. The answer's result is the tuple of the results of the calls. `weights` are loaded with
    `load_state_dict`; None loads nothing.
    """

    init: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Any] | None = None
    calls: tuple[AnyCall, ...] = (Call(),)


def script_to_data(script: Script) -> dict[str, Any]:
    """Return a `Script` as nested plain values, for a pack or the wire."""
    return {"init": script.init, "weights": script.weights, "calls": [_call_to_data(call) for call in script.calls]}


def script_from_data(data: dict[str, Any]) -> Script:
    """Make the `Script` from what `script_to_data` returned."""
    return Script(data["init"], data["weights"], tuple(_call_from_data(*call) for call in data["calls"]))


def is_script(inputs: EncodedValue) -> bool:
    """Return whether the inputs of a case are a `Script` for a class."""
    return inputs.items().keys() == PARTS


def encoded_script(inputs: EncodedValue) -> Script | None:
    """Return the script in the inputs of a case, its arguments still encoded, or None if the inputs are those of a function."""
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
    """Return a call as `[method, arguments, whether it reads an attribute, the exception's name]`."""
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
