"""Project pages, grouped by version, from the indexes that a project may come from (rule R6).

A name of the torch family may come from a PyTorch index; every other name comes from the main index, or from the
source that the user mapped it to, and from nowhere else: the PyTorch index also holds copies of unrelated projects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from packaging.utils import NormalizedName
from packaging.version import Version

from cudalock import facts
from cudalock.candidates.names import parse_file_name, parse_version
from cudalock.errors import TransportError
from cudalock.index.lazy_page import LazyFiles
from cudalock.index.model import IndexFile, IndexReader, PageRef

__all__ = ["Listing", "Pages", "PytorchUse"]

PytorchUse = Literal["auto", "never", "require"]


@dataclass(frozen=True, slots=True)
class Listing:
    """One page, by version. ``found`` is False where the index does not know the project.

    ``unusable`` names the files met so far that were left out because their links cannot be used.
    """

    ref: PageRef
    files: Mapping[Version, tuple[IndexFile, ...]]
    found: bool = True
    unusable: Collection[str] = ()

    def of_release(self, release: Version) -> tuple[IndexFile, ...]:
        """The files of all versions that are this release, whatever their local part."""
        versions = [version for version in self.files if version.public == release.public]
        return tuple(file for version in versions for file in self.files[version])


@dataclass(slots=True)
class Pages:
    """All pages that one resolution looks at.

    Attributes:
        sources: project -> name of the index that it comes from instead of the main one.
        pytorch: ``never`` asks no PyTorch page; ``require`` makes an unreachable PyTorch index an error at once.
        needed: whether the user named a label, so that the PyTorch index cannot be done without.
        heard: names of the indexes that answered.
        fault: why the PyTorch index was given up; it is not asked again.
    """

    reader: IndexReader
    sources: Mapping[NormalizedName, str] = field(default_factory=dict)
    pytorch: PytorchUse = "auto"
    needed: bool = False
    heard: set[str] = field(default_factory=set)
    fault: TransportError | None = None
    _listings: dict[PageRef, Listing] = field(default_factory=dict)
    _announced: set[PageRef] = field(default_factory=set)
    _wanted_metadata: set[tuple[PageRef, str]] = field(default_factory=set)

    def main_ref(self, project: NormalizedName) -> PageRef:
        """Where a project that is not routed to a PyTorch index comes from."""
        return PageRef(self.sources.get(project, "main"), project)

    def may_use_pytorch(self, project: NormalizedName) -> bool:
        """Whether a project may come from a PyTorch index at all."""
        return project in facts.torch_family() and project not in self.sources and self.pytorch != "never"

    def main(self, project: NormalizedName) -> Listing:
        """The project's page on the main index or on its source.

        Raises:
            TransportError: the index does not deliver.
        """
        return self._listing(self.main_ref(project))

    def of_label(self, label: str, project: NormalizedName) -> Listing:
        """The project's page under a label of the PyTorch index; empty once the index was found unreachable.

        Raises:
            TransportError: it does not deliver, and it was required or the user named a label.
        """
        ref = PageRef("pytorch", project, label)
        if not self.may_use_pytorch(project):
            return Listing(ref, {}, found=False)
        if self.fault is not None and ref not in self._listings:
            return Listing(ref, {}, found=False)
        try:
            return self._listing(ref)
        except TransportError as error:
            self.fault = error
            if self.pytorch == "require" or self.needed:
                raise self.unreachable() from error
            return Listing(ref, {}, found=False)

    def unreachable(self, why: str = "") -> TransportError:
        """The error that says that the PyTorch index is needed, for what reason, and did not answer."""
        cause = self.fault.message if self.fault is not None else "it was not asked"
        reason = f" ({why})" if why else ""
        return TransportError(
            "index-unreachable",
            f"the PyTorch index is needed here{reason} and did not deliver: {cause}",
            hint="name a mirror of it with --pytorch-index-url, or try again later",
            details={"index": "pytorch", "cause": cause},
        )

    def announce(self, refs: Iterable[PageRef]) -> None:
        """Has pages fetched in the background that will probably be needed."""
        fresh = [ref for ref in dict.fromkeys(refs) if ref not in self._announced and ref not in self._listings]
        if self.fault is not None:
            fresh = [ref for ref in fresh if ref.index != "pytorch"]
        if fresh:
            self._announced.update(fresh)
            self.reader.prefetch(pages=fresh)

    def announce_metadata(self, files: Iterable[IndexFile]) -> None:
        """Has metadata fetched in the background that will probably be needed."""
        fresh = [file for file in files if (file.page, file.filename) not in self._wanted_metadata]
        if fresh:
            self._wanted_metadata.update((file.page, file.filename) for file in fresh)
            self.reader.prefetch(metadata=fresh)

    def glance(self, ref: PageRef) -> Mapping[Version, tuple[IndexFile, ...]]:
        """A page by version, for guesses: it does not count as read. Safe for threads.

        Raises:
            TransportError: the index does not deliver it.
        """
        return _by_version(self.reader.page(ref).files, ref)

    def loaded(self, project: NormalizedName) -> list[Listing]:
        """The pages of a project that were read so far, the main index's first, then by label."""
        found = [listing for ref, listing in self._listings.items() if ref.project == project]
        return sorted(found, key=lambda listing: (listing.ref.index == "pytorch", listing.ref.label or ""))

    def _listing(self, ref: PageRef) -> Listing:
        if ref not in self._listings:
            page = self.reader.page(ref)
            self.heard.add(ref.index)
            self._listings[ref] = Listing(ref, _by_version(page.files, ref), found=page.found, unusable=page.unusable)
        return self._listings[ref]


def _by_version(files: Sequence[IndexFile], ref: PageRef) -> Mapping[Version, tuple[IndexFile, ...]]:
    if isinstance(files, LazyFiles) and ref.label is None:
        if files.by_version is None:
            files.by_version = _LazyVersions(files, ref.project)
        return files.by_version
    grouped: dict[Version, list[IndexFile]] = {}
    for file in files:
        name = parse_file_name(file.filename, ref.project)
        if name is not None and _belongs(file, name.version):
            grouped.setdefault(name.version, []).append(file)
    return {version: tuple(found) for version, found in grouped.items()}


class _LazyVersions(Mapping[Version, tuple[IndexFile, ...]]):
    """The files of a large page by version; a version's files are read when they are asked for."""

    def __init__(self, files: LazyFiles, project: NormalizedName) -> None:
        self._files = files
        self._project = project
        self._groups: dict[Version, list[str]] = {}
        self._read: dict[Version, tuple[IndexFile, ...]] = {}
        for group in files.groups():
            version = parse_version(group)
            if version is None:
                name = parse_file_name(group, project)
                version = name.version if name is not None else None
            if version is not None:
                self._groups.setdefault(version, []).append(group)

    def __getitem__(self, version: Version) -> tuple[IndexFile, ...]:
        if version not in self._read:
            files = [file for group in self._groups[version] for file in self._files.of_group(group)]
            self._read[version] = tuple(f for f in files if parse_file_name(f.filename, self._project) is not None)
        return self._read[version]

    def __iter__(self) -> Iterator[Version]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)


def _belongs(file: IndexFile, version: Version) -> bool:
    """Whether a file on a label's page is of that label: a page also lists the files in the root of the index.

    triton has no labels and lies in the root, so its files belong everywhere.
    """
    label = file.page.label
    if label is None or file.page.project in {"triton", "pytorch-triton"}:
        return True
    local = (version.local or "").split(".")[0]
    return local == label or (not local and f"/{label}/" in file.url)
