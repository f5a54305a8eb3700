"""What a learner handed in, read for marking: cells, modules beside the notebook, pictures; and what to say of it.

In: the bytes of files. Out: plain data. Whatever may take long over a text that is made for it runs in a child that may fail
(`bounded`). An import of what is neither installed nor handed in is left out of what runs, and said: one that nothing uses
costs no marks. `google.colab`'s `drive.mount(...)` goes with its import; a function that does need the module says so.
"""

import importlib.util
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import nbformat

from autograder.grading import bounded
from autograder.grading.marking import forbidden_names
from autograder.notebooks import pictures, scopes
from autograder.notebooks.archives import shown
from autograder.notebooks.matching import unfenced
from autograder.notebooks.roles import grade_id, is_answer
from autograder.notebooks.submission import Cell, Rebuilt, UnreadableError, parse, parse_script

MAX_FILES = 8
MAX_FILE_BYTES = 200_000


@dataclass(frozen=True)
class Handed:
    """What was handed in: the bytes of the notebook (None where it could not be read: `unreadable` says why), or of a `script`
    in its place, the other files beside it, and `notes` on how it was found."""

    data: bytes | None
    unreadable: str = ""
    script: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def content(self) -> bytes:
        """All of it on which marks depend, for a hash."""
        parts = [b"unreadable" if self.data is None else self.data, *(b"script" for _ in range(self.script))]
        parts += [part for name, data in sorted(self.files.items()) for part in (name.encode("utf-8", "replace"), data)]
        return b"\0".join([*parts, *(note.encode("utf-8", "replace") for note in (self.unreadable, *self.notes))])

    def cells(self) -> tuple[list[Cell], list[str]]:
        """Its cells, and what the learner is to be told."""
        told = list(self.notes)
        unreadable, found = self.unreadable, list[Cell]()
        if self.data is not None:
            try:
                found = parse_script(self.data) if self.script else parse(self.data)
            except UnreadableError as error:
                unreadable = str(error)
        told = [*([f"unreadable: {unreadable}"] if unreadable else []), *told]
        runs = self.modules()
        return found, [*told, *(f"{shown(name)} was not read: only the notebook is" for name in self.files if name not in runs)]

    def modules(self) -> dict[str, bytes]:
        """Those of its files that are modules of the learner's own and hide nothing that is installed."""
        found = {}
        for name, data in sorted(self.files.items())[:MAX_FILES]:
            stem, dot, kind = name.rpartition(".")
            if dot and kind == "py" and stem.isidentifier() and not installed(stem) and 0 < len(data) <= MAX_FILE_BYTES:
                found[name] = data
        return found


def read_ahead(cells: Sequence[Cell], given: set[str], *, names: bool) -> list[str]:
    """Have the code cells parsed, by a child that may take its time in vain; what could not be is flagged.

    `given` are the release's texts; the `names` in a text are looked for where an exercise forbids some.
    """
    sources = [cell.source for cell in cells if cell.kind == "code" and cell.source not in given]
    texts = [text for cell in cells if cell.kind != "code" and (cell.grade_id or cell.cell_id) for text in _as_code(cell.source)]
    kinds = ["scopes", "statements", *(["names"] if names else [])]
    tasks = [bounded.Task(kind, source) for kind in kinds for source in sources]
    found = bounded.read([*tasks, *(bounded.Task("statements", text) for text in texts if text not in given)])
    parsed = {source: found.get(bounded.Task("scopes", source)) for source in sources}
    scopes.tell({source: None if pair is None else (set(pair[0]), set(pair[1])) for source, pair in parsed.items()})
    scopes.tell_statements({source: found.get(bounded.Task("statements", source)) for source in [*sources, *texts]})
    named = {source: found.get(bounded.Task("names", source)) for source in sources}
    forbidden_names.tell({source: None if words is None else set(words) for source, words in named.items()})
    slow = any(bounded.Task(kind, source) not in found for kind in kinds for source in sources)
    return ["a cell takes too long to parse: see whether it means to"] if slow else []


def _as_code(text: str) -> set[str]:
    """What a cell of text may be read as, where it stands in an answer's place."""
    return {text, unfenced(text)}


def draw(pasted: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The pictures of each answer, drawn again by a child that may fail; those that could not be are left out."""
    tasks = [bounded.Task("picture", one) for each in pasted.values() for one in each]
    found = bounded.read(tasks) if tasks else {}
    return {
        name: tuple(made for one in each if (made := found.get(bounded.Task("picture", one)))) for name, each in pasted.items()
    }


def show(rebuilt: Rebuilt, drawn: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Put the `drawn` pictures into the answers; what to say of those that are not there."""
    for cell in rebuilt.notebook.cells:
        if is_answer(cell) and (encoded := drawn.get(str(grade_id(cell)))):
            cell.source = pictures.shown(cell.source, len(encoded))
            cell.attachments = nbformat.from_dict(pictures.attachments(encoded))
    lost = [name for name, each in rebuilt.pictures.items() if len(each) > len(drawn.get(name, ()))]
    return [f"a picture in {name!r} could not be read: PNG and JPEG can be" for name in lost]


@cache
def installed(top: str) -> bool:
    """Whether a module or package of that name is installed here, where the sandbox will look too."""
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def without_absent(source: str, beside: Collection[str] = ()) -> tuple[str, list[str]]:
    """`source` without imports of what is neither installed nor a file `beside` it, line for line; and those modules' names.

    >>> without_absent("import no_such_thing as n\\nn.start()\\nx = 1")
    ('pass  # import no_such_thing as n\\npass  # n.start()\\nx = 1', ['no_such_thing'])
    """
    if "import" not in source:
        return source, []
    try:
        found = scopes.statements(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source, []
    lines, absent, bound = source.split("\n"), dict[str, None](), set[str]()
    for one in found:
        gone = [name for name in one.modules if (top := name.partition(".")[0]) + ".py" not in beside and not installed(top)]
        if gone and len(gone) == len(one.modules):
            absent |= dict.fromkeys(gone)
            bound |= set(one.names)
        elif not bound.intersection(one.calls):
            continue
        for number in range(one.first - 1, one.last):
            text = lines[number].strip()
            lines[number] = f"pass  # {text}" if text and not text.startswith("#") else lines[number]
    return "\n".join(lines), list(absent)
