"""cudalock's own part of a lock, ``[tool.cudalock]``, as a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # named in annotations only: `check` has a tenth of a second
    from packaging.pylock import Pylock

    from cudalock.builds.model import Evidence
    from cudalock.compat.model import Mode
    from cudalock.versions import Architecture, ComputeCapability, CudaVersion, DriverVersion

__all__ = ["Contract", "GpuContract", "Lock", "LockedTarget", "LockedTriple"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedTriple:
    """The three versions, as text: torch with its label."""

    torch: str
    triton: str | None
    cuda: CudaVersion | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedTarget:
    """The target a lock was made for, as far as it is recorded."""

    platform: str
    python: str
    libc: str | None = None
    driver: DriverVersion | None = None
    gpus: tuple[ComputeCapability, ...] = ()
    cpu: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuContract:
    """Where one GPU (or architecture) differs from the lock's general contract."""

    driver_min: DriverVersion | None = None
    triton: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """For which drivers and GPUs the lock is valid.

    Attributes:
        driver_min: at or above it the lock runs.
        driver_native: at or above it no compatibility mode is needed.
        compat: what the lock's target relies on.
        architectures: machine code in the torch build; ``ptx``: capabilities present as PTX.
        evidence: what this rests on.
        gpus: per compute capability, where it differs.
    """

    driver_min: DriverVersion | None
    driver_native: DriverVersion | None
    compat: Mode
    architectures: tuple[Architecture, ...]
    ptx: tuple[ComputeCapability, ...] = ()
    evidence: Evidence = "table"
    compat_package: str | None = None
    gpus: Mapping[ComputeCapability, GpuContract] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A lock: the PEP 751 document and cudalock's part of it, parsed.

    Attributes:
        pylock: the document as ``packaging`` reads it; of a lock whose digest matches it is read on first use.
        ours: whether ``[tool.cudalock]`` is there; the rest is None or empty if not.
        inputs: what was asked for: requirements, constraints, extras, groups, cuda, compat and so on
        digest: as written; ``digest_ok`` whether it matches the content.
        wheels: the names of all wheels.
        unread: reads ``pylock``, where that is still to be done.
        text: what it was read from, None if it was put together in memory (also by ``dataclasses.replace``).
    """

    pylock: Pylock = field(default=None)  # type: ignore[assignment]
    ours: bool
    inputs: Mapping[str, Any] = field(default_factory=dict)
    indexes: tuple[str, ...] = ()
    triple: LockedTriple | None = None
    target: LockedTarget | None = None
    contract: Contract | None = None
    digest: str | None = None
    digest_ok: bool = False
    schema: Literal[1] = 1
    wheels: tuple[str, ...] = field(default=(), compare=False)
    unread: Callable[[], Pylock] | None = field(default=None, compare=False, repr=False)
    text: str | None = field(default=None, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.unread is not None:
            object.__delattr__(self, "pylock")

    if not TYPE_CHECKING:  # for a type checker, pylock is simply there

        def __getattr__(self, name: str) -> Any:
            """Comes here only for what is not there: ``pylock`` before its first use."""
            if name != "pylock" or self.unread is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            object.__setattr__(self, "pylock", self.unread())
            object.__setattr__(self, "unread", None)
            return self.pylock
