"""The answer of resolution: one file for every package, who wants it, and the triple."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import NormalizedName
from packaging.version import Version

from cudalock.builds.model import Build, TritonRelease
from cudalock.compat.model import Reason, Verdict
from cudalock.index.model import IndexFile
from cudalock.versions import CudaVersion

__all__ = ["Pin", "Resolution", "Triple"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One package of the resolution.

    Attributes:
        version: as in the file's name, local part included.
        file: the very file chosen.
        extras: of the package that are wanted.
        requires: its requirements that hold on the target (markers evaluated, extras expanded).
        requires_python: its own, for the lock.
        wanted_by: names of the packages that require it; empty string for what was asked directly.
    """

    name: NormalizedName
    version: Version
    file: IndexFile
    extras: frozenset[str] = frozenset()
    requires: tuple[Requirement, ...] = ()
    requires_python: str | None = None
    wanted_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Triple:
    """torch, triton and CUDA, and what the rules say of them for the target."""

    torch: Version
    triton: Version | None
    cuda: CudaVersion | None
    build: Build
    triton_release: TritonRelease | None
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What resolution found.

    Attributes:
        pins: sorted by name.
        triple: None if nothing asked for leads to torch.
        indexes: names of the indexes that answered, sorted (``main``, ``pytorch``).
        notes: worth knowing (compatibility mode in use, last release for a GPU, wheels read instead of the table ...).
        warnings: e.g. that the PyTorch index was not reached and a better build may exist.
        refused: for torch, releases and builds passed over on the way with the reasons, best first.
        held_back: sentences saying which requirement kept torch from a newer release, if any.
    """

    pins: tuple[Pin, ...]
    triple: Triple | None = None
    indexes: tuple[str, ...] = ("main",)
    notes: tuple[Reason, ...] = ()
    warnings: tuple[Reason, ...] = ()
    refused: tuple[tuple[Build, tuple[Reason, ...]], ...] = ()
    held_back: tuple[str, ...] = ()
