"""Define a pack's manifest as msgspec types with limits: what `record_json` writes, and all that it has to be able to read.

The limits are far above what a lesson needs; they keep a damaged file from filling the memory. Trees are `Any` here, because
`values.fetch` checks them.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from autograder.judging.exercise import Kind, PropertyKind
from autograder.judging.observation import FailureKind
from autograder.judging.schema import MAX_NAMES, ArrayIndex, FailureFields, Name, Names, ObservationFields, ProbeFields
from autograder.judging.values import MAX_ARRAYS, MAX_DIMS, MAX_ITEMS

Many = Meta(max_length=MAX_ITEMS)  # for lists of cases, of mistakes and of programs
Text = Annotated[str, Meta(max_length=10_000)]  # for people to read
Tree = tuple[Any, ArrayIndex, int]  # `[spec, first, count]`


class FactEntry(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A fact: `[key, values]`."""

    key: Name
    values: Annotated[dict[Name, "Value | Annotated[list[Value], Many]"], Meta(max_length=MAX_NAMES)]


class NestedFact(msgspec.Struct, forbid_unknown_fields=True):
    """A fact among the values of another."""

    fact: FactEntry


Known = tuple[Name, Text, Text]  # `[id, says, fix]`
Near = tuple[Name, FactEntry]  # `[id, what]`
Layout = tuple[Name, Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=MAX_DIMS)]]  # an array's dtype and shape
Value = None | bool | int | float | Text | NestedFact


class FailureEntry(FailureFields, array_like=True, forbid_unknown_fields=True):
    """A failure: `[kind, type, message]`."""

    kind: FailureKind
    message: Name


class ObservationEntry(ObservationFields, forbid_unknown_fields=True, kw_only=True):
    """What the reference or a program with a mistake does on a case."""

    value: Tree | None
    grads: Annotated[dict[Name, Tree | None], Meta(max_length=MAX_NAMES)]
    failure: FailureEntry | None


class CaseEntry(ProbeFields, forbid_unknown_fields=True, kw_only=True):
    """A case. `composed` says where its fingerprints are stored, and `trail` where right programs' intermediate values are."""

    name: Name
    edge: Annotated[float, Meta(ge=0, le=1)]
    inputs: Tree
    cotangent: Tree | None
    expected: ObservationEntry
    mistakes: Annotated[dict[Name, ObservationEntry], Many]
    composed: Tree | None = None
    trail: ArrayIndex | None = None


class PropertyEntry(msgspec.Struct, forbid_unknown_fields=True):
    """A law that results must obey."""

    kind: PropertyKind
    axis: int
    output: int | None = None


class ExerciseEntry(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An exercise, or a prediction, which has choices and no cases."""

    id: Name
    title: Text
    points: float
    cases: Annotated[list[CaseEntry], Many]
    known: Annotated[list[Known], Many]
    hints: Annotated[list[Text], Many]
    properties: Annotated[list[PropertyEntry], Many]
    tolerance: tuple[float, float]
    choices: Annotated[dict[Name, Text], Many]
    reveal: Text
    forbid: Names
    pairs: ArrayIndex
    timeout_s: float = 5.0
    kind: Kind = "write"
    difficulty: int = 2
    minutes: float = 7.0
    behaviour: Name = ""
    holds: Name = ""
    programs: Annotated[list[Name], Many] = []
    near: Annotated[list[Near], Many] = []
    repairs: bool = True
    operators: Name = ""


class Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """Everything in a pack's file except the numbers of its arrays."""

    format: Literal[3]
    lesson: Name
    title: Text
    exercises: Annotated[list[ExerciseEntry], Many]
    layout: Annotated[list[Layout], Meta(max_length=MAX_ARRAYS)]


def check_manifest(manifest: object) -> None:
    """Raise ValueError if `manifest` is not a pack's manifest. The error says where it differs and what was expected there."""
    msgspec.convert(manifest, Manifest)
