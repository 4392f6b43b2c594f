"""The disk cache of the index client: one file per entry, replaced atomically, never a reason to fail.

Entries carry a checksum, so that a damaged or half-written file counts as absent. Whatever goes wrong with the disk
(full, read-only, gone) turns into a cache miss or a dropped write. Several processes may use one folder: a file is
written under a name of its own and then renamed. What lies unused is removed, see :mod:`cudalock.index.pruning`.

A library for this (hishel) was measured and left out: its import alone takes 0.15 s, which is half of what a warm run
may take, and its one database would be shared by all processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cudalock.index.packing import unpack
from cudalock.index.pruning import note_use, prune_daily

__all__ = ["CachedAnswer", "DiskCache", "freshness_seconds"]

_FORMAT = "index-2"
_LONGEST_FRESHNESS_S = 3600.0
_MAX_ENTRY_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedAnswer:
    """An answer of an index as it is kept: ``status`` 200, or 403/404/410 for "not there".

    ``url`` is where the answer came from after redirects; ``fresh_until`` is seconds since the epoch; ``packed`` is the
    body in gzip if it was sent so, and then that is what lies on the disk.
    """

    url: str
    status: int = 200
    content_type: str = ""
    etag: str = ""
    last_modified: str = ""
    stored_at: float = 0.0
    fresh_until: float = 0.0
    body: bytes = field(default=b"", repr=False)
    packed: bytes | None = field(default=None, repr=False)

    def is_fresh(self, now: float) -> bool:
        """Whether it may be used without asking; never if it comes from the future (a clock was wrong)."""
        return self.stored_at <= now < self.fresh_until

    @property
    def validators(self) -> dict[str, str]:
        """Headers that ask whether it is still current; empty if the index gave nothing to ask with."""
        headers = {}
        if self.etag:
            headers["If-None-Match"] = self.etag
        if self.last_modified:
            headers["If-Modified-Since"] = self.last_modified
        return headers


def freshness_seconds(headers: Mapping[str, str]) -> float | None:
    """How long an answer may be used unasked, from its headers (lower-case names); None: it must not be stored.

    At most an hour, whatever the index says. ``Expires`` is only read where Cache-Control says nothing.
    """
    directives = [part.strip().lower() for part in headers.get("cache-control", "").split(",")]
    if "no-store" in directives:
        return None
    if "no-cache" in directives:
        return 0.0
    seconds = 0.0
    for directive in directives:
        name, _, value = directive.partition("=")
        if name == "max-age" and value.strip('"').isdigit():
            age = headers.get("age", "0")
            seconds = float(value.strip('"')[:12]) - (float(age[:12]) if age.isdigit() else 0.0)
            break
    else:
        from email.utils import parsedate_to_datetime

        with contextlib.suppress(ValueError, TypeError, KeyError):
            seconds = (
                parsedate_to_datetime(headers["expires"]) - parsedate_to_datetime(headers["date"])
            ).total_seconds()
    return min(max(seconds, 0.0), _LONGEST_FRESHNESS_S)


class DiskCache:
    """Entries by kind and key under one folder.

    Args:
        folder: created when the first entry is written; None keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder / _FORMAT if folder is not None else None
        self.write_failure: str | None = None
        """Why the last write was dropped, if one was."""
        self._lock = threading.Lock()
        self._looked_after = False

    def is_empty(self) -> bool:
        """Whether nothing was ever kept here."""
        return self._folder is None or not self._folder.exists()

    def get(self, kind: str, key: str) -> bytes | None:
        """The content stored under the key; None if there is none that is intact."""
        entry = self._read(kind, key)
        return entry[1] if entry is not None else None

    def put(self, kind: str, key: str, content: bytes) -> None:
        """Stores content under the key, or leaves it if the disk does not let us."""
        self._write(kind, key, {}, content)

    def get_answer(self, key: str) -> CachedAnswer | None:
        """The answer stored under the key; None if there is none that is intact."""
        entry = self._read("pages", key)
        if entry is None:
            return None
        header, content = entry
        try:
            packed = content if header["packed"] else None
            return CachedAnswer(
                url=str(header["url"]),
                status=int(header["status"]),
                content_type=str(header["content_type"]),
                etag=str(header["etag"]),
                last_modified=str(header["last_modified"]),
                stored_at=float(header["stored_at"]),
                fresh_until=float(header["fresh_until"]),
                body=content if packed is None else unpack(packed, _MAX_ENTRY_BYTES),
                packed=packed,
            )
        except (KeyError, ValueError, TypeError):
            return None

    def put_answer(self, key: str, answer: CachedAnswer) -> None:
        """Stores an answer of an index."""
        header = {name: getattr(answer, name) for name in CachedAnswer.__dataclass_fields__}
        header |= {"body": None, "packed": answer.packed is not None}
        self._write("pages", key, header, answer.body if answer.packed is None else answer.packed)

    def _path(self, folder: Path, kind: str, key: str) -> Path:
        name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        return folder / kind / name[:2] / name[2:]

    def _read(self, kind: str, key: str) -> tuple[dict[str, Any], bytes] | None:
        if self._folder is None:
            return None
        try:
            path = self._path(self._folder, kind, key)
            with path.open("rb") as stream:
                note_use(stream.fileno(), path)
                header = json.loads(stream.readline(16_384))
                content = stream.read(_MAX_ENTRY_BYTES)
            intact = header["key"] == key and header["length"] == len(content) and header["crc"] == zlib.crc32(content)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return (header, content) if intact else None

    def _write(self, kind: str, key: str, header: Mapping[str, Any], content: bytes) -> None:
        if self._folder is None or len(content) > _MAX_ENTRY_BYTES:
            return
        line = json.dumps({**header, "key": key, "length": len(content), "crc": zlib.crc32(content)}).encode() + b"\n"
        if len(line) > 16_000:
            return
        path = self._path(self._folder, kind, key)
        temporary: str | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(line)
                stream.write(content)
            Path(temporary).replace(path)
            self._prune_once(self._folder)
        except OSError as error:
            self.write_failure = str(error)
            if temporary is not None:
                with contextlib.suppress(OSError):
                    Path(temporary).unlink()

    def _prune_once(self, folder: Path) -> None:
        """At the first write; several threads may write, and one of them looks after the folder."""
        with self._lock:
            if self._looked_after:
                return
            self._looked_after = True
        prune_daily(folder)
