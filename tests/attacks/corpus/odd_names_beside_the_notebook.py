"""Hands in notebooks under names that colour a terminal, reorder text, end a page half-way or fill a screen."""

import os

REFUSED = r"(?s).+"
FORBIDDEN = "[\x1b\u202e\udc80-\udcff]|(?:zz.*){20}"


def files(folder):
    (notebook,) = folder.glob("*.ipynb")
    notebook.rename(folder / "a\x1b[31m\u202e.ipynb")
    for name in [b"b\xff\x80.ipynb", *(b"zz%d.ipynb" % n for n in range(400))]:
        with open(os.path.join(os.fsencode(folder), name), "wb"):
            pass
