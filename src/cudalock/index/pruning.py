"""Keeps the index cache within bounds: once a day, at a write, what was not used for long goes, then the oldest.

Several processes may do it at once, and others read and write meanwhile: an entry is one file, and one that is gone
counts as absent.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

__all__ = ["LONGEST_UNUSED_S", "MOST_BYTES", "note_use", "prune", "prune_daily"]

LONGEST_UNUSED_S = 90 * 86_400.0
MOST_BYTES = 2 * 2**30
_DAY_S = 86_400.0


def note_use(descriptor: int, path: Path) -> None:
    """Marks an entry that is read as in use; at most once a day, so that reading stays reading."""
    now = time.time()
    with contextlib.suppress(OSError):
        if now - os.fstat(descriptor).st_mtime > _DAY_S:
            os.utime(path, (now, now))


def prune_daily(folder: Path) -> None:
    """Prunes ``folder``, and its namesakes of other formats, if nobody has for a day; its own time of change tells."""
    now = time.time()
    with contextlib.suppress(OSError):
        if abs(now - folder.stat().st_mtime) > _DAY_S:
            os.utime(folder, (now, now))  # first: another process need not do it too
            for one in folder.parent.glob(f"{folder.name.partition('-')[0]}-*"):
                prune(one)


def prune(folder: Path, *, longest_unused_s: float = LONGEST_UNUSED_S, most_bytes: int = MOST_BYTES) -> int:
    """Removes entries that were not used for long, leavings of killed writers, and the oldest of what is too much.

    Args:
        folder: with a folder for each kind of entry.
        longest_unused_s: entries that lay untouched longer go.
        most_bytes: if the rest takes more, the oldest go until it takes three quarters of that.

    Returns:
        How many files were removed.
    """
    now = time.time()
    entries: list[tuple[float, int, str]] = []
    removed = 0
    for path, part in _files(folder):
        try:
            found = os.lstat(path)
        except OSError:
            continue
        if now - found.st_mtime > (_DAY_S if part else longest_unused_s):
            removed += _remove(path)
        elif not part:
            entries.append((found.st_mtime, found.st_size, path))
    total = sum(size for _used, size, _path in entries)
    if total > most_bytes:
        for _used, size, path in sorted(entries):
            removed += _remove(path)
            total -= size
            if total <= most_bytes * 3 // 4:
                break
    return removed


def _files(folder: Path) -> list[tuple[str, bool]]:
    """The files that the cache has written: KIND/XX/NAME; True for one whose writing did not end."""
    found = []
    for pattern, part in (("*/[0-9a-f][0-9a-f]/[0-9a-f]*", False), ("*/[0-9a-f][0-9a-f]/.*.part", True)):
        found += [(str(path), part) for path in folder.glob(pattern) if path.is_file() and not path.is_symlink()]
    return found


def _remove(path: str) -> int:
    try:
        os.unlink(path)  # noqa: PTH108 - of thousands
    except OSError:
        return 0
    return 1
