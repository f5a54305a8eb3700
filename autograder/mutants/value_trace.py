"""Record what a program computes on its way: for each expression, a few numbers that identify its values in any arrangement.

In: the text of a program, and a case. Out: for each expression that was evaluated, the share of its numbers that count as
blocked (not finite, or as far below zero as a mask puts them) and the first three moments of the others. Moments ignore order,
axes and repetition, so a value is recognised whether it is computed at once or in a loop, transposed, or repeated for each head.
"""

import ast
import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autograder.judging.call_answer import bare
from autograder.judging.observation import Probe
from autograder.judging.values import Array, EncodedValue, as_array
from autograder.mutants.source import Edit, Source, source_of

MOMENTS = 4
MOST_ROWS = 100  # values of right programs that a case keeps
MOST_SEEN = 20_000  # values that are recorded in one run
MOST_ENTRIES = 200_000
MOST_TIMES, FEWEST = 8, 4  # most values of an expression that are also compared one by one, and fewest entries of each
BLOCKED = -1e4
WATCH = "__watch__"
_WATCHED = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Subscript, ast.Attribute, ast.Name, ast.Compare, ast.IfExp, ast.ListComp)


@dataclass
class Sums:
    """The sums over all values that an expression had."""

    first: int  # the number of the evaluation that gave its first value
    size: int = 0
    blocked: int = 0
    powers: Array = field(default_factory=lambda: np.zeros(3))
    rows: list[Array] = field(default_factory=list)  # one for each of the first values

    def add(self, arrays: Sequence[Array]) -> None:
        numbers = np.concatenate([array.astype(np.float64).ravel() for array in arrays])
        with np.errstate(all="ignore"):
            kept = numbers[np.isfinite(numbers) & (numbers > BLOCKED)]
            powers = np.array([kept.sum(), (kept**2).sum(), (kept**3).sum()])
        if len(self.rows) <= MOST_TIMES:
            self.rows.append(_row(numbers.size, kept.size, powers) if kept.size >= FEWEST else np.full(MOMENTS, np.nan))
        self.powers += powers
        self.size += numbers.size
        self.blocked += numbers.size - kept.size

    @property
    def row(self) -> Array:
        """Return the numbers that stand for all values together."""
        return _row(self.size, self.size - self.blocked, self.powers)

    @property
    def turned(self) -> "Sums":
        """Return the sums for the same numbers with the opposite sign; NaN if some are blocked."""
        signs = np.array([-1.0, 1.0, -1.0])
        rows = [] if self.blocked else [row * [1.0, *signs] for row in self.rows]
        return replace(
            self, powers=self.powers * signs if not self.blocked else np.full(3, np.nan), rows=rows or [self.row * np.nan]
        )

    @property
    def same(self) -> float | None:
        """Return the number that all values are equal to, or None if they differ."""
        _, mean, square, _ = self.row
        return float(mean) if self.blocked == 0 and abs(square - mean**2) < 1e-9 * max(1.0, square) else None

    def among(self, right: Array) -> bool:
        """Return whether the `right` rows include the values taken together or, if they are few, each value by itself."""
        return known(right, self.row) or (len(self.rows) <= MOST_TIMES and all(known(right, row) for row in self.rows))


def _row(size: int, kept: int, powers: Array) -> Array:
    return np.array([(size - kept) / max(1, size), *(powers / max(1, kept))])


@dataclass
class Trail:
    """The watched expressions of a program, and the values of each. A place is an index into `nodes`."""

    nodes: list[tuple[str, ast.expr]] = field(default_factory=list)  # each with the name of its function
    seen: dict[int, Sums] = field(default_factory=dict)
    other: set[int] = field(default_factory=set)  # the places of expressions with values that are not arrays
    count: int = 0

    def watch(self, place: int, value: Any) -> Any:
        """Record `value` for its expression and return it unchanged: the edited program calls this with each value."""
        self.count += 1
        if self.count > MOST_SEEN:
            return value
        arrays = list(_arrays(value))
        if not arrays:
            self.other.add(place)
        elif sum(array.size for array in arrays) <= MOST_ENTRIES:
            sums = self.seen.setdefault(place, Sums(self.count))
            sums.add(arrays)
        return value


def _arrays(value: Any) -> Iterator[Array]:
    """Yield the value if it is an array of numbers, or the arrays of numbers in a list or tuple."""
    if isinstance(value, list | tuple):
        if value and len(value) <= 64 and all(hasattr(part, "shape") for part in value):
            for part in value:
                yield from _arrays(part)
        return
    converted = as_array(value) if hasattr(value, "shape") else None
    if converted is not None and converted[0].dtype.kind in "biuf" and converted[0].size:
        yield converted[0]


