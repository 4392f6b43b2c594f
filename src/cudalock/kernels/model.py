"""What lies in the caches of Triton and Inductor, for whom, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from packaging.version import Version

from cudalock.versions import ComputeCapability

__all__ = [
    "CacheEntry",
    "CacheSection",
    "EntryKind",
    "KernelCache",
    "KernelEnvironment",
    "Layout",
    "Outcome",
    "Removal",
]

EntryKind = Literal["kernel", "library", "autotune", "fragment", "other"]
Layout = Literal["md5", "sha256", "base64", "base32"]
Outcome = Literal["removed", "would-remove", "kept", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """One key of a Triton cache: a folder with a kernel's files, or with a small library that Triton built.

    Attributes:
        path: the folder.
        layout: how the folder's name encodes the key, which tells the range of triton releases.
        kind: ``kernel``, ``library`` (``cuda_utils``, ``__triton_launcher``), ``autotune`` (recorded timings),
            ``fragment`` (nothing was finished), ``other`` (unknown content).
        name: of the kernel or library.
        triton: the version that wrote it; None before 3.3 and for libraries.
        backend: ``cuda`` or ``hip``.
        architecture: ``sm_90``, ``gfx942``.
        python: the tag in a library's name, e.g. ``cpython-312``; None if the name has none.
        size_bytes: of all files.
        modified: seconds since the epoch of the newest change.
        fault: why nobody can use it (``corrupt: ...``, ``moved: ...``, ``unfinished``); None if it is whole.
        busy: why a running job may be using it right now; None if nothing says so.
    """

    path: Path
    layout: Layout
    kind: EntryKind
    name: str | None = None
    triton: str | None = None
    backend: str | None = None
    architecture: str | None = None
    python: str | None = None
    size_bytes: int = 0
    modified: float = 0.0
    fault: str | None = None
    busy: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The entry as it stands in a command's JSON answer."""
        return {
            "path": str(self.path),
            "kind": self.kind,
            "layout": self.layout,
            "name": self.name,
            "triton": self.triton,
            "backend": self.backend,
            "architecture": self.architecture,
            "python": self.python,
            "size_bytes": self.size_bytes,
            "modified": round(self.modified, 3),
            "fault": self.fault,
            "busy": self.busy,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSection:
    """A part of an Inductor cache that does not say for whom it is: generated code, compiled graphs, locks."""

    name: str
    path: Path
    files: int
    size_bytes: int
    modified: float

    def to_json(self) -> dict[str, Any]:
        """The section as it stands in a command's JSON answer."""
        return {
            "name": self.name,
            "path": str(self.path),
            "files": self.files,
            "size_bytes": self.size_bytes,
            "modified": round(self.modified, 3),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCache:
    """One cache folder.

    Attributes:
        path: real path of the folder.
        kind: ``triton`` (keys lie in it) or ``inductor`` (sections lie in it, and Triton caches in ``triton/DEVICE``).
        origin: what named it: a variable, ``default``, ``--dir``, or ``inductor`` for one inside an Inductor cache.
        entries: keys, by name; empty for ``inductor``.
        sections: of an Inductor cache.
        foreign: names in it that are no part of a cache (links included); nothing ever touches them.
    """

    path: Path
    kind: Literal["triton", "inductor"]
    origin: str
    entries: tuple[CacheEntry, ...] = ()
    sections: tuple[CacheSection, ...] = ()
    foreign: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Of everything in it that is part of the cache."""
        return sum(entry.size_bytes for entry in self.entries) + sum(section.size_bytes for section in self.sections)

    def to_json(self) -> dict[str, Any]:
        """The cache as it stands in a command's JSON answer."""
        return {
            "path": str(self.path),
            "kind": self.kind,
            "origin": self.origin,
            "size_bytes": self.size_bytes,
            "entries": [entry.to_json() for entry in self.entries],
            "sections": [section.to_json() for section in self.sections],
            "foreign": list(self.foreign),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEnvironment:
    """Who wants to use the kernels; what is None is unknown, and nothing is removed because of it.

    Attributes:
        triton: version of triton in the environment.
        python: tag of its Python, e.g. ``cpython-312``.
        gpus: compute capabilities of all GPUs of the machine; None if they are not all known.
        overrides: variables that change what Triton compiles for, by name (``TRITON_OVERRIDE_ARCH``).
        source: where the version was read.
    """

    triton: Version | None = None
    python: str | None = None
    gpus: frozenset[ComputeCapability] | None = None
    overrides: Mapping[str, str] | None = None
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        """The environment as it stands in a command's JSON answer."""
        return {
            "triton": str(self.triton) if self.triton else None,
            "python": self.python,
            "gpus": None if self.gpus is None else [str(gpu) for gpu in sorted(self.gpus)],
            "source": self.source,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What happened, or in a dry run would happen, to one entry or section.

    Attributes:
        path: what it is about.
        outcome: ``removed``, ``would-remove``, ``kept`` (it is in use or too young) or ``failed``.
        why: the reason to remove it, or why it stays.
        size_bytes: of its files.
    """

    path: Path
    outcome: Outcome
    why: str
    size_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """The removal as it stands in a command's JSON answer."""
        return {"path": str(self.path), "outcome": self.outcome, "why": self.why, "size_bytes": self.size_bytes}
