"""The engine knows nothing about the subject of the course: no name and no text of its code is a word of the field."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ENGINE = Path(__file__).parents[2] / "autograder"
# the field's own words; a query is one to a database elsewhere, and a score one of a learner's
FIELD = {"attention", "softmax", "causal", "rope", "kv", "heads", "logit", "logits", "mask", "masks", "masked", "queries", "qkv",
         "gqa", "mqa", "mha", "mla", "sdpa"}  # fmt: skip
FUNCTION = "softmax is a function of NumPy's and PyTorch's world, as exp and log are, beside which it stands in a table"
SUBJECT_ALLOWED = {  # by module, the words that it may hold, and why
    "mutants/call_operators.py": ({"softmax"}, FUNCTION),
    "mutants/result_and_input_operators.py": ({"softmax"}, FUNCTION),
    "diagnosis/repair/kind_of_change.py": ({"softmax"}, "functions of PyTorch that run along an axis, softmax among them"),
    "diagnosis/repair/calls.py": ({"masked"}, "`masked_fill` is PyTorch's"),
    "diagnosis/python_errors.py": ({"mask"}, "the pattern of a message of PyTorch's"),
    "diagnosis/sentences.py": ({"softmax"}, "the words for that function"),
    "grading/marking/forbidden_names.py": ({"attention"}, "names in PyTorch that compute what an exercise asks for"),
    "sandbox/inside/worker.py": ({"attention", "softmax"}, "what is run once so that PyTorch is warm"),
    "workspace/in_cells/check.py": ({"softmax"}, "an example in an error's text"),
    "authoring/scaffold.py": ({"attention"}, "an example in an error's text"),
    "cli/author.py": ({"attention"}, "an example in a help text"),
}
OWN_NAME = re.compile(r"attention[-_.]course|attention-hub")


def _words(tree: ast.Module) -> Iterator[str]:
    """Every name and every text of a module but for docstrings."""
    documented = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and isinstance(node.body[0], ast.Expr):
            documented.add(id(node.body[0].value))
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "name"):
            if isinstance(word := getattr(node, field, None), str):
                yield word
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            yield node.value


def _of_the_field(path: Path) -> set[str]:
    """The words of the field in a module."""
    words = _words(ast.parse(path.read_text(encoding="utf-8")))
    return {part for word in words for part in FIELD & _parts(OWN_NAME.sub("", word))}


def _parts(word: str) -> set[str]:
    """The words that a name or a text is made of: `MultiHead` is two."""
    return set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", word).lower()))


def test_the_code_of_the_engine_has_no_word_of_the_field() -> None:
    found = {path.relative_to(ENGINE).as_posix(): _of_the_field(path) for path in sorted(ENGINE.rglob("*.py"))}
    allowed = {name: words for name, (words, _) in SUBJECT_ALLOWED.items()}
    assert {name: left for name, words in found.items() if (left := words - allowed.get(name, set()))} == {}


def test_every_exception_is_needed() -> None:
    assert {name: left for name, (words, _) in SUBJECT_ALLOWED.items() if (left := words - _of_the_field(ENGINE / name))} == {}
