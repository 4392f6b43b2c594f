"""The machine a lock is made for. Everything downstream sees a Target, never a Host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from cudalock.versions import ComputeCapability, CudaVersion, DriverVersion

if TYPE_CHECKING:
    from packaging.tags import Tag

__all__ = ["Platform", "PythonVersion", "Target", "TargetGpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetGpu:
    """A kind of GPU of the target.

    Attributes:
        compute_capability: what the rules look at.
        name: product name if one was given or detected.
        count: how many of this kind.
        forward_compatible: whether a cuda-compat library may lift it (data-centre GPUs, Jetson); None if unknown.
    """

    compute_capability: ComputeCapability
    name: str | None = None
    count: int = 1
    forward_compatible: bool | None = None

    def __str__(self) -> str:
        return f"{self.name} ({self.compute_capability})" if self.name else f"GPU {self.compute_capability}"


@dataclass(frozen=True, slots=True)
class Platform:
    """Operating system, machine and libc, e.g. linux / x86_64 / ("glibc", (2, 28))."""

    os: Literal["linux", "windows"]
    machine: str
    libc: tuple[str, tuple[int, int]] | None = None

    def __str__(self) -> str:
        """The platform as the lock names it: ``linux-x86_64``, ``win-amd64``."""
        if self.os == "windows":
            return "win-amd64" if self.machine == "x86_64" else f"win-{self.machine}"
        return f"linux-{self.machine}"


@dataclass(frozen=True, slots=True, order=True)
class PythonVersion:
    """A CPython feature release: 3.12, or 3.14t when free-threaded; ``micro`` only where a marker needs it."""

    major: int
    minor: int
    free_threaded: bool = False

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}{'t' if self.free_threaded else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One kind of machine, complete enough to choose wheels for.

    Attributes:
        platform, python: what wheels must run on.
        tags: compatible wheel tags, best first (``packaging.tags``).
        marker_environment: the full PEP 508 environment of the target.
        driver: version of the driver, None only if ``cpu``.
        cuda_driver: the CUDA version that the driver offers natively (or through an active cuda-compat library).
        gpus: the kinds of GPU; empty only if ``cpu``.
        cpu: True if CPU builds were asked for by name.
        wsl, jetson: change which table of driver versions holds.
        forward_active: a cuda-compat library is in use on the machine.
        origin: attribute -> where it came from (``flag``, ``environment``, ``config``, ``lock``, ``host``,
            ``facts``, ``default``).
        notes: sentences the user should see, e.g. that a driver was assumed.
    """

    platform: Platform
    python: PythonVersion
    tags: tuple[Tag, ...] = ()
    marker_environment: Mapping[str, str] = field(default_factory=dict)
    driver: DriverVersion | None = None
    cuda_driver: CudaVersion | None = None
    gpus: tuple[TargetGpu, ...] = ()
    cpu: bool = False
    wsl: bool = False
    jetson: bool = False
    forward_active: bool = False
    name: str | None = None
    origin: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def capabilities(self) -> tuple[ComputeCapability, ...]:
        """The distinct compute capabilities, ascending."""
        return tuple(sorted({gpu.compute_capability for gpu in self.gpus}))
