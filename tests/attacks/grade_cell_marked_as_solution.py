"""Gives an answer cell the grade_id of its check, and the check that of its answer."""


def tamper(notebook):
    for cell in notebook["cells"]:
        grader = cell["metadata"].get("nbgrader")
        if grader:
            name = grader["grade_id"]
            grader["grade_id"] = name.removesuffix("_check") if name.endswith("_check") else f"{name}_check"
            grader["grade"], grader["solution"] = grader.get("solution"), grader.get("grade")
    return notebook
