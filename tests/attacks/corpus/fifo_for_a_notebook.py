"""The notebook is a pipe that nobody writes to."""

import os

REFUSED = r"(?s).*a regular file.*"


def files(folder):
    notebook = next(folder.glob("*.ipynb"))
    notebook.unlink()
    os.mkfifo(notebook)
