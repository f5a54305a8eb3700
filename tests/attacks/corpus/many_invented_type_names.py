"""Returns ten thousand objects of as many invented types, beside sources so long that looking each name up takes hours."""

RAN = {"types": "ran list"}
MAX_SECONDS = 30
ANSWERS = {
    "gaussian": r"""
def gaussian(q, K):
    return attack("types", lambda: [type(f"q{n}", (), {})() for n in range(9_000)])
"""
}


def tamper(notebook):
    for n in range(4):  # a megabyte of text is read
        source = "# " + "z " * 99_000
        notebook["cells"].append({"cell_type": "code", "id": f"z{n}", "metadata": {}, "source": source, "outputs": []})
    return notebook
