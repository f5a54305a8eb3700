"""Find the other exercises that an answer calls, because the answer may fail only because one of these does.

In: the answer, the names that the learner's notebook defines, and the exercises among them. Out: names, nearest first. The
module reads compiled code and runs nothing.
"""

from collections.abc import Collection, Iterator, Mapping
from types import CodeType
from typing import Any


def leans_on(answer: Any, namespace: Mapping[str, Any], exercises: Collection[str], *, own: str = "") -> list[str]:
    """Return those of `exercises` (except `own`) that `answer` names, directly or through the learner's own helpers."""
    called: list[str] = []
    visited, waiting = {own}, [answer]
    while waiting:
        for name in [name for code in codes(waiting.pop(0)) for name in _names(code)]:
            if name in visited or name not in namespace:
                continue
            visited.add(name)
            if name in exercises:
                called.append(name)
            if any(True for _ in codes(namespace[name])):
                waiting.append(namespace[name])
    return called


def codes(value: Any) -> Iterator[CodeType]:
    """Yield the compiled code of a function, or of a class's methods, if Python code defines it."""
    value = getattr(value, "__func__", value)
    if isinstance(value, type):
        for member in vars(value).values():
            if not isinstance(member, type):
                yield from codes(getattr(member, "fget", member))
    elif isinstance(getattr(value, "__code__", None), CodeType):
        yield value.__code__


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
