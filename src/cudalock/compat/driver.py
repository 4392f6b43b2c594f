"""Rule R1: whether a driver runs a CUDA build, and by which of NVIDIA's three kinds of compatibility.

Everything is asked for one GPU at a time: the driver is common to all, but which driver knows the GPU, and whether
a cuda-compat library may lift it, is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from cudalock import facts
from cudalock.compat.model import Mode, Policy, Reason
from cudalock.target.model import Target, TargetGpu
from cudalock.versions import ComputeCapability, CudaVersion, DriverVersion

__all__ = [
    "DriverAnswer",
    "driver_os",
    "drives",
    "effective_cuda",
    "first_driver",
    "judge_driver",
    "lowest_driver",
    "own_cuda",
    "reaches",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverAnswer:
    """What rule R1 says of one build on one GPU.

    Attributes:
        mode: how the driver runs the build; None if it does not.
        libcuda: the CUDA release of the libcuda that is loaded then: the driver's own, or the cuda-compat library's.
        refusals, notes: why not, or what is worth knowing.
    """

    mode: Mode | None
    libcuda: CudaVersion | None
    refusals: tuple[Reason, ...] = ()
    notes: tuple[Reason, ...] = ()


def driver_os(target: Target) -> Literal["linux", "windows"]:
    """Whose table of driver versions holds: under WSL the driver is the one of Windows and has its number."""
    return "windows" if target.wsl else target.platform.os


def reaches(driver: DriverVersion, floor: DriverVersion) -> bool:
    """Whether ``driver`` is at least ``floor``; a bare branch (``580``) stands for that branch as it is today."""
    if "." not in driver.text:
        return driver.branch >= floor.branch
    return driver >= floor


@cache
def _family(driver: DriverVersion, os: Literal["linux", "windows"]) -> int:
    """The known branch that a driver belongs to: Windows counts 581 and 582 within R580."""
    if os == "linux":
        return driver.branch
    return max((known.branch for known in facts.branches(os) if reaches(driver, known.first)), default=driver.branch)


@cache
def first_driver(gpu: ComputeCapability, os: Literal["linux", "windows"]) -> DriverVersion | None:
    """The lowest driver that knows a GPU, None if that is unknown; the table counts in Linux numbers."""
    bounds = facts.driver_range(gpu)
    if bounds is None or bounds.first is None or os == "linux":
        return bounds.first if bounds else None
    return next((known.first for known in facts.branches(os) if known.branch >= bounds.first.branch), None)


def drives(
    driver: DriverVersion, gpu: TargetGpu, os: Literal["linux", "windows"]
) -> Literal["yes", "too-old", "dropped"]:
    """Whether a driver knows the GPU at all; architectures without a known bound count as known."""
    bounds = facts.driver_range(gpu.compute_capability)
    if bounds is not None and bounds.last_branch is not None and _family(driver, os) > bounds.last_branch:
        return "dropped"
    first = first_driver(gpu.compute_capability, os)
    return "too-old" if first is not None and not reaches(driver, first) else "yes"


def own_cuda(target: Target) -> CudaVersion | None:
    """The CUDA release that the machine's driver offers by itself, without any cuda-compat library."""
    if target.jetson or target.driver is None:
        return target.cuda_driver
    if target.forward_active or target.cuda_driver is None:
        return facts.cuda_of_driver(target.driver, driver_os(target))
    return target.cuda_driver


def effective_cuda(target: Target, gpu: TargetGpu) -> CudaVersion | None:
    """The CUDA release of the libcuda that this GPU gets: lifted where a cuda-compat library is active and may be."""
    if target.forward_active and gpu.forward_compatible is not False and target.cuda_driver is not None:
        return target.cuda_driver
    return own_cuda(target)


def lowest_driver(cuda: CudaVersion, os: Literal["linux", "windows"]) -> DriverVersion | None:
    """The lowest driver that runs a build of this CUDA release; before CUDA 11 only a native one does."""
    floor = facts.driver_floor(cuda.major, os)
    return floor if floor is not None else facts.driver_native(cuda, os)


def judge_driver(cuda: CudaVersion, target: Target, gpu: TargetGpu, policy: Policy) -> DriverAnswer:
    """Rule R1 for one GPU."""
    own = own_cuda(target)
    if own is None:
        return _refused(
            "target-unknown", "neither the driver nor the CUDA release that it offers is known for this target", {}
        )
    if unknown := _gpu_unknown_to_driver(target, gpu):
        return DriverAnswer(mode=None, libcuda=own, refusals=(unknown,))
    mode = _mode_by_driver(cuda, own, target)
    if mode is not None and mode in policy.modes:
        return DriverAnswer(mode=mode, libcuda=effective_cuda(target, gpu), notes=_mode_notes(mode, cuda, own, target))
    if mode is not None and mode is not Mode.MINOR:
        return _mode_excluded(mode, cuda, own)
    return _lifted(cuda, own, target, gpu, policy, mode)


def _refused(
    code: str, sentence: str, facts_behind: Mapping[str, Any], libcuda: CudaVersion | None = None
) -> DriverAnswer:
    reason = Reason(rule="R1", code=code, sentence=sentence, facts=facts_behind)
    return DriverAnswer(mode=None, libcuda=libcuda, refusals=(reason,))


