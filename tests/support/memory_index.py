"""An index in memory: a second implementation of the IndexReader port, for tests that are not about HTTP.

It keeps a log of the pages that were asked for, and can be told that an index does not answer.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import BinaryIO

from packaging.utils import canonicalize_name

from cudalock.errors import TransportError
from cudalock.index.metadata import parse_metadata
from cudalock.index.model import CoreMetadata, IndexFile, PageRef, ProjectPage
from support.wheels import make_metadata

__all__ = ["LINUX", "MemoryIndex"]

LINUX = "cp312-cp312-manylinux_2_28_x86_64"


@dataclass
class MemoryIndex:
    """Files by page. ``silent`` names indexes that do not answer, ``asked`` is the log of pages read or announced."""

    files: dict[PageRef, list[IndexFile]] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    asked: list[PageRef] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    _metadata: dict[str, bytes] = field(default_factory=dict)

    def add(
        self,
        name: str,
        version: str,
        *requires: str,
        tags: str = "py3-none-any",
        label: str | None = None,
        index: str | None = None,
        extras: Mapping[str, Iterable[str]] | None = None,
        requires_python: str | None = None,
        yanked: bool | str = False,
        uploaded: datetime | None = None,
        sdist: bool = False,
        folder: str | None = None,
        content: bytes | None = None,
        overrides: Mapping[str, str | None] | None = None,
    ) -> IndexFile:
        """One file; ``label`` puts it on that page of the PyTorch index, ``folder`` into another folder of it."""
        project = canonicalize_name(name)
        page = PageRef(index or ("pytorch" if label is not None else "main"), project, label)
        stem = f"{name.replace('-', '_')}-{version}"
        filename = f"{stem}.tar.gz" if sdist else f"{stem}-{tags}.whl"
        host = f"https://{page.index}.example"
        where = folder if folder is not None else label
        url = f"{host}/whl/{where}/{filename}" if where else f"{host}/files/{filename}"
        file = IndexFile(
            page=page,
            url=url,
            filename=filename,
            hashes={"sha256": hashlib.sha256(url.encode()).hexdigest()},
            requires_python=requires_python,
            yanked=yanked,
            upload_time=uploaded,
            metadata={},
        )
        self.files.setdefault(page, []).append(file)
        kind = {"Metadata-Version": "2.2"} if sdist else {}
        self._metadata[url] = make_metadata(
            name,
            version,
            requires=requires,
            extras=extras,
            requires_python=requires_python,
            overrides={**kind, **(overrides or {})},
        )
        if content is not None:
            self.contents[url] = content
        return file

    # -- the port

    def page(self, ref: PageRef) -> ProjectPage:
        self.asked.append(ref)
        if ref.index in self.silent:
            raise TransportError("index-unreachable", f"the {ref.index} index at https://{ref.index}.example is silent")
        files = self.files.get(ref)
        return ProjectPage(
            ref=ref, url=f"https://{ref.index}.example", files=tuple(files or ()), found=files is not None
        )

    def metadata(self, file: IndexFile) -> CoreMetadata:
        if file.page.index in self.silent:
            raise TransportError("index-unreachable", f"the {file.page.index} index is silent")
        if file.url not in self._metadata:
            raise TransportError("index-file-missing", f"there is no {file.url}")
        self.read.append(file.filename)
        return parse_metadata(self._metadata[file.url], file.filename)

    def open(self, file: IndexFile) -> BinaryIO:
        self.opened.append(file.filename)
        return io.BytesIO(self.contents[file.url])

    def sha256(self, file: IndexFile) -> str:
        return file.hashes["sha256"]

    def ahead(self, task: Callable[[], object]) -> None:
        """Drops it, as a reader may."""

    def prefetch(self, *, pages: Iterable[PageRef] = (), metadata: Iterable[IndexFile] = ()) -> None:
        self.asked.extend(pages)

    # -- what tests ask

    def pytorch_projects(self) -> set[str]:
        """Projects for which a PyTorch page was asked for."""
        return {ref.project for ref in self.asked if ref.index == "pytorch"}

    def labels_asked(self, project: str) -> set[str]:
        """Labels whose page of a project was asked for."""
        return {ref.label or "" for ref in self.asked if ref.index == "pytorch" and ref.project == project}

    def yank(self, file: IndexFile, reason: str) -> None:
        """Marks a file as yanked."""
        page = self.files[file.page]
        page[page.index(file)] = replace(file, yanked=reason)
