"""Record the packs that `attn build` made in `course/packs.json`, and compare packs with that record.

In: a pack. Out: an entry per lesson: the hash of what the pack was made from, the hash of its content, and for each exercise
the number of programs with an unlisted mistake that it recognises. The file's diff shows a reviewer when a pack has shrunk.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from autograder.packs.pack_file import Pack

FILE = "packs.json"


class Entry(TypedDict):
    """The record of one pack."""

    made_from: str
    content: str
    near: dict[str, int]


def read(root: Path) -> dict[str, Entry]:
    """Return the entries of the course at `root` by lesson name; empty if the file doesn't exist."""
    path = root / FILE
    if not path.exists():
        return {}
    entries: dict[str, Entry] = json.loads(path.read_text(encoding="utf-8"))
    return entries


def text_of(entries: Mapping[str, Entry]) -> str:
    """Return the entries as the text of the file, with one line per exercise."""
    return json.dumps(dict(sorted(entries.items())), indent=1) + "\n"


def entry_of(pack: Pack, made_from: str) -> Entry:
    """Return the entry of a pack that was just made."""
    return {"made_from": made_from, "content": pack.digest, "near": pack.near_counts}


def shrunken(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """Return a line for each exercise that recognises fewer programs now. Removed exercises don't count."""
    return [
        f"`{name}`: {now[name]} near programs, {count} before" for name, count in before.items() if now.get(name, count) < count
    ]


def problems_of(pack: Pack, entry: Entry | None, made_from: str) -> list[str]:
    """Return messages on how a pack differs from its entry, and on whether its sources have changed since."""
    if entry is None:
        return [f"no entry in course/{FILE} says what it was made from"]
    problems = [
        f"`{name}` recognises {pack.near_counts.get(name, 0)} near programs, expected {count} (course/{FILE})"
        for name, count in entry["near"].items()
        if pack.near_counts.get(name, 0) != count
    ]
    if not problems and pack.digest != entry["content"]:
        problems.append(f"its content is not what course/{FILE} says")
    if entry["made_from"] != made_from:
        problems.append("made from other exercises or answers, or by another version of the engine")
    return problems
