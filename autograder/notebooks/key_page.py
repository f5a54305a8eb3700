"""Hand a browser an address that is a key: by a file that its owner alone can read, since a command line is everybody's."""

import html
import os
import tempfile
from pathlib import Path


def write(address: str, stem: str, *, again: bool = False) -> Path:
    """A page that leads on to `address`, in Jupyter's own folder; `again` replaces the one of that `stem`, else it is new."""
    from jupyter_core.paths import jupyter_runtime_dir

    folder = Path(jupyter_runtime_dir())  # in the home folder: a browser in a package of its own may see no other
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(".html", f"{stem}-", folder)  # mode 0600
    to = html.escape(address)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write('<!doctype html><meta charset="utf-8"><title>Going on</title>')
        file.write(f'<meta http-equiv="refresh" content="0; url={to}"><a href="{to}" rel="noreferrer">Go on</a>')
    return Path(name).replace(folder / f"{stem}.html") if again else Path(name)
