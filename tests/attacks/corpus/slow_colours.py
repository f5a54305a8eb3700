"""Markdown in fences of languages that take hours to colour, and emphasis in emphasis, in many cells."""


def tamper(notebook):
    fences = [("abap", "("), ("easytrieve", "\t"), (" autoit", " "), ("&#97;bap", "(")]
    sources = [f"> {fence}{language}\n> " + what * 19_000 for language, what in fences for fence in ("```", "~~~~")]
    half = "*a_" * 3_300
    for number, source in enumerate([*sources, *[half + "a" + half[::-1]] * 30]):
        notebook["cells"].append({"cell_type": "markdown", "id": f"s{number}", "metadata": {}, "source": source})
    return notebook
