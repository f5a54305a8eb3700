"""A place on disk for what takes long to make: found again by its content's key, written whole or not at all.

The folder is `ATTN_CACHE`, or the platform's own for caches. Where it cannot be written, nothing is kept, and all still works.
"""

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def folder() -> Path:
    """Where results are kept: `ATTN_CACHE`, or `attention-course` in the user's cache folder."""
    if chosen := os.environ.get("ATTN_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "attention-course"


def key(*parts: bytes | str) -> str:
    """A short name for content: the same parts give the same name, any other parts another.

    >>> key("a", "bc") == key("ab", "c")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:24]


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place when the block ends well; what is half written never shows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        yield Path(name)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def remembered(name: str, make: Callable[[], Any]) -> Any:
    """The JSON value `make()`, kept under `name` (see `key`) and not made a second time.

    A file that cannot be read or written costs only the time to make the value again.
    """
    path = folder() / "results" / f"{name}.json"
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8"))
    value = make()
    with contextlib.suppress(OSError), writing(path) as file:
        file.write_text(json.dumps(value), encoding="utf-8")
    return value
