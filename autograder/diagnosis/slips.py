"""Slips of Python rather than of the subject: a forgotten `return`, a list where an array is asked, shapes that do not fit.

In: the mismatch of a case, or the exception that an answer ended with. Out: a headline and what to do next, or None.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from autograder.judging.observation import Failure
from autograder.judging.records import CaseResult, Mismatch


@dataclass(frozen=True)
class Slip:
    """What happened, in a sentence, and the next step."""

    headline: str
    advice: str
    plain: bool = False  # it says what was written, and not only that something does not fit


# (exception type, pattern in its message, headline, advice); the first that matches wins. {0}, {1}: the pattern's groups.
_RAISED = (
    ("TypeError", r"missing (\d+ required \S+ arguments?: .*)", "Your function asks for more than it is given: {0}.", "Keep the arguments as the cell had them when you opened it; give new ones a default."),
    ("TypeError", r"got an unexpected keyword argument '(\w+)'", "Your function does not take the argument `{0}`.", "Keep the names of the arguments as the cell had them when you opened it: the check calls them by name."),
    ("TypeError", r"takes (\d+) positional arguments? but (\d+) (?:was|were) given", "Something is called with {1} arguments but takes {0}.", "In a class, is `self` the first parameter?"),
    ("TypeError", r"'(\w+)' object is not callable", "Something that is called is no function but a `{0}`.", "Has a name been given to a value and to a function? Is a `*` missing before a bracket?"),
    ("TypeError", r"'NoneType' object is not (?:subscriptable|iterable)", "Something is None where a value is needed.", "Is it an argument that may be None, or does a function that you call forget its `return`? Methods such as `list.append` return None."),
    ("TypeError", r"torch\.return_types\.(max|min|sort|topk|median|mode|cummax|cummin|kthvalue)", "With an axis, PyTorch's `{0}` returns two things: the values and their places.", "Take the values alone: `.values`, or `[0]`."),
    ("TypeError", r"bitwise_xor|for \^: 'float'", "`^` is no power in Python.", "Write `**`: `x ** 2`."),
    ("NotImplementedError", r"bitwise_xor", "`^` is no power in Python.", "Write `**`: `x ** 2`."),
    ("TypeError", r"only (?:0-dimensional|length-1|size-1) arrays can be converted", "An array stands where a plain number is asked for.", "A function of `math` takes one number; of an array, `np.exp` and its like (in PyTorch `torch.exp`)."),
    ("ValueError", r"only one element tensors can be converted", "A tensor stands where a plain number is asked for.", "A function of `math` takes one number; of a tensor, `torch.exp` and its like."),
    ("RuntimeError", r"Tensor with \d+ elements cannot be converted to Scalar", "A tensor stands where a plain number is asked for.", "A function of `math` takes one number; of a tensor, `torch.exp` and its like."),
    ("TypeError", r"cannot unpack non-iterable (\w+)", "One value is unpacked as if it were several (a `{0}`).", "How many results does the function return that you call?"),
    ("ValueError", r"(?:not enough values|too many values) to unpack \(expected (\d+)", "A result is unpacked into {0} names, and has another number of parts.", "A leading axis more than you expect? Name the axes from the end: `*batch, n, d = x.shape`."),
    ("UnboundLocalError", r"variable '(\w+)'", "`{0}` is read before anything has been stored in it.", "Set it before the loop or the `if`."),
    ("NotImplementedError", r"", "Something that your function calls is not written yet.", "Solve the exercise that it calls first."),
    ("NameError", r"name '(np|numpy)' is not defined", "The name `{0}` means nothing here.", "Has the cell with the imports been run? A lesson in PyTorch has no `np`: say `math.sqrt` of a number, `torch.…` of a tensor."),
    ("NameError", r"name '(\w+)' is not defined", "The name `{0}` means nothing here.", "A slip of the pen, or a cell above that has not been run?"),
    ("AttributeError", r"module '(\w+)' has no attribute '(\w+)'", "`{0}` has no function `{1}`.", "NumPy and PyTorch name some things differently (`np.concatenate`, `torch.cat`)."),
    ("AttributeError", r"'NoneType' object has no attribute '(\w+)'", "Something is None where a value with `{0}` is needed.", "Is it an argument that may be None, or does a function that you call forget its `return`?"),
    ("AttributeError", r"'(?:numpy\.)?ndarray' object has no attribute '(\w+)'", "A NumPy array has no `{0}`.", "Is it a tensor's method? The array's own may have another name (`x.astype`, `x.copy`)."),
    ("AttributeError", r"'Tensor' object has no attribute '(\w+)'", "A tensor has no `{0}`.", "Is it an array's method? The tensor's own may have another name (`x.to`, `x.clone`)."),
    ("AttributeError", r"cannot assign module before Module\.__init__\(\) call", "The class does not call `super().__init__()`.", "It must be the first line of `__init__`."),
    ("AttributeError", r"'(\w+)' object has no attribute '(\w+)'", "A `{0}` has no `{1}`.", "Is it set in `__init__`, under this very name?"),
    ("ValueError", r"truth value of an array", "An array stands where Python wants one True or False.", "In an `if`, say `.any()` or `.all()`; to choose entry by entry use `np.where`; write `&` and `|` for `and` and `or`."),
    ("RuntimeError", r"Boolean value of Tensor", "A tensor stands where Python wants one True or False.", "In an `if`, say `.any()` or `.all()`; to choose entry by entry use `torch.where`; write `&` and `|` for `and` and `or`."),
    ("TypeError", r"^(\w+)\(\): argument 'input' \(position 1\) must be Tensor, not (int|float)", "`torch.{0}` is called with a plain number, and takes a tensor.", "A size, such as `x.shape[-1]`, is a plain number: `math.sqrt` takes its root, or `** 0.5`."),
    ("RuntimeError", r"1D tensors expected, but got (\d+)D and (\d+)D tensors", "`dot` takes two vectors; here it is given tensors of {0} and {1} axes.", "The product of matrices is `@`, with any number of leading axes."),
    ("RuntimeError", r"mat1 and mat2 shapes cannot be multiplied \((\S+) and (\S+)\)", "Two matrices do not fit: {0} times {1}.", "The inner lengths must agree. Print both shapes: is one of the two to be transposed, or has one an axis too many (a `sum`, or an `.all(axis=…)`, forgotten before)?"),
    ("RuntimeError", r"Expected size for first two dimensions of batch2 tensor", "Two batches of matrices do not fit.", "The inner lengths must agree, and the axes in front too. Print both shapes: is one of the two to be transposed (`.mT`), or was one cut or reshaped along another axis than you meant?"),
    ("ValueError", r"matmul: .*mismatch in its core dimension", "Two matrices do not fit in `@`.", "The inner lengths must agree. Print both shapes: is one of the two to be transposed, or has one an axis too many (a `sum`, or an `.all(axis=…)`, forgotten before)?"),
    ("ValueError", r"shapes (\(.*?\)) and (\(.*?\)) not aligned", "Two arrays do not fit: {0} times {1}.", "The inner lengths must agree. Print both shapes: is one of the two to be transposed, or has one an axis too many (a `sum`, or an `.all(axis=…)`, forgotten before)?"),
    ("ValueError", r"operands could not be broadcast together with shapes (\(.*?\)) (\(.*?\))", "Two arrays do not fit together: {0} and {1}.", "Written one above the other from the right, each pair of lengths must be equal or 1. Print both shapes: is an axis of length 1 missing, or is one of the lengths not what you expect?"),
    ("RuntimeError", r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)", "Two tensors do not fit together: {0} against {1} along axis {2}.", "Written one above the other from the right, each pair of lengths must be equal or 1. Print both shapes: is an axis of length 1 missing, or is one of the lengths not what you expect?"),
    ("RuntimeError", r"The expanded size of the tensor", "A tensor cannot be expanded to the shape asked for.", "Only axes of length 1 can be expanded. Where does one have to be put in?"),
    ("RuntimeError", r"t\(\) expects a tensor with <= (\d+) dimensions, but self is (\d+)D", "`.t()` is for plain matrices: it expects a tensor with at most {0} axes, and here is one with {1}.", "Name the axes from the end: `x.mT`, or `x.transpose(-2, -1)`."),
    ("RuntimeError", r"outer: Expected 1-D argument", "`torch.outer` takes two vectors, and here is something with more axes.", "Broadcasting takes any number of leading axes: `x[..., None] * y`."),
    ("RuntimeError", r"unflatten: Provided sizes (\[.*?\]) don't multiply up to the size of dim \S+ \((\d+)\)", "{1} numbers do not fill the shape {0}.", "Multiply the shape out. Which axis is counted twice, or forgotten?"),
    ("RuntimeError", r"batch(1|2) must be a 3D tensor", "`torch.bmm` is for exactly three axes.", "`@` (or `torch.matmul`) takes any number of leading axes."),
    ("RuntimeError", r"view size is not compatible", "`view` cannot do this after a transpose.", "`reshape` can; or say `.contiguous()` first."),
    ("RuntimeError", r"shape '(\[.*?\])' is invalid for input of size (\d+)", "{1} numbers do not fill the shape {0}.", "Multiply the shape out. Which axis is counted twice, or forgotten?"),
    ("ValueError", r"cannot reshape array of size (\d+) into shape (\(.*?\))", "{0} numbers do not fill the shape {1}.", "Multiply the shape out. Which axis is counted twice, or forgotten?"),
    ("IndexError", r"Dimension out of range|axis (\d+) is out of bounds|too many indices", "An axis is named that is not there.", "The input, or what you hand to another function, may have fewer or more axes than in your trial: print its shape. Count axes from the end: -1, -2."),
    ("AxisError", r"", "An axis is named that is not there.", "The input, or what you hand to another function, may have fewer or more axes than in your trial: print its shape. Count axes from the end: -1, -2."),
    ("IndexError", r"invalid index to scalar|invalid index of a 0-dim", "A plain number is indexed as if it were an array.", "Is a number handed over, such as `x[j]`, where an array is wanted, such as `x[j:j+1]`?"),
    ("IndexError", r"boolean index did not match|shape of the mask .* does not match", "A table of True and False picks from an array of another shape.", "For rows it takes one True or False for each row: is an `.all(axis=…)` missing, or is one too many?"),
    ("IndexError", r"index (-?\d+) is out of bounds for (?:axis|dimension) \d+ with size (\d+)", "The index {0} points past the end of an axis of length {1}.", "What do the numbers count that are used as indices there? In a loop, look at its first and its last turn."),
    ("IndexError", r"used as indices must be", "A number that need not be whole is used as an index.", "An index counts places, 0, 1, 2, …: `x[j]` is what stands at place `j`, and `j` is the place."),
    ("IndexError", r"shape mismatch: indexing arrays", "The arrays that are used as indices do not fit each other.", "Index arrays are read in pairs, the first row with the first column: how long is each?"),
    ("IndexError", r"", "An index points past the end.", "How long is that axis in the smallest case? Look at the first and the last turn of the loop."),
    ("KeyError", r"(.*)", "The key {0} is not there.", "Print the keys: is it spelled otherwise, or may it be missing? `.get(key, instead)` takes a value for that case."),
    ("ZeroDivisionError", r"", "Something is divided by zero.", "Which input makes the denominator 0, and what should come out then?"),
    ("RecursionError", r"", "Your function calls itself without end.", "Is a function of the same name meant? Does each call come nearer to the end?"),
    ("RuntimeError", r"expected (?:m1 and m2|scalar type|both).*(?:dtype|same)|expected scalar type (\w+) but found (\w+)", "Two tensors of different number types meet.", "Make new tensors in the type of an input: `torch.zeros(..., dtype=x.dtype)`, or `x.new_zeros(...)`."),
    ("RuntimeError", r"result type (\w+) can't be cast to the desired output type (\w+)", "A {0} is to be stored in a tensor of {1}.", "An array made from whole numbers, or from True and False, holds nothing else: make it floating."),
    ("UFuncTypeError", r"", "A result does not fit the type of the array it is stored in.", "An array made from whole numbers, or from True and False, holds nothing else: make it floating."),
    ("RuntimeError", r"a leaf Variable that requires grad is being used in an in-place operation|a view of a leaf Variable", "An input that needs a gradient is changed in place.", "Work on a copy (`x.clone()`), or build a new tensor."),
    ("RuntimeError", r"modified by an inplace operation", "A tensor is changed in place that the backward pass still needs.", "Build a new tensor instead of writing into this one."),
    ("RuntimeError", r"Can't call numpy\(\) on Tensor that requires grad", "A tensor that needs a gradient goes through NumPy.", "Stay in PyTorch: NumPy knows nothing of gradients."),
    ("RuntimeError", r"Expected all tensors to be on the same device|on device (?:meta|cpu|cuda)", "Two tensors live on different devices.", "Make new tensors on the device of an input: `torch.zeros(..., device=x.device)`."),
    ("RuntimeError", r"einsum\(\).*|.*subscript.*", "The letters of `einsum` do not fit the axes.", "Each operand needs a letter for each axis (or `...`), and one letter has one length."),
    ("ValueError", r"einstein sum|operand .*einsum|subscripts", "The letters of `einsum` do not fit the axes.", "Each operand needs a letter for each axis (or `...`), and one letter has one length."),
    ("MemoryError", r"", "More memory is asked for than there is.", "Look for an array with one axis too many."),
)  # fmt: skip


def raised(failure: Failure) -> Slip | None:
    """What an exception says about the code, in a learner's words."""
    if failure.type == "TypeError" and failure.line is not None and "missing" in failure.message:
        match = re.search(r"missing (\d+ required \S+ arguments?: .*)", failure.message)
        if match is not None:
            return Slip(
                f"A function is called without all that it needs: {match[1]}.",
                "Look at the call in that line: what does the function take, and in which order?",
                True,
            )
    if (rows := _rows_paired(failure) or _turned(failure)) is not None:
        return rows
    for kind, pattern, headline, advice in _RAISED:
        if kind == failure.type and (match := re.search(pattern, failure.message)):
            groups = [(group or "").strip().rstrip(".") for group in match.groups()]
            return Slip(headline.format(*groups), advice, _is_plain(kind, pattern))
    return None


