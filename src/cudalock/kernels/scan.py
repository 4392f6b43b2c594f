"""Finds the caches that an environment uses, and lists what lies in them."""

from __future__ import annotations

import getpass
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from cudalock.errors import UsageError
from cudalock.kernels.entries import read_entry, walk
from cudalock.kernels.keys import is_trash, layout_of
from cudalock.kernels.model import CacheEntry, CacheSection, KernelCache

__all__ = ["cache_folders", "read_caches"]

# Source: torch/_inductor/codecache.py and runtime/cache_dir_utils.py of torch 2.4 to 2.15.
_SECTIONS = frozenset(
    {"aotautograd", "autotune", "caching", "fxgraph", "locks", "precompiled_headers", "subgraph", "cutlass", "cache"}
)
_GENERATED = re.compile(r"c[a-z2-7]{51}\.")
_SHARD = re.compile(r"[a-z2-7_]{2}")


def cache_folders(environ: Mapping[str, str]) -> tuple[tuple[Path, str], ...]:
    """Where Triton and Inductor keep kernels in this environment, with what named each place, existing or not.

    Triton: ``TRITON_CACHE_DIR``, else ``.triton/cache`` below ``TRITON_HOME`` (from 3.2 on) or the home folder.
    Inductor: ``TORCHINDUCTOR_CACHE_DIR``, else ``torchinductor_USER`` in the folder for temporary files.
    """
    found: list[tuple[Path, str]] = []
    if named := environ.get("TRITON_CACHE_DIR"):
        found.append((Path(named), "TRITON_CACHE_DIR"))
    else:
        if home := environ.get("TRITON_HOME"):
            found.append((Path(home) / ".triton" / "cache", "TRITON_HOME"))
        found.append((Path(os.path.expanduser("~")) / ".triton" / "cache", "default"))  # noqa: PTH111 - no home: stays "~"
    if named := environ.get("TORCHINDUCTOR_CACHE_DIR"):
        found.append((Path(named), "TORCHINDUCTOR_CACHE_DIR"))
    else:
        found.append((Path(tempfile.gettempdir()) / f"torchinductor_{_user()}", "default"))
    return tuple(found)


def read_caches(environ: Mapping[str, str] | None = None, *, folders: Iterable[Path] = ()) -> tuple[KernelCache, ...]:
    """Lists the caches of the environment, or those in ``folders`` if any are given.

    Raises:
        UsageError: ``kernel-cache-missing`` or ``not-a-kernel-cache`` for one of ``folders``; the places that the
            environment names need not exist, and are left out if they hold something else.
    """
    named = [Path(folder) for folder in folders]
    found: dict[Path, KernelCache] = {}
    for folder in named:
        for cache in _required(folder):
            found.setdefault(cache.path, cache)
    if not named:
        for folder, origin in cache_folders(os.environ if environ is None else environ):
            if folder.is_dir():
                for cache in _read(folder, origin):
                    found.setdefault(cache.path, cache)
    return tuple(found.values())


def _required(folder: Path) -> tuple[KernelCache, ...]:
    details = {"dir": str(folder)}
    if not folder.is_dir():
        raise UsageError(
            "kernel-cache-missing",
            f"there is no folder {folder}",
            hint="give the folder that TRITON_CACHE_DIR or TORCHINDUCTOR_CACHE_DIR names",
            details=details,
        )
    caches = _read(folder, "--dir")
    if not any(cache.entries or cache.sections for cache in caches) and any(folder.iterdir()):
        raise UsageError(
            "not-a-kernel-cache",
            f"{folder} does not look like a kernel cache: no folder in it is named like a key of Triton or Inductor",
            hint="give the cache itself, e.g. ~/.triton/cache",
            details=details,
        )
    return caches


def _read(folder: Path, origin: str) -> tuple[KernelCache, ...]:
    """The cache in a folder; an Inductor cache is followed by the Triton caches in it."""
    root = folder.resolve()
    names = _directories(root)
    nested = [root / "triton" / device for device in _directories(root / "triton")] if "triton" in names else []
    nested = [device for device in nested if any(layout_of(name) for name in _directories(device))]
    sections = tuple(_section(name, root / name) for name in names if name in _SECTIONS or _is_shard(name, root / name))
    keys = [name for name in names if layout_of(name)]
    if not keys and (nested or sections):
        known = {section.name for section in sections} | {"triton"}
        inductor = KernelCache(
            path=root, kind="inductor", origin=origin, sections=sections, foreign=_foreign(root, known)
        )
        return (inductor, *(_triton(device, "inductor") for device in nested))
    return (_triton(root, origin),)


def _triton(root: Path, origin: str) -> KernelCache:
    entries: list[CacheEntry] = []
    for name in _directories(root):
        layout = layout_of(name)
        if layout is not None:
            entry = read_entry(root / name, layout)
            if entry.kind != "other" or entry.size_bytes:
                entries.append(entry)
    return KernelCache(
        path=root,
        kind="triton",
        origin=origin,
        entries=tuple(entries),
        foreign=_foreign(root, {entry.path.name for entry in entries}),
    )


def _directories(folder: Path) -> list[str]:
    """Names of the real folders in a folder, links left out."""
    try:
        with os.scandir(folder) as listing:
            return sorted(item.name for item in listing if item.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _foreign(root: Path, known: set[str]) -> tuple[str, ...]:
    try:
        return tuple(sorted(name for name in os.listdir(root) if name not in known and not is_trash(name)))  # noqa: PTH208
    except OSError:
        return ()


def _is_shard(name: str, path: Path) -> bool:
    """Whether it is one of the two-letter folders of generated code: each file there is named by a hash."""
    if not _SHARD.fullmatch(name):
        return False
    try:
        return any(_GENERATED.match(item) for item in os.listdir(path))  # noqa: PTH208
    except OSError:
        return False


def _section(name: str, path: Path) -> CacheSection:
    files = size = 0
    try:
        newest = path.lstat().st_mtime
    except OSError:
        newest = 0.0
    for _, status in walk(path):
        newest = max(newest, status.st_mtime)
        if stat.S_ISREG(status.st_mode):
            files += 1
            size += status.st_size
    return CacheSection(name=name, path=path, files=files, size_bytes=size, modified=newest)


def _user() -> str:
    """The user's name as Inductor writes it into a folder's name."""
    try:
        name = getpass.getuser()
    except (KeyError, ModuleNotFoundError, OSError):
        getuid = getattr(os, "getuid", None)
        name = f"uid_{getuid()}" if callable(getuid) else "unknown_user"
    return re.sub(r'[\\/:*?"<>|]', "_", name)
