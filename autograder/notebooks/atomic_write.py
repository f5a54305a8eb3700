"""Files that are written whole or not at all."""

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, data: str | bytes, *, mode: int | None = None) -> None:
    """Put `data` (text as UTF-8, its line ends kept) at `path`, whose folder is made; at every moment it holds old or new.

    `mode` is for permissions that the file shall have from its first moment on.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_bytes(data.encode() if isinstance(data, str) else data)
        if mode is not None:
            fresh.chmod(mode)
        fresh.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
