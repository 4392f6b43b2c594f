"""Which files the dynamic loader would take, worked out from its own rules without loading anything.

The order for a library that some file needs: LD_PRELOAD, the RPATHs along the chain of loading files (unless the file
has a RUNPATH), LD_LIBRARY_PATH, the file's RUNPATH, ``ld.so.cache``, the default folders (``man ld.so``). A library
that is already loaded under its soname is not searched again.
"""

from __future__ import annotations

import re
import struct
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from cudalock.doctor.collect.elf import ElfFacts, read_elf
from cudalock.doctor.model import LoadPath

__all__ = ["Loaded", "Loader", "read_cache", "version_in_name"]

_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_CACHE_HEADER = 48
_CACHE_ENTRY = struct.Struct("<iIIIQ")
_CACHE_FLAGS = {"x86_64": 0x0303, "aarch64": 0x0A03}
_DEFAULT_FOLDERS = ("lib64", "usr/lib64", "lib", "usr/lib")
_MOST_FILES = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A library as the loader finds it: by which step, and for which file."""

    soname: str
    path: Path | None
    how: LoadPath | None
    asked_by: Path | None


def read_cache(path: Path, machine: str) -> Mapping[str, str]:
    """Soname -> path of ``/etc/ld.so.cache`` for this machine; empty if it is missing or of an unknown format."""
    try:
        content = path.read_bytes()
    except OSError:
        return {}
    start = content.find(_CACHE_MAGIC)
    if start < 0:
        return {}
    body = content[start:]
    wanted = _CACHE_FLAGS.get(machine)
    (count,) = struct.unpack_from("<I", body, 20)
    found: dict[str, str] = {}
    for index in range(count):
        offset = _CACHE_HEADER + index * _CACHE_ENTRY.size
        if offset + _CACHE_ENTRY.size > len(body):
            break
        flags, key, value, _, hardware = _CACHE_ENTRY.unpack_from(body, offset)
        if (wanted is None or flags == wanted) and not hardware:
            found.setdefault(_text(body, key), _text(body, value))
    return found


def _text(body: bytes, offset: int) -> str:
    end = body.find(b"\0", offset)
    return body[offset : end if end >= 0 else None].decode("utf-8", "replace")


def version_in_name(path: PurePath | None) -> str | None:
    """The release in a library's file name, e.g. ``9.10.2`` of ``libcudnn.so.9.10.2``; None for a bare soname."""
    match = re.search(r"\.so\.(\d+(?:\.\d+)+)$", path.name if path else "")
    return match[1] if match else None


class Loader:
    """The loader of one machine, environment and (for its own RPATH) Python interpreter."""

    def __init__(
        self, environ: Mapping[str, str], *, machine: str, root: Path = Path("/"), executable: Path | None = None
    ) -> None:
        """Reads the cache once; ``root`` stands for ``/`` (folders of variables are taken below it too)."""
        self._root = root
        self._cache = read_cache(root / "etc/ld.so.cache", machine)
        multiarch = (f"lib/{machine}-linux-gnu", f"usr/lib/{machine}-linux-gnu")
        self._defaults = [str(root / folder) for folder in (*multiarch, *_DEFAULT_FOLDERS)]
        self._library_path = [self._below(folder) for folder in _split(environ.get("LD_LIBRARY_PATH", ""))]
        self._preloaded = [
            Path(self._below(name)) for name in re.split(r"[: ]+", environ.get("LD_PRELOAD", "")) if "/" in name
        ]
        facts = read_elf(executable.resolve()) if executable else None
        self._base = _expanded(facts.rpath, facts.path) if facts else ()
        self._known: dict[Path, ElfFacts | None] = {}

    def _below(self, folder: str) -> str:
        return folder if self._root == Path("/") else str(self._root / folder.lstrip("/"))

    def elf(self, path: Path) -> ElfFacts | None:
        """The facts of a file, read once."""
        if path not in self._known:
            self._known[path] = read_elf(path)
        return self._known[path]

    def find(
        self, soname: str, asked_by: ElfFacts | None = None, chain: Sequence[str] = (), *, ambient: bool = True
    ) -> Loaded:
        """Where the loader finds a library.

        Args:
            soname: of the library.
            asked_by: the file that needs it; None if a program opens it by name.
            chain: RPATH folders of the files that led to ``asked_by``.
            ambient: False leaves the variables and the interpreter's RPATH out: what would be found without them.
        """
        steps: list[tuple[LoadPath, Iterable[str]]] = []
        if ambient:
            for path in self._preloaded:
                if path.name == soname or ((facts := self.elf(path)) and facts.soname == soname):
                    return Loaded(soname=soname, path=path, how="LD_PRELOAD", asked_by=_path_of(asked_by))
            if asked_by is None or not asked_by.runpath:
                own = _expanded(asked_by.rpath, asked_by.path) if asked_by else ()
                steps += [("RPATH", (*own, *chain)), ("conda", self._base)]
            steps.append(("LD_LIBRARY_PATH", self._library_path))
        elif asked_by is not None and not asked_by.runpath:
            steps.append(("RPATH", (*_expanded(asked_by.rpath, asked_by.path), *chain)))
        if asked_by is not None:
            steps.append(("RUNPATH", _expanded(asked_by.runpath, asked_by.path)))
        for how, folders in steps:
            for folder in folders:
                candidate = Path(folder) / soname
                if candidate.is_file():
                    return Loaded(soname=soname, path=candidate, how=how, asked_by=_path_of(asked_by))
        if (cached := self._cache.get(soname)) and Path(self._below(cached)).is_file():
            return Loaded(soname=soname, path=Path(self._below(cached)), how="ld.so.cache", asked_by=_path_of(asked_by))
        for folder in self._defaults:
            if (Path(folder) / soname).is_file():
                return Loaded(soname=soname, path=Path(folder) / soname, how="default", asked_by=_path_of(asked_by))
        return Loaded(soname=soname, path=None, how=None, asked_by=_path_of(asked_by))

    def load(
        self, roots: Iterable[Path], *, before: Mapping[str, Loaded] | None = None, deadline: float | None = None
    ) -> dict[str, Loaded]:
        """What ends up loaded when ``roots`` are, in that order: soname -> where it came from, breadth first.

        Args:
            roots: files that are opened by path.
            before: what is loaded already.
            deadline: of :func:`time.monotonic`; then the answer stops short.
        """
        loaded: dict[str, Loaded] = dict(before or {})
        for root in roots:
            queue: deque[tuple[Path, tuple[str, ...]]] = deque([(root, ())])
            facts = self.elf(root)
            if facts is not None:
                name = facts.soname or root.name
                loaded.setdefault(name, Loaded(soname=name, path=root, how="already-loaded", asked_by=None))
            while queue and len(loaded) < _MOST_FILES:
                if deadline is not None and time.monotonic() > deadline:
                    return loaded
                path, chain = queue.popleft()
                facts = self.elf(path)
                if facts is None:
                    continue
                for soname in facts.needed:
                    if soname in loaded:
                        continue
                    found = self.find(soname, facts, chain)
                    loaded[soname] = found
                    if found.path is not None:
                        queue.append((found.path, (*_expanded(facts.rpath, facts.path), *chain)))
        return loaded


def _split(text: str) -> list[str]:
    """The folders of LD_LIBRARY_PATH; an empty part stands for the current folder."""
    return [part or "." for part in re.split("[:;]", text)] if text else []


def _expanded(folders: Iterable[str], path: Path) -> tuple[str, ...]:
    origin = str(path.parent)
    return tuple(folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for folder in folders)


def _path_of(facts: ElfFacts | None) -> Path | None:
    return facts.path if facts else None
