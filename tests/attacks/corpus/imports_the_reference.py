"""Imports the reference solution, the exercises and the packs under every name they have."""

_NAMES = ("solutions", "solutions.soft_lookup", "answers.soft_lookup", "course", "course.exercises.soft_lookup", "tests")
RAN = dict.fromkeys(_NAMES, "raised ModuleNotFoundError|refused EACCES|ran module")  # in Landlock a folder without its files
RAN |= {"from": "raised ModuleNotFoundError", "lesson": "raised .*"}
FORBIDDEN = r"pwned-found"
ANSWERS = {
    "gaussian": """
import importlib, sys
for name in ("solutions", "solutions.soft_lookup", "answers.soft_lookup", "course", "course.exercises.soft_lookup", "tests"):
    try:
        module = attack(name, importlib.import_module, name)
        if getattr(module, "__file__", None): print("pwned-" + "found", module.__file__)
    except Exception as error: print(type(error).__name__)
try:
    with attack.on("from"): from answers.soft_lookup import gaussian
except ImportError:
    def gaussian(q, K):
        from autograder.authoring.course import find_lesson
        with attack.on("lesson"):
            return [e for e in find_lesson("01").exercises() if e.id == "gaussian"][0].reference(q, K)
"""
}
