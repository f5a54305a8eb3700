"""Put the pages of `docs/` on the site of `attn book`, with links to pages of the site or to the repository."""

import os
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path, PurePosixPath

# The pages that most readers want, in this order. All others follow by name.
_FIRST = ("learning", "grader", "speed", "live", "architecture", "authors", "teaching")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")


def pages(folder: Path, repository: str = "") -> dict[str, str]:
    """Return the Markdown of each page below `folder`, by its name on the site; empty if there is no folder, as in a wheel.

    A link to another of these pages leads to it. Any other relative link leads to the file in `repository`, or becomes plain
    text if there is none.
    """
    # `teaching/marks.md` becomes `teaching-marks`
    files = {path: "-".join(path.relative_to(folder).with_suffix("").parts).lower() for path in sorted(folder.rglob("*.md"))}

    def led(match: re.Match[str], page: Path) -> str:
        text, target, part = match[1], match[2], match[3] or ""
        path = Path(os.path.normpath(page.parent / target))
        if path in files:
            return f"[{text}]({files[path]}.md{part})"
        if not repository:
            return text
        where = PurePosixPath(os.path.relpath(path, folder.parent).replace(os.sep, "/"))
        kind = "tree" if path.is_dir() else "blob"
        return f"[{text}]({repository.rstrip('/')}/{kind}/main/{where}{part})"

    return {name: _LINK.sub(partial(led, page=path), path.read_text("utf-8")) for path, name in files.items()}


def pictures(folder: Path) -> list[Path]:
    """Return the pictures that pages in `folder` show."""
    return sorted(folder.glob("*.svg"))


def in_order(names: Iterable[str]) -> list[str]:
    """Return the pages in the order in which the site lists them: those for learners first, those for teachers last.

    >>> in_order(["grader", "teaching", "learning", "teaching-term"])
    ['learning', 'grader', 'teaching', 'teaching-term']
    """
    return sorted(names, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
