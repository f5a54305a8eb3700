"""Open a secret address in a browser through a file that only its owner can read, because everybody can see a command line."""

import html
import os
import tempfile
from pathlib import Path


def write(address: str, stem: str, *, again: bool = False) -> Path:
    """Write a page that redirects to `address`, in Jupyter's runtime folder, and return its path.

    With `again` it replaces the page called `stem`; otherwise the file is new.
    """
    from jupyter_core.paths import jupyter_runtime_dir

    folder = Path(jupyter_runtime_dir())  # in the home folder, because a sandboxed browser may see no other
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(".html", f"{stem}-", folder)  # mode 0600
    to = html.escape(address)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write('<!doctype html><meta charset="utf-8"><title>Going on</title>')
        file.write(f'<meta http-equiv="refresh" content="0; url={to}"><a href="{to}" rel="noreferrer">Go on</a>')
    return Path(name).replace(folder / f"{stem}.html") if again else Path(name)
