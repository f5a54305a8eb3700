"""Read a submission for marking: cells, modules beside the notebook, pictures, and notes about them.

In: the bytes of files. Out: plain data. Whatever may take long on a crafted text runs in a child that may fail (`read_in_child`).
An import of a module that is neither installed nor handed in is left out and reported, so an unused import costs no marks.
Statements that call what it imported, such as `google.colab`'s `drive.mount(...)`, are left out too. An answer that really
needs the module still fails, with a remark that says why.
"""

import importlib.util
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import nbformat

from autograder.grading import read_in_child
from autograder.grading.marking import forbidden_names
from autograder.grading.read_in_child import Task
from autograder.judging.records import ExerciseRecord
from autograder.notebooks import pictures, scopes
from autograder.notebooks.archives import shown
from autograder.notebooks.matching import unfenced
from autograder.notebooks.rebuild_submission import Cell, Rebuilt, UnreadableError, parse, parse_script
from autograder.notebooks.roles import grade_id, is_answer

MAX_FILES = 8
MAX_FILE_BYTES = 200_000
_CODING = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*(?!utf-?8\b)[-\w.]", re.IGNORECASE)  # a person would read nonsense in these
SLOW = "a cell takes too long to parse: see whether it means to"
MAX_IMPORTS = 200  # distinct modules of a submission that are looked up


@dataclass(frozen=True)
class Handed:
    """The files that a student handed in, for marking.

    `data` is the notebook, or the `script` in its place; None if it could not be read, and `unreadable` says why. `files`
    are the other files, and `notes` say how the submission was found. `hidden` holds the student's own hidden tests. For
    exercises that are missing there, the class's tests are used.
    """

    data: bytes | None
    unreadable: str = ""
    script: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    hidden: Mapping[str, ExerciseRecord] = field(default_factory=dict)

    def content(self) -> bytes:
        """Return everything that marks depend on, for hashing."""
        parts = [b"unreadable" if self.data is None else self.data, *(b"script" for _ in range(self.script))]
        parts += [part for name, data in sorted(self.files.items()) for part in (name.encode("utf-8", "replace"), data)]
        return b"\0".join([*parts, *(note.encode("utf-8", "replace") for note in (self.unreadable, *self.notes))])

    def cells(self) -> tuple[list[Cell], str, list[str]]:
        """Return the submission's cells, why they could not be read (empty if they could), and notes for the learner."""
        unreadable, cells = self.unreadable, list[Cell]()
        if self.data is not None:
            try:
                cells = parse_script(self.data) if self.script else parse(self.data)
            except UnreadableError as error:
                unreadable = str(error)
        runs = self.modules()
        unread = [f"{shown(name)} was not read: only the notebook is" for name in self.files if name not in runs]
        return cells, unreadable, [*self.notes, *unread]

    def modules(self) -> dict[str, bytes]:
        """Return the files that are the learner's own modules and don't hide an installed one."""
        modules = {}
        for name, data in sorted(self.files.items())[:MAX_FILES]:
            stem, dot, kind = name.rpartition(".")
            fits = dot and kind == "py" and stem.isidentifier() and 0 < len(data) <= MAX_FILE_BYTES
            if fits and not installed(stem) and not any(_CODING.match(line) for line in data.splitlines()[:2]):
                modules[name] = data
        return modules


def read_ahead(
    cells: Sequence[Cell], ours: Collection[str], modules: Collection[str] = (), seconds: read_in_child.Seconds | None = None
) -> list[str]:
    """Parse code cells and `modules` in a child whose time is limited. Returns a flag if something could not be parsed.

    `ours` are the texts of release and references. Until `forget`, they are the only texts that this thread parses itself.
    """
    forget()
    scopes.only(ours)
    sources = [cell.source for cell in cells if cell.kind == "code"]
    prose = [cell.source for cell in cells if cell.kind != "code" and (cell.grade_id or cell.cell_id)]
    texts = [text for source in prose for text in {source, unfenced(source)}]  # prose in place of an answer may be code
    return _have_parsed([*sources, *modules], [text for text in texts if text not in ours], seconds)


def read_anew(notebook: Any, seconds: read_in_child.Seconds | None = None) -> list[str]:
    """Parse texts that `matching` put together, such as answers that shared a cell. Returns a flag as `read_ahead` does."""
    return _have_parsed([cell.source for cell in notebook.cells if cell.cell_type == "code"], [], seconds)


def text_of(module: bytes) -> str:
    """Decode a module as Python does, without a byte order mark and with uniform line endings."""
    return module.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")


