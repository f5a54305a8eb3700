"""Hash what a notebook and a pack are made from, so that `attn build` remakes only what has changed.

In: a lesson. Out: a hash of everything that its executed notebook depends on, and a hash of everything that its pack depends
on. The lesson's text, and the code's comments, docstrings and blank lines, affect only the first.
"""

import ast
import functools
import hashlib
import io
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import autograder
from autograder.authoring import front_matter
from autograder.authoring.course import Lesson, course_root, settings
from autograder.authoring.reference_source import files_behind, files_of, pack_files_of

PACK_MAKER = "autograder.packs.make_pack"  # the engine modules that it imports decide what a pack holds
MAKES_PACKS = ("packs", "mutants", "judging")


def source_digest(lesson: Lesson) -> str:
    """Hash everything that an executed lesson depends on: its text, exercises, answers and given packages.

    The front matter is left out, because it produces no cell and is compared separately.
    """
    below = front_matter.text_below(lesson.path).encode()
    files = [(path, below if path == lesson.path else path.read_bytes()) for path in files_of(lesson)]
    return _hash(path.name.encode() + b"\0" + content for path, content in files)


def pack_digest(lesson: Lesson) -> str:
    """Hash everything that a lesson's pack depends on: its title, exercises, their imports, and the engine that makes packs."""
    chosen = lesson.checked if lesson.shares_exercises else []  # matters only if several notebooks share the exercises
    root, stated = course_root().parent, f"{engine_digest()}\0{lesson.title}\0{chosen}\0{settings().mend}"
    files = [(path.relative_to(root).as_posix(), content_of(path)) for path in pack_files_of(lesson)]
    return _hash([stated.encode(), *(b"\0" + name.encode() + b"\0" + content for name, content in files)])


@functools.cache
def engine_digest() -> str:
    """Hash the engine's code that takes part in making packs."""
    return _hash(b"\0" + path.name.encode() + b"\0" + content_of(path) for path in engine_files())


def _hash(parts: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def engine_files() -> list[Path]:
    """Return the modules in the engine's lowest folders that `packs.make_pack` imports, directly or indirectly."""
    home = Path(autograder.__file__).parent
    files = files_behind([PACK_MAKER], {"autograder": home})
    return sorted(path for path in files if path.relative_to(home).parts[0] in MAKES_PACKS)


def content_of(path: Path) -> bytes:
    """Return the part of a file that affects results: the `bare_code` of a Python file, or all of any other file."""
    if path.suffix != ".py":
        return path.read_bytes()
    return bare_code(path.read_text(encoding="utf-8")).encode()


def bare_code(source: str) -> str:
    """Remove comments, docstrings and blank lines from Python code. The result is the same in every version of Python.

    It need not run: of a class that is only a docstring, the head alone is left.

    >>> print(bare_code('def f(x):  # says why\\n    "Doc."\\n\\n    return x\\n'))
    def f(x):
        return x
    """
    lines = source.splitlines()
    for (first, begin), (last, end) in sorted(_silent_spans(source), reverse=True):
        kept = lines[first - 1][:begin] + lines[last - 1][end:]
        lines[first - 1 : last] = [kept]
    return "\n".join(line.rstrip() for line in lines if line.strip())


Span = tuple[tuple[int, int], tuple[int, int]]


def _silent_spans(source: str) -> Iterator[Span]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start, token.end
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if ast.get_docstring(node, clean=False) is not None:
                last = first.end_lineno or first.lineno
                yield (
                    (first.lineno, _characters(lines[first.lineno - 1], first.col_offset)),
                    (last, _characters(lines[last - 1], first.end_col_offset or 0)),
                )


def _characters(line: str, count: int) -> int:
    """Convert an offset in bytes, as `ast` counts, to one in characters, as `tokenize` counts."""
    return len(line.encode()[:count].decode())
