"""Gives every cell the id and grade_id of every other, of the rebuilt notebook's own cells, and of none."""


def tamper(notebook):
    for n, cell in enumerate(notebook["cells"]):
        cell["id"] = ("extra-0", "setup", "gaussian", "gaussian_check", "", None, 7, ["x"])[n % 8]
    notebook["cells"] += [
        {"cell_type": "code", "id": f"extra-{n}", "metadata": {}, "source": "'x'", "outputs": []} for n in range(5)
    ]
    return notebook
