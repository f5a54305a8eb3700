"""Markdown on which a renderer takes quadratic time, in many cells."""

MAX_SECONDS = 40


def tamper(notebook):
    for n in range(40):
        source = "\\begin{a}" * 2_200
        notebook["cells"].append({"cell_type": "markdown", "id": f"m{n}", "metadata": {}, "source": source})
    return notebook
