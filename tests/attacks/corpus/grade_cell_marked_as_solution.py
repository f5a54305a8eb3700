"""Gives an answer cell the grade_id of its check, and the check that of its answer."""


def tamper(notebook):
    names = {cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in notebook["cells"]}
    assert {"gaussian", "gaussian_check"} <= names, "inert: no answer cell, or no check of it"
    for cell in notebook["cells"]:
        grader = cell["metadata"].get("nbgrader")
        if grader:
            name = grader["grade_id"]
            grader["grade_id"] = name.removesuffix("_check") if name.endswith("_check") else f"{name}_check"
            grader["grade"], grader["solution"] = grader.get("solution"), grader.get("grade")
    return notebook
