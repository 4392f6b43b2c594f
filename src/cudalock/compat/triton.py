"""Rule R3: whether the triton that torch requires can make code for a GPU that the driver will load.

The assembler that a triton release calls depends on the GPU. It must know the GPU, and its CUDA major must not exceed
the driver's (reported for machine code of CUDA 12 on drivers of CUDA 11, triton-lang/triton#2971, #4172; inferred for
13 on 12). A GPU for which no torch could give a working triton is a *passenger*: the rule falls away for it alone.
Whether it is one is decided by the GPU and the libcuda it gets, never by what else is in the machine, so another GPU
can't make anything admissible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from packaging.version import Version

from cudalock import facts
from cudalock.builds.model import TritonRelease
from cudalock.compat.driver import driver_os, effective_cuda
from cudalock.compat.model import GpuVerdict, Mode, Policy, Reason
from cudalock.target.model import Target, TargetGpu
from cudalock.versions import ComputeCapability, CudaVersion

__all__ = [
    "Assembler",
    "TritonAnswer",
    "assembler_for",
    "assembler_target",
    "is_passenger",
    "judge_triton",
    "triton_verdict",
]

# Every triton from 2.0 on brings an assembler of CUDA 12 or newer (triton.toml).
_LOWEST_DRIVER_MAJOR = 12
# triton-lang/triton#5066 raised the stated minimum to 8.0; it is in 3.3 and not in 3.2 (triton-windows#28).
_STATED_SINCE = Version("3.3")
# Measured by cross-compiling with 3.0 to 3.9: before 3.3 only 9.0 is compiled as sm_90a, then all from 9.0 up are.
_SUFFIX_FOR_ALL_SINCE = Version("3.3")


@dataclass(frozen=True, slots=True)
class Assembler:
    """The assembler that is called: its file name and CUDA release."""

    name: str
    cuda: CudaVersion

    def __str__(self) -> str:
        return f"{self.name} {self.cuda}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonAnswer:
    """What rule R3 says for one GPU; ``needs_major``: CUDA major that the driver must offer, None if any will do."""

    text: str
    needs_major: int | None = None
    refusals: tuple[Reason, ...] = ()
    notes: tuple[Reason, ...] = ()


def assembler_for(release: TritonRelease, gpu: ComputeCapability) -> Assembler:
    """Which assembler this release of triton calls for a GPU."""
    second = release.ptxas_blackwell
    if second is not None and release.blackwell_from is not None and gpu.number >= release.blackwell_from:
        return Assembler("ptxas-blackwell", second)
    return Assembler("ptxas", release.ptxas)


def assembler_target(version: Version, gpu: ComputeCapability) -> str:
    """The architecture that this version of triton asks its assembler for, e.g. ``sm_86`` or ``sm_120a``."""
    suffixed = gpu.number >= 90 if version >= _SUFFIX_FOR_ALL_SINCE else gpu.number == 90
    return f"sm_{gpu.number}{'a' if suffixed else ''}"


def is_passenger(gpu: ComputeCapability, libcuda: CudaVersion | None) -> bool:
    """Whether no torch could give this GPU, with this libcuda, a working triton."""
    return gpu < facts.triton_limits().lowest or (libcuda is not None and libcuda.major < _LOWEST_DRIVER_MAJOR)


@lru_cache(maxsize=8192)
def judge_triton(release: TritonRelease, gpu: TargetGpu, libcuda: CudaVersion | None, policy: Policy) -> TritonAnswer:
    """Rule R3 for one GPU."""
    capability = gpu.compute_capability
    if is_passenger(capability, libcuda):
        return TritonAnswer(text="passenger", notes=(_passenger_note(gpu, libcuda),))
    assembler = assembler_for(release, capability)
    refusals = [
        reason for reason in (_unknown(release, assembler, gpu), _too_new(release, assembler, gpu, libcuda)) if reason
    ]
    if policy.without_triton:
        return TritonAnswer(text=str(assembler), notes=tuple(_waived(reason) for reason in refusals))
    notes: tuple[Reason, ...] = ()
    if capability < facts.triton_limits().stated and release.version >= _STATED_SINCE:
        notes = (_below_minimum(release, gpu),)
    return TritonAnswer(text=str(assembler), needs_major=assembler.cuda.major, refusals=tuple(refusals), notes=notes)


def triton_verdict(
    release: TritonRelease, target: Target, policy: Policy
) -> tuple[tuple[GpuVerdict, ...], tuple[Reason, ...]]:
    """Rule R3 alone for the whole target: per GPU which assembler, and all refusals.

    The verdicts' ``serves`` is None: what the torch build holds is not looked at. Where the user allows forward
    compatibility, the libcuda that a GPU gets depends on the build, so only :func:`judge` can hold it against a
    release.
    """
    verdicts: dict[ComputeCapability, GpuVerdict] = {}
    refusals: list[Reason] = []
    for gpu in sorted(target.gpus, key=lambda gpu: (gpu.compute_capability, gpu.name or "")):
        lifted = Mode.FORWARD in policy.modes and gpu.forward_compatible is not False
        answer = judge_triton(release, gpu, None if lifted else effective_cuda(target, gpu), policy)
        floor = None
        if answer.needs_major is not None and not target.jetson:
            floor = facts.driver_floor(answer.needs_major, driver_os(target))
        capability = gpu.compute_capability
        verdicts[capability] = GpuVerdict(gpu=capability, serves=None, driver_min=floor, triton=answer.text)
        refusals += answer.refusals
    return tuple(verdicts.values()), tuple(refusals)


def _waived(reason: Reason) -> Reason:
    return replace(
        reason, sentence=f"waived by --without-triton: {reason.sentence}", facts={**reason.facts, "waived": True}
    )


def _passenger_note(gpu: TargetGpu, libcuda: CudaVersion | None) -> Reason:
    capability = gpu.compute_capability
    lowest = facts.triton_limits().lowest
    if capability < lowest:
        why, cause = f"it is below compute capability {lowest}", "capability"
    else:
        why, cause = f"its driver offers CUDA {libcuda} and every triton's assembler is of CUDA 12 or newer", "driver"
    return Reason(
        rule="R3",
        code="gpu-below-triton",
        sentence=f"Triton and torch.compile will not work on {gpu}: {why}; triton is installed as a passenger",
        facts={"gpu": str(capability), "because": cause, "cuda_driver": str(libcuda) if libcuda else None},
    )


def _below_minimum(release: TritonRelease, gpu: TargetGpu) -> Reason:
    return Reason(
        rule="R3",
        code="triton-below-stated-minimum",
        sentence=(
            f"{gpu} is below the compute capability {facts.triton_limits().stated} that triton {release.version} states"
            " as its minimum; simple kernels compile"
        ),
        facts={"gpu": str(gpu.compute_capability), "triton": str(release.version)},
    )


def _unknown(release: TritonRelease, assembler: Assembler, gpu: TargetGpu) -> Reason | None:
    wanted = assembler_target(release.version, gpu.compute_capability)
    known = facts.ptxas_targets(assembler.cuda)
    if not known or wanted in known:  # an empty set: a toolkit newer than our tables, which we must not refuse
        return None
    return Reason(
        rule="R3",
        code="assembler-does-not-know-gpu",
        sentence=f"triton {release.version} calls {assembler} for {gpu}, which does not know {wanted}",
        facts={
            "gpu": str(gpu.compute_capability),
            "triton": str(release.version),
            "assembler": str(assembler),
            "wanted": wanted,
        },
    )


def _too_new(
    release: TritonRelease, assembler: Assembler, gpu: TargetGpu, libcuda: CudaVersion | None
) -> Reason | None:
    if libcuda is None or assembler.cuda.major <= libcuda.major:
        return None
    evidence = "reported" if libcuda.major < _LOWEST_DRIVER_MAJOR else "inferred"
    return Reason(
        rule="R3",
        code="assembler-newer-than-driver",
        sentence=(
            f"triton {release.version} calls {assembler} for {gpu}, and a driver of CUDA {libcuda} does not load"
            f" machine code of CUDA {assembler.cuda.major}"
        ),
        facts={
            "gpu": str(gpu.compute_capability),
            "triton": str(release.version),
            "assembler": str(assembler),
            "cuda_driver": str(libcuda),
            "evidence": evidence,
        },
    )
