"""A pattern that reads what a student wrote takes time that grows with the length of the text, and not with its square.

For each repetition in a pattern we make a text that leads there, repeats that part many times, and ends with what cannot follow.
Eight times the text may take eight times as long, with room for noise. Patterns that read no long text of a student's are listed.
"""

import ast
import collections
import contextlib
import functools
import importlib
import operator
import pkgutil
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]  # how `re` itself takes a pattern apart
from re import _parser as parser  # type: ignore[attr-defined]  # the same
from typing import Any, NamedTuple

import pytest

import autograder

ROOT = Path(autograder.__file__).parent
PACKAGES = ("grading", "notebooks", "diagnosis", "sandbox", "plugins", "hand_marking")
LENGTH, TIMES = 2048, 8
ROOM = 3  # a square would take TIMES times as long again
SOON_S = 0.0004  # of LENGTH characters: a square takes longer
LONG_S = 2.0
# beginnings of patterns that read no text of a student's, or a short one
SPARED = {
    "diagnosis.phrase: '`[^`]*`": "the course's own sentences",
    "hand_marking.rubric: '[\\\\s.,;]*": "the course's own rubric",
    "diagnosis.from_checks: 'size mismatch": "a message of an error, which has at most a few hundred characters",
}


class Read(NamedTuple):
    """A pattern as a module uses it: the whole text is searched, or only its beginning (`match`, `fullmatch`) is read."""

    module: str
    pattern: "re.Pattern[Any]"
    method: str

    @property
    def known_as(self) -> str:
        return f"{self.module.removeprefix('autograder.')}: {self.pattern.pattern!r}"


def patterns() -> Iterator[Read]:
    """Each module's patterns: those that are compiled at its top, and those that are written in a call."""
    for package in PACKAGES:
        for found in pkgutil.walk_packages([str(ROOT / package)], f"autograder.{package}."):
            if (
                found.ispkg or ".inside." in found.name or ".trials." in found.name
            ):  # they run beside the student's code, or read none
                continue
            module = importlib.import_module(found.name)
            text = Path(str(module.__file__)).read_text(encoding="utf-8")
            for name, value in vars(module).items():
                if isinstance(value, re.Pattern):
                    used = {*re.findall(rf"\b{name}\.(\w+)\(", text)}
                    anchored = used == {"match"} or (used and used <= {"match", "fullmatch"} and "fullmatch")
                    yield Read(found.name, value, "match" if anchored is True else anchored or "finditer")
            inner = [one for one in ast.parse(text).body if not isinstance(one, ast.Assign)]
            yield from written_in(found.name, ast.Module(inner, []))


def written_in(module: str, tree: ast.AST) -> Iterator[Read]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        if ast.unparse(node.func.value) != "re" or node.func.attr == "escape":
            continue
        parts = node.args[0].values if isinstance(node.args[0], ast.JoinedStr) else [node.args[0]]
        if all(isinstance(part, ast.Constant | ast.FormattedValue) for part in parts):
            source: Any = "".join(str(part.value) if isinstance(part, ast.Constant) else "name" for part in parts)
            if isinstance(parts[0], ast.Constant) and isinstance(parts[0].value, bytes):
                source = parts[0].value
            flags = [re.MULTILINE] * ("MULTILINE" in ast.unparse(node)) + [re.DOTALL] * ("DOTALL" in ast.unparse(node))
            method = node.func.attr if node.func.attr in ("match", "fullmatch") else "finditer"
            with contextlib.suppress(re.error):  # a piece of a pattern
                yield Read(module, re.compile(source, functools.reduce(operator.or_, flags, re.NOFLAG)), method)


def samples(items: Any) -> list[str]:
    """A few short texts that `items` of a parsed pattern match, or nearly so."""
    found = [""]
    for code, argument in items:
        found = [one + two for one in found for two in _of(code, argument)][:8]
    return found


