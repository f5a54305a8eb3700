"""What an exercise forbids, looked for in the text of an answer: a flag for a person, never a mark.

Values cannot prove how they were computed, and a name can be reached in many ways, so nothing here is a proof.
"""

import ast
import re
import warnings
from collections.abc import Sequence


def uses(source: str, forbidden: Sequence[str]) -> list[str]:
    """Those of `forbidden` that `source` names: as a dotted path, by its last part, as an import, or inside a string.

    Where `source` is no Python (a line magic, an error), any word of it counts.

    >>> uses("y = F.softmax(x)", ["F.softmax", "torch.einsum"])
    ['F.softmax']
    """
    seen = _names(source)
    return [name for name in forbidden if re.findall(r"\w+", name)[-1] in seen]


def _names(source: str) -> set[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a learner's invalid escapes are no news to the grader
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last: "too complex to parse"
        return set(re.findall(r"\w+", source))
    seen: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            seen.add(node.attr)
        elif isinstance(node, ast.Name):
            seen.add(node.id)
        elif isinstance(node, ast.alias):
            seen.add(node.name.rpartition(".")[2])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            seen.add(node.value)  # getattr(F, "softmax")
    return seen
