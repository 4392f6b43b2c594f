"""Reads one entry of a Triton cache: what it is, for whom, and whether it is whole. Links are never followed."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cudalock.kernels.keys import TEMPORARY
from cudalock.kernels.model import CacheEntry, EntryKind, Layout

__all__ = ["read_entry", "walk"]

_GROUP = "__grp__"
_LIBRARIES = (".so", ".pyd", ".dll")
_BINARIES = (".cubin", ".hsaco")
_LARGEST_JSON = 8 << 20  # bytes; the largest real one has a few thousand
_TAG = re.compile(r"\.(cpython-\d+t?|cp\d+t?)-")


@dataclass(kw_only=True)
class _Folder:
    """The regular files of a folder by name (size, modified), and what else was seen below it."""

    files: dict[str, tuple[int, float]] = field(default_factory=dict)
    links: list[str] = field(default_factory=list)
    writers: list[int] = field(default_factory=list)
    size_bytes: int = 0
    modified: float = 0.0


def walk(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything below a folder with its own status, links as links; what vanishes meanwhile is left out."""
    try:
        with os.scandir(folder) as listing:
            children = list(listing)
    except OSError:
        return
    for child in children:
        path = folder / child.name
        try:
            status = child.stat(follow_symlinks=False)
            yield path, status
            if stat.S_ISDIR(status.st_mode):
                yield from walk(path)
        except OSError:
            continue


def read_entry(path: Path, layout: Layout) -> CacheEntry:
    """Reads the entry in the folder ``path``, which is not a link; never raises for what lies in it."""
    folder = _look(path)
    kind, name = _kind(folder)
    base = CacheEntry(
        path=path,
        layout=layout,
        kind=kind,
        name=name,
        size_bytes=folder.size_bytes,
        modified=folder.modified,
        busy=_busy(path, folder),
    )
    if folder.links:
        return _with(base, kind="other")  # somebody's arrangement: what a link leads to is not ours to judge
    if kind == "kernel":
        return _kernel(base, folder, str(name))
    if kind == "library":
        return _library(base, folder)
    return _with(base, fault="unfinished") if kind == "fragment" else base


def _with(entry: CacheEntry, **changes: Any) -> CacheEntry:
    return replace(entry, **changes)


def _look(path: Path) -> _Folder:
    folder = _Folder()
    try:
        folder.modified = path.lstat().st_mtime
    except OSError:
        return folder
    for child, status in walk(path):
        folder.modified = max(folder.modified, status.st_mtime)
        if stat.S_ISLNK(status.st_mode):
            folder.links.append(child.name)
        elif stat.S_ISREG(status.st_mode):
            folder.size_bytes += status.st_size
            if child.parent == path:
                folder.files[child.name] = (status.st_size, status.st_mtime)
        elif match := TEMPORARY.match(child.name):
            folder.writers.append(int(match[1]))
    return folder


def _kind(folder: _Folder) -> tuple[EntryKind, str | None]:
    names = sorted(name for name in folder.files if name != "lock")
    for name in names:
        if name.endswith(".autotune.json"):
            return "autotune", name.removesuffix(".autotune.json")
    for name in names:
        if name.endswith(".json"):
            return "kernel", name.removeprefix(_GROUP).removesuffix(".json")
    for name in names:
        if name.endswith(_LIBRARIES):
            return "library", name.partition(".")[0]
    # a kernel whose compilation was cut short has its first stages only
    if all(
        Path(name).suffix in {".source", ".ttir", ".ttgir", ".llir", ".ptx", ".amdgcn", *_BINARIES} for name in names
    ):
        return "fragment", Path(names[0]).stem if names else None
    return "other", None


def _busy(path: Path, folder: _Folder) -> str | None:
    alive = next((pid for pid in folder.writers if _is_alive(pid)), None)
    if alive is not None:
        return f"process {alive} is writing it"
    if "lock" in folder.files and _is_locked(path / "lock"):
        return "its lock is held"
    return None


