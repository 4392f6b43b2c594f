"""The contract of a lock: the drivers and GPUs for which its torch build and its triton are valid, by the rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.version import Version

from cudalock import facts
from cudalock.builds.model import Build, TritonRelease
from cudalock.compat.driver import driver_os, lowest_driver
from cudalock.compat.judging import judge
from cudalock.compat.model import GpuVerdict, Mode, Policy
from cudalock.lock.model import Contract, GpuContract, Lock
from cudalock.target.model import Target, TargetGpu
from cudalock.versions import Architecture, ComputeCapability, CudaVersion, DriverVersion

if TYPE_CHECKING:  # check reads contracts and needs no resolver
    from cudalock.resolve.model import Triple

__all__ = ["build_contract", "build_of", "triton_of"]


def build_contract(triple: Triple, target: Target, policy: Policy) -> Contract | None:
    """The contract of a triple chosen for a target; None for a CPU build, which needs no GPU and no driver.

    ``driver-min`` is the lowest driver for all GPUs of the target; every GPU of it has its own entry, and so has each
    architecture of the build for which the driver or the assembler differs.
    """
    build = triple.build
    if build.cuda is None:
        return None
    targeted = {verdict.gpu: _entry(verdict) for verdict in triple.verdict.gpus}
    driver_min = _highest(part.driver_min for part in targeted.values())
    if driver_min is None and not target.jetson:
        driver_min = lowest_driver(build.cuda, driver_os(target))
    usual = {part.triton for part in targeted.values()}
    gpus = dict(targeted)
    for capability in sorted({item.capability for item in build.architectures if not item.ptx} - targeted.keys()):
        entry = _entry(_alone(triple, target, policy, capability))
        if entry.driver_min != driver_min or {entry.triton} != usual:
            gpus[capability] = entry
    return Contract(
        driver_min=driver_min,
        driver_native=None if target.jetson else facts.driver_native(build.cuda, driver_os(target)),
        compat=triple.verdict.mode or Mode.NATIVE,
        compat_package=_compat_package(triple),
        architectures=tuple(item for item in build.architectures if not item.ptx),
        ptx=tuple(sorted({item.capability for item in build.architectures if item.ptx})),
        evidence=build.evidence,
        gpus=gpus,
    )


def _entry(verdict: GpuVerdict) -> GpuContract:
    return GpuContract(driver_min=verdict.driver_min, triton=verdict.triton)


def _highest(drivers: Iterable[DriverVersion | None]) -> DriverVersion | None:
    return max((driver for driver in drivers if driver is not None), default=None)


def _alone(triple: Triple, target: Target, policy: Policy, capability: ComputeCapability) -> GpuVerdict:
    """What the rules say of one architecture with the newest driver that it has: the target's driver is not its own."""
    driver = target.driver if target.jetson else facts.newest_driver_for([capability], driver_os(target))
    alone = replace(
        target,
        gpus=(TargetGpu(compute_capability=capability),),
        driver=driver,
        cuda_driver=target.cuda_driver if target.jetson else None,
        forward_active=False,
    )
    modes = frozenset({Mode.NATIVE, Mode.MINOR})
    verdict = judge(triple.build, alone, triton=triple.triton_release, policy=replace(policy, cuda=None, modes=modes))
    return verdict.gpus[0]


def _compat_package(triple: Triple) -> str | None:
    if triple.verdict.mode is not Mode.FORWARD:
        return None
    packages = {str(note.facts["package"]) for note in triple.verdict.notes if "package" in note.facts}
    return min(packages) if packages else None


# --- from the lock back to what the rules judge


def build_of(lock: Lock) -> Build | None:
    """The torch build that a lock describes, as far as the rules need it; None without a CUDA build."""
    if lock.triple is None or lock.triple.cuda is None or lock.contract is None or lock.target is None:
        return None
    system, _, machine = lock.target.platform.partition("-")
    return Build(
        version=Version(lock.triple.torch),
        cuda=lock.triple.cuda,
        architectures=(
            *lock.contract.architectures,
            *(_ptx(capability) for capability in lock.contract.ptx),
        ),
        triton_required=lock.triple.triton is not None,
        os="windows" if system == "win" else "linux",
        machine="x86_64" if machine == "amd64" else machine,
        evidence=lock.contract.evidence,
        origin="the lock",
    )


def _ptx(capability: ComputeCapability) -> Architecture:
    return Architecture(capability, ptx=True)


def triton_of(lock: Lock) -> TritonRelease | None:
    """Which assemblers the lock's triton calls: by our table, else as the contract's entries say it."""
    if lock.triple is None or lock.triple.triton is None:
        return None
    version = Version(lock.triple.triton)
    if row := facts.triton_row(Version(version.public)):
        return TritonRelease(
            version=version,
            ptxas=row.ptxas,
            ptxas_blackwell=row.ptxas_blackwell,
            blackwell_from=row.blackwell_from,
            origin=row.source,
        )
    return _triton_as_recorded(lock.contract, version) if lock.contract else None


def _triton_as_recorded(contract: Contract, version: Version) -> TritonRelease | None:
    named: dict[str, dict[ComputeCapability, CudaVersion]] = {}
    for gpu, part in contract.gpus.items():
        assembler, _, release = (part.triton or "").rpartition(" ")
        if assembler in {"ptxas", "ptxas-blackwell"}:
            named.setdefault(assembler, {})[gpu] = CudaVersion.parse(release)
    first, second = named.get("ptxas", {}), named.get("ptxas-blackwell", {})
    if not first and not second:
        return None
    return TritonRelease(
        version=version,
        ptxas=next(iter((first or second).values())),
        ptxas_blackwell=next(iter(second.values())) if first and second else None,
        blackwell_from=min(second).number if first and second else None,
        origin="the lock",
    )
