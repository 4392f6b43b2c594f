"""The faithful indexes as an ``IndexReader``, without HTTP: pages and metadata are parsed once per process."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache
from typing import BinaryIO

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from cudalock.errors import TransportError
from cudalock.index.model import CoreMetadata, IndexFile, PageRef, ProjectPage
from faithful.data import FaithfulData, Row

__all__ = ["FaithfulReader"]


class FaithfulReader:
    """Implements ``IndexReader`` over the faithful data.

    Args:
        pytorch_reachable: if False, every page of the PyTorch index raises ``index-unreachable``.

    Attributes:
        log: every page that was asked for, in order.
        opened: every file whose body was opened.
        downloaded: every file that had to be hashed because the index announces no sha256.
    """

    def __init__(self, *, pytorch_reachable: bool = True) -> None:
        self.data = FaithfulData.load()
        self.pytorch_reachable = pytorch_reachable
        self.log: list[PageRef] = []
        self.opened: list[IndexFile] = []
        self.downloaded: list[IndexFile] = []

    def page(self, ref: PageRef) -> ProjectPage:
        self.log.append(ref)
        if ref.index == "pytorch" and not self.pytorch_reachable:
            raise TransportError("index-unreachable", "the PyTorch index does not answer", hint="try again later")
        if ref.index not in {"main", "pytorch"}:
            raise TransportError("index-unreachable", f"there is no index {ref.index} here", hint="none")
        return _page(ref)

    def metadata(self, file: IndexFile) -> CoreMetadata:
        return _metadata(_row(file))

    def open(self, file: IndexFile) -> BinaryIO:
        self.opened.append(file)
        return io.BytesIO(self.data.body(_row(file)))

    def sha256(self, file: IndexFile) -> str:
        if file.sha256 is not None:
            return file.sha256
        self.downloaded.append(file)
        return hashlib.sha256(self.data.body(_row(file))).hexdigest()

    def ahead(self, task: Callable[[], object]) -> None:
        """Drops it, as a reader may."""

    def prefetch(self, *, pages: Iterable[PageRef] = (), metadata: Iterable[IndexFile] = ()) -> None:
        """Nothing to fetch; the arguments are consumed as a real client would."""
        for ref in pages:
            self.log.append(ref)
        list(metadata)


# Before version 2.2 metadata does not say which fields are dynamic; FaithfulData writes 2.1 where it has no Dynamic line.
_UNSTATED = frozenset({"requires-dist", "requires-python", "provides-extra"})
_ROWS: dict[tuple[str, str], Row] = {}


def _row(file: IndexFile) -> Row:
    key = (file.page.index, file.url)
    if key not in _ROWS:
        _page(file.page)
    return _ROWS[key]


@cache
def _page(ref: PageRef) -> ProjectPage:
    data = FaithfulData.load()
    if ref.index == "main":
        rows = data.main.get(ref.project, ())
        url = f"https://main.example/simple/{ref.project}/"
    else:
        rows = data.pytorch_rows(ref.label, ref.project) + data.linked_rows(ref.label or "", ref.project)
        url = f"https://download.pytorch.org/whl/{f'{ref.label}/' if ref.label else ''}{ref.project}/"
    return ProjectPage(ref=ref, url=url, files=tuple(_file(ref, row) for row in rows), found=bool(rows))


def _file(ref: PageRef, row: Row) -> IndexFile:
    _ROWS[ref.index, row.url] = row
    data = FaithfulData.load()
    sidecar: dict[str, str] | None = None
    if row.sidecar != "no":
        sidecar = {"sha256": hashlib.sha256(data.metadata_text(row)).hexdigest()}
    return IndexFile(
        page=ref,
        url=row.url,
        filename=row.filename,
        hashes={"sha256": row.sha256} if row.sha256 else {},
        requires_python=data.metadata[row.metadata].requires_python if row.label is None else None,
        upload_time=datetime.fromtimestamp(row.time, UTC) if row.time else None,
        metadata=sidecar,
    )


def _metadata(row: Row) -> CoreMetadata:
    name, requires_python, requires, extras, dynamic = _parsed(row.metadata)
    return CoreMetadata(
        name=name, version=_version(row.version), requires_python=requires_python, requires=requires, extras=extras, dynamic=dynamic
    )  # fmt: skip


@cache
def _version(text: str) -> Version:
    return Version(text.replace("%2B", "+"))


@cache
def _parsed(
    number: int,
) -> tuple[NormalizedName, SpecifierSet, tuple[Requirement, ...], frozenset[str], frozenset[str]]:
    entry = FaithfulData.load().metadata[number]
    requires = tuple(Requirement(text) for text in entry.requires)
    return (
        canonicalize_name(entry.name),
        SpecifierSet(entry.requires_python or ""),
        requires,
        frozenset(entry.extras),
        frozenset(entry.dynamic) or _UNSTATED,
    )
