"""Recognise slips in Python rather than in the subject: a forgotten `return`, a list instead of an array, shapes that don't fit.

In: the mismatch of a case, or the exception that an answer ended with. Out: what happened, or None.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from autograder.diagnosis.finding import Fact, fact
from autograder.judging.observation import Failure
from autograder.judging.records import CaseResult, Mismatch


@dataclass(frozen=True)
class Slip:
    """What happened. `plain` says whether that already reveals what was written."""

    what: Fact
    plain: bool = False


# (exception type, pattern in its message, key of the fact, whether that reveals what was written); the first
# match wins, and the groups of the pattern fill the gaps {a}, {b}, {c}
_RAISED = (
    ("TypeError", r"missing (\d+ required \S+ arguments?: .*)", "raised.unasked_argument", True),
    ("TypeError", r"got an unexpected keyword argument '(\w+)'", "raised.unexpected_argument", True),
    ("TypeError", r"takes (\d+) positional arguments? but (\d+) (?:was|were) given", "raised.self", False),
    ("TypeError", r"unsupported operand type\(s\) for .*'method'", "raised.method_for_value", True),
    ("TypeError", r"not supported between instances of .*'method'", "raised.method_for_value", True),
    ("TypeError", r"'(\w+)' object is not callable", "raised.not_callable", False),
    ("TypeError", r"'NoneType' object is not (?:subscriptable|iterable)", "raised.none_value", False),
    ("TypeError", r"torch\.return_types\.(max|min|sort|topk|median|mode|cummax|cummin|kthvalue)", "raised.two_results", True),
    ("TypeError", r"bitwise_xor|for \^: 'float'", "raised.power", True),
    ("NotImplementedError", r"bitwise_xor", "raised.power", True),
    ("TypeError", r"only (?:0-dimensional|length-1|size-1) arrays can be converted", "raised.number_needed.array", True),
    ("ValueError", r"only one element tensors can be converted", "raised.number_needed.tensor", True),
    ("RuntimeError", r"Tensor with \d+ elements cannot be converted to Scalar", "raised.number_needed.tensor", True),
    ("TypeError", r"cannot unpack non-iterable (\w+)", "raised.unpack_one", False),
    ("ValueError", r"(?:not enough values|too many values) to unpack \(expected (\d+)", "raised.unpack", False),
    ("UnboundLocalError", r"variable '(\w+)'", "raised.unset", True),
    ("NotImplementedError", r"", "raised.unwritten", False),
    ("NameError", r"name '(np|numpy)' is not defined", "raised.name_of_numpy", True),
    ("NameError", r"name '(\w+)' is not defined", "raised.name", True),
    ("AttributeError", r"module '(\w+)' has no attribute '(\w+)'", "raised.module_attribute", True),
    ("AttributeError", r"'NoneType' object has no attribute '(\w+)'", "raised.none_attribute", False),
    ("AttributeError", r"'(?:numpy\.)?ndarray' object has no attribute '(\w+)'", "raised.array_attribute", True),
    ("AttributeError", r"'Tensor' object has no attribute '(\w+)'", "raised.tensor_attribute", True),
    ("AttributeError", r"cannot assign module before Module\.__init__\(\) call", "raised.super_init", True),
    ("AttributeError", r"'(\w+)' object has no attribute '(\w+)'", "raised.attribute", False),
    ("ValueError", r"truth value of an array", "raised.truth.array", True),
    ("RuntimeError", r"Boolean value of Tensor", "raised.truth.tensor", True),
    ("TypeError", r"^(\w+)\(\): argument 'input' \(position 1\) must be Tensor, not (int|float)", "raised.number_for_tensor", True),
    ("RuntimeError", r"1D tensors expected, but got (\d+)D and (\d+)D tensors", "raised.dot", True),
    ("RuntimeError", r"mat1 and mat2 shapes cannot be multiplied \((\S+) and (\S+)\)", "raised.inner.torch", False),
    ("RuntimeError", r"Expected size for first two dimensions of batch2 tensor", "raised.inner.batch", False),
    ("ValueError", r"matmul: .*mismatch in its core dimension", "raised.inner", False),
    ("ValueError", r"shapes (\(.*?\)) and (\(.*?\)) not aligned", "raised.inner.numpy", False),
    ("ValueError", r"operands could not be broadcast together with shapes (\(.*?\)) (\(.*?\))", "raised.pair_shapes.numpy", False),
    ("RuntimeError", r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)", "raised.pair_shapes.torch", False),
    ("RuntimeError", r"The expanded size of the tensor", "raised.expand", False),
    ("RuntimeError", r"t\(\) expects a tensor with <= (\d+) dimensions, but self is (\d+)D", "raised.t", True),
    ("RuntimeError", r"outer: Expected 1-D argument", "raised.outer", True),
    ("RuntimeError", r"unflatten: Provided sizes (\[.*?\]) don't multiply up to the size of dim \S+ \((\d+)\)", "raised.fill.unflatten", False),
    ("RuntimeError", r"batch(1|2) must be a 3D tensor", "raised.bmm", True),
    ("RuntimeError", r"view size is not compatible", "raised.view", True),
    ("RuntimeError", r"shape '(\[.*?\])' is invalid for input of size (\d+)", "raised.fill", False),
    ("ValueError", r"cannot reshape array of size (\d+) into shape (\(.*?\))", "raised.fill.numpy", False),
    ("IndexError", r"Dimension out of range|axis (\d+) is out of bounds|too many indices", "raised.axis", False),
    ("AxisError", r"", "raised.axis", False),
    ("IndexError", r"invalid index to scalar|invalid index of a 0-dim", "raised.scalar_index", True),
    ("IndexError", r"boolean index did not match|shape of the mask .* does not match", "raised.boolean_index", True),
    ("IndexError", r"index (-?\d+) is out of bounds for (?:axis|dimension) \d+ with size (\d+)", "raised.index", False),
    ("IndexError", r"used as indices must be", "raised.index_kind", True),
    ("IndexError", r"(\w+)\(\): Expected reduction dim \d+ to have non-zero size", "raised.nothing_to_reduce", False),
    ("RuntimeError", r"(\w+)\(\): Expected reduction dim to be specified for input.numel\(\) == 0", "raised.nothing_to_reduce", False),
    ("IndexError", r"shape mismatch: indexing arrays", "raised.index_arrays", False),
    ("IndexError", r"", "raised.index_end", False),
    ("KeyError", r"(.*)", "raised.key", False),
    ("ZeroDivisionError", r"", "raised.zero_division", False),
    ("RecursionError", r"", "raised.recursion", True),
    ("RuntimeError", r"expected (?:m1 and m2|scalar type|both).*(?:dtype|same)|expected scalar type (\w+) but found (\w+)", "raised.dtypes", False),
    ("RuntimeError", r"result type (\w+) can't be cast to the desired output type (\w+)", "raised.store", False),
    ("UFuncTypeError", r"", "raised.store.ufunc", False),
    ("RuntimeError", r"a leaf Variable that requires grad is being used in an in-place operation|a view of a leaf Variable", "raised.leaf", True),
    ("RuntimeError", r"modified by an inplace operation", "raised.inplace", True),
    ("RuntimeError", r"Can't call numpy\(\) on Tensor that requires grad", "raised.numpy_grad", True),
    ("RuntimeError", r"Expected all tensors to be on the same device|on device (?:meta|cpu|cuda)", "raised.device", False),
    ("RuntimeError", r"einsum\(\).*|.*subscript.*", "raised.einsum", False),
    ("ValueError", r"einstein sum|operand .*einsum|subscripts", "raised.einsum", False),
    ("MemoryError", r"", "raised.memory", False),
)  # fmt: skip


def raised(failure: Failure) -> Slip | None:
    """Return what an exception says about the code, in a learner's words, or None."""
    if failure.type == "TypeError" and failure.line is not None:
        if (match := re.search(r"missing (\d+ required \S+ arguments?: .*)", failure.message)) is not None:
            return Slip(fact("raised.missing_argument", what=match[1]), True)
        match = re.search(r"\b(\w+)\(\) got an unexpected keyword argument '(\w+)'", failure.message)
        if match is not None and f"{match[1]}(" in failure.line[1]:  # else the answer itself was called
            return Slip(fact("raised.other_argument", called=match[1], name=match[2]), True)
    if (rows := _rows_paired(failure) or _turned(failure)) is not None:
        return rows
    for kind, pattern, key, plain in _RAISED:
        if kind == failure.type and (match := re.search(pattern, failure.message)):
            groups = [(group or "").strip().rstrip(".") for group in match.groups()]
            if key in ("raised.inner.torch", "raised.inner.numpy") and not _fits_transposed(*groups):
                key += ".otherwise"
            return Slip(fact(key, **dict(zip("abc", groups, strict=False))), plain)
    # the grader's sandbox sends no messages, and `.numpy()` hardly raises any other RuntimeError
    if failure.type == "RuntimeError" and not failure.message and failure.line and ".numpy()" in failure.line[1]:
        return Slip(fact("raised.numpy_grad"), True)
    return None


