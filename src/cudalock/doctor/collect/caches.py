"""Triton's and Inductor's caches: whether they can be written, where they lie, what in them cannot be loaded."""

from __future__ import annotations

import getpass
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from cudalock.doctor.collect.elf import read_elf
from cudalock.doctor.model import CacheFolder

__all__ = ["cache_folders"]

_MOST_ENTRIES = 4000
_MOST_SHOWN = 5
_SECONDS = 1.0


def cache_folders(
    environ: Mapping[str, str], libc: tuple[str, tuple[int, int]] | None, *, mounts: Path = Path("/proc/mounts")
) -> tuple[CacheFolder, ...]:
    """Both caches, whether they exist yet or not."""
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or "~").expanduser()
    triton = environ.get("TRITON_CACHE_DIR") or str(Path(environ.get("TRITON_HOME") or home) / ".triton/cache")
    temporary = environ.get("TMPDIR") or tempfile.gettempdir()
    inductor = environ.get("TORCHINDUCTOR_CACHE_DIR") or str(Path(temporary) / f"torchinductor_{_user(environ)}")
    table = _mounts(mounts)
    return (
        _folder("triton", Path(triton), table, libc),
        _folder("inductor", Path(inductor), table, libc),
    )


def _user(environ: Mapping[str, str]) -> str:
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return environ.get("USER", "")


def _folder(
    kind: Literal["triton", "inductor"],
    path: Path,
    mounts: list[tuple[str, str, str]],
    libc: tuple[str, tuple[int, int]] | None,
) -> CacheFolder:
    existing = next((place for place in (path, *path.parents) if place.exists()), path)
    filesystem, options = _mount_of(existing.resolve(), mounts)
    return CacheFolder(
        kind=kind,
        path=str(path),
        writable=existing.is_dir() and os.access(existing, os.W_OK | os.X_OK) and "ro" not in options,
        executable="noexec" not in options if options else None,
        filesystem=filesystem,
        foreign=tuple(_unusable(path, libc)) if path.is_dir() else (),
    )


def _mounts(path: Path) -> list[tuple[str, str, str]]:
    """(folder, file system, options) of every mount, longest folder first."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    rows = [line.split() for line in lines]
    found = [(row[1].replace("\\040", " "), row[2], row[3]) for row in rows if len(row) >= 4]
    return sorted(found, key=lambda row: -len(row[0]))


def _mount_of(path: Path, mounts: list[tuple[str, str, str]]) -> tuple[str | None, list[str]]:
    for folder, filesystem, options in mounts:
        if path.is_relative_to(folder):
            return filesystem, options.split(",")
    return None, []


def _unusable(path: Path, libc: tuple[str, tuple[int, int]] | None) -> Iterator[str]:
    """Entries that cannot be loaded here, whatever the environment: cut short, moved, or made on a newer system."""
    shown = 0
    deadline = time.monotonic() + _SECONDS
    for number, entry in enumerate(_walk(path)):
        if number > _MOST_ENTRIES or shown >= _MOST_SHOWN or time.monotonic() > deadline:
            return
        reason = _reason(entry, libc)
        if reason:
            shown += 1
            yield f"{entry.relative_to(path)}: {reason}"


def _walk(path: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(path):
        for name in names:
            if name.endswith((".so", ".cubin", ".json")) and ".tmp" not in name and "tmp.pid" not in folder:
                yield Path(folder, name)


def _reason(entry: Path, libc: tuple[str, tuple[int, int]] | None) -> str | None:
    try:
        empty = entry.stat().st_size == 0
    except OSError as error:
        return error.strerror
    if empty:
        return "it is empty"
    if entry.suffix == ".so":
        facts = read_elf(entry)
        if facts is None:
            return "it is no library"
        if facts.glibc and libc and libc[0] == "glibc" and facts.glibc[:2] > libc[1]:
            return (
                f"it needs glibc {'.'.join(map(str, facts.glibc))}, and this system has {'.'.join(map(str, libc[1]))}"
            )
    if entry.name.startswith("__grp__"):
        return _dangling(entry)
    return None


def _dangling(entry: Path) -> str | None:
    """A group of a cache that was moved names files by their old absolute paths."""
    with suppress(OSError, ValueError, AttributeError, TypeError):
        children = json.loads(entry.read_text(encoding="utf-8")).get("child_paths", {})
        gone = [child for child in children.values() if Path(child).is_absolute() and not Path(child).exists()]
        if gone and len(gone) == len(children):
            return f"it names files that are not there, e.g. {gone[0]}"
    return None
