"""Correct small slips in answers, such as a misspelt name, before they run, and note each correction.

In: the text of each answer. Out: the text to run instead, if it differs, and the notes. A function with a misspelt name gets
the right name as an alias, a prediction's letter gets missing quotation marks, text after the letter is dropped, and so are
unfinished lines below a complete function. What the student handed in stays unchanged in the notebook. The texts are parsed
in a child process that may fail (`read_in_child`).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches

from autograder.grading import read_in_child
from autograder.judging.exercise import Prediction
from autograder.judging.records import AnyRecord
from autograder.notebooks import scopes

NEARLY = 0.75  # minimum similarity of a name: `softmax_jac` for `softmax_jacobian`, `gausian` for `gaussian`
MAX_NAMES = 200  # distinct names to compare, because each comparison is slow
MAX_CUTS = 5  # places to try as the start of an unfinished end
_SETS = re.compile(r"^(?:(?:async[ \t]+)?def|class)[ \t]+(\w+)|^(\w+)[ \t]*(?::[^=\n]*)?=(?!=)", re.MULTILINE)
_MERGED = re.compile(r"^(?:<{7}|={7}|>{7})", re.MULTILINE)


def as_meant(
    answers: Mapping[str, str],
    exercises: Mapping[str, AnyRecord],
    elsewhere: Collection[str],
    seconds: read_in_child.Seconds | None = None,
) -> tuple[dict[str, str], list[str]]:
    """Return the corrected text of each of `answers` that needs a correction, by name, and the notes.

    `elsewhere` holds the other cells' texts.
    """
    texts, notes = dict[str, str](), list[str]()
    others = {name for text in elsewhere for name in set_names(text)}
    asked = {name: source for name, source in answers.items() if name in exercises}
    cuts = {name: _cuts(name, source) for name, source in asked.items() if not isinstance(exercises[name], Prediction)}
    # read all answers together, because each reading may waste its seconds
    tasks = [read_in_child.Task("statements", text) for places in cuts.values() for _, text in places]
    parsed = read_in_child.read(tasks, seconds)
    for name, source in asked.items():
        record = exercises[name]
        if isinstance(record, Prediction):
            meant = _quoted(name, source, record.choices)
        else:
            meant = _finished(name, cuts[name], parsed) or (None if name in others else _renamed(name, source, exercises))
        if meant is not None:
            texts[name], note = meant
            notes.append(note)
    return texts, notes


def set_names(source: str) -> list[str]:
    """Return the names that lines at the left margin of `source` define.

    >>> set_names("def f(x):\\n    y = 1\\nz = 2\\nz == 3")
    ['f', 'z']
    """
    return [defined or assigned for defined, assigned in _SETS.findall(source)]


def _quoted(name: str, source: str, choices: Collection[str]) -> tuple[str, str] | None:
    """Return a prediction with its letter in quotation marks, without text after it, and the note; None if neither helps."""
    bare = re.compile(rf"^({re.escape(name)}[ \t]*=[ \t]*)([A-Za-z]\w*)[ \t]*(?:[).:][ \t]*)?(#[^\n]*)?$", re.MULTILINE)
    letters, assignments = {choice.lower() for choice in choices}, bare.findall(source)
    if len(assignments) != 1 or assignments[0][1].lower() not in letters:
        return _without_its_text(name, source, letters)
    letter = assignments[0][1]
    return bare.sub(rf'\g<1>"{letter}"', source), f'the prediction {name} = {letter} was read as "{letter}"'


def _without_its_text(name: str, source: str, letters: Collection[str]) -> tuple[str, str] | None:
    """Return a prediction without the text after its letter: `"c: to the mean"`, `"(c) to the mean"`."""
    quoted = re.compile(
        rf"^({re.escape(name)}[ \t]*=[ \t]*)([\"'])[ \t]*\(?([A-Za-z]\w*)[ \t]*[):.,;][^\"'\n]*\2[ \t]*(#[^\n]*)?$", re.MULTILINE
    )
    assignments = quoted.findall(source)
    if len(assignments) != 1 or (letter := assignments[0][2]).lower() not in letters:
        return None
    return quoted.sub(rf'\g<1>"{letter}"', source), f'the prediction {name} was read as "{letter}"'


def _renamed(name: str, source: str, exercises: Collection[str]) -> tuple[str, str] | None:
    """Return a function whose name is nearly right with the right name as an alias, and the note."""
    defined = set_names(source)
    if name in defined:
        return None
    others = [other for other in dict.fromkeys(defined) if other not in exercises][:MAX_NAMES]
    near = get_close_matches(name, others, n=1, cutoff=NEARLY)
    if not near:
        return None
    return f"{source}\n\n\n{name} = {near[0]}\n", f"the answer to {name!r} is called {near[0]!r}, and was read as {name!r}"


def _cuts(name: str, source: str) -> list[tuple[int, str]]:
    """Return the places where an answer that doesn't parse may end: line number and the text before it, last place first."""
    if set_names(source).count(name) != 1 or _MERGED.search(source):  # with two versions, nobody knows which one is meant
        return []
    try:
        scopes.statements(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    else:
        return []
    lines = source.split("\n")
    starts = [number for number, line in enumerate(lines) if number and re.match(r"[^\s#)\]}]", line)]
    cut = [(number, "\n".join(lines[:number]).rstrip()) for number in reversed(starts[-MAX_CUTS:])]
    return [(number, text) for number, text in cut if name in set_names(text)]


def _finished(name: str, cuts: Sequence[tuple[int, str]], parsed: Mapping[read_in_child.Task, object]) -> tuple[str, str] | None:
    """Return a complete function without the unfinished lines below it, and the note."""
    for number, text in cuts:
        if parsed.get(read_in_child.Task("statements", text)) is not None:
            return text, f"the answer to {name!r} was read up to line {number}: what follows is not finished"
    return None
