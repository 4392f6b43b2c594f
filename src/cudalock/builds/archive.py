"""Members of a wheel that lies far away: one read for the directory, then as much of a member as is needed.

A wheel of torch has 500-900 MB, its directory 1.2-1.4 MB and its libtorch_python.so 7-11 MB, the first 5-8 of which are
needed (measured, 2.2.0 to 2.15.0). What the archive says is not trusted: sizes are bounded, and nothing is inflated
beyond the bound.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from cudalock.errors import AnswerIsNo

__all__ = ["Archive", "Member"]

_LARGEST_DIRECTORY = 64 * 2**20
# Reads that follow each other are one request to the index client, so the pieces may be small: it stops where we do.
_READ = 256 * 1024
_LARGEST_MEMBER = 128 * 2**20
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_PIECE = 1 << 20

Member = zipfile.ZipInfo


def _broken(what: str) -> AnswerIsNo:
    return AnswerIsNo(
        "wheel-unreadable", f"the wheel cannot be read: {what}", hint="fetch the file anew and compare its sha256"
    )


class _Bounded(io.RawIOBase):
    """The stream as zipfile sees it: no read is larger than a directory may be."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._stream.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        if size > _LARGEST_DIRECTORY:
            raise _broken("its directory is larger than any wheel's")
        return _read_exactly(self._stream, size if size >= 0 else _LARGEST_DIRECTORY)


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    pieces = []
    while size > 0:
        piece = stream.read(size)
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


class Archive:
    """The directory of a zip file, and its members piece by piece.

    Raises:
        AnswerIsNo: code ``wheel-unreadable``, if the stream holds no sound zip file.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.size = stream.seek(0, io.SEEK_END)
        try:
            with zipfile.ZipFile(_Bounded(stream)) as directory:
                self._members = dict(directory.NameToInfo)
        except (zipfile.BadZipFile, OSError, ValueError, struct.error, NotImplementedError) as error:
            raise _broken(str(error) or "it is not a zip file") from error

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all members, in the order of the directory."""
        return tuple(self._members)

    def find(self, *names: str) -> Member | None:
        """The first of ``names`` that is there."""
        return next((self._members[name] for name in names if name in self._members), None)

    def read(self, member: Member, *, limit: int = 4 * 2**20) -> bytes:
        """A whole small member; raises AnswerIsNo if it is larger than ``limit`` bytes."""
        data = bytearray()
        for piece in self.pieces(member):
            data += piece
            if len(data) > limit:
                raise _broken(f"{member.filename} is larger than expected")
        return bytes(data)

    def pieces(self, member: Member) -> Iterator[bytes]:
        """A member's content, inflated while it is read; reading stops when the caller does."""
        if member.flag_bits & 0x1 or member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise _broken(f"{member.filename} is stored in a way that wheels are not")
        compressed = self._compressed(member)
        if member.compress_type == zipfile.ZIP_STORED:
            yield from compressed
            return
        yield from _inflated(compressed, member.filename)

    def _compressed(self, member: Member) -> Iterator[bytes]:
        """The member's bytes as stored; the local header comes with the first of them."""
        misplaced = _broken(f"{member.filename} is not where the directory says")
        if not 0 <= member.header_offset < self.size:
            raise misplaced
        self._stream.seek(member.header_offset)
        block = _read_exactly(self._stream, min(_READ, self.size - member.header_offset))
        if len(block) < _LOCAL_HEADER.size or not block.startswith(b"PK\3\4"):
            raise misplaced
        _, name_length, extra_length = _LOCAL_HEADER.unpack_from(block)
        begin = _LOCAL_HEADER.size + name_length + extra_length
        left = member.compress_size
        position = member.header_offset + begin
        data = block[begin : begin + left]
        while True:
            if data:
                yield data
            left -= len(data)
            position += len(data)
            if left <= 0:
                return
            self._stream.seek(position)
            data = _read_exactly(self._stream, min(_READ, left))
            if not data:
                raise _broken(f"{member.filename} is cut off")


def _inflated(compressed: Iterator[bytes], name: str) -> Iterator[bytes]:
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    total = 0
    for block in compressed:
        rest = block
        while rest and not inflate.eof:
            try:
                piece = inflate.decompress(rest, _PIECE)
            except zlib.error as error:
                raise _broken(f"{name}: {error}") from error
            rest = inflate.unconsumed_tail
            total += len(piece)
            if total > _LARGEST_MEMBER:
                raise _broken(f"{name} inflates to more than any wheel's would")
            yield piece
        if inflate.eof:
            return
    if not inflate.eof:
        raise _broken(f"{name} is cut off")
