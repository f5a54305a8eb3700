"""Twenty megabytes of text in which a picture might stand at any place: looking for one took seconds before it was refused."""

REFUSED = r"(?s).*text in its cells.*"
MAX_SECONDS = 10


def tamper(notebook):
    source = ("<img" * 24 + " src='data:image/" * 6) * 110
    cell = {"cell_type": "markdown", "metadata": {}, "source": source, "attachments": {"a": {"image/png": ""}}}
    notebook["cells"] += [{**cell, "id": f"p{number}"} for number in range(900)]
    return notebook
