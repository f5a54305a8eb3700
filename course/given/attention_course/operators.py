"""Slips that only attention knows: a mask left out, a scale forgotten, a causal mask too many, heads cut in another way.

In: a call in a program's text, or the inputs of a case. Out: the slips, and the sentences that say them. `attn build` makes
programs with these slips, as it does with those of `autograder.mutants`, and a check tries their opposites as repairs.
"""

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from autograder.judging.exercise import Before
from autograder.judging.fact import Fact, fact
from autograder.mutants.call_operators import without_option
from autograder.mutants.course_operators import CallOperator, Operators, StepSlip
from autograder.mutants.source import Slip, quote

SENTENCES = {
    "mask": "left the mask `{mask}` out of `{code}`",
    "no_scale": "left out the scale: the dot products are not divided by the root of their length",
    "no_scale.brief": "left out the scale",
    "scale_by_width": "divided the dot products by their length, not by its root",
    "causal": "let each row of `{code}` see only the columns up to its own, as if later ones were hidden",
    "causal.brief": "let each row of `{code}` see only the columns up to its own",
    "dealt": "dealt the columns of {names:code_and} out like cards, every `{count}`-th to one part, and not in runs",
}
HEADS = ("H", "G")  # what the exercises call the number of query heads and of key-value heads


def _fact(name: str, **values: object) -> Fact:
    return fact(f"{__name__}:{name}", **values)


# ------------------------------------------------------------------------------------------ calls


def without_mask(node: ast.Call) -> Iterator[Slip]:
    """The scores as they were before `masked_fill`."""
    if isinstance(node.func, ast.Attribute) and node.args:
        yield -1, lambda n: n.func.value, _fact("mask", mask=quote(node.args[0]), code=quote(node.func.value))


def other_scale(node: ast.Call) -> Iterator[Slip]:
    """Dot products that are not divided, or divided by d and not by its root, where PyTorch's function divides."""
    if node.args and not any(keyword.arg == "scale" for keyword in node.keywords):
        yield 0, lambda n: _with_scale(n, "1.0"), _fact("no_scale")
        yield 1, lambda n: _with_scale(n, "1 / q.shape[-1]"), _fact("scale_by_width")


def without_sharing(node: ast.Call) -> Iterator[Slip]:
    """Key-value heads that are not shared by groups of query heads."""
    for number, keyword in enumerate(node.keywords):
        if keyword.arg == "enable_gqa":
            yield without_option(node, number)


def causal(node: ast.Call) -> Iterator[Slip]:
    """A softmax of scores of which each query sees the keys up to its own."""
    if node.args:
        yield 3, _causal, _fact("causal", code=quote(node.args[0]))


def _with_scale(node: ast.Call, scale: str) -> ast.Call:
    """The call with `scale`, in which `q` stands for its first argument."""
    made: Any = ast.parse(scale, mode="eval").body
    for part in ast.walk(made):
        if isinstance(part, ast.Attribute):
            part.value = node.args[0]
    return ast.Call(node.func, node.args, [*node.keywords, ast.keyword("scale", made)])


def _causal(node: ast.Call) -> ast.Call:
    """The call with all above the diagonal of its first argument at minus infinity, in NumPy and in PyTorch."""
    masked: Any = ast.parse(
        "(lambda s: s - (((s * 0) + 1).triu(1) if hasattr(s, 'triu') else np.triu(s * 0 + 1, 1)) * 1e30)(0)", mode="eval"
    ).body
    return ast.Call(node.func, [ast.Call(masked.func, [node.args[0]], []), *node.args[1:]], node.keywords)


# ------------------------------------------------------------------------------------------ inputs


def dealt_heads(inputs: Mapping[str, Any]) -> Iterator[StepSlip]:
    """Matrices whose columns go to the heads one by one, where each head takes a run of them."""
    for count in HEADS:
        wide = [name for name, value in inputs.items() if _is_cut_in(value, inputs.get(count), name)]
        for some in dict.fromkeys([tuple(wide), *((name,) for name in wide), tuple(wide[1:])]):
            if some:
                what = _fact("dealt", names=some, count=count)
                yield StepSlip(Before(lambda some=some, count=count, **given: _dealt(some, given[count], given)), what, 1)


def _is_cut_in(value: Any, count: Any, name: str) -> bool:
    """Whether an input is a matrix (d_model, count * d_head) whose columns are cut into `count` runs, one for each head."""
    if not isinstance(count, int) or count < 2 or name[:1] != "W" or name[-1] in "oO":
        return False
    return getattr(value, "ndim", 0) == 2 and value.shape[-1] % count == 0


def _dealt(names: tuple[str, ...], count: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """The matrices with the columns that `count` heads get when every head takes each `count`-th."""
    return {
        name: given[name].reshape(given[name].shape[0], -1, count).swapaxes(-1, -2).reshape(given[name].shape) for name in names
    }


OPERATORS = Operators(
    calls=(
        CallOperator(without_mask, ("masked_fill", "masked_fill_"), omits=True),
        CallOperator(other_scale, ("scaled_dot_product_attention",)),
        CallOperator(without_sharing),
        CallOperator(causal, ("softmax",), repairs=False),  # nobody forgets that rows see all columns
    ),
    inputs=(dealt_heads,),
    sentences=SENTENCES,
)
