"""What a machine is: the value that leaves detection, and each fact's origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cudalock.versions import ComputeCapability, CudaVersion, DriverVersion

__all__ = ["Container", "Gpu", "Host", "ProbeCommands", "ProbeOutcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as the machine reports it; None means that no probe could tell.

    ``origin`` maps the name of an attribute to the probe that answered it (``nvml``, ``libcuda``, ``sysfs``,
    ``nvidia-smi``, ``override``, ``facts``, ``products`` for a capability looked up by product name or PCI id).
    ``cuda_index`` is CUDA's own number of the GPU where it was asked for; ``error`` says why a GPU that is there
    cannot be used (lost, no permission).
    """

    index: int
    name: str | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None
    pci_device_id: str | None = None
    compute_capability: ComputeCapability | None = None
    memory_bytes: int | None = None
    mig_enabled: bool | None = None
    mig_devices: tuple[str, ...] = ()
    cuda_index: int | None = None
    error: str | None = None
    origin: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The container around the process, if there is one."""

    kind: str | None = None
    require_cuda: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOutcome:
    """What one rung of the ladder did: whether it answered, in how many seconds, and its own words if it did not."""

    name: str
    answered: bool
    seconds: float = 0.0
    error: str | None = None
    error_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine: driver, CUDA version that the driver offers, GPUs, platform, Python. None and () mean unknown or none.

    Attributes:
        os: ``linux``, ``windows`` or ``darwin``.
        machine: ``x86_64``, ``aarch64``, ``amd64`` folded to ``x86_64``.
        libc: e.g. ``("glibc", (2, 35))`` or ``("musl", (1, 2))``.
        driver: version of the loaded kernel driver (on WSL the Windows driver's).
        driver_library: version of the user-space library beside it, where it is known and differs.
        cuda_driver: what ``cuDriverGetVersion`` says: raised by a cuda-compat library.
        kernel_module: ``open`` or ``proprietary``.
        gpus: every GPU of the machine, in NVML order, MIG and CUDA_VISIBLE_DEVICES notwithstanding.
        gpus_known: False if no probe could list GPUs (unknown), True if the list is complete, empty included.
        visible_devices: the value of CUDA_VISIBLE_DEVICES, None if unset.
        device_order: the value of CUDA_DEVICE_ORDER, None if unset.
        compat_library: path of a cuda-compat libcuda in use, if any.
        cuda_library: path of the libcuda that the loader chooses, symbolic links resolved.
        cuda_library_error: what loading it or asking its version failed with, e.g. the words of error 34 (a stub).
        python: version of the running Python, e.g. ``3.12.4``; with ``t`` appended when free-threaded.
        l4t: release of Jetson Linux, e.g. ``36.4.0``, on a Jetson.
        pythons: interpreters found, as (version, path).
        origin: attribute -> probe that answered.
    """

    os: Literal["linux", "windows", "darwin"] | None = None
    os_release: str | None = None
    machine: str | None = None
    libc: tuple[str, tuple[int, int]] | None = None
    driver: DriverVersion | None = None
    driver_library: DriverVersion | None = None
    cuda_driver: CudaVersion | None = None
    kernel_module: Literal["open", "proprietary"] | None = None
    gpus: tuple[Gpu, ...] = ()
    gpus_known: bool = False
    visible_devices: str | None = None
    device_order: str | None = None
    compat_library: str | None = None
    cuda_library: str | None = None
    cuda_library_error: str | None = None
    python: str | None = None
    pythons: tuple[tuple[str, str], ...] = ()
    container: Container | None = None
    wsl: bool = False
    jetson: bool = False
    l4t: str | None = None
    probes: tuple[ProbeOutcome, ...] = ()
    origin: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeCommands:
    """The commands behind the rungs that need a process; None switches a rung off.

    Attributes:
        nvml, libcuda: print what :mod:`cudalock.host.probe` prints.
        nvidia_smi: the program, to which its options are added.
        time_limit_s: for each process.
    """

    nvml: tuple[str, ...] | None = None
    libcuda: tuple[str, ...] | None = None
    nvidia_smi: tuple[str, ...] | None = None
    time_limit_s: float = 5.0