def forget() -> None:
    """Forget what was read, so this thread parses by itself again."""
    scopes.only(None)
    forbidden_names.forget()


def _have_parsed(sources: Sequence[str], texts: Sequence[str], seconds: read_in_child.Seconds | None) -> list[str]:
    sources = [source for source in sources if not scopes.is_told(source)]
    tasks = [Task(kind, source) for kind in ("scopes", "statements", "names") for source in sources]
    results = read_in_child.read([*tasks, *(Task("statements", text) for text in texts)], seconds)
    parsed = {source: results.get(Task("scopes", source)) for source in sources}
    scopes.tell({source: None if pair is None else (set(pair[0]), set(pair[1])) for source, pair in parsed.items()})
    scopes.tell_statements({source: results.get(Task("statements", source)) for source in [*sources, *texts]})
    named = {source: results.get(Task("names", source)) for source in sources}
    forbidden_names.tell({source: None if words is None else set(words) for source, words in named.items()})
    return [] if all(task in results for task in tasks) else [SLOW]


def draw(pasted: Mapping[str, tuple[str, ...]], seconds: read_in_child.Seconds | None = None) -> dict[str, tuple[str, ...]]:
    """Redraw the pictures of each answer, in a child that may fail.

    Pictures that fail are left out, and so are those beyond `pictures.MAX_SHOWN_TOGETHER`, which would make the page too
    large.
    """
    results = read_in_child.read([Task("picture", data) for of_answer in pasted.values() for data in of_answer], seconds)
    left, drawn = pictures.MAX_SHOWN_TOGETHER, dict[str, tuple[str, ...]]()
    for name, of_answer in pasted.items():
        drawn[name] = ()
        for data in of_answer:
            picture = results.get(Task("picture", data))
            if picture and len(picture) <= left:
                drawn[name] += (picture,)
                left -= len(picture)
    return drawn


def show(rebuilt: Rebuilt, drawn: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Put the `drawn` pictures into the answers, and return notes on the missing ones."""
    for cell in rebuilt.notebook.cells:
        if is_answer(cell) and (encoded := drawn.get(str(grade_id(cell)))):
            cell.source = pictures.shown(cell.source, len(encoded))
            cell.attachments = nbformat.from_dict(pictures.attachments(encoded))
    lost = [name for name, pasted in rebuilt.pictures.items() if len(pasted) > len(drawn.get(name, ()))]
    most = f"{pictures.MAX_SHOWN_TOGETHER >> 20} MiB of them in all"
    return [f"a picture in {name!r} is not shown: PNG and JPEG can be, and {most}" for name in lost]


class Imports:
    """Tells whether the modules that a submission imports are available: installed, or files `beside` the notebook."""

    def __init__(self, beside: Collection[str] = ()):
        self._beside = beside
        self._found: dict[str, bool] = {}

    def has(self, module: str) -> bool:
        """Return whether `module` is available.

        A look-up takes a quarter of a millisecond, so beyond `MAX_IMPORTS` modules the answer is True.
        """
        top = module.partition(".")[0]
        if top not in self._found and len(self._found) < MAX_IMPORTS:
            self._found[top] = f"{top}.py" in self._beside or installed(top)
        return self._found.get(top, True)


@lru_cache(4 * MAX_IMPORTS)
def installed(top: str) -> bool:
    """Return whether a module or package of that name is installed here, where the sandbox will look too."""
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def without_absent(source: str, imports: Imports) -> tuple[str, list[str]]:
    """Comment out imports of missing modules in `source`, keeping line numbers. Returns the text and the modules' names.

    >>> without_absent("import no_such_thing as n\\nn.start()\\nx = 1", Imports())
    ('pass  # import no_such_thing as n\\npass  # n.start()\\nx = 1', ['no_such_thing'])
    """
    if "import" not in source:
        return source, []
    try:
        parsed = scopes.statements(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source, []
    lines, absent, bound = source.split("\n"), dict[str, None](), set[str]()
    for statement in parsed:
        gone = [name for name in statement.modules if not imports.has(name)]
        if gone and len(gone) == len(statement.modules):
            absent |= dict.fromkeys(gone)
            bound |= set(statement.names)
        elif not bound.intersection(statement.calls):
            continue
        for number in range(statement.first - 1, min(statement.last, len(lines))):
            text = lines[number].strip()
            lines[number] = f"pass  # {text}" if text and not text.startswith("#") else lines[number]
    return "\n".join(lines), list(absent)
