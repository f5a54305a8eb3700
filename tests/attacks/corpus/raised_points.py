"""Raises the points of the grade cells, turns them into solutions, and forges their metadata and outputs."""


def tamper(notebook):
    for cell in notebook["cells"]:
        grader = cell["metadata"].get("nbgrader")
        if grader and grader.get("grade"):
            grader.update(points=1000, solution=True, locked=False, checksum="0" * 32)
            cell["source"] = "1000.0"
            cell["outputs"] = [
                {"output_type": "execute_result", "data": {"text/plain": "1000.0"}, "metadata": {}, "execution_count": 1}
            ]
    assert any(cell["source"] == "1000.0" for cell in notebook["cells"]), "inert: no cell that gives a grade"
    return notebook
