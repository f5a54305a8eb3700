"""Turns answers into markdown, grade cells into markdown and raw cells, and prose into code."""


def tamper(notebook):
    for n, cell in enumerate(notebook["cells"]):
        cell["cell_type"] = {"code": ("markdown", "raw")[n % 2], "markdown": "code"}.get(cell["cell_type"], "code")
        cell["metadata"].get("nbgrader", {})["cell_type"] = cell["cell_type"]
    return notebook
