"""Takes entries out of a cache while jobs may be using it: renamed away in one step, then deleted.

Nothing outside the cache is ever touched: the cache's folder is held open, names are resolved below it, and links are
removed as links.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cudalock.kernels.entries import read_entry, walk
from cudalock.kernels.judge import why_stale
from cudalock.kernels.keys import TRASH, is_trash
from cudalock.kernels.model import CacheEntry, CacheSection, KernelCache, KernelEnvironment, Removal

__all__ = ["clear", "prune", "YOUNG_S"]

YOUNG_S = 600.0
"""Seconds for which an entry counts as in use after its last change: a long kernel compiles for minutes."""

_USE_DIR_FD = os.rename in os.supports_dir_fd and shutil.rmtree.avoids_symlink_attacks


def prune(
    caches: tuple[KernelCache, ...],
    environment: KernelEnvironment,
    *,
    delete: bool = False,
    young_s: float = YOUNG_S,
    now: float | None = None,
) -> tuple[Removal, ...]:
    """Removes the entries that the environment can never use again, and nothing else.

    Args:
        caches: as read.
        environment: what of it is unknown removes nothing.
        delete: really; otherwise only says what would be removed.
        young_s: an entry that changed in the last ``young_s`` seconds stays.
        now: seconds since the epoch, for tests.

    Returns:
        One outcome for each entry that is not of use; entries that are, are not mentioned.
    """
    clock = time.time() if now is None else now
    done: list[Removal] = []
    for cache in caches:
        with _Remover.on(cache.path, delete=delete, clock=clock, young_s=young_s) as remover:
            for entry in cache.entries:
                why = why_stale(entry, environment)
                if why is not None:
                    done.append(remover.entry(entry, why, still=lambda it: why_stale(it, environment)))
            done += remover.left_over()
    return tuple(done)


def clear(
    caches: tuple[KernelCache, ...], *, delete: bool = False, young_s: float = YOUNG_S, now: float | None = None
) -> tuple[Removal, ...]:
    """Removes everything that is part of the caches, what is in use excepted; arguments as for :func:`prune`."""
    clock = time.time() if now is None else now
    done: list[Removal] = []
    for cache in caches:
        with _Remover.on(cache.path, delete=delete, clock=clock, young_s=young_s) as remover:
            done += [remover.entry(entry, "cleared", still=lambda _: "cleared") for entry in cache.entries]
            # held locks live in there; the files are empty
            done += [remover.section(section) for section in cache.sections if section.name != "locks"]
            done += remover.left_over()
    return tuple(done)


class _Remover:
    """Removes names from one folder that it holds open."""

    def __init__(self, root: Path, handle: int | None, *, delete: bool, clock: float, young_s: float) -> None:
        self._root = root
        self._handle = handle
        self._delete = delete
        self._clock = clock
        self._young_s = young_s

    @classmethod
    @contextmanager
    def on(cls, root: Path, *, delete: bool, clock: float, young_s: float) -> Iterator[_Remover]:
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) if _USE_DIR_FD else None
        try:
            yield cls(root, handle, delete=delete, clock=clock, young_s=young_s)
        finally:
            if handle is not None:
                os.close(handle)

    def entry(self, entry: CacheEntry, why: str, *, still: Callable[[CacheEntry], str | None]) -> Removal:
        """Removes an entry unless a job may be using it; before that it is read once more."""
        reason = self._in_use(entry)
        if reason is None and self._delete:
            entry = read_entry(entry.path, entry.layout)
            reason = self._in_use(entry) or (None if still(entry) else "it has been mended meanwhile")
        return self._remove(entry.path, entry.size_bytes, why, reason)

    def section(self, section: CacheSection) -> Removal:
        """Removes a section of an Inductor cache unless something in it is young."""
        newest = max((status.st_mtime for _, status in walk(section.path)), default=section.modified)
        return self._remove(section.path, section.size_bytes, "cleared", self._young(newest))

    def left_over(self) -> list[Removal]:
        """Finishes what an earlier run began: folders that it renamed and could not delete any more."""
        try:
            names = sorted(name for name in os.listdir(self._root) if is_trash(name))  # noqa: PTH208
        except OSError:
            return []
        done = []
        for name in names:
            owner = name.removeprefix(TRASH).partition("-")[0]
            if owner != str(os.getpid()):
                done.append(self._drop(name, self._root / name, 0, "left over by an earlier run"))
        return done

    def _in_use(self, entry: CacheEntry) -> str | None:
        # who writes may live on another machine that shares the folder: then only the age tells
        return (entry.busy if self._recent(entry.modified) or entry.busy is None or "lock" in entry.busy else None) or (
            self._young(entry.modified)
        )

    def _recent(self, modified: float) -> bool:
        return self._clock - modified < 86_400  # a process of the same number a day later is another one

    def _young(self, modified: float) -> str | None:
        age = self._clock - modified
        return f"changed {max(age, 0):.0f} s ago: a job may be using it" if age < self._young_s else None

    def _remove(self, path: Path, size: int, why: str, in_use: str | None) -> Removal:
        if in_use is not None:
            return Removal(path=path, outcome="kept", why=f"{why}; {in_use}", size_bytes=size)
        if not self._delete:
            return Removal(path=path, outcome="would-remove", why=why, size_bytes=size)
        trash = f"{TRASH}{os.getpid()}-{uuid.uuid4().hex[:12]}"
        try:
            self._rename(path.name, trash)
        except FileNotFoundError:
            return Removal(path=path, outcome="removed", why=f"{why}; somebody else removed it", size_bytes=0)
        except OSError as error:
            return Removal(path=path, outcome="failed", why=error.strerror or str(error), size_bytes=size)
        return self._drop(trash, path, size, why)

    def _rename(self, old: str, new: str) -> None:
        status = (
            os.stat(old, dir_fd=self._handle, follow_symlinks=False)
            if self._handle is not None
            else (self._root / old).lstat()
        )
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(20, "it is no folder any more")
        if self._handle is not None:
            os.rename(old, new, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        else:
            os.rename(self._root / old, self._root / new)  # noqa: PTH104 - beside its twin above

    def _drop(self, name: str, path: Path, size: int, why: str) -> Removal:
        if not self._delete:
            return Removal(path=path, outcome="would-remove", why=why, size_bytes=size)
        try:
            if self._handle is not None:
                shutil.rmtree(name, dir_fd=self._handle)
            else:
                shutil.rmtree(self._root / name)
        except FileNotFoundError:
            pass
        except OSError as error:
            return Removal(path=path, outcome="failed", why=error.strerror or str(error), size_bytes=size)
        return Removal(path=path, outcome="removed", why=why, size_bytes=size)


if sys.platform == "win32":  # an open file there cannot be renamed: the rename fails, and the entry stays
    _USE_DIR_FD = False