def _fits_transposed(first: str, second: str) -> bool:
    """Return whether two matrices can be multiplied once one of them is transposed. A vector cannot be transposed.

    >>> _fits_transposed("2x3", "4x3"), _fits_transposed("(3,)", "(2, 3)"), _fits_transposed("(3,)", "(2,)")
    (True, True, False)
    """
    left, right = ([int(length) for length in re.findall(r"\d+", shape)] for shape in (first, second))
    return (left[-1:] == right[-1:] and len(right) > 1) or (left[0:1] == right[-2:][:1] and len(left) > 1)


_NUMBER = r"(?:\d[\d.]*|(?:math|np)\.sqrt\(\w+\.shape\[-?\d\]\)|\w+\.shape\[-?\d\] \*\* 0?\.5)"
_ENTRIES = re.compile(rf"(?:return|\w+ =) \((\w+) \* (\w+)\)\.sum\([\w= -]*\)(?: / {_NUMBER})?")


def _rows_paired(failure: Failure) -> Slip | None:
    """Return the slip in `return (Q * K).sum(-1)`, perhaps divided by a number: entrywise multiplication of unequal shapes."""
    unfit = re.search(r"must match the size of tensor b|could not be broadcast together", failure.message)
    match = _ENTRIES.fullmatch(failure.line[1]) if unfit and failure.line else None
    return Slip(fact("raised.rows_paired", one=match[1], two=match[2]), True) if match else None


