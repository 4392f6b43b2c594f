"""The requirements and choices that the resolver weighs against each other.

Beside packages there is one thing that has to be agreed on: the *torch build*. torch's candidate settles it; a compiled
companion, and every distribution that belongs to a CUDA major, wants one that it fits (rules R4 and R6). As part of
the resolution it is subject to backtracking like any version.
"""

from __future__ import annotations

from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from cudalock.candidates import Candidate, FileIdentity, JudgedBuild
from cudalock.index.model import IndexFile

__all__ = [
    "BUILD",
    "IMPOSSIBLE",
    "BuildChoice",
    "BuildWant",
    "Choice",
    "FitsWant",
    "ImpossibleWant",
    "PackageWant",
    "Want",
    "satisfies",
    "who_wants",
]

# No project can have such a name, so these never meet one.
BUILD = "<torch build>"
IMPOSSIBLE = "<impossible>"


@dataclass(frozen=True, slots=True, eq=False)
class PackageWant:
    """A requirement on a package. ``origin`` says where the user wrote it; empty if another package requires it."""

    requirement: Requirement
    origin: str = ""

    @property
    def identifier(self) -> str:
        """The project's normalized name."""
        return canonicalize_name(self.requirement.name)

    @property
    def extras(self) -> frozenset[str]:
        """The extras asked for, normalized."""
        return frozenset(canonicalize_name(extra) for extra in self.requirement.extras)

    @property
    def pins(self) -> bool:
        """Whether it leaves one version only."""
        return self.requirement.url is not None or any(
            specifier.operator in {"==", "==="} and not specifier.version.endswith(".*")
            for specifier in self.requirement.specifier
        )


@dataclass(frozen=True, slots=True, eq=False)
class BuildWant:
    """torch's own candidate: it is this build and no other."""

    judged: JudgedBuild
    identifier: str = BUILD

    @property
    def identity(self) -> FileIdentity:
        """The file of torch."""
        return self.judged.file.page, self.judged.file.filename


@dataclass(frozen=True, slots=True, eq=False)
class FitsWant:
    """A companion or a CUDA-versioned distribution: whatever torch is taken, it must fit this.

    Attributes:
        file: of the distribution; for a routed companion it stands for its version only.
        torches: the releases of torch that it requires by itself. With any other torch the question does not arise:
            that requirement stands in the way already.
        declared: whether its own metadata names them.
        routed: whether torch's page decides where its file comes from.
        exact: whether its local version was asked for by name.
    """

    project: NormalizedName
    version: Version
    file: IndexFile
    torches: SpecifierSet | None = None
    declared: bool = False
    routed: bool = False
    exact: bool = False
    identifier: str = BUILD


@dataclass(frozen=True, slots=True, eq=False)
class ImpossibleWant:
    """Something that no choice can satisfy, found in a candidate's metadata; the sentence says what.

    Attributes:
        missing: the requirement that nothing serves on the target, and what requires it; None for other faults.
    """

    sentence: str
    missing: tuple[PackageWant, Candidate] | None = None
    identifier: str = IMPOSSIBLE


@dataclass(frozen=True, slots=True)
class BuildChoice:
    """The torch build that was settled on; None as long as there is no torch."""

    judged: JudgedBuild | None = None

    @property
    def identity(self) -> FileIdentity | None:
        """The file of torch."""
        return (self.judged.file.page, self.judged.file.filename) if self.judged else None


Want = PackageWant | BuildWant | FitsWant | ImpossibleWant
Choice = Candidate | BuildChoice


def who_wants(want: PackageWant, parent: Choice | None) -> str:
    """A requirement as a clause: ``vllm 0.33.0 requires torch==2.14.0``, ``requirements.txt:3 asks for torch<2.9``."""
    if isinstance(parent, Candidate):
        return f"{parent.name} {parent.version} requires {plain(want.requirement)}"
    origin = "the command line" if want.origin in {"", "argument"} else want.origin
    return f"{origin} asks for {plain(want.requirement)}"


def plain(requirement: Requirement) -> str:
    """A requirement without its marker."""
    return str(requirement).partition(";")[0].strip()


def satisfies(want: PackageWant, candidate: Candidate) -> bool:
    """Whether a candidate is what a requirement asks for: its file, its version, its extras."""
    wanted = want.requirement
    if wanted.url is not None and wanted.url.partition("#")[0] != candidate.file.url:
        return False
    version = candidate.version
    if candidate.representative and not any("+" in specifier.version for specifier in wanted.specifier):
        version = Version(version.public)
    return wanted.specifier.contains(version, prereleases=True) and want.extras <= candidate.extras
