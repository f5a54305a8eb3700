"""Turns answers into markdown, grade cells into markdown and raw cells, and prose into code."""


def tamper(notebook):
    kinds = {(cell["cell_type"], "nbgrader" in cell["metadata"]) for cell in notebook["cells"]}
    assert {("code", True), ("markdown", False)} <= kinds, "inert: no marked cell of code, or no prose"
    for n, cell in enumerate(notebook["cells"]):
        cell["cell_type"] = {"code": ("markdown", "raw")[n % 2], "markdown": "code"}.get(cell["cell_type"], "code")
        cell["metadata"].get("nbgrader", {})["cell_type"] = cell["cell_type"]
    return notebook
