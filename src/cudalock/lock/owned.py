"""Whether the files of installed distributions are still there, with the sizes that were recorded.

Nothing is read but each distribution's RECORD, and each file is only looked at: thousands of them take a tenth of a
second. An alteration that keeps the size is not noticed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from packaging.utils import NormalizedName

__all__ = ["damaged_files", "size_of"]

_SCRIPTS = frozenset({"bin", "Scripts"})
_CONFIGURATION = "etc"
_OUTSIDE = frozenset({".", "/", "\\"})


def damaged_files(
    site: Path, dist_infos: Mapping[NormalizedName, tuple[Path, ...]], excused: Mapping[str, int | None]
) -> dict[NormalizedName, tuple[str, ...]]:
    """The files below ``site`` that are gone or have another size than recorded, by distribution.

    Left out is what others rewrite by right: compiled files, scripts (their first line names the environment), what
    lies in ``*.dist-info``, and files for which no hash and size were recorded. A file that several distributions own
    may be that of any of them, and an empty one of theirs may be gone: removing one distribution takes it along.
    ``excused`` says what size, if any, a file has that was never as recorded.
    """
    claims = [(name, _recorded(folder / "RECORD")) for name, folders in dist_infos.items() for folder in folders]
    suspects: dict[str, None] = {}
    root, stat = f"{site}{os.sep}", os.stat
    for _, recorded in claims:
        for path, size in recorded.items():
            try:
                if stat(root + path).st_size == size:  # nearly always: every look beyond this costs thousands of times
                    continue
            except (OSError, ValueError):
                pass
            suspects[path] = None
    damaged: dict[NormalizedName, list[str]] = {}
    for path in suspects:
        owned = [(name, recorded[path]) for name, recorded in claims if path in recorded]
        found = size_of(root + path)
        if not _is_right(path, found, [one for _, one in owned]) and (path not in excused or excused[path] != found):
            for name in dict.fromkeys(name for name, _ in owned):
                damaged.setdefault(name, []).append(path)
    return {name: tuple(sorted(damaged[name])) for name in sorted(damaged)}


def size_of(place: str) -> int | None:
    """The size of a file; None if it is not there."""
    try:
        return Path(place).stat().st_size
    except (OSError, ValueError):
        return None


def _is_right(path: str, found: int | None, sizes: list[int]) -> bool:
    if found is None:
        return len(sizes) > 1 and 0 in sizes
    return found in sizes or (path.startswith("..") and _CONFIGURATION in PurePosixPath(path).parts)


def _recorded(record: Path) -> dict[str, int]:
    """The files of a RECORD that count, with their sizes; of one that cannot be read, those before the fault."""
    found: dict[str, int] = {}
    try:
        text = record.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return found
    with contextlib.suppress(ValueError):
        if '"' in text:
            for row in _quoted(text):
                if len(row) == 3 and row[1] and row[2].isdecimal() and _counts(row[0]):
                    found[row[0]] = int(row[2])
            return found
        for line in text.splitlines():  # some ten thousand: a call of ours for each would double the time
            path, digest, size = line.rsplit(",", 2) if line.count(",") > 1 else ("", "", "")
            if not digest or not size.isdecimal():
                continue
            if _counts(path) if path[:1] in _OUTSIDE else not path.endswith(".pyc") and ".dist-info/" not in path:
                found[path] = int(size)
    return found


def _quoted(text: str) -> Iterator[list[str]]:
    import csv

    with contextlib.suppress(csv.Error):
        yield from csv.reader(text.splitlines())


def _counts(path: str) -> bool:
    if path[:1] in _OUTSIDE:
        parts = PurePosixPath(path).parts
        return path.startswith("../") and (len(parts) < 2 or parts[-2] not in _SCRIPTS)
    return not path.endswith(".pyc") and ".dist-info/" not in path
