"""Deletes every grade cell and every locked cell."""


def tamper(notebook):
    assert any(c["metadata"].get("nbgrader", {}).get("locked") for c in notebook["cells"]), "inert: no locked cell"
    notebook["cells"] = [c for c in notebook["cells"] if not c["metadata"].get("nbgrader", {}).get("locked")]
    return notebook
