"""Match submitted cells with those of the release, even if they lost their names, moved or were merged.

In: the released notebook and the submitted cells. Out: the same cells as a fair person would read them, named by grade_id for
`rebuild_submission.rebuild`, and notes for student and instructor. A cell is matched by the first of these that works: grade_id,
cell id, the released text itself, `check("name")`, the names that it defines or, for text, its place beside an unanswered
question. No match can earn more than the same code in the right cell, because grading is decided elsewhere.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autograder.notebooks.flags import Flag
from autograder.notebooks.released import Release, plain, statements_of
from autograder.notebooks.roles import CHECK, INSTALL, NEXT, grade_id, is_answer
from autograder.notebooks.scopes import Statement, put_together, statements, texts_of

_FENCED = re.compile(r"\A\s*(?:```|~~~)[ \t]*(?:\w+[ \t]*)?\n(.*)\n(?:```|~~~)\s*\Z", re.DOTALL)
_SET = re.compile(r"^(?:def|class)[ \t]+(\w+)|^(\w+)[ \t]*=(?!=)", re.MULTILINE)
_CODE = re.compile(r"[=(\[{][ \t]*$|^[ \t]*(?:def|import|from|class|return)\b", re.MULTILINE)
WRITES = ("markdown", "raw")


@dataclass
class Read:
    """A submitted cell and the `key` of its released cell, which is the grade_id or the id of a plain cell, or None."""

    cell: Any  # rebuild_submission.Cell
    key: str | None = None
    given: bool = False  # the release's own text, wherever it is


@dataclass
class Restored:
    """The cells for `rebuild`, and notes about how they were read."""

    cells: list[Any]
    notes: list[Flag] = field(default_factory=list)


def restore(released: Any, submitted: Sequence[Any]) -> Restored:
    """Return the cells of `submitted` under their right names."""
    known = Release(released)
    read = [one for cell in submitted for one in _beside_text(known, _identify(known, cell))]
    notes: list[Flag] = []
    if read and not any(_is_ours(known, each) for each in read):
        cells = [_renamed(known, each) for each in read if not each.given]
        return Restored(cells, [Flag("another_lesson")])
    lost = bool(read) and not any(cell.grade_id in known.cells for cell in submitted)
    read = _written(known, list(_code(known, read, notes, lost)), notes)
    if lost and not any(cell.cell_id in known.cells for cell in submitted):
        notes.insert(0, Flag("no_metadata"))
    return Restored([_renamed(known, each) for each in read if not each.given], list(dict.fromkeys(notes)))


def _is_ours(known: Release, each: Read) -> bool:
    """Return whether a cell belongs to this lesson.

    The set-up cells, and those that install the course or lead to the next lesson, prove nothing, because all lessons use the
    same names for them.
    """
    return (
        each.given
        or (each.key is not None and each.key not in {*known.locked, INSTALL, NEXT})
        or bool(_defines(each.cell).intersection(known.code))
    )


def _identify(known: Release, cell: Any) -> Read:
    if cell.grade_id is not None:
        return Read(cell, cell.grade_id if cell.grade_id in known.cells else None)
    if cell.cell_id in known.cells and _alike(known.cells[cell.cell_id], cell):
        return Read(cell, cell.cell_id)
    same = known.by_source.get(plain(cell.source), [])
    if len(same) == 1:
        return Read(cell, same[0])
    if cell.kind == "code" and (match := CHECK.match(plain(cell.source))) and match[1] in known.checks:
        return Read(cell, known.checks[match[1]])
    return Read(cell, None, given=bool(same))


def _beside_text(known: Release, each: Read) -> list[Read]:
    """Separate the lesson's own text in a cell from the lines that a learner added to it."""
    if each.key is None or each.cell.kind != "markdown" or is_answer(known.cells[each.key]):
        return [each]
    given, lines = plain(known.cells[each.key].source).split("\n"), plain(each.cell.source).split("\n")
    new = [line for line in lines if line not in given]
    if not "".join(new).strip() or not set(given) <= set(lines):  # the text of an earlier release is not an answer
        return [each]
    return [each, Read(replace(each.cell, source="\n".join(new), grade_id=None, cell_id=None))]


def _alike(released: Any, cell: Any) -> bool:
    return is_answer(released) or bool(released.cell_type == cell.kind)


def _code(known: Release, read: list[Read], notes: list[Flag], lost: bool) -> Iterator[Read]:
    """Yield the cells with the code answers in place: the first changed answer cell, else the last cell that defines the name."""
    for each in read:
        if each.key in known.code and each.cell.kind != "code":
            _as_code(each, notes)
    read = [one for each in read for one in (_keep_additions(known, each, notes) if each.key in known.locked else [each])]
    taken: dict[int, list[str]] = {}
    for name in known.code:
        own = [each for each in read if each.key == name and each.cell.kind == "code"]
        touched = [each for each in own if not known.untouched(name, each.cell.source)]
        if len(own) > 1:
            notes.append(Flag("repeated", name))
        if touched:
            for each in own:  # the first changed cell counts; other changed ones run as extra cells
                each.given = each.given or (each is not touched[0] and each not in touched)
            continue
        found = [number for number, each in enumerate(read) if each.key is None and name in _defines(each.cell)]
        if found:
            taken.setdefault(found[-1], []).append(name)
            for each in own:
                each.given = True
            if not lost:
                notes.append(Flag("elsewhere", name))
    moved = {name for names in taken.values() for name in names}
    for number, each in enumerate(read):
        if number in taken:
            yield from _split(known, each, taken[number])
        elif each.key is None and moved & _defines(each.cell):  # a draft, which might run after the answer and replace it
            yield from _without(each, moved)
        else:
            yield each