def _is_alive(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # asking would end it; its age decides
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _is_locked(path: Path) -> bool:
    """Whether another process holds the lock of the file (triton 2.x and Inductor use ``flock``)."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks
    finally:
        os.close(handle)
    return False


def _kernel(base: CacheEntry, folder: _Folder, name: str) -> CacheEntry:
    if f"{name}.json" not in folder.files:
        return _with(base, fault=f"corrupt: {name}.json is missing")
    metadata, fault = _json(base.path / f"{name}.json", folder)
    entry = base
    if isinstance(metadata, dict):
        entry = _described(base, metadata)
        fault = fault or (None if isinstance(metadata.get("target"), dict) or entry.architecture else "no target")
    elif fault is None:
        fault = "no object"
    if fault is not None:
        return _with(entry, fault=f"corrupt: {name}.json: {fault}")
    return _with(entry, fault=_group_fault(base.path, folder, name) or _binary_fault(base.path, folder))


def _described(entry: CacheEntry, metadata: dict[str, Any]) -> CacheEntry:
    target = metadata.get("target")
    backend = arch = None
    if isinstance(target, dict):
        backend, arch = target.get("backend"), target.get("arch")
    elif isinstance(target, (list, tuple)) and len(target) > 1:  # 2.x kept a pair
        backend, arch = target[0], target[1]
    else:
        arch = metadata.get("cc", metadata.get("arch"))
        backend = "cuda" if arch is not None else None
    version = metadata.get("triton_version")
    return _with(
        entry,
        triton=version if isinstance(version, str) else None,
        backend=str(backend) if backend is not None else None,
        architecture=_architecture(arch),
    )


def _architecture(arch: Any) -> str | None:
    if isinstance(arch, int) and not isinstance(arch, bool):
        return f"sm_{arch}"
    if isinstance(arch, str) and arch:
        return f"sm_{arch[2:]}" if re.fullmatch(r"sm\d+[af]?", arch) else arch
    return None


def _json(path: Path, folder: _Folder) -> tuple[Any, str | None]:
    size = folder.files[path.name][0]
    if size > _LARGEST_JSON:
        return None, f"{size} bytes are too many"
    try:
        return json.loads(path.read_bytes()), None
    except (ValueError, RecursionError):
        return None, "no JSON"
    except OSError:
        return {"target": {}}, None  # it cannot be read, which says nothing against it


def _group_fault(path: Path, folder: _Folder, name: str) -> str | None:
    group = f"{_GROUP}{name}.json"
    if group not in folder.files:
        return "unfinished"
    content, fault = _json(path / group, folder)
    if fault is not None:
        return f"corrupt: {group}: {fault}"
    children = content.get("child_paths") if isinstance(content, dict) else None
    if not isinstance(children, dict):
        return None  # a remote cache keeps a list of names; an unreadable file says nothing
    places = [Path(str(place)) for place in children.values()]
    if not all(place.is_absolute() for place in places):
        return None  # relative to a working folder that we do not know
    missing = [place for place in places if not place.exists()]
    if not missing:
        return None
    if len(missing) == len(places) and any(child in folder.files for child in children):
        return f"moved: it looks for its files in {missing[0].parent}"
    return f"corrupt: {missing[0].name} is missing"


def _binary_fault(path: Path, folder: _Folder) -> str | None:
    for name, (size, _) in folder.files.items():
        if name.endswith((*_BINARIES, *_LIBRARIES)):
            head = _head(path / name)
            if size == 0 or (head is not None and head[:4] != b"\x7fELF" and head[:2] != b"MZ"):
                return f"corrupt: {name} holds no machine code"
    return None


def _head(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(4)
    except OSError:
        return None


def _library(base: CacheEntry, folder: _Folder) -> CacheEntry:
    file = next(it for it in folder.files if it.endswith(_LIBRARIES))
    tag = _TAG.search(file)
    return _with(base, python=tag[1] if tag else None, fault=_binary_fault(base.path, folder))
