"""Empty a folder, whatever a learner made of it: a thousand nested folders, or names of maximum length.

A removal that is recursive or uses whole paths fails on such a tree. This module moves each folder to the top before it looks
inside, so it needs only two descriptors, one level and no path longer than a name.
"""

import contextlib
import os
import secrets
import stat
from collections.abc import Collection


def empty(folder: str, keep: Collection[str] = ()) -> list[str]:
    """Delete everything in `folder` except the names in `keep`. Returns the names that could not be deleted. Follows no links."""
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        refused = set(keep)
        while names := [name for name in os.listdir(top) if name not in refused]:
            for name in names:
                if _unlinked(name, top):
                    continue
                _raise_folders(name, top)
                try:
                    os.rmdir(name, dir_fd=top)
                except OSError:
                    refused.add(name)
        return sorted(refused - set(keep))
    finally:
        os.close(top)


def _unlinked(name: str, parent: int) -> bool:
    """Return whether `name` is not a folder and no longer exists."""
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            return False
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _raise_folders(name: str, top: int) -> None:
    """Delete the files in the folder `name` of `top`, and move its subfolders to `top`."""
    try:
        inside = _open(name, top)
    except OSError:
        return
    try:
        for child in os.listdir(inside):
            if _unlinked(child, inside):
                continue
            with contextlib.suppress(OSError):
                os.rmdir(child, dir_fd=inside)
                continue
            with contextlib.suppress(OSError):
                _open_up(child, inside)  # a read-only folder cannot be moved, because moving rewrites its `..` entry
                os.rename(child, f".attn-{secrets.token_hex(8)}", src_dir_fd=inside, dst_dir_fd=top)
    finally:
        os.close(inside)


def _open(name: str, parent: int) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    _open_up(name, parent)
    return os.open(name, flags, dir_fd=parent)


def _open_up(name: str, parent: int) -> None:
    """Make the folder `name` listable and writable, because a learner may have forbidden both."""
    mode = stat.S_IMODE(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    if mode & 0o700 != 0o700:
        with contextlib.suppress(OSError):  # if this is refused, the next step reports it
            os.chmod(name, 0o700, dir_fd=parent)
