"""As many cells as may be, each of them code."""

MAX_SECONDS = 40


def tamper(notebook):
    room = 2000 - len(notebook["cells"])
    notebook["cells"] += [{"cell_type": "code", "id": f"c{n}", "metadata": {}, "source": "0", "outputs": []} for n in range(room)]
    return notebook
