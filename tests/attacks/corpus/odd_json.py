"""JSON that is no notebook in every place: wrong types, nulls, huge numbers, repeated and hostile keys."""


def tamper(notebook):
    notebook["cells"] += [
        None, 3, [], "x", {}, {"cell_type": []}, {"cell_type": "code", "source": {"a": 1}, "metadata": None},
        {"cell_type": "code", "source": ["x", 1, None], "metadata": {"nbgrader": []}},
        {"cell_type": "code", "source": "1", "metadata": {"nbgrader": {"grade_id": ["gaussian"]}}, "id": {}},
        {"cell_type": "code", "source": "1", "metadata": {"nbgrader": {"grade_id": "__proto__" * 10_000}}},
    ]  # fmt: skip
    notebook["metadata"] = {"kernelspec": {"name": "evil", "argv": ["/bin/sh"]}, "nbgrader": 10**400}
    notebook["nbformat"] = "four"
    return notebook
