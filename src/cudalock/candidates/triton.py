"""Candidates of triton, and which release torch's own requirement leads to (rules R3 and R6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from cudalock.builds import TritonRelease, triton_release
from cudalock.candidates.files import FileRules
from cudalock.candidates.model import FileIdentity
from cudalock.candidates.pages import Pages
from cudalock.candidates.plain import VersionWish, fitting_files
from cudalock.compat import Policy, Reason, triton_verdict
from cudalock.errors import AnswerIsNo
from cudalock.index.model import IndexFile
from cudalock.target.model import Target

__all__ = ["TORCH", "TRITON_NAMES", "TritonCandidates"]

TORCH = canonicalize_name("torch")
TRITON_NAMES = frozenset({canonicalize_name("triton"), canonicalize_name("pytorch-triton")})


@dataclass(slots=True)
class TritonCandidates:
    """All releases of triton for a target.

    Attributes:
        refused: files that rule R3 refuses, with its reasons.
    """

    pages: Pages
    rules: FileRules
    target: Target
    policy: Policy
    refused: dict[FileIdentity, tuple[Reason, ...]] = field(default_factory=dict)
    _asked: dict[FileIdentity, tuple[Version, IndexFile]] = field(default_factory=dict)
    _releases: dict[FileIdentity, TritonRelease | None] = field(default_factory=dict)

    def admitted(
        self, name: NormalizedName, wish: VersionWish, label: str | None
    ) -> Iterator[tuple[Version, IndexFile]]:
        """Files that rule R3 admits, best first: the main index's own where it serves the version."""
        for version, file in self._files(name, wish, label):
            if not self._reasons(version, file):
                yield version, file

    def required_by(self, requirement: Requirement | None, label: str | None) -> TritonRelease | None:
        """The release that a torch with this requirement would get: the newest that rule R3 admits, else the newest.

        None if torch requires none, or if no release that it requires is there for the target.
        """
        if requirement is None:
            return None
        name = canonicalize_name(requirement.name)
        wish = VersionWish(specifiers=requirement.specifier)
        first: TritonRelease | None = None
        for version, file in self._files(name, wish, label):
            release = self.release(version, file)
            if release is not None and not self._reasons(version, file):
                return release
            first = first or release
        return first

    def refusals(self, name: NormalizedName, wish: VersionWish) -> tuple[Reason, ...]:
        """Why rule R3 refuses the releases that are asked for, each reason once, the newest release's first."""
        found = [reason for version, file in self._files(name, wish, None) for reason in self._reasons(version, file)]
        return tuple({reason.sentence: reason for reason in found}.values())

    def decides_as(self, other: TritonCandidates) -> bool:
        """Whether rule R3 admits for this target what it admits for another one, of all files that it was asked of."""
        return all(
            bool(self._reasons(version, file)) == bool(other.refused[identity])
            for identity, (version, file) in other._asked.items()
        )

    def release(self, version: Version, file: IndexFile) -> TritonRelease | None:
        """The assemblers in a file of triton; None if neither the table nor the file tells."""
        identity = file.page, file.filename
        if identity not in self._releases:
            try:
                found = triton_release(version, file=file, reader=self.pages.reader)
            except AnswerIsNo:
                self._releases[identity] = None
            else:
                self._releases[identity] = replace(found, version=version)
        return self._releases[identity]

    def _files(self, name: NormalizedName, wish: VersionWish, label: str | None) -> Iterator[tuple[Version, IndexFile]]:
        listings = [self.pages.main(name).files]
        seen = False
        for found in fitting_files(listings, wish, self.rules):
            seen = True
            yield found
        if not seen and self.pages.may_use_pytorch(name):
            listings = [self.pages.of_label(one, name).files for one in self._labels(label)]
            yield from fitting_files(listings, wish, self.rules)

    def _labels(self, label: str | None) -> list[str]:
        """The label of torch; as long as torch is not decided, those under which one was looked for."""
        if label is not None:
            return [label]
        return [page.ref.label for page in self.pages.loaded(TORCH) if page.ref.label is not None and page.files]

    def _reasons(self, version: Version, file: IndexFile) -> tuple[Reason, ...]:
        identity = file.page, file.filename
        if identity not in self.refused:
            self._asked[identity] = version, file
            release = self.release(version, file)
            self.refused[identity] = () if release is None else triton_verdict(release, self.target, self.policy)[1]
        return self.refused[identity]
