"""A source, a grade_id and a cell type with half a surrogate pair, which no file can hold."""

DESERVED = {"gaussian": 1.0}


def tamper(notebook):
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "gaussian":
            cell["source"] = "def gaussian(q, K): return np.exp(-((K - q) ** 2).sum(-1) / 2)  # \ud800"
            break
    else:
        raise LookupError("inert: no cell of gaussian")
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] += "\udfff"
    notebook["cells"].append({"cell_type": "code", "source": "'\ud800'", "metadata": {"nbgrader": {"grade_id": "\ud800"}}})
    notebook["cells"].append({"cell_type": "markdown", "source": "\ud800", "metadata": {}, "id": "\ud800"})
    return notebook
