"""On which inputs an answer is wrong: what all failing cases have in common, and none that passes.

In: the cases and their verdicts. Out: a sentence, or "".
"""

from collections.abc import Sequence

import numpy as np

from autograder.judging.records import CaseRecord, CaseResult
from autograder.judging.values import Array, ArrayNode, EncodedValue, PlainNode


def contrast(cases: Sequence[CaseRecord], results: Sequence[CaseResult]) -> str:
    """What all failing cases have in common, and none that passes; "" where nothing simple tells them apart."""
    both = list(zip(cases, results, strict=True))
    wrong = [record for record, result in both if not result.passed]
    right = [record for record, result in both if result.passed]
    if not wrong or not right:
        return ""
    has, lacks = [_features(record) for record in wrong], [_features(record) for record in right]
    for feature in sorted(has[0], key=_rank):
        rank, enough = _rank(feature), min(len(right), len(wrong)) > 2  # a case or two have, and lack, many a thing by chance
        telling = enough or rank < len(_ALWAYS) or (len(right) > 1 and rank < len(_OFTEN))
        if telling and all(feature in each for each in has) and not any(feature in each for each in lacks):
            return f"Of the inputs tried it is wrong on all in which {feature}, and right on all others."
    if len(right) >= len(wrong):
        return f"It is right on {len(right)} of {len(cases)} inputs, and wrong on {_listed(wrong)}."
    return f"Of {len(cases)} inputs it is right only on {_listed(right)}."


_ALWAYS = ("is given", "is None", "more than 1", "more than once", "is called")  # telling, however few the cases are
_OFTEN = (*_ALWAYS, "axes", " False", " True")


def _rank(feature: str) -> int:
    """How much a feature says about the code: the first of them are looked for first."""
    return next((rank for rank, words in enumerate(_OFTEN) if words in feature), len(_OFTEN))


def _listed(records: Sequence[CaseRecord]) -> str:
    names = [f"“{record.name}”" for record in records[:3]]
    return " and ".join(names) + (f" and {len(records) - 3} more" if len(records) > 3 else "")


def _features(record: CaseRecord) -> dict[str, None]:
    """What can be said of the inputs of a case, in clauses."""
    found: dict[str, None] = {}
    given = record.probe.inputs.items()
    if set(given) == {"init", "weights", "calls"}:
        return _of_script(given)
    arrays: dict[str, Array] = {}
    for name, node in given.items():
        if isinstance(node, ArrayNode):
            array = arrays[name] = node.content
            found[f"`{name}` has {counted(array.ndim, 'axis', 'axes')}"] = None
            found |= dict.fromkeys(
                f"`{name}` has length 1 along axis {axis}" for axis in range(-array.ndim, 0) if array.shape[axis] == 1
            )
            found |= dict.fromkeys(
                f"`{name}` has more than one entry along axis {axis}" for axis in range(-array.ndim, 0) if array.shape[axis] > 1
            )
            found |= dict.fromkeys(f"`{name}` is empty" for _ in range(array.size == 0))
            found[f"the entries of `{name}` are {array.dtype}"] = None
            found |= _of_numbers(name, array)
        elif node.is_number:
            number = float(node.content)
            found[f"`{name}` is {number:g}"] = None
            found |= dict.fromkeys(f"`{name}` is more than {least}" for least in (0, 1) if number > least)
        elif isinstance(node, PlainNode):
            found[f"`{name}` is {'None' if node.content is None else 'given'}"] = None
            continue
        found[f"`{name}` is given"] = None
    found |= _of_lengths(arrays)
    return found


def counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _of_numbers(name: str, array: Array) -> dict[str, None]:
    if not array.size:
        return {}
    if array.dtype.kind == "b":
        full, empty = f"`{name}` is True everywhere", f"`{name}` is False somewhere"
        closed = [f"a row of `{name}` is False throughout"] if array.ndim and not array.any(axis=-1).all() else []
        return dict.fromkeys([full if array.all() else empty, *closed])
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        return {f"`{name}` has entries that are not finite": None} if array.dtype.kind == "f" else {}
    found: dict[str, None] = {}
    if np.abs(array).max() > 50:
        found[f"`{name}` has large entries"] = None
    if (array < 0).any():
        found[f"`{name}` has negative entries"] = None
    if array.dtype.kind in "iu" and array.ndim == 1 and len(array) > 1 and not (np.diff(array) == 1).all():
        found[f"the entries of `{name}` do not count up by 1"] = None
    if array.dtype.kind in "iu" and array.ndim == 1 and array[0] != 0:
        found[f"`{name}` does not begin with 0"] = None
    return found


def _of_lengths(arrays: dict[str, Array]) -> dict[str, None]:
    """Which arrays are as long as others, in axis -2: queries and keys, say."""
    rows = {name: array.shape[-2] for name, array in arrays.items() if array.ndim >= 2}
    found: dict[str, None] = {}
    names = list(rows)
    for place, one in enumerate(names):
        for two in names[place + 1 :]:
            same = (
                "as many rows as" if rows[one] == rows[two] else "fewer rows than" if rows[one] < rows[two] else "more rows than"
            )
            found[f"`{one}` has {same} `{two}`"] = None
    return found


def _of_script(given: dict[str, EncodedValue]) -> dict[str, None]:
    """What can be said of a sequence of calls."""
    found: dict[str, None] = {}
    calls = [call.entries or () for call in given["calls"].entries or ()]
    methods = [str(call[0].content) for call in calls if not call[2].content and call[0].content != "__kept__"]
    for method in dict.fromkeys(methods):
        if method != "__call__":
            found[f"`{method}` is called"] = None
        if methods.count(method) > 1:
            found[f"`{method}` is called more than once" if method != "__call__" else "the object is called more than once"] = (
                None
            )
    for name, node in given["init"].items().items():
        if node.is_number:
            found[f"`{name}` is {float(node.content):g}"] = None
            if float(node.content) > 1:
                found[f"`{name}` is more than 1"] = None
    return found