def _turned(failure: Failure) -> Slip | None:
    """Return the slip if two shapes don't fit because one is the other reversed."""
    shapes = re.search(r"could not be broadcast together with shapes \((\d+),(\d+)\) \((\d+),(\d+)\)", failure.message)
    if shapes is None or (shapes[1], shapes[2]) != (shapes[4], shapes[3]):
        return None
    return Slip(fact("raised.turned", one=f"({shapes[1]}, {shapes[2]})", two=f"({shapes[3]}, {shapes[4]})"))


_A_TENSOR, _AN_ARRAY = fact("kind.tensor"), fact("kind.array")
_NONE, _NUMBERS = fact("kind.python", name="None"), tuple(fact("kind.python", name=name) for name in ("float", "int"))
_CALLABLE = tuple(fact("kind.python", name=name) for name in ("function", "builtin_function_or_method", "method"))


def returned(mismatch: Mismatch) -> Slip | None:
    """Return what a wrong kind of result says about the code, or None."""
    if mismatch.what.key != "mismatch.kind":
        return None
    want, got = (mismatch.what[name] for name in ("want", "got"))
    assert isinstance(want, Fact)
    assert isinstance(got, Fact)
    where = fact("in_output", path=mismatch.path) if mismatch.path else ""
    arrays = (_A_TENSOR, _AN_ARRAY)
    maker = "torch.stack" if want == _A_TENSOR else "np.stack"
    rows = (
        (got == _NONE, fact("returned.nothing", where=where)),
        (_sequence(want) == "tuple" and got in arrays, fact("returned.one_for_several", want=want)),
        (_sequence(got) == "tuple" and want in arrays, fact("returned.several_for_one", got=got)),
        ((want, got) == (_AN_ARRAY, _A_TENSOR), fact("returned.tensor_for_array", where=where)),
        ((want, got) == (_A_TENSOR, _AN_ARRAY), fact("returned.array_for_tensor", where=where)),
        (_sequence(got) == "list" and want in arrays, fact("returned.list", where=where, want=want, maker=maker)),
        (got in _NUMBERS and want in arrays, fact("returned.number_for_array", where=where, want=want)),
        (want in _NUMBERS and got in arrays, fact("returned.array_for_number", where=where, got=got)),
        (got in _CALLABLE, fact("returned.function")),
        (True, fact("returned.other", where=where, want=want, got=got)),
    )
    return Slip(next(what for holds, what in rows if holds))


def _sequence(kind: Fact) -> object:
    """Return "tuple" or "list" for a kind that is one of them, else ""."""
    return kind["kind"] if kind.key == "kind.sequence" else ""


def in_any(cases: Iterable[CaseResult]) -> Fact | None:
    """Return what can be said about the first case that raised an error or returned a wrong kind of result."""
    for case in cases:
        if case.mismatch is not None and case.mismatch.check in ("runs", "kind"):
            failure = case.observation.failure
            if (slip := raised(failure) if failure is not None else returned(case.mismatch)) is not None:
                return fact("on_case", case=case.name, what=slip.what)
    return None
