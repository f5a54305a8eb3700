"""What `solutions.lib` may import, and that each shared piece of the package is defined once."""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

SOLUTIONS = Path(__file__).parents[2] / "solutions"
MODULES = sorted((SOLUTIONS / "lib").rglob("*.py"))
ALLOWED = {"torch", "jaxtyping", "solutions.lib"}
KERNELS = {"triton"}  # comes with PyTorch where there is a GPU; `solutions.lib.kernels` imports it on first use


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative imports are not read here"
            yield node.module or ""


def _home(module: str) -> str:
    """The distribution of a module; for the course's own the part of the package, such as `solutions.lib`."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "solutions" else parts[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOLUTIONS).as_posix())
def test_the_library_imports_pytorch_jaxtyping_and_itself_alone(path: Path) -> None:
    allowed = ALLOWED | (KERNELS if "kernels" in path.parts else set())
    assert {_home(module) for module in _imported(path)} - sys.stdlib_module_names <= allowed


def test_a_library_module_that_imported_a_lesson_would_be_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("import solutions.positions\n\n\ndef late():\n    from attention_course import memory\n")
    assert {_home(name) for name in _imported(module)} == {"solutions.positions", "attention_course"}


def _defined() -> Counter[str]:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SOLUTIONS.rglob("*.py")]
    return Counter(node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))


def test_heads_rotations_and_caches_are_defined_once() -> None:
    defined = _defined()
    names = ("apply_rope", "rope_angles", "rotate_half_rope", "split_heads", "merge_heads", "per_head", "KVCache", "LatentCache")
    assert {name: defined[name] for name in names} == dict.fromkeys(names, 1)
