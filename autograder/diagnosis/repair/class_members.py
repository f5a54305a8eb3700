"""Change a class that contains other objects, so that a step for the whole is also done for its parts.

In: the tree of a class. Out: changes that add what may be missing in a method: a call of the method with the same name on what
`__init__` makes (one object or several), or a step that makes that object again.
"""

import ast
from collections.abc import Iterator

from autograder.diagnosis.repair.expressions import with_fields
from autograder.mutants.source import Change

AGAIN = ("reset", "clear", "start", "begin")  # methods that return an object to its initial state


def of_members(tree: ast.stmt) -> Iterator[tuple[ast.FunctionDef, int, Change]]:
    """Yield each method, how rarely the step is missing in it, and the change that inserts the step."""
    if not isinstance(tree, ast.ClassDef):
        return
    methods = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assignments = [step for method in methods if method.name == "__init__" for step in method.body if _makes_object(step)]
    for method in methods:
        if method.name.startswith("__") or method.decorator_list:
            continue
        given = ", ".join(argument.arg for argument in method.args.args[1:])
        for step in assignments:
            target = ast.unparse(step.targets[0])  # type: ignore[attr-defined]  # an assignment
            loop = f"for each in {target}:\n    each.{method.name}({given})"
            for text in (f"{target}.{method.name}({given})", loop):
                yield method, 1, lambda n, text=text: with_fields(n, body=[ast.parse(text).body[0], *n.body])
            if method.name in AGAIN:
                yield method, 1, lambda n, step=step: with_fields(n, body=[step, *n.body])


def _makes_object(step: ast.stmt) -> bool:
    """Return whether a step sets an attribute to something other than a plain argument."""
    if not isinstance(step, ast.Assign) or isinstance(step.value, ast.Name):
        return False
    return ast.unparse(step.targets[0]).startswith("self.")