def _as_code(each: Read, notes: list[Flag]) -> None:
    """Read a code answer from a cell that was turned into text."""
    code = replace(each.cell, kind="code", source=unfenced(each.cell.source))
    if each.key in _defines(code):
        each.cell = code
        notes.append(Flag("in_text", str(each.key)))
    else:
        each.key = None


def unfenced(text: str) -> str:
    """Return the code if the text is a single fenced block, else the text."""
    fenced = _FENCED.match(text)
    return fenced[1] if fenced else text


def _keep_additions(known: Release, each: Read, notes: list[Flag]) -> list[Read]:
    """Return a locked cell and, if it was edited, what the learner added to it. The rest is the lesson's own."""
    original = known.cells[str(each.key)]
    if original.cell_type != each.cell.kind or known.untouched(str(each.key), each.cell.source):
        return [each]
    new = [
        statement
        for statement in statements_of(each.cell.source)
        if statement.names and not known.given_names.intersection(statement.names)
    ]
    texts = texts_of(each.cell.source, new)
    added = [statement for statement, text in zip(new, texts, strict=True) if plain(text) not in known.own]
    notes.append(Flag("locked_extended" if added else "locked_changed", str(each.key)))
    extra = Read(replace(each.cell, source=put_together(each.cell.source, added), grade_id=None, cell_id=None, pictures=()))
    return [each, extra] if added else [each]


def _split(known: Release, each: Read, names: Sequence[str]) -> Iterator[Read]:
    """Split a cell that answers several `names` into statements, with the rest before them. With one name, it stays whole."""
    source = each.cell.source
    if len(names) == 1:
        yield Read(replace(each.cell, grade_id=names[0]), names[0])
        return
    rest, parts = list[Statement](), {name: list[Statement]() for name in names}
    every = statements_of(source)
    for statement, text in zip(every, texts_of(source, every), strict=True):
        owner = next((name for name in names if name in statement.names and not statement.modules), None)
        if owner is not None:
            parts[owner].append(statement)
        elif plain(text) not in known.own:
            rest.append(statement)
    if rest:
        yield Read(replace(each.cell, source=put_together(source, rest)))
    for name in names:
        yield Read(replace(each.cell, source=put_together(source, parts[name]).strip("\n"), grade_id=name), name)


def _without(each: Read, names: set[str]) -> Iterator[Read]:
    """Yield a cell with what `each` contains besides definitions of `names`, if there is anything else."""
    source = each.cell.source
    rest = [statement for statement in statements_of(source) if statement.modules or not names.intersection(statement.names)]
    if rest:
        yield Read(replace(each.cell, source=put_together(source, rest)))


def _written(known: Release, read: list[Read], notes: list[Flag]) -> list[Read]:
    """Put the written answers in place, from cells of any kind. A blank answer takes the text beside it."""
    for each in read:
        if each.key in known.written and each.cell.kind not in WRITES[:1]:
            each.cell = replace(each.cell, kind="markdown")
            notes.append(Flag("not_text", str(each.key)))
    filled = {each.key for each in read if each.key in known.written and not known.untouched(str(each.key), each.cell.source)}
    filled |= {each.key for each in read if each.key in known.written and each.cell.pictures}
    gone: set[int] = set()
    for number, each in enumerate(read):
        if each.key is not None or each.given or known.is_older(each.cell) or not _is_text(each.cell):
            continue
        before = max((known.place[key] for one in read[:number] if (key := one.key) in known.place), default=-1)
        after = next((known.place[key] for one in read[number + 1 :] if (key := one.key) in known.place), len(known.place))
        owner = next((name for name in known.written if name not in filled and before <= known.place[name] <= after), None)
        if owner is None and number and read[number - 1].key in filled and read[number - 1].key in known.written:
            owner = str(read[number - 1].key)  # the answer continues in a second cell
        if owner is None:
            continue
        mine = next((one for one in read if one.key == owner), None)
        if owner in filled and mine is not None:
            text = f"{mine.cell.source.rstrip()}\n\n{each.cell.source}"
            mine.cell = replace(mine.cell, source=text, pictures=(*mine.cell.pictures, *each.cell.pictures))
            gone.add(number)
        else:
            if mine is not None:
                mine.key, mine.given = None, True
            each.cell, each.key = replace(each.cell, kind="markdown", grade_id=owner), owner
            filled.add(owner)
        notes.append(Flag("beside_question", owner))
    return [each for number, each in enumerate(read) if number not in gone]


def _is_text(cell: Any) -> bool:
    """Return whether a person would read the cell as prose: a text cell, or a code cell that contains no Python."""
    if not cell.source.strip() and not cell.pictures:
        return False
    if cell.kind in WRITES:
        return True
    return len(cell.source.split()) > 3 and not statements_of(cell.source) and not _CODE.search(cell.source)


def _renamed(known: Release, each: Read) -> Any:
    """Return the cell under the names that `rebuild` uses."""
    if each.key is None:
        own = each.cell.cell_id if each.cell.cell_id not in known.cells else None
        return replace(each.cell, cell_id=own, grade_id=None if each.cell.grade_id in known.cells else each.cell.grade_id)
    named = grade_id(known.cells[each.key])
    if is_answer(known.cells[each.key]) and not each.cell.pictures and known.untouched(each.key, each.cell.source):
        return replace(each.cell, grade_id=named, source=known.cells[each.key].source)
    return replace(each.cell, grade_id=named, cell_id=each.key if named is None else each.cell.cell_id)


def _defines(cell: Any) -> set[str]:
    """Return the names that a code cell sets at the top level, except imported ones; by a pattern if it is invalid Python."""
    if cell.kind != "code":
        return set()
    try:
        return {name for statement in statements(cell.source) if not statement.modules for name in statement.names}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {name for pair in _SET.findall(cell.source) for name in pair if name}
