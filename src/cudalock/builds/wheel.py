"""The architectures in a build of torch, from the text that torch itself reports (``torch.cuda.get_arch_list()``).

The text lies in ``torch/lib/libtorch_python.so`` (``torch_python.dll`` on Windows) as ``sm_75 sm_80 ... compute_90``
with a zero byte after it. Measured on 2.0.1 to 2.15.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from cudalock.builds.archive import Archive
from cudalock.errors import AnswerIsNo
from cudalock.versions import Architecture

__all__ = ["LIBRARIES", "architectures_in", "architectures_in_archive", "scan"]

LIBRARIES = ("torch/lib/libtorch_python.so", "torch/lib/torch_python.dll", "torch/lib/libtorch_python.dylib")

_ONE = rb"(?:sm|compute)_[1-9][0-9]{1,2}[af]?"
# At least two, then the zero byte. What stands before is no help: the linker may put another text's head there (2.9.1).
_LIST = re.compile(_ONE + rb"(?: " + _ONE + rb"){1,63}(?=\0)")
_SINGLE = re.compile(rb"(?<=\0)" + _ONE + rb"(?=\0)")
_OVERLAP = 4096
_LIBRARY_MAGIC = frozenset({b"\x7fELF", b"MZ\x90\x00", b"\xcf\xfa\xed\xfe"})  # Linux, Windows, macOS
_PIECE = 1 << 20


def scan(pieces: Iterable[bytes]) -> tuple[Architecture, ...]:
    """The architectures named in a binary given piece by piece, read no further than the text; empty if it has none."""
    window = b""
    singles: set[bytes] = set()
    for piece in pieces:
        window = window[-_OVERLAP:] + piece
        if found := _LIST.search(window):
            return _parse(found[0])
        singles.update(_SINGLE.findall(window))
    # A build for one GPU only: believed if the whole binary names no other.
    return _parse(singles.pop()) if len(singles) == 1 else ()


def _parse(text: bytes) -> tuple[Architecture, ...]:
    found = {Architecture.parse(word) for word in text.decode("ascii").split()}
    return tuple(sorted(found, key=lambda architecture: (architecture.ptx, architecture)))


def _file_pieces(stream: BinaryIO) -> Iterator[bytes]:
    stream.seek(0)
    while piece := stream.read(_PIECE):
        yield piece


def architectures_in_archive(archive: Archive) -> tuple[Architecture, ...]:
    """The architectures of the torch wheel behind ``archive``; empty for a CPU build.

    Raises:
        AnswerIsNo: ``wheel-unreadable`` if it is damaged, ``architectures-not-found`` if it has no torch in it.
    """
    member = archive.find(*LIBRARIES)
    if member is None:
        raise AnswerIsNo(
            "architectures-not-found", f"the wheel holds no {LIBRARIES[0]}", hint="is it a wheel of torch?"
        )
    return scan(archive.pieces(member))


def architectures_in(stream: BinaryIO) -> tuple[Architecture, ...]:
    """The machine code and PTX in a torch wheel, or in an installed ``libtorch_python.so`` itself.

    Args:
        stream: seekable; a wheel (local, or remote through ``IndexReader.open``) or the library.

    Returns:
        Ascending, machine code first; empty for a CPU build.

    Raises:
        AnswerIsNo: ``wheel-unreadable`` if the wheel is damaged, ``architectures-not-found`` if it has no torch in it.
    """
    try:
        archive = Archive(stream)
    except AnswerIsNo:
        stream.seek(0)
        if stream.read(4) not in _LIBRARY_MAGIC:
            raise
        return scan(_file_pieces(stream))
    return architectures_in_archive(archive)