_NUMBER = r"(?:\d[\d.]*|(?:math|np)\.sqrt\(\w+\.shape\[-?\d\]\)|\w+\.shape\[-?\d\] \*\* 0?\.5)"
_ENTRIES = re.compile(rf"(?:return|\w+ =) \((\w+) \* (\w+)\)\.sum\([\w= -]*\)(?: / {_NUMBER})?")


def _rows_paired(failure: Failure) -> Slip | None:
    """`return (Q * K).sum(-1)`, divided by a number at most: what does not fit there is the product of entries."""
    unfit = re.search(r"must match the size of tensor b|could not be broadcast together", failure.message)
    found = _ENTRIES.fullmatch(failure.line[1]) if unfit and failure.line else None
    if found is None:
        return None
    return Slip(
        f"`{found[1]} * {found[2]}` pairs each entry with the entry in the same place, the first row with the first row; "
        "their shapes do not fit.",
        "For every row of the one with every row of the other use `@`, with the second one transposed.",
        True,
    )


def _turned(failure: Failure) -> Slip | None:
    """Two shapes that do not fit, of which one is the other turned round: no axis is missing there."""
    shapes = re.search(r"could not be broadcast together with shapes \((\d+),(\d+)\) \((\d+),(\d+)\)", failure.message)
    if shapes is None or (shapes[1], shapes[2]) != (shapes[4], shapes[3]):
        return None
    return Slip(
        f"Two arrays do not fit together: ({shapes[1]}, {shapes[2]}) and ({shapes[3]}, {shapes[4]}).",
        "The one has the shape of the other's transpose. Which of the two should have rows where it has columns?",
    )


