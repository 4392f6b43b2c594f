"""Reads parts of remote files, above all of wheels: a wheel of 900 MB is asked for its METADATA in two requests.

:class:`RemoteFile` is a seekable view that fetches what is read. Where the size is unknown it begins at the end (suffix
range), because a zip file's directory is there. A read that goes on where the last one stopped continues the same
answer, so reading a large member is one request whatever the size of the pieces. Servers that do not know suffix ranges
get absolute ones; those that ignore ranges send the whole file, which then lies in a temporary file.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
import tempfile
from bisect import bisect_right
from functools import partial
from typing import IO, TYPE_CHECKING

from cudalock.errors import TransportError, UsageError
from cudalock.index.fetch import Fetcher, Stream
from cudalock.index.simple import shown_url

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["RemoteFile"]

_READ_AHEAD = 64 * 1024
_MOST_KEPT = 32 * 1024 * 1024
_SMALLEST_TAIL = 64 * 1024
_SMALL_WHEEL_TAIL = 400 * 1024
_LARGEST_TAIL = 4 * 1024 * 1024
_LARGEST_READ = 256 * 1024 * 1024
_LARGEST_FILE = 16 * 1024**3
_RANGE_STATUSES = frozenset({400, 405, 416, 501})
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")


class RemoteFile(io.RawIOBase):
    """A seekable read-only view of a remote file. For one thread at a time; close it.

    Args:
        url: absolute URL.
        fetcher: sends the requests.
        size: the announced size in bytes, if any; it is checked against what the server says.
        kept: what :meth:`fetched` of an earlier view of the same file gave.

    Reading raises TransportError (``index-unreachable`` and kin).
    """

    def __init__(self, url: str, fetcher: Fetcher, *, size: int | None = None, kept: bytes | None = None) -> None:
        super().__init__()
        self._url = url
        self._fetcher = fetcher
        self._announced = size
        self._size: int | None = None
        self._position = 0
        self._starts: list[int] = []
        self._blocks: dict[int, bytes] = {}
        self._kept = 0
        self._dropped = False
        self._stream: Stream | None = None
        self._stream_at = -1
        self._whole: IO[bytes] | None = None
        self.requests = 0
        self.bytes = 0
        if kept is not None:
            self._restore(kept)

    # -- io

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """The position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves; nothing is fetched except the size, for a position counted from the end."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position}.get(whence)
        self._position = max(0, (self.size if base is None else base) + offset)
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fills the buffer as far as the file goes."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1) -> bytes:
        """Up to ``size`` bytes from the position, fewer only at the end of the file."""
        end = self.size if size is None or size < 0 else min(self.size, self._position + size)
        if end - self._position > _LARGEST_READ:
            raise self._unusable(f"a part of {end - self._position} bytes was asked for at once")
        parts = []
        while self._position < end:
            part = self._some(self._position, end)
            if not part:
                raise self._unusable("it ends before its announced size")
            parts.append(part)
            self._position += len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Drops the connection and what was fetched."""
        if not self.closed:
            self._end_stream()
            if self._whole is not None:
                self._whole.close()
            self._blocks.clear()
        super().close()

    # -- what was fetched, for the disk cache

    def fetched(self) -> bytes | None:
        """All that was fetched, for a later view of the same file; None if that is nothing new or too much."""
        if not self.requests or not self._blocks or self._dropped or self._whole is not None or self._size is None:
            return None
        table = {"size": self._size, "blocks": [[start, len(data)] for start, data in self._blocks.items()]}
        return b"".join([json.dumps(table).encode(), b"\n", *self._blocks.values()])

    def _restore(self, kept: bytes) -> None:
        table, _, data = kept.partition(b"\n")
        with contextlib.suppress(ValueError, KeyError, TypeError):
            stated = json.loads(table)
            position = 0
            for start, length in stated["blocks"]:
                self._keep(start, data[position : position + length])
                position += length
            self._size = stated["size"]

    # -- ranges

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        if self._size is None:
            self._load_tail()
        if self._size is None:
            raise self._unusable("its size cannot be found out")
        return self._size

    def load(self, start: int, end: int) -> None:
        """Fetches exactly ``[start, end)`` with one request unless it is there already."""
        start, end = max(0, start), min(end, self.size)
        if self._whole is not None or start >= end or self._cached(start, end - start):
            return
        self._end_stream()
        data = self._fetcher.retrying(lambda: self._range(start, end))
        if data is not None:
            self._keep(start, data)

    def _some(self, start: int, end: int) -> bytes:
        """At least one byte at ``start``, at most up to ``end``."""
        if self._whole is not None:
            self._whole.seek(start)
            return self._whole.read(end - start)
        known = self._cached(start, end - start)
        if known:
            return known
        following = bisect_right(self._starts, start)
        if following < len(self._starts):
            end = min(end, self._starts[following])
        data = self._fetcher.retrying(lambda: self._continue(start, end))
        if data is None:
            return self._some(start, end)
        self._keep(start, data)
        return data[: end - start]

    def _continue(self, start: int, end: int) -> bytes | None:
        """Reads on from the running answer, or begins one at ``start``; None: the whole file is there now."""
        if self._stream is None or self._stream_at != start:
            self._end_stream()
            stream = self._open_range(f"bytes={start}-")
            if stream is None or not self._is_part(stream, start):
                self._take_whole(stream)
                return None
            self._stream, self._stream_at = stream, start
        try:
            data = self._stream.read_some(max(end - start, _READ_AHEAD))
        except BaseException:
            self._end_stream()
            raise
        self._stream_at += len(data)
        self.bytes += len(data)
        if not data:
            self._end_stream()
            raise self._unusable("it ends before its announced size")
        return data

    def _range(self, start: int, end: int) -> bytes | None:
        stream = self._open_range(f"bytes={start}-{end - 1}")
        if stream is None or not self._is_part(stream, start):
            self._take_whole(stream)
            return None
        try:
            data = stream.read(end - start)
        finally:
            stream.close()
        self.bytes += len(data)
        if len(data) < end - start:
            raise self._unusable("it ends before its announced size")
        return data

    def _load_tail(self) -> None:
        """The first request: the end of the file, which also tells the size."""
        headers: tuple[str, ...]
        if self._announced is not None:
            # METADATA and the directory lie at the end: 2 MB of torch's 900, but 0.35 MB of transformers' 10.
            length = max(_SMALLEST_TAIL, min(self._announced // 24, _SMALL_WHEEL_TAIL), self._announced // 400)
            length = min(length, _LARGEST_TAIL, max(self._announced, 1))
            headers = (f"bytes={max(0, self._announced - length)}-{max(0, self._announced - 1)}",)
        else:
            headers = (f"bytes=-{2 * _SMALLEST_TAIL}", "bytes=0-0")
        for wanted in headers:
            if self._fetcher.retrying(partial(self._tail, wanted)):
                if wanted == "bytes=0-0":
                    self.load(self.size - 2 * _SMALLEST_TAIL, self.size)
                return
        self._fetcher.retrying(lambda: self._take_whole(None))

    def _tail(self, wanted: str) -> bool:
        stream = self._open_range(wanted)
        if stream is None:
            return False
        if stream.status == 200:
            self._take_whole(stream)
            return True
        match = _CONTENT_RANGE.fullmatch(stream.headers.get("content-range", "").strip())
        if match is None:
            stream.close()
            return False
        start, last, total = (int(number) for number in match.groups())
        try:
            data = stream.read(last - start + 1) if last - start < 2 * _LARGEST_TAIL else b""
        finally:
            stream.close()
        if total > _LARGEST_FILE or not start <= last < total:
            raise self._unusable(f"it claims to have {total} bytes")
        self.bytes += len(data)
        self._size = total
        if len(data) == last - start + 1:
            self._keep(start, data)
        return True

    def _open_range(self, wanted: str) -> Stream | None:
        """An answer to a range request; None if the server does not understand the range."""
        self.requests += 1
        headers = {"Range": wanted, "Accept-Encoding": "identity"}
        stream = self._fetcher.stream(self._url, headers=headers, accept=_RANGE_STATUSES)
        if stream.status in _RANGE_STATUSES:
            stream.close()
            return None
        return stream

    def _is_part(self, stream: Stream, start: int) -> bool:
        """Whether this is a 206 that begins where it was asked to and belongs to a file of the same size."""
        match = _CONTENT_RANGE.fullmatch(stream.headers.get("content-range", "").strip())
        if stream.status != 206 or match is None or int(match[1]) != start:
            return False
        if self._size is not None and int(match[3]) != self._size:
            stream.close()
            raise self._unusable("it changed while it was read")
        return True

    def _take_whole(self, stream: Stream | None) -> None:
        """The server does not do ranges: the whole file, into a temporary one."""
        if stream is not None and stream.status != 200:
            stream.close()
            stream = None
        if stream is None:
            self.requests += 1
            stream = self._fetcher.stream(self._url, headers={"Accept-Encoding": "identity"})
        whole = tempfile.TemporaryFile(prefix="cudalock-")  # noqa: SIM115 - closed with this object
        try:
            length = self._copy(stream, whole)
        except BaseException:
            whole.close()
            raise
        finally:
            stream.close()
        self._size, self._whole = length, whole

    def _copy(self, stream: Stream, target: IO[bytes]) -> int:
        length = 0
        while chunk := stream.read(1024 * 1024):
            length += len(chunk)
            if length > _LARGEST_FILE:
                raise self._unusable(f"it has more than {_LARGEST_FILE} bytes")
            try:
                target.write(chunk)
            except OSError as error:
                raise UsageError(
                    "disk-write-failed",
                    f"{shown_url(self._url)} cannot be kept in {tempfile.gettempdir()}: {error.strerror or error}",
                    hint="set TMPDIR to a folder with room: this index serves whole files only",
                ) from None
        self.bytes += length
        if self._size not in {None, length}:
            raise self._unusable("it changed while it was read")
        return length

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _keep(self, start: int, data: bytes) -> None:
        """Remembers a part; of long sequential reads only the latest, and always the first (the zip's directory)."""
        if start not in self._blocks:
            self._starts.insert(bisect_right(self._starts, start), start)
            self._kept += len(data)
        self._blocks[start] = data
        while self._kept > _MOST_KEPT and len(self._blocks) > 2:
            oldest = list(itertools.islice(self._blocks, 2))[1]
            self._kept -= len(self._blocks.pop(oldest))
            self._starts.remove(oldest)
            self._dropped = True

    def _cached(self, start: int, length: int) -> bytes:
        index = bisect_right(self._starts, start) - 1
        if index < 0:
            return b""
        block_start = self._starts[index]
        offset = start - block_start
        return self._blocks[block_start][offset : offset + length]

    def _unusable(self, reason: str) -> TransportError:
        return TransportError(
            "index-truncated",
            f"{shown_url(self._url)} cannot be read in parts: {reason}",
            hint="try again; if it stays so, the index or a proxy on the way is at fault",
            details={"url": shown_url(self._url)},
        )
