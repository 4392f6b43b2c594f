"""What goes with torch, and where it may come from (R4, R6).

``data/companions.toml``, ``data/routes.toml`` and ``data/nvidia_packages.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from cudalock.facts.loader import Row, cached, table
from cudalock.versions import ComputeCapability, CudaVersion

__all__ = [
    "CompanionRow",
    "companions",
    "cuda_major_of_package",
    "ImpliedBound",
    "implied_bounds",
    "is_placeholder",
    "library_folder",
    "prefers_main",
    "torch_family",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionRow:
    """A project that goes with torch.

    Attributes:
        project: its normalized name.
        compiled: it holds code compiled against torch's libraries or CUDA, so R4 binds it.
        requires_torch: it declares torch, or needs it although its metadata is silent.
        pairs: (specifier of its releases, specifier of the torch releases they go with).
        mismatch: what a pair that does not fit means: ``error`` (does not load) or ``warning`` (works with less).
        cuda_minor_must_match: specifiers of its releases that refuse another CUDA minor than torch's.
        cuda_ceilings: (specifier of its releases, newest CUDA version they hold binaries for).
        minimum_capability: lowest compute capability it works on, None if it has no such limit.
        note: what else is worth knowing.
        source: where it was read.
    """

    project: str
    compiled: bool
    requires_torch: bool
    pairs: tuple[tuple[str, str], ...] = ()
    mismatch: Literal["error", "warning"] = "error"
    cuda_minor_must_match: tuple[str, ...] = ()
    cuda_ceilings: tuple[tuple[str, CudaVersion], ...] = ()
    minimum_capability: ComputeCapability | None = None
    note: str | None = None
    source: str = ""

    def torch_for(self, version: Version) -> SpecifierSet | None:
        """The torch releases that a release of it goes with; None if the table does not say."""
        public = _public(version)
        for releases, torch in self.pairs:
            if _specifier(releases).contains(public, prereleases=True):
                return _specifier(torch)
        return None

    def fits_torch(self, version: Version, torch: Version) -> bool | None:
        """Whether a release of it goes with a torch release; None if the table does not say."""
        wanted = self.torch_for(version)
        return None if wanted is None else wanted.contains(_public(torch), prereleases=True)

    def releases_for(self, torch: Version) -> SpecifierSet | None:
        """Its newest releases that a torch release goes with; None if the table does not say."""
        for releases, wanted in reversed(self.pairs):
            if _specifier(wanted).contains(_public(torch), prereleases=True):
                return _specifier(releases)
        return None

    def needs_same_minor(self, version: Version) -> bool:
        """Whether a release of it refuses another CUDA minor than torch's."""
        public = Version(version.public)
        return any(_specifier(text).contains(public, prereleases=True) for text in self.cuda_minor_must_match)

    def cuda_ceiling(self, version: Version) -> CudaVersion | None:
        """The newest CUDA version that a release of it holds binaries for; None if the table does not say."""
        public = Version(version.public)
        for releases, cuda in self.cuda_ceilings:
            if _specifier(releases).contains(public, prereleases=True):
                return cuda
        return None


@cached
def _public(version: Version) -> Version:
    return Version(version.public)


@cached
def _specifier(text: str) -> SpecifierSet:
    try:
        return SpecifierSet(text)
    except ValueError as error:
        raise ValueError(str(error)) from error


def _pairs(row: Row, key: str) -> tuple[tuple[str, str], ...]:
    found = []
    for pair in row.lists(key):
        if len(pair) != 2:
            row.fail(f"{key!r} must hold pairs, got {pair!r}")
        row.parse(pair[0], _specifier)
        found.append((pair[0], pair[1]))
    return tuple(found)


def _companion(name: str, row: Row) -> CompanionRow:
    pairs = _pairs(row, "pairs")
    for _, torch in pairs:
        row.parse(torch, _specifier)
    refuses_minor = row.texts("cuda_minor_must_match")
    for text in refuses_minor:
        row.parse(text, _specifier)
    mismatch = row.text("mismatch")
    if mismatch not in {"error", "warning"}:
        row.fail(f"unknown mismatch {mismatch!r}")
    return CompanionRow(
        project=name,
        compiled=row.flag("compiled"),
        requires_torch=row.flag("requires_torch"),
        pairs=pairs,
        mismatch="warning" if mismatch == "warning" else "error",
        cuda_minor_must_match=refuses_minor,
        cuda_ceilings=tuple((it, row.parse(cuda, CudaVersion.parse)) for it, cuda in _pairs(row, "cuda_ceilings")),
        minimum_capability=row.parsed_or_none("minimum_capability", ComputeCapability.parse),
        note=row.text_or_none("note"),
        source=row.source,
    )


