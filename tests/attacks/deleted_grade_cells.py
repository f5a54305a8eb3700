"""Deletes every grade cell and every locked cell."""


def tamper(notebook):
    notebook["cells"] = [c for c in notebook["cells"] if not c["metadata"].get("nbgrader", {}).get("locked")]
    return notebook
