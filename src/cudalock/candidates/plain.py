"""Candidates of a project in order: the existing pin first, then newest first; pre-releases as PEP 440 says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from cudalock.candidates.files import FileRules
from cudalock.index.model import IndexFile

__all__ = ["VersionWish", "fitting_files", "ordered_versions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionWish:
    """What is asked of a project's version, all requirements and constraints together.

    Attributes:
        specifiers: every one must hold.
        prereleases: True if they were allowed for this project by name.
        preferred: the version to take first if it is there and fits.
    """

    specifiers: SpecifierSet = field(default_factory=SpecifierSet)
    prereleases: bool = False
    preferred: Version | None = None

    def allows(self, version: Version) -> bool:
        """Whether the specifiers admit the version, leaving the question of pre-releases aside."""
        return not self.specifiers or self.specifiers.contains(version, prereleases=True)

    def pins(self, version: Version) -> bool:
        """Whether ``==`` or ``===`` names exactly this version, which admits yanked files."""
        return any(
            specifier.operator in {"==", "==="}
            and not specifier.version.endswith(".*")
            and specifier.contains(version, prereleases=True)
            for specifier in self.specifiers
        )

    @property
    def names_local(self) -> bool:
        """Whether a local version (``+cu128``) is asked for by name."""
        return any("+" in specifier.version for specifier in self.specifiers)


def ordered_versions(versions: Iterable[Version], wish: VersionWish) -> tuple[list[Version], list[Version]]:
    """The versions to try in order, and the pre-releases to try only if none of those has a file that fits."""
    allowed = sorted((version for version in versions if wish.allows(version)), reverse=True)
    if wish.preferred is not None and wish.preferred in allowed:
        allowed.remove(wish.preferred)
        allowed.insert(0, wish.preferred)
    if wish.prereleases or wish.specifiers.prereleases:
        return allowed, []
    finals = [version for version in allowed if not version.is_prerelease or version == wish.preferred]
    return finals, [version for version in allowed if version.is_prerelease and version != wish.preferred]


def fitting_files(
    listings: Sequence[Mapping[Version, tuple[IndexFile, ...]]], wish: VersionWish, rules: FileRules
) -> Iterator[tuple[Version, IndexFile]]:
    """One file for every version that the target can install, best first; lazily.

    Args:
        listings: pages in order of preference: a version's file comes from the first that has one for the target.
        wish: what is asked of the version.
        rules: what the target can install.
    """
    versions = dict.fromkeys(version for listing in listings for version in listing)
    finals, prereleases = ordered_versions(versions, wish)
    found = False
    for group in (finals, prereleases):
        if found:
            return
        for version in group:
            for listing in listings:
                file = rules.best(listing.get(version, ()), pinned=wish.pins(version))
                if file is not None:
                    found = True
                    yield version, file
                    break