def walked(source: Source, run: Any) -> Trail:
    """Call `run(program)` with every expression of the program watched, and return the trail. Raises what building it raises."""
    trail = Trail()
    edits = []
    for name, tree in source.trees.items():
        vars(tree).pop("parents", None)  # a cache, filled again when needed
        twin = copy.deepcopy(tree)
        pairs = {id(new): old for old, new in zip(ast.walk(tree), ast.walk(twin), strict=True)}
        watched = _Watch(name, trail, pairs).visit(twin)
        edits.append(Edit(name, tree, lambda node, watched=watched: watched, None, 0))
    home = {**source.home, WATCH: trail.watch}
    elsewhere = {name: {**names, WATCH: trail.watch} for name, names in source.elsewhere.items()}
    run(replace(source, home=home, elsewhere=elsewhere).build(edits))
    return trail


class _Watch(ast.NodeTransformer):
    """Puts a call of `WATCH` around each expression in a function whose value is read, except for what is itself called."""

    def __init__(self, name: str, trail: Trail, pairs: dict[int, Any]):
        self.name, self.trail, self.pairs, self.inside = name, trail, pairs, 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self.inside += 1
        node.body = [self.visit(part) for part in node.body]
        self.inside -= 1
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return node
        if isinstance(node.func, ast.Attribute):
            node.func.value = self.visit(node.func.value)
        elif not isinstance(node.func, ast.Name):
            node.func = self.visit(node.func)
        node.args = [self.visit(part) for part in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return self._watched(node)

    def generic_visit(self, node: ast.AST) -> Any:
        super().generic_visit(node)
        read = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        return self._watched(node) if isinstance(node, _WATCHED) and read else node

    def _watched(self, node: Any) -> Any:
        if not self.inside:
            return node
        place = len(self.trail.nodes)
        self.trail.nodes.append((self.name, self.pairs[id(node)]))
        watch = ast.Name(WATCH, ast.Load())
        return ast.fix_missing_locations(ast.copy_location(ast.Call(watch, [ast.Constant(place), node], []), node))


def rows_of(programs: Iterable[Any], probe: Probe) -> Array:
    """Return a row for each different value among the inputs and what right programs compute on their way."""
    rows = list(given(probe.inputs))
    for program in programs:
        rows += next(
            (found for each in _written(program) for dtype in ("float64", None) if (found := _rows(each, probe, dtype))), []
        )
    kept: list[Array] = []
    for row in rows:
        if np.isfinite(row).all() and not (kept and known(np.stack(kept), row)):
            kept.append(row)
    return np.stack(kept[:MOST_ROWS]).astype(np.float32) if kept else np.zeros((0, MOMENTS), np.float32)


def _written(program: Any) -> Iterator[Any]:
    """Yield the program and, for a class, its bases, because a class that is made in a function has no text of its own."""
    yield program
    if isinstance(program, type):
        yield from (base for base in program.__mro__[1:-1] if not base.__module__.startswith("torch"))


def _rows(program: Any, probe: Probe, dtype: str | None) -> list[Array]:
    """Return the rows of one right program; none if its text doesn't run outside the place where it was defined."""
    failures = []

    def run(edited: Any) -> None:
        failures.append(bare(edited, replace(probe, grad=(), cotangent=None), dtype=dtype).failure)

    source = source_of(program)
    try:
        trail = walked(source, run) if source is not None else Trail()
    except Exception:
        return []
    return [] if any(failures) else [sums.row for sums in trail.seen.values()]


def given(inputs: EncodedValue) -> Iterator[Array]:
    """Yield the rows of the arrays among the inputs."""
    for array in inputs.arrays:
        if array.size and array.dtype.kind in "biuf":
            sums = Sums(0)
            sums.add([array])
            yield sums.row


def known(rows: Array, row: Array, slack: float = 1e-4) -> bool:
    """Return whether `row` equals one of the `rows`, up to rounding."""
    if not len(rows):
        return False
    with np.errstate(all="ignore"):
        size = np.sqrt(np.abs(rows[:, 2]))[:, None] ** np.arange(1, 4) + 1e-9
        near = np.abs(rows[:, 1:] - row[1:]) <= slack * size
    return bool((near.all(axis=1) & (np.abs(rows[:, 0] - row[0]) < 1e-3)).any())


def inner(nodes: Sequence[tuple[str, ast.expr]]) -> list[list[int]]:
    """Return, for each watched expression, the places of the watched expressions directly inside it."""
    places = {id(node): place for place, (_, node) in enumerate(nodes)}
    return [list(_below(node, places)) for _, node in nodes]


def _below(node: ast.AST, places: dict[int, int]) -> Iterator[int]:
    for child in ast.iter_child_nodes(node):
        if id(child) in places:
            yield places[id(child)]
        else:
            yield from _below(child, places)


def parents_of(children: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return, for each expression that is inside another, the place of the expression around it."""
    return {child: place for place, each in enumerate(children) for child in each}
