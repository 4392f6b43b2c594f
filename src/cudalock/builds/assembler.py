"""Which assemblers a release of triton brings: the table's row, else read out of the release's own wheel."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from packaging.version import Version

from cudalock import facts
from cudalock.builds.archive import Archive
from cudalock.builds.model import TritonRelease
from cudalock.errors import AnswerIsNo
from cudalock.index.model import IndexFile, IndexReader
from cudalock.versions import CudaVersion

__all__ = ["assembler_release", "known_triton", "read_triton", "triton_release"]

_FOLDERS = ("triton/backends/nvidia/bin/", "triton/third_party/cuda/bin/")
_SELECTION = "triton/backends/nvidia/compiler.py"
_RELEASE = re.compile(rb"Cuda compilation tools, release (\d{1,2}\.\d{1,2}), V(\d{1,2}\.\d{1,2}(?:\.\d{1,4})?)")
_THRESHOLD = re.compile(rb"blackwell[^\n]{0,120}?arch\s*>=\s*(\d{2,3})|arch\s*>=\s*(\d{2,3})[^\n]{0,120}?blackwell")
_OVERLAP = 256


class _Members(Protocol):
    def __call__(self, *names: str) -> Iterable[bytes] | None: ...


def known_triton(version: Version) -> TritonRelease | None:
    """The table's row for a release of triton, None if the table does not know it."""
    row = facts.triton_row(version)
    if row is None:
        return None
    return TritonRelease(
        version=version,
        ptxas=row.ptxas,
        ptxas_blackwell=row.ptxas_blackwell,
        blackwell_from=row.blackwell_from,
        evidence="table",
        origin=row.source,
    )


def triton_release(
    version: Version, *, file: IndexFile | None = None, reader: IndexReader | None = None
) -> TritonRelease:
    """The assemblers of a release of triton.

    Args:
        version: of triton (or pytorch-triton).
        file: its wheel, for a release that the table does not know.
        reader: through which the wheel is read.

    Raises:
        AnswerIsNo: ``triton-release-unknown``, if the table does not know it and there is no wheel that tells.
    """
    if (known := known_triton(version)) is not None:
        return known
    if file is None or reader is None or file.kind != "wheel":
        raise AnswerIsNo(
            "triton-release-unknown",
            f"which assembler triton {version} calls is not known, and there is no wheel of it to read",
            hint="--without-triton leaves the rule out",
        )
    with reader.open(file) as stream:
        archive = Archive(stream)

        def members(*names: str) -> Iterable[bytes] | None:
            member = archive.find(*names)
            return None if member is None else archive.pieces(member)

        return read_triton(version, members, origin=file.filename)


def read_triton(version: Version, members: _Members, *, origin: str) -> TritonRelease:
    """The assemblers from a wheel's or an environment's own files.

    Args:
        version: of triton.
        members: gives the content of the first of the named files, piece by piece, or None if there is none.
        origin: what was read, for the evidence.
    """
    first = members(*(f"{folder}ptxas" for folder in _FOLDERS), *(f"{folder}ptxas.exe" for folder in _FOLDERS))
    ptxas = assembler_release(first) if first is not None else None
    if ptxas is None:
        raise AnswerIsNo("triton-release-unknown", f"{origin} holds no assembler that tells its version")
    second = members(*(f"{folder}ptxas-blackwell" for folder in _FOLDERS))
    blackwell = assembler_release(second) if second is not None else None
    return TritonRelease(
        version=version,
        ptxas=CudaVersion.parse(ptxas),
        ptxas_blackwell=CudaVersion.parse(blackwell) if blackwell else None,
        blackwell_from=_threshold(members) if blackwell else None,
        evidence="wheel",
        origin=origin,
    )


def assembler_release(pieces: Iterable[bytes]) -> str | None:
    """The release that a ptxas binary prints of itself, e.g. ``12.8.93``; None if it holds no such text."""
    window = b""
    for piece in pieces:
        window = window[-_OVERLAP:] + piece
        if found := _RELEASE.search(window):
            return found[2].decode("ascii")
    return None


def _threshold(members: _Members) -> int:
    """Where the second assembler is called; as in the newest known, if the source does not tell."""
    pieces = members(_SELECTION)
    if pieces is not None and (found := _THRESHOLD.search(b"".join(pieces))):
        return int(found[1] or found[2])
    newest = [row.blackwell_from for row in facts.triton_rows() if row.blackwell_from is not None]
    return newest[-1] if newest else 100
