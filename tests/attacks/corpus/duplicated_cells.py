"""Duplicates every cell four times with the same ids, a forged copy first."""


def tamper(notebook):
    copies = []
    for cell in notebook["cells"]:
        grader = cell["metadata"].get("nbgrader", {})
        if grader.get("grade"):
            copies.append({**cell, "source": "1.0"})
        copies += [cell] * 4
    assert any(cell["source"] == "1.0" for cell in copies), "inert: no cell that gives a grade"
    notebook["cells"] = copies
    return notebook
