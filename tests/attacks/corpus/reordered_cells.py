"""Reverses the order of all cells; the one right answer still counts."""

DESERVED = {"gaussian": 1.0}


def tamper(notebook):
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "gaussian":
            cell["source"] = "def gaussian(q, K): return np.exp(-((K - q) ** 2).sum(-1) / 2)"
            break
    else:
        raise LookupError("inert: no cell of gaussian")
    notebook["cells"].reverse()
    return notebook