def _of(code: Any, argument: Any) -> list[str]:
    if code is codes.LITERAL:
        return [chr(argument)]
    if code is codes.NOT_LITERAL:
        return ["a" if argument != ord("a") else "b", " "]
    if code is codes.ANY:
        return ["a", " "]
    if code is codes.CATEGORY:
        return {codes.CATEGORY_DIGIT: ["0"], codes.CATEGORY_SPACE: [" ", "\n"], codes.CATEGORY_WORD: ["a", "0", "_"]}.get(
            argument, ["-", " "]
        )
    if code is codes.IN:
        if argument[0][0] is codes.NEGATE:
            refused = {chr(value) for kind, value in argument[1:] if kind is codes.LITERAL}
            return [each for each in ("a", " ", "[", "]", ".", '"', "(", "\n") if each not in refused]
        return [text for kind, value in argument for text in ([chr(value[0])] if kind is codes.RANGE else _of(kind, value))]
    if code is codes.BRANCH:
        return [text for branch in argument[1] for text in samples(branch)[:3]]
    if code is codes.SUBPATTERN:
        return samples(argument[3])
    if code is codes.ATOMIC_GROUP:
        return samples(argument)
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return [text * max(1, min(argument[0], 100)) for text in samples(argument[2])]
    return [""]


def leads(items: Any, before: str = "") -> Iterator[tuple[str, list[str]]]:
    """For each repetition: a text that leads there, and texts to repeat."""
    for code, argument in items:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            if argument[1] > 100:
                yield before, samples(argument[2])
            yield from leads(argument[2], before)
        elif code is codes.SUBPATTERN:
            yield from leads(argument[3], before)
        elif code is codes.BRANCH:
            for branch in argument[1]:
                yield from leads(branch, before)
        elif code is codes.ATOMIC_GROUP:
            yield from leads(argument, before)
        before += (_of(code, argument) or [""])[0]


def hard_texts(pattern: "re.Pattern[Any]") -> Iterator[tuple[str, str, str]]:
    """What leads to each repetition, what is repeated there, and what ends it."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags)
    seen = set()
    for before, units in leads(tree):
        for unit in units:
            for start, part in ((before, unit), ("", before + unit), ("x", unit), ("", unit)):
                for end in ("\0", " + 1", "\n"):
                    if part and (start, part, end) not in seen:
                        seen.add((start, part, end))
                        yield start, part, end


def seconds(read: Read, text: str) -> float:
    given: Any = text.encode("utf-8", "replace") if isinstance(read.pattern.pattern, bytes) else text
    began = time.thread_time()
    if read.method == "finditer":
        collections.deque(read.pattern.finditer(given), maxlen=0)
    else:
        getattr(read.pattern, read.method)(given)
    return time.thread_time() - began


def too_slow(read: Read) -> str | None:
    """A text that takes this pattern longer than its length allows."""
    for start, part, end in hard_texts(read.pattern):
        few = max(1, LENGTH // len(part))
        try:
            with limited():
                for number in (16, 24, 32, few):  # where it is exponential, 32 take too long already
                    took = seconds(read, start + part * number + end)
                if took < SOON_S:
                    continue
                short = min(seconds(read, start + part * few + end) for _ in range(3))
                long = min(seconds(read, start + part * TIMES * few + end) for _ in range(3))
        except TimeoutError:
            return f"{start!r} + {part!r} * n + {end!r} does not end"
        if long > ROOM * TIMES * short:
            return f"{start!r} + {part!r} * n + {end!r}: {TIMES} times the text takes {long / short:.0f} times as long"
    return None


class limited:  # noqa: N801 - a context manager
    """Seconds of the processor for what stands in it."""

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGVTALRM, self._stop)
        signal.setitimer(signal.ITIMER_VIRTUAL, LONG_S)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, self._before)

    def _stop(self, *_: object) -> None:
        raise TimeoutError


def test_the_patterns_of_each_package_are_found() -> None:
    found = [read.known_as for read in patterns()]
    assert len(found) > 100
    for spared in SPARED:
        assert any(each.startswith(spared) for each in found), spared
    for part in ("assignsubmission", "name[ \\\\t]*=", "autograder", "def[ \\\\t]+name"):
        assert any(part in each for each in found), part


READS = [read for read in patterns() if not read.known_as.startswith(tuple(SPARED))]


@pytest.mark.parametrize("read", READS, ids=lambda read: read.known_as[:60])
def test_a_pattern_takes_time_that_grows_only_with_the_text(read: Read) -> None:
    assert (found := too_slow(read)) is None, found


def test_the_patterns_that_were_slow_are_found_out() -> None:
    slow = [
        r"^(\w+)(?:\[[^\n]*\]|\.\w+)+[ \t]*=",
        r"^name[ \t]*=[ \t]*\w[ \t]*[).:]?[ \t]*$",
        r"\s+x",
        r"(a|ab?)*c",
        r"\[{30}|(?:[*_]\w?){300}",
    ]
    for source in slow:
        assert too_slow(Read("", re.compile(source, re.MULTILINE), "finditer")) is not None, source