_PLAIN = ("missing (", "unexpected keyword", "is not defined", "variable '", "module '", "ndarray' object", "'Tensor' object",
          "cannot assign module", "truth value", "Boolean value", "view size", "a leaf Variable", "modified by an inplace",
          "Can't call numpy", "must be Tensor, not", "1D tensors expected", "bitwise_xor", "torch.return_types", "arrays can be converted", "tensors can be converted", "cannot be converted to Scalar", "invalid index to scalar", "used as indices must be", "boolean index did not", "expects a tensor with", "must be a 3D tensor", "outer: Expected")  # fmt: skip


def _is_plain(kind: str, pattern: str) -> bool:
    return kind in ("NameError", "UnboundLocalError", "RecursionError") or any(
        part in pattern.replace("\\", "") for part in _PLAIN
    )


def returned(mismatch: Mismatch) -> Slip | None:
    """What a wrong kind of result says about the code: `mismatch.message` is "expected a X but got Y"."""
    match = re.search(r"expected a (.+?) but got (.+)$", mismatch.message)
    if match is None:
        return None
    want, got = match.groups()
    where = f" in output `{mismatch.path}`" if mismatch.path else ""
    if got == "None":
        return Slip(
            f"Your function returns nothing{where}.", "The `return` is missing, or one way through the function has none."
        )
    if want.startswith("tuple") and got in ("torch.Tensor", "numpy array"):
        return Slip(
            f"One result is returned where a {want} is expected.",
            "Return all of them, in the order of the docstring: `return first, second`.",
        )
    if got.startswith("tuple") and want in ("torch.Tensor", "numpy array"):
        return Slip(
            f"Several results are returned ({got}) where one is expected.", "A comma at the end of the line makes a tuple too."
        )
    if want == "numpy array" and got == "torch.Tensor":
        return Slip(
            f"A tensor is returned{where} where a NumPy array is expected.", "This lesson is in NumPy: use the `np.` functions."
        )
    if want == "torch.Tensor" and got == "numpy array":
        return Slip(
            f"A NumPy array is returned{where} where a tensor is expected.",
            "Stay in PyTorch from input to output, or no gradient can pass.",
        )
    if got.startswith("list") and want in ("torch.Tensor", "numpy array"):
        maker = "torch.stack" if want == "torch.Tensor" else "np.stack"
        return Slip(f"A list is returned{where} where a {want} is expected.", f"Join the pieces: `{maker}(pieces)`.")
    if got in ("float", "int") and want in ("torch.Tensor", "numpy array"):
        return Slip(
            f"A single number is returned{where} where a {want} is expected.",
            "Has a sum or a mean run over all axes instead of one?",
        )
    if want in ("float", "int") and got in ("torch.Tensor", "numpy array"):
        return Slip(
            f"A {got} is returned{where} where a single number is expected.",
            "One sum or index more; `.item()` makes a plain number of it.",
        )
    if got in ("function", "builtin_function_or_method", "method"):
        return Slip("A function is returned, not its result.", "The brackets of the call are missing.")
    return Slip(f"Your function returns a {got}{where}, not a {want}.", "Look at what the docstring says is returned.")


def in_any(cases: Iterable[CaseResult]) -> Slip | None:
    """What can be said of the first case that raised an error or returned a wrong kind of result."""
    for case in cases:
        if case.mismatch is not None and case.mismatch.check in ("runs", "kind"):
            failure = case.observation.failure
            slip = raised(failure) if failure is not None else returned(case.mismatch)
            if slip is not None:
                return replace(slip, headline=f"On “{case.name}”: {slip.headline}")
    return None
