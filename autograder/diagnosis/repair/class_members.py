"""Changes of a class whose object has others: a step that is done to the whole is done to its parts as well.

In: the tree of a class. Out: for its methods, what may be missing in them: the method of the same name of what `__init__` makes,
one object or several, or the making of it anew.
"""

import ast
from collections.abc import Iterator

from autograder.diagnosis.repair.expressions import with_fields
from autograder.mutants.source import Change

AGAIN = ("reset", "clear", "start", "begin")  # methods after which an object is as it was made


def of_members(tree: ast.stmt) -> Iterator[tuple[ast.FunctionDef, int, Change]]:
    """The method, how rarely the step is missing in it, and the method with it."""
    if not isinstance(tree, ast.ClassDef):
        return
    methods = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    made = [step for method in methods if method.name == "__init__" for step in method.body if _is_made(step)]
    for method in methods:
        if method.name.startswith("__") or method.decorator_list:
            continue
        given = ", ".join(argument.arg for argument in method.args.args[1:])
        for step in made:
            target = ast.unparse(step.targets[0])  # type: ignore[attr-defined]  # an assignment
            each = f"for each in {target}:\n    each.{method.name}({given})"
            for text in (f"{target}.{method.name}({given})", each):
                yield method, 1, lambda n, text=text: _begun_with(n, ast.parse(text).body[0])
            if method.name in AGAIN:
                yield method, 1, lambda n, step=step: _begun_with(n, step)


def _is_made(step: ast.stmt) -> bool:
    """Whether a step sets an attribute to what is not simply given."""
    if not isinstance(step, ast.Assign) or isinstance(step.value, ast.Name):
        return False
    return ast.unparse(step.targets[0]).startswith("self.")


def _begun_with(node: ast.FunctionDef, step: ast.stmt) -> ast.FunctionDef:
    made: ast.FunctionDef = with_fields(node, body=[step, *node.body])
    return made
