"""Rule R2: whether a build holds code that a GPU can run, and which of it serves best.

Machine code runs on its own major with a minor not below its own; ``a`` targets on themselves only, ``f`` targets on
their family; integrated GPUs have exceptions (torch 2.15.0, ``torch/cuda/__init__.py``, DEVICE_REQUIREMENT). PTX
runs on anything newer, provided that the driver's compiler knows the PTX version of the toolkit that wrote it
(measured: driver 580 refuses PTX ISA 9.1 with error 222).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache

from cudalock import facts
from cudalock.compat.model import Reason
from cudalock.target.model import TargetGpu
from cudalock.versions import Architecture, ComputeCapability, CudaVersion, DriverVersion

__all__ = [
    "Serving",
    "code_serves",
    "first_for_ptx",
    "judge_architecture",
    "ptx_accepted",
    "ptx_serves",
    "serving_architecture",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What serves a GPU, if anything does; ``refused_ptx`` is PTX that would, but for the driver."""

    architecture: Architecture | None
    refused_ptx: Architecture | None = None


@cache
def code_serves(architecture: Architecture, gpu: ComputeCapability, cuda: CudaVersion) -> bool:
    """Whether machine code of ``architecture``, built with ``cuda``, runs on a GPU of capability ``gpu``."""
    rule = facts.serving_rule()
    code, device = architecture.capability.number, gpu.number
    if architecture.suffix:
        # 10.1 and 11.0 are two names of one chip: such a code serves every name of its own capability
        same_chip = device == code or (code in rule.exact and device in rule.exact[code])
        family = architecture.suffix == "f" and gpu in facts.family_members(f"{code}f")
        return same_chip or family
    return rule.serves(architecture.capability, gpu, cuda)


@cache
def ptx_serves(architecture: Architecture, gpu: ComputeCapability) -> bool:
    """Whether PTX of ``architecture`` can be compiled for ``gpu``, the driver's compiler aside."""
    code = architecture.capability
    if not architecture.suffix:
        return code <= gpu
    if architecture.suffix == "f":
        return gpu == code or gpu in facts.family_members(f"{code.number}f")
    return gpu == code


@cache
def ptx_accepted(cuda: CudaVersion, libcuda: CudaVersion) -> bool:
    """Whether the compiler in a libcuda of CUDA ``libcuda`` takes the PTX that toolkit ``cuda`` writes."""
    written, known = facts.ptx_isa(cuda), facts.ptx_isa(libcuda)
    if written is None or known is None:
        return libcuda >= cuda
    return known >= written


@cache
def first_for_ptx(cuda: CudaVersion, os: facts.Os) -> DriverVersion | None:
    """The first driver whose compiler takes the PTX that toolkit ``cuda`` writes: 12.5 and 12.6 write the same."""
    taking = (branch.first for branch in facts.branches(os) if ptx_accepted(cuda, branch.cuda))
    return min(taking, default=facts.driver_native(cuda, os))


def serving_architecture(
    architectures: Iterable[Architecture], gpu: ComputeCapability, cuda: CudaVersion, libcuda: CudaVersion | None
) -> Serving:
    """The best of ``architectures`` for a GPU: machine code before PTX, newest first, the most specific of equals."""
    code: list[Architecture] = []
    ptx: list[Architecture] = []
    for architecture in architectures:
        if architecture.ptx:
            if ptx_serves(architecture, gpu):
                ptx.append(architecture)
        elif code_serves(architecture, gpu, cuda):
            code.append(architecture)
    if code:
        return Serving(architecture=max(code, key=_specific))
    if not ptx:
        return Serving(architecture=None)
    best = max(ptx, key=_specific)
    if libcuda is not None and ptx_accepted(cuda, libcuda):
        return Serving(architecture=best)
    return Serving(architecture=None, refused_ptx=best)


def _specific(architecture: Architecture) -> tuple[ComputeCapability, int]:
    return architecture.capability, {"": 0, "f": 1, "a": 2}[architecture.suffix]


@lru_cache(maxsize=8192)
def judge_architecture(
    architectures: tuple[Architecture, ...], cuda: CudaVersion, gpu: TargetGpu, libcuda: CudaVersion | None
) -> tuple[Serving, tuple[Reason, ...], tuple[Reason, ...]]:
    """Rule R2 for one GPU: what serves it, refusals, notes."""
    serving = serving_architecture(architectures, gpu.compute_capability, cuda, libcuda)
    capability = gpu.compute_capability
    if serving.architecture is not None:
        if not serving.architecture.ptx:
            return serving, (), ()
        note = Reason(
            rule="R2",
            code="gpu-only-by-ptx",
            sentence=f"no machine code for {gpu} in it: the driver compiles {serving.architecture} at first use",
            facts={"gpu": str(capability), "serves": str(serving.architecture)},
        )
        return serving, (), (note,)
    holds = [str(architecture) for architecture in architectures]
    if serving.refused_ptx is not None:
        reason = Reason(
            rule="R2",
            code="ptx-newer-than-driver",
            sentence=(
                f"{gpu} could only run {serving.refused_ptx}, PTX of CUDA {cuda}, which a driver of CUDA {libcuda}"
                " cannot compile (error 222)"
            ),
            facts={
                "gpu": str(capability),
                "ptx": str(serving.refused_ptx),
                "cuda": str(cuda),
                "cuda_driver": str(libcuda),
            },
        )
    else:
        reason = Reason(
            rule="R2",
            code="gpu-not-in-wheel",
            sentence=f"no code for {gpu}: the build holds {' '.join(holds) or 'no known architecture'}",
            facts={"gpu": str(capability), "architectures": holds},
        )
    return serving, (reason,), ()
