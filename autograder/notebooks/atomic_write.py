"""Write files whole or not at all."""

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, data: str | bytes, *, mode: int | None = None) -> None:
    """Write `data` to `path` and make its folder. A reader finds the old content or the new, but never a part.

    Text is written as UTF-8 and keeps its line ends. `mode` sets the file's permissions before it appears at `path`.
    Raises OSError if it cannot be written; the old file then stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.unlink(missing_ok=True)  # of a process that was killed and had the same number
        with open(fresh, "xb", opener=lambda name, flags: os.open(name, flags, 0o666 if mode is None else mode)) as file:
            file.write(data.encode() if isinstance(data, str) else data)
        if mode is not None:
            fresh.chmod(mode)  # and what the umask took away
        fresh.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
