"""Find the inputs on which an answer is wrong: what all failing cases have in common, and no passing case has.

In: the cases and their verdicts. Out: a fact, or None.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from autograder.diagnosis.finding import Fact, fact
from autograder.judging.records import CaseRecord, CaseResult
from autograder.judging.script import Call, Script, encoded_script
from autograder.judging.values import Array, ArrayNode, EncodedValue, PlainNode


def contrast(cases: Sequence[CaseRecord], results: Sequence[CaseResult]) -> Fact | None:
    """Return what all failing cases and no passing cases have in common, or else which cases fail. None if all or none fail."""
    pairs = list(zip(cases, results, strict=True))
    wrong = [record for record, result in pairs if not result.passed]
    right = [record for record, result in pairs if result.passed]
    if not wrong or not right:
        return None
    wrong_features, right_features = [_features(record) for record in wrong], [_features(record) for record in right]
    for feature in sorted(wrong_features[0], key=_rank):
        rank, enough = _rank(feature), min(len(right), len(wrong)) > 2  # one or two cases share many features by chance
        telling = enough or rank < len(_ALWAYS) or (len(right) > 1 and rank < len(_OFTEN))
        if (
            telling
            and all(feature in features for features in wrong_features)
            and not any(feature in features for features in right_features)
        ):
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
    """Return the facts about the inputs of a case, in order."""
    script = encoded_script(record.probe.inputs)
    return dict.fromkeys(_of_script(script) if script is not None else _of_inputs(record.probe.inputs.items()))


def _of_inputs(inputs: dict[str, EncodedValue]) -> Iterator[Fact]:
    for name, node in inputs.items():
        if isinstance(node, ArrayNode):
            yield from _of_array(name, node.content)
        elif node.is_number:
            number = float(node.content)
            yield fact("feature.number", name=name, number=number)
            if number > 0:
                yield fact("feature.positive", name=name)
            if number > 1:
                yield fact("feature.more_than_one", name=name)
        elif isinstance(node, PlainNode) and node.content is None:
            yield fact("feature.none", name=name)
            continue
        yield fact("feature.given", name=name)
    rows = {
        name: node.content.shape[-2] for name, node in inputs.items() if isinstance(node, ArrayNode) and node.content.ndim >= 2
    }
    for first, second in itertools.combinations(rows, 2):
        how = "as_many" if rows[first] == rows[second] else "fewer" if rows[first] < rows[second] else "more"
        yield fact(f"feature.rows.{how}", one=first, two=second)


def _of_array(name: str, array: Array) -> Iterator[Fact]:
    yield fact("feature.axis" if array.ndim == 1 else "feature.axes", name=name, number=array.ndim)
    axes = range(-array.ndim, 0)
    yield from (fact("feature.length_one", name=name, axis=axis) for axis in axes if array.shape[axis] == 1)
    yield from (fact("feature.longer", name=name, axis=axis) for axis in axes if array.shape[axis] > 1)
    if not array.size:
        yield fact("feature.empty", name=name)
    yield fact("feature.dtype", name=name, dtype=str(array.dtype))
    if array.size:
        yield from (fact(f"feature.{which}", name=name) for which in _of_numbers(array))


def _of_numbers(array: Array) -> Iterator[str]:
    """Yield the features of the entries of a non-empty array, as the ends of their keys."""
    if array.dtype.kind == "b":
        yield "true" if array.all() else "false.somewhere"
        if array.ndim and not array.any(axis=-1).all():
            yield "false.row"
    elif array.dtype.kind in "iuf" and np.isfinite(array).all():
        if np.abs(array).max() > 50:
            yield "large"
        if (array < 0).any():
            yield "negative"
        if array.dtype.kind in "iu" and array.ndim == 1:
            if not (np.diff(array) == 1).all():
                yield "gaps"
            if array[0] != 0:
                yield "begins_later"
    elif array.dtype.kind == "f":
        yield "infinite"


def _of_script(script: Script) -> Iterator[Fact]:
    methods = [call.method for call in script.calls if isinstance(call, Call)]
    for method in dict.fromkeys(methods):
        if method != "__call__":
            yield fact("feature.called", name=method)
        if methods.count(method) > 1:
            yield fact("feature.often.object") if method == "__call__" else fact("feature.often.method", name=method)
    for name, node in script.init.items():
        if node.is_number:
            yield fact("feature.number", name=name, number=float(node.content))
            if float(node.content) > 1:
                yield fact("feature.more_than_one", name=name)
