"""Downloads whole files: resumed where a connection breaks, hashed on the way, in place only when complete."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import IO

from cudalock.errors import TransportError, UsageError
from cudalock.index.fetch import Fetcher
from cudalock.index.model import IndexFile
from cudalock.index.simple import shown_url
from cudalock.progress import Reporter

__all__ = ["download_file"]

_CHUNK = 1024 * 1024
_LARGEST_FILE = 16 * 1024**3


def download_file(fetcher: Fetcher, file: IndexFile, destination: Path | None, reporter: Reporter) -> str:
    """Downloads the file and returns its sha256; ``destination`` None only computes that.

    Raises:
        TransportError: ``index-hash-conflict`` if the content is not the announced one; the network's errors.
        UsageError: ``disk-write-failed``.
    """
    if destination is None:
        return _transfer(fetcher, file, None, reporter)
    temporary: str | None = None
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=destination.parent)
        with os.fdopen(descriptor, "wb") as target:
            digest = _transfer(fetcher, file, target, reporter)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(destination)
        temporary = None
    except OSError as error:
        raise UsageError(
            "disk-write-failed",
            f"{file.filename} cannot be written to {destination.parent}: {error.strerror or error}",
            hint="choose a folder that can be written and has room",
        ) from None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
    return digest


def _transfer(fetcher: Fetcher, file: IndexFile, target: IO[bytes] | None, reporter: Reporter) -> str:
    transfer = _Transfer(fetcher, file, target, reporter)
    fetcher.retrying(transfer.attempt)
    if file.size is not None and transfer.done != file.size:
        raise _not_as_announced(file, f"it has {transfer.done} bytes instead of {file.size}")
    digest = transfer.digest
    if file.sha256 is not None and digest != file.sha256:
        raise _not_as_announced(file, f"its sha256 is {digest} instead of {file.sha256}")
    return digest


class _Transfer:
    """A download over several attempts; each goes on where the last one stopped, if the server can do that."""

    def __init__(self, fetcher: Fetcher, file: IndexFile, target: IO[bytes] | None, reporter: Reporter) -> None:
        self._fetcher = fetcher
        self._file = file
        self._target = target
        self._reporter = reporter
        self._hash = hashlib.sha256()
        self.done = 0

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def attempt(self) -> None:
        headers = {"Accept-Encoding": "identity"}
        if self.done:
            headers["Range"] = f"bytes={self.done}-"
        stream = self._fetcher.stream(self._file.url, headers=headers, accept=frozenset({416}))
        try:
            resumed = stream.headers.get("content-range", "").startswith(f"bytes {self.done}-")
            if self.done and not (stream.status == 206 and resumed):
                self._restart()
            if stream.status == 416:
                raise _not_as_announced(self._file, "it got shorter while it was downloaded")
            while chunk := stream.read_some(_CHUNK):
                self._take(chunk)
        finally:
            stream.close()

    def _restart(self) -> None:
        self.done = 0
        self._hash = hashlib.sha256()
        if self._target is not None:
            self._target.seek(0)
            self._target.truncate()

    def _take(self, chunk: bytes) -> None:
        self._hash.update(chunk)
        if self._target is not None:
            self._target.write(chunk)
        self.done += len(chunk)
        if self.done > (self._file.size if self._file.size is not None else _LARGEST_FILE):
            raise _not_as_announced(self._file, "it is longer than announced")
        self._reporter.advance(self._file.filename, self.done, self._file.size, unit="bytes")


def _not_as_announced(file: IndexFile, reason: str) -> TransportError:
    return TransportError(
        "index-hash-conflict",
        f"{shown_url(file.url)} is not the file that the index announced: {reason}",
        hint="do not install it; try again later, and report it to the index if it stays so",
        details={"url": shown_url(file.url)},
    )