@cached
def companions() -> Mapping[str, CompanionRow]:
    """The companions of torch by normalized name.

    Source: metadata of their wheels, their own compatibility tables and recorded reports, see ``data/companions.toml``.
    """
    rows = table("companions").by_key("companion", lambda row: row.text("project"))
    return {name: _companion(name, row) for name, row in rows.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpliedBound:
    """A bound between torch and another project that the metadata of neither states.

    Attributes:
        project: normalized name of the other project.
        releases: specifier of its releases that are bound.
        torch: specifier of the torch releases that they work with.
        code: of the finding where both meet all the same.
        why: a clause that ends a sentence about a torch release.
        source: where it was read.
    """

    project: str
    releases: str
    torch: str
    code: str
    why: str
    source: str

    def admits(self, version: Version, torch: Version) -> bool:
        """Whether a release of the project works beside a release of torch, as far as this bound goes."""
        bound = _specifier(self.releases).contains(Version(version.public), prereleases=True)
        return not bound or _specifier(self.torch).contains(Version(torch.public), prereleases=True)


def _implied_bound(row: Row) -> ImpliedBound:
    releases, torch = row.text("releases"), row.text("torch")
    for text in (releases, torch):
        row.parse(text, _specifier)
    return ImpliedBound(
        project=row.text("project"),
        releases=releases,
        torch=torch,
        code=row.text("code"),
        why=row.text("why"),
        source=row.source,
    )


@cached
def implied_bounds() -> Mapping[str, tuple[ImpliedBound, ...]]:
    """The bounds that no metadata states, by the normalized name of the project that torch is bound to.

    Source: recorded reports and release notes, see ``data/companions.toml``.
    """
    found: dict[str, tuple[ImpliedBound, ...]] = {}
    for row in table("companions").rows("implied_bound"):
        bound = _implied_bound(row)
        found[bound.project] = (*found.get(bound.project, ()), bound)
    return found


@cached
def _routes() -> Mapping[str, bool]:
    rows = table("routes").by_key("route", lambda row: row.text("name"))
    return {name: row.flag("prefer_main") for name, row in rows.items()}


@cached
def torch_family() -> frozenset[str]:
    """The normalized names that may come from a PyTorch index (R6); every other name comes from the main index only.

    Source: the allow list of the scripts that make that index, see ``data/routes.toml``.
    """
    return frozenset(_routes())


def prefers_main(name: str) -> bool:
    """Whether the main index's file is taken where both indexes serve a version (triton)."""
    return _routes().get(name, False)


@cached
def _cuda_packages() -> Mapping[str, int | None]:
    """Names without a suffix -> their CUDA major; None where their own version tells it."""
    found: dict[str, int | None] = {}
    for row in table("nvidia_packages").rows("package"):
        by = row.text("by")
        if by not in {"name", "version"}:
            row.fail(f"unknown way {by!r} (expected name or version)")
        for name in row.texts("names"):
            if name in found:
                row.fail(f"{name!r} stands in two rows")
            found[name] = row.number("cuda_major") if by == "name" else None
    return found


@cached
def _exempt_prefixes() -> tuple[str, ...]:
    return tuple(prefix for row in table("nvidia_packages").rows("exempt") for prefix in row.texts("prefixes"))


def cuda_major_of_package(name: str, version: Version) -> int | None:
    """The CUDA major that a package other than torch belongs to (R4); None if it belongs to none (nvidia-ml-py).

    Args:
        name: normalized, e.g. ``nvidia-cublas-cu12``, ``nvidia-cufft``, ``cuda-bindings``.
        version: of the package.

    Source: names and metadata of the wheels, see ``data/nvidia_packages.toml``.
    """
    if name.startswith(_exempt_prefixes()):
        return None
    if match := re.fullmatch(r"(?:nvidia|cuda)-.+-cu(\d{2})", name):
        return int(match[1])
    packages = _cuda_packages()
    if name not in packages:
        return None
    major = packages[name]
    return version.major if major is None else major


@cached
def _placeholders() -> frozenset[str]:
    return frozenset(name for row in table("nvidia_packages").rows("placeholder") for name in row.texts("names"))


def is_placeholder(name: str) -> bool:
    """Whether a package is an empty placeholder (``nvidia-cudnn``), never a dependency worth having."""
    return name in _placeholders()


@cached
def _folders() -> Mapping[int, str]:
    rows = table("nvidia_packages").by_key("library", lambda row: row.number("cuda_major"))
    return {major: row.text("folder") for major, row in rows.items()}


def library_folder(cuda_major: int, component: str) -> str | None:
    """Where the wheels of a CUDA major put a component's libraries, below site-packages; None if unknown.

    Example: (12, ``cublas``) -> ``nvidia/cublas/lib``; (13, ``cublas``) -> ``nvidia/cu13/lib``.
    """
    folder = _folders().get(cuda_major)
    return folder and folder.replace("<component>", component.replace("-", "_"))