def _gpu_unknown_to_driver(target: Target, gpu: TargetGpu) -> Reason | None:
    if target.jetson or target.driver is None:
        return None
    answer = drives(target.driver, gpu, driver_os(target))
    if answer == "yes":
        return None
    bounds = facts.driver_range(gpu.compute_capability)
    evidence = {"gpu": str(gpu.compute_capability), "driver": str(target.driver)}
    if answer == "dropped":
        last = bounds.last_branch if bounds else None
        return Reason(
            rule="R1",
            code="architecture-end-of-life",
            sentence=f"driver {target.driver} no longer drives {gpu}: branch {last} is the last that does",
            facts={**evidence, "last_branch": last},
        )
    first = first_driver(gpu.compute_capability, driver_os(target))
    return Reason(
        rule="R1",
        code="driver-too-old",
        sentence=f"driver {target.driver} does not know {gpu}, which needs driver {first} or newer",
        facts={**evidence, "driver_min": str(first)},
    )


def _mode_by_driver(cuda: CudaVersion, own: CudaVersion, target: Target) -> Mode | None:
    """Native or minor-version compatibility by the driver alone, None if it is too old."""
    os = driver_os(target)
    if target.driver is not None and not target.jetson:
        floor = facts.driver_floor(cuda.major, os)
        if floor is not None and not reaches(target.driver, floor):
            return None
        if floor is None:  # CUDA 10 and older have no minor-version compatibility; newer than we know: by the number
            return Mode.NATIVE if own >= cuda else None
    if own >= cuda:
        return Mode.NATIVE
    return Mode.MINOR if own.major == cuda.major else None


def _mode_notes(mode: Mode, cuda: CudaVersion, own: CudaVersion, target: Target) -> tuple[Reason, ...]:
    if mode is not Mode.MINOR:
        return ()
    native = None if target.jetson else facts.driver_native(cuda, driver_os(target))
    wish = f"; native from driver {native}" if native else ""
    return (
        Reason(
            rule="R1",
            code="minor-compat-in-use",
            sentence=f"CUDA {cuda} runs on a driver of CUDA {own} by minor-version compatibility{wish}",
            facts={"cuda": str(cuda), "cuda_driver": str(own), "driver_native": str(native) if native else None},
        ),
    )


def _mode_excluded(mode: Mode, cuda: CudaVersion, own: CudaVersion) -> DriverAnswer:
    reason = Reason(
        rule="choice",
        code="requirements-conflict",
        sentence=f"CUDA {cuda} on a driver of CUDA {own} means {mode} compatibility, which --compat rules out",
        facts={"mode": str(mode), "cuda": str(cuda), "cuda_driver": str(own)},
    )
    return DriverAnswer(mode=None, libcuda=own, refusals=(reason,))


def _lifted(
    cuda: CudaVersion, own: CudaVersion, target: Target, gpu: TargetGpu, policy: Policy, mode: Mode | None
) -> DriverAnswer:
    """The build needs more than the driver gives by itself (or than ``--compat`` lets it give)."""
    active = target.forward_active and Mode.MINOR in policy.modes
    wanted = active or Mode.FORWARD in policy.modes
    if not wanted:
        return _mode_excluded(mode, cuda, own) if mode else _too_old(cuda, own, target)
    if gpu.forward_compatible is False:
        return _refused(
            "compat-on-geforce",
            f"CUDA {cuda} would need a cuda-compat library, and forward compatibility fails on {gpu} (error 804)",
            {"gpu": str(gpu.compute_capability), "cuda": str(cuda), "cuda_driver": str(own)},
            own,
        )
    if target.forward_active and target.cuda_driver is not None and target.cuda_driver.major >= cuda.major:
        return _forward(cuda, target.cuda_driver, target)
    if Mode.FORWARD in policy.modes and (target.jetson or _package_serves(cuda, target)):
        return _forward(cuda, cuda, target)
    return _too_old(cuda, own, target)


def _package_serves(cuda: CudaVersion, target: Target) -> bool:
    """Whether a cuda-compat package of this CUDA release is made for the machine's driver branch."""
    if target.driver is None or target.platform.os != "linux" or target.wsl:
        return False
    return target.driver.branch in facts.forward_compat_branches(cuda)


def _forward(cuda: CudaVersion, library: CudaVersion, target: Target) -> DriverAnswer:
    package = f"cuda-compat-{library.major}-{library.minor}"
    if target.jetson:
        package = f"cuda-compat-orin-{library.major}-{library.minor}"
    state = "is active on this machine" if target.forward_active else "must be installed where this runs"
    note = Reason(
        rule="R1",
        code="compat-library-in-use",
        sentence=f"CUDA {cuda} runs by forward compatibility: {package} {state}",
        facts={"cuda": str(cuda), "package": package, "active": target.forward_active},
    )
    return DriverAnswer(mode=Mode.FORWARD, libcuda=library, notes=(note,))


def _too_old(cuda: CudaVersion, own: CudaVersion, target: Target) -> DriverAnswer:
    lowest = None if target.jetson else lowest_driver(cuda, driver_os(target))
    evidence = {
        "driver": str(target.driver) if target.driver else None,
        "driver_min": str(lowest) if lowest else None,
        "cuda": str(cuda),
        "cuda_driver": str(own),
    }
    if target.driver is None or target.jetson:
        sentence = f"CUDA {cuda} needs a driver that offers CUDA {cuda.major}, and this machine offers CUDA {own}"
    else:
        needs = f"driver {lowest} or newer" if lowest else "a newer driver"
        sentence = f"CUDA {cuda} needs {needs}, and driver {target.driver} (CUDA {own}) is older"
    return _refused("driver-too-old", sentence, evidence, own)
