"""What an index serves, and the port through which everything downstream reads it.

The values hold what the index said, unjudged: nothing here knows of GPUs or of a target.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol

if TYPE_CHECKING:  # named in annotations only
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet
    from packaging.utils import NormalizedName
    from packaging.version import Version

__all__ = ["CoreMetadata", "IndexFile", "IndexReader", "PageRef", "ProjectPage"]


@dataclass(frozen=True, slots=True)
class PageRef:
    """Names one project page.

    ``index`` is ``main``, ``pytorch`` or the name of a source from ``[tool.cudalock.sources]``; ``label`` (``cu128``,
    ``cpu``) is the subdirectory of the PyTorch index and None elsewhere.
    """

    index: str
    project: NormalizedName
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """One file of a project page. Its identity is (page, filename): equal names can have different bytes.

    Attributes:
        page: where it was listed.
        url: absolute URL without fragment and without credentials.
        filename: file name as listed (``+`` not escaped).
        hashes: algorithm -> hexadecimal digest, as announced; empty if the index gives none.
        requires_python: raw text, None if not announced.
        yanked: False, True, or the reason.
        upload_time: timezone-aware, None if unknown.
        metadata: None if no sidecar is announced, else its hashes (possibly empty).
    """

    page: PageRef
    url: str
    filename: str
    hashes: Mapping[str, str] = field(default_factory=dict)
    requires_python: str | None = None
    yanked: bool | str = False
    size: int | None = None
    upload_time: datetime | None = None
    metadata: Mapping[str, str] | None = None

    @property
    def kind(self) -> Literal["wheel", "sdist", "other"]:
        """What sort of file it is, by its name."""
        if self.filename.endswith(".whl"):
            return "wheel"
        return "sdist" if self.filename.endswith((".tar.gz", ".zip")) else "other"

    @property
    def sha256(self) -> str | None:
        """The announced sha256, if any."""
        return self.hashes.get("sha256")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPage:
    """All files of one page.

    Attributes:
        found: False if the index does not know the project (404; 403 on PyTorch's).
        unusable: names of files that were left out because their links cannot be used; of a page that is read as it is
            looked at, those met so far.
    """

    ref: PageRef
    url: str
    files: Sequence[IndexFile] = ()
    found: bool = True
    unusable: Collection[str] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreMetadata:
    """The parts of a distribution's METADATA that resolution needs.

    Attributes:
        build_requires: of a source distribution, what its pyproject.toml says must be there to build it; no metadata
            says it.
    """

    name: NormalizedName
    version: Version
    requires_python: SpecifierSet
    requires: tuple[Requirement, ...]
    extras: frozenset[str]
    dynamic: frozenset[str] = frozenset()
    build_requires: tuple[Requirement, ...] = ()


class IndexReader(Protocol):
    """The port: resolution reaches indexes only through this.

    All methods block until they have their answer and may be called from several threads. They raise
    :class:`cudalock.errors.TransportError` (code ``index-unreachable`` and kin) when an index does not deliver.
    """

    def page(self, ref: PageRef) -> ProjectPage:
        """The project's page; fetched once per session."""
        ...

    def metadata(self, file: IndexFile) -> CoreMetadata:
        """The file's core metadata: sidecar, else ranged reads of the wheel, else the whole file."""
        ...

    def open(self, file: IndexFile) -> BinaryIO:
        """A seekable read-only view of the remote file that fetches only the ranges that are read."""
        ...

    def sha256(self, file: IndexFile) -> str:
        """The announced sha256; where there is none the file is downloaded and hashed, and a note says so."""
        ...

    def ahead(self, task: Callable[[], object]) -> None:
        """Runs in the background what asks this reader for what will probably be needed; its errors are dropped.

        Never raises, never blocks. A reader may also drop the task: nothing may depend on it.
        """
        ...

    def prefetch(self, *, pages: Iterable[PageRef] = (), metadata: Iterable[IndexFile] = ()) -> None:
        """Starts fetching in the background what will probably be needed; never raises, never blocks."""
        ...
