"""Find the inputs on which an answer is wrong: what all failing cases have in common, and no passing case has.

In: the cases and their verdicts. Out: a fact, or None.
"""

from collections.abc import Sequence

import numpy as np

from autograder.diagnosis.finding import Fact, fact
from autograder.judging.records import CaseRecord, CaseResult
from autograder.judging.script import Call, Script, encoded_script
from autograder.judging.values import Array, ArrayNode, PlainNode


def contrast(cases: Sequence[CaseRecord], results: Sequence[CaseResult]) -> Fact | None:
    """Return what all failing cases and no passing cases have in common, or else which cases fail. None if all or none fail."""
    both = list(zip(cases, results, strict=True))
    wrong = [record for record, result in both if not result.passed]
    right = [record for record, result in both if result.passed]
    if not wrong or not right:
        return None
    has, lacks = [_features(record) for record in wrong], [_features(record) for record in right]
    for feature in sorted(has[0], key=_rank):
        rank, enough = _rank(feature), min(len(right), len(wrong)) > 2  # one or two cases share many features by chance
        telling = enough or rank < len(_ALWAYS) or (len(right) > 1 and rank < len(_OFTEN))
        if telling and all(feature in each for each in has) and not any(feature in each for each in lacks):
            return fact("contrast.feature", feature=feature)
    if len(right) >= len(wrong):
        return fact("contrast.wrong_on", right=len(right), of=len(cases), which=_listed(wrong))
    return fact("contrast.right_on", of=len(cases), which=_listed(right))


# features that reveal most about the code come first; those in _ALWAYS are telling however few cases there are
_ALWAYS = ("given", "none", "more_than_one", "often", "called")
_OFTEN = (*_ALWAYS, "axes", "false", "true")


def _rank(feature: Fact) -> int:
    kind = feature.key.split(".")[1]
    return _OFTEN.index(kind) if kind in _OFTEN else len(_OFTEN)


def _listed(records: Sequence[CaseRecord]) -> Fact:
    names = tuple(record.name for record in records[:3])
    return fact("cases.more", names=names, count=len(records) - 3) if len(records) > 3 else fact("cases", names=names)


def _features(record: CaseRecord) -> dict[Fact, None]:
    """Return the facts about the inputs of a case."""
    found: dict[Fact, None] = {}
    script = encoded_script(record.probe.inputs)
    if script is not None:
        return _of_script(script)
    arrays: dict[str, Array] = {}
    for name, node in record.probe.inputs.items().items():
        if isinstance(node, ArrayNode):
            array = arrays[name] = node.content
            found[fact("feature.axis" if array.ndim == 1 else "feature.axes", name=name, number=array.ndim)] = None
            found |= dict.fromkeys(
                fact("feature.length_one", name=name, axis=axis) for axis in range(-array.ndim, 0) if array.shape[axis] == 1
            )
            found |= dict.fromkeys(
                fact("feature.longer", name=name, axis=axis) for axis in range(-array.ndim, 0) if array.shape[axis] > 1
            )
            found |= dict.fromkeys(fact("feature.empty", name=name) for _ in range(array.size == 0))
            found[fact("feature.dtype", name=name, dtype=str(array.dtype))] = None
            found |= _of_numbers(name, array)
        elif node.is_number:
            number = float(node.content)
            found[fact("feature.number", name=name, number=number)] = None
            found |= dict.fromkeys([fact("feature.positive", name=name)] if number > 0 else [])
            found |= dict.fromkeys([fact("feature.more_than_one", name=name)] if number > 1 else [])
        elif isinstance(node, PlainNode):
            found[fact("feature.none" if node.content is None else "feature.given", name=name)] = None
            continue
        found[fact("feature.given", name=name)] = None
    found |= _of_lengths(arrays)
    return found


def _of_numbers(name: str, array: Array) -> dict[Fact, None]:
    if not array.size:
        return {}
    if array.dtype.kind == "b":
        full, empty = fact("feature.true", name=name), fact("feature.false.somewhere", name=name)
        closed = [fact("feature.false.row", name=name)] if array.ndim and not array.any(axis=-1).all() else []
        return dict.fromkeys([full if array.all() else empty, *closed])
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        return {fact("feature.infinite", name=name): None} if array.dtype.kind == "f" else {}
    found: dict[Fact, None] = {}
    if np.abs(array).max() > 50:
        found[fact("feature.large", name=name)] = None
    if (array < 0).any():
        found[fact("feature.negative", name=name)] = None
    if array.dtype.kind in "iu" and array.ndim == 1 and len(array) > 1 and not (np.diff(array) == 1).all():
        found[fact("feature.gaps", name=name)] = None
    if array.dtype.kind in "iu" and array.ndim == 1 and array[0] != 0:
        found[fact("feature.begins_later", name=name)] = None
    return found


def _of_lengths(arrays: dict[str, Array]) -> dict[Fact, None]:
    """Return which arrays have more, fewer or equally many rows, counted along axis -2."""
    rows = {name: array.shape[-2] for name, array in arrays.items() if array.ndim >= 2}
    found: dict[Fact, None] = {}
    names = list(rows)
    for place, one in enumerate(names):
        for two in names[place + 1 :]:
            how = "as_many" if rows[one] == rows[two] else "fewer" if rows[one] < rows[two] else "more"
            found[fact(f"feature.rows.{how}", one=one, two=two)] = None
    return found


def _of_script(script: Script) -> dict[Fact, None]:
    """Return the facts about a sequence of calls."""
    found: dict[Fact, None] = {}
    methods = [call.method for call in script.calls if isinstance(call, Call)]
    for method in dict.fromkeys(methods):
        if method != "__call__":
            found[fact("feature.called", name=method)] = None
        if methods.count(method) > 1:
            found[fact("feature.often.object") if method == "__call__" else fact("feature.often.method", name=method)] = None
    for name, node in script.init.items():
        if node.is_number:
            found[fact("feature.number", name=name, number=float(node.content))] = None
            if float(node.content) > 1:
                found[fact("feature.more_than_one", name=name)] = None
    return found
