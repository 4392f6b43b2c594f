"""What would help when nothing is admitted, each step checked by the same rules before it is offered.

Cheapest first: another CUDA release than the one named, dropping a pin, waiving the triton rule, another assembler, a
cuda-compat library, a newer driver, fewer of the machine's GPUs. Nothing is offered that the rules do not admit; in
particular no driver that no longer drives one of the GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations
from typing import Any, Literal

from packaging.version import Version

from cudalock import facts
from cudalock.builds.model import Build, TritonRelease
from cudalock.compat.driver import driver_os, drives, effective_cuda, reaches
from cudalock.compat.judging import judge, preference
from cudalock.compat.model import Mode, Policy, Reason, Verdict
from cudalock.compat.triton import assembler_for, assembler_target
from cudalock.target.model import Target, TargetGpu
from cudalock.versions import CudaVersion, DriverVersion

__all__ = ["Remedy", "TorchOption", "best_admitted", "refusals_by_fact", "remedies", "unlocked_by_driver"]

RemedyKind = Literal[
    "assembler", "cuda", "driver", "forward", "gpus", "pin", "platform", "python", "pytorch-index", "without-triton"
]

# TRITON_PTXAS_BLACKWELL_PATH works from 3.6 on (3.3 computes an unusable name; 3.4 and 3.5 have one assembler only).
_BLACKWELL_PATH_SINCE = Version("3.6")
_MOST_SUBSETS = 3
_NOT_BY_DRIVER = frozenset({"gpu-not-in-wheel", "assembler-does-not-know-gpu", "torch-is-cpu-build"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchOption:
    """A build of torch that is there to be chosen, with its triton.

    Attributes:
        build, triton: what :func:`cudalock.compat.judge` judges.
        wanted: whether the user's requirements allow this release.
    """

    build: Build
    triton: TritonRelease | None = None
    wanted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One change after which the rules admit a build.

    Attributes:
        kind: what must change.
        sentence: the advice, without a full stop at the end.
        admits: version of the build that is then admitted.
        option: the command line option or environment variable, None if the change is outside cudalock.
        facts: the values behind it, JSON-serialisable.
    """

    kind: RemedyKind
    sentence: str
    admits: str
    option: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The remedy as it stands in a command's JSON answer."""
        return {
            "kind": self.kind,
            "message": self.sentence,
            "admits": self.admits,
            "option": self.option,
            "facts": dict(self.facts),
            "verified_by_rules": True,
        }


def best_admitted(options: Iterable[TorchOption], target: Target, policy: Policy) -> tuple[TorchOption, Verdict] | None:
    """The option that rules R1-R3 and R5 choose: newest release, then R5's order among its builds."""
    best: tuple[TorchOption, Verdict] | None = None
    for option in sorted(options, key=_release, reverse=True):
        if best is not None and _release(option) != _release(best[0]):
            break
        verdict = judge(option.build, target, triton=option.triton, policy=policy)
        if verdict.admitted and (
            best is None or preference(option.build, verdict, target) < preference(best[0].build, best[1], target)
        ):
            best = option, verdict
    return best


def remedies(options: Iterable[TorchOption], target: Target, policy: Policy, *, asked: str = "") -> tuple[Remedy, ...]:
    """What would help, cheapest first; empty if nothing that the rules know does.

    Args:
        options: all builds of torch that are there for the target's Python and platform; those that the user's
            requirements exclude are marked as not wanted.
        target: the machine.
        policy: what the user allowed so far.
        asked: the requirement that excludes the others, as the user wrote it (``torch==2.5.1``), for the sentences.
    """
    everything = tuple(options)
    wanted = tuple(option for option in everything if option.wanted)
    found = list(_other_cuda(wanted, target, policy))
    found += _drop_pin(everything, target, policy, asked)
    found += _waive_triton(wanted, target, policy)
    found += _other_assembler(wanted, target, policy)
    found += _compat_library(wanted, target, policy)
    found += _newer_driver(wanted, target, policy)
    found += _older_driver(wanted, target, policy)
    found += _fewer_gpus(wanted, target, policy)
    return tuple(found)


def unlocked_by_driver(options: Iterable[TorchOption], target: Target, policy: Policy, chosen: Build) -> Remedy | None:
    """The lowest newer driver with which a newer release of torch than ``chosen`` is admitted, if there is one."""
    newer = [option for option in options if option.wanted and _release(option) > _public(chosen.version)]
    return next(iter(_newer_driver(newer, target, policy)), None)


@lru_cache(maxsize=1024)
def _public(version: Version) -> Version:
    return Version(version.public)


def _release(option: TorchOption) -> Version:
    return _public(option.build.version)


def _gpu_names(gpus: Iterable[TargetGpu]) -> str:
    return " + ".join(str(gpu) for gpu in gpus)


def _other_cuda(options: Sequence[TorchOption], target: Target, policy: Policy) -> Iterator[Remedy]:
    """Where the user named a CUDA release: the nearest one that admits a build, and what the free choice would be."""
    if policy.cuda is None:
        return
    asked, free = CudaVersion.parse(policy.cuda), replace(policy, cuda=None)
    best = best_admitted(options, target, free)
    if best is None:
        return
    others = {option.build.cuda for option in options if option.build.cuda is not None} - {asked}
    for cuda in sorted(others, key=lambda one: (abs(_steps(one) - _steps(asked)), -_steps(one))):
        named = best_admitted((o for o in options if o.build.cuda == cuda), target, free)
        if named is None:
            continue
        sentence = f"--cuda {cuda} admits {named[0].build.version}"
        if named[0].build.version != best[0].build.version:
            sentence += f", and no --cuda at all {best[0].build.version} (CUDA {best[0].build.cuda})"
        yield Remedy(
            kind="cuda",
            sentence=sentence,
            admits=str(named[0].build.version),
            option=f"--cuda {cuda}",
        )
        return


def _steps(cuda: CudaVersion) -> int:
    return cuda.major * 10 + cuda.minor  # for distances: a new major follows on the old one's ninth minor, near enough


def _drop_pin(options: Sequence[TorchOption], target: Target, policy: Policy, asked: str) -> Iterator[Remedy]:
    others = [option for option in options if not option.wanted]
    newest = best_admitted(others, target, policy)
    if newest is None:
        return
    build = newest[0].build
    first = _first_admitted(others, target, policy)
    without = f"drop {asked}" if asked else "drop the limit on torch"
    sentence = f"{without}: {build.version} (CUDA {build.cuda}) is admitted"
    if first is not None and first.build.version != build.version:
        sentence += f", and {first.build.version} is the first that is"
    yield Remedy(
        kind="pin",
        sentence=sentence,
        admits=str(build.version),
        option=f"torch=={build.version.public}",
        facts={"asked": asked, "first": str(first.build.version) if first else None},
    )


def _first_admitted(options: Iterable[TorchOption], target: Target, policy: Policy) -> TorchOption | None:
    ordered = sorted(options, key=_release)
    for option in ordered:
        if judge(option.build, target, triton=option.triton, policy=policy).admitted:
            same = [other for other in ordered if _release(other) == _release(option)]
            best = best_admitted(same, target, policy)
            return best[0] if best else option
    return None


def _waive_triton(options: Sequence[TorchOption], target: Target, policy: Policy) -> Iterator[Remedy]:
    if policy.without_triton:
        return
    best = best_admitted(options, target, replace(policy, without_triton=True))
    if best is not None:
        build = best[0].build
        yield Remedy(
            kind="without-triton",
            sentence=f"--without-triton admits {build.version} (CUDA {build.cuda}), without a working torch.compile",
            admits=str(build.version),
            option="--without-triton",
        )


def _other_assembler(options: Sequence[TorchOption], target: Target, policy: Policy) -> Iterator[Remedy]:
    """Where only the assembler is newer than the driver, an older one that knows the GPU does the work."""
    for option in sorted(options, key=_release, reverse=True):
        triton = option.triton
        if triton is None or policy.without_triton:
            continue
        if not judge(option.build, target, triton=triton, policy=replace(policy, without_triton=True)).admitted:
            continue
        override = _override(triton, target)
        if override is None:
            continue
        variable, cuda = override
        yield Remedy(
            kind="assembler",
            sentence=(
                f"--without-triton with {variable} set to ptxas {cuda} (nvidia-cuda-nvcc-cu{cuda.major}=={cuda}.*)"
                f" makes triton {triton.version} of {option.build.version} work"
            ),
            admits=str(option.build.version),
            option=variable,
            facts={"triton": str(triton.version), "ptxas": str(cuda), "package": f"nvidia-cuda-nvcc-cu{cuda.major}"},
        )
        return


def _override(triton: TritonRelease, target: Target) -> tuple[str, CudaVersion] | None:
    """The variable and the newest assembler of the driver's major that knows its GPUs, if one variable is enough."""
    names = {assembler_for(triton, gpu.compute_capability).name for gpu in target.gpus}
    refused = [gpu for gpu in target.gpus if _major_too_new(triton, target, gpu)]
    if not refused:
        return None
    called = {assembler_for(triton, gpu.compute_capability).name for gpu in refused}
    if called == {"ptxas-blackwell"} and triton.version >= _BLACKWELL_PATH_SINCE:
        variable, served = "TRITON_PTXAS_BLACKWELL_PATH", called
    elif called == {"ptxas"} and names == called:
        variable, served = "TRITON_PTXAS_PATH", called
    else:
        return None
    gpus = [gpu for gpu in target.gpus if assembler_for(triton, gpu.compute_capability).name in served]
    majors = [cuda.major for gpu in gpus if (cuda := effective_cuda(target, gpu)) is not None]
    wanted = {assembler_target(triton.version, gpu.compute_capability) for gpu in gpus}
    if not majors:
        return None
    known = [cuda for cuda in _assemblers() if cuda.major <= min(majors) and wanted <= facts.ptxas_targets(cuda)]
    return (variable, max(known)) if known else None


def _major_too_new(triton: TritonRelease, target: Target, gpu: TargetGpu) -> bool:
    libcuda = effective_cuda(target, gpu)
    return libcuda is not None and assembler_for(triton, gpu.compute_capability).cuda.major > libcuda.major


def _assemblers() -> tuple[CudaVersion, ...]:
    """CUDA releases whose assembler is to be had as nvidia-cuda-nvcc-cu12 and whose targets we know."""
    return tuple(CudaVersion(12, minor) for minor in range(10) if facts.ptxas_targets(CudaVersion(12, minor)))


def _compat_library(options: Sequence[TorchOption], target: Target, policy: Policy) -> Iterator[Remedy]:
    if Mode.FORWARD in policy.modes or not all(gpu.forward_compatible for gpu in target.gpus):
        return
    best = best_admitted(options, target, replace(policy, modes=policy.modes | {Mode.FORWARD}))
    if best is not None and best[1].mode is Mode.FORWARD and best[0].build.cuda is not None:
        cuda = best[0].build.cuda
        yield Remedy(
            kind="forward",
            sentence=f"--compat forward with cuda-compat-{cuda.major}-{cuda.minor} admits {best[0].build.version}",
            admits=str(best[0].build.version),
            option="--compat forward",
            facts={"package": f"cuda-compat-{cuda.major}-{cuda.minor}"},
        )


def _newer_driver(options: Sequence[TorchOption], target: Target, policy: Policy) -> Iterator[Remedy]:
    if target.jetson or target.driver is None or target.cpu:
        return
    verdicts = [(one, judge(one.build, target, triton=one.triton, policy=policy)) for one in options]
    hopeful = [(one, verdict) for one, verdict in verdicts if not _beyond_drivers(verdict)]
    if not hopeful:
        return
    os = driver_os(target)
    pool = [option for option, _ in hopeful]
    for driver in _drivers_above(target.driver, hopeful, policy, os):
        if any(drives(driver, gpu, os) != "yes" for gpu in target.gpus):
            continue
        updated = replace(target, driver=driver, cuda_driver=facts.cuda_of_driver(driver, os), forward_active=False)
        best = best_admitted(pool, updated, policy)
        if best is not None:
            yield Remedy(
                kind="driver",
                sentence=f"driver >= {driver} admits {best[0].build.version} (CUDA {best[0].build.cuda})",
                admits=str(best[0].build.version),
                facts={"driver": str(driver), "driver_now": str(target.driver)},
            )
            return


def _beyond_drivers(verdict: Verdict) -> bool:
    """Whether what refuses an option is not the driver's doing."""
    return any(reason.code in _NOT_BY_DRIVER or "asked" in reason.facts for reason in verdict.refusals)


def _older_driver(options: Sequence[TorchOption], target: Target, policy: Policy) -> Iterator[Remedy]:
    """Where the driver no longer drives a GPU: the newest branch that drives them all."""
    if target.jetson or target.driver is None or target.cpu or not options:
        return
    os = driver_os(target)
    driver = facts.newest_driver_for(target.capabilities, os)
    if driver is None or driver >= target.driver:
        return
    older = replace(target, driver=driver, cuda_driver=facts.cuda_of_driver(driver, os), forward_active=False)
    best = best_admitted(options, older, policy)
    if best is not None:
        yield Remedy(
            kind="driver",
            sentence=(
                f"driver {driver}, of the last branch that drives {_gpu_names(target.gpus)}, admits"
                f" {best[0].build.version} (CUDA {best[0].build.cuda})"
            ),
            admits=str(best[0].build.version),
            facts={"driver": str(driver), "driver_now": str(target.driver)},
        )


def _drivers_above(
    driver: DriverVersion,
    options: Iterable[tuple[TorchOption, Verdict]],
    policy: Policy,
    os: Literal["linux", "windows"],
) -> list[DriverVersion]:
    """Every driver at which the answer can change: what each build needs, and where a CUDA major begins."""
    candidates = {facts.driver_floor(branch.cuda.major, os) for branch in facts.branches(os)}
    for option, verdict in options:
        needed = [gpu.driver_min for gpu in verdict.gpus if gpu.driver_min is not None]
        candidates.add(max(needed, default=None))
        by_ptx = any(reason.code == "ptx-newer-than-driver" for reason in verdict.refusals)
        if option.build.cuda is not None and (by_ptx or Mode.MINOR not in policy.modes):
            candidates.add(facts.driver_native(option.build.cuda, os))
    return sorted(one for one in candidates if one is not None and not reaches(driver, one))


def _fewer_gpus(options: Sequence[TorchOption], target: Target, policy: Policy) -> Iterator[Remedy]:
    """The largest sets of the target's GPUs that some build admits, judged one GPU at a time first."""
    kinds = sorted(
        {replace(gpu, count=1) for gpu in target.gpus}, key=lambda gpu: (gpu.compute_capability, gpu.name or "")
    )
    if len(kinds) < 2:
        return
    admitted_for: list[tuple[TorchOption, frozenset[TargetGpu]]] = []
    for option in options:
        alone = {
            gpu: judge(option.build, replace(target, gpus=(gpu,)), triton=option.triton, policy=policy) for gpu in kinds
        }
        admitted_for.append((option, frozenset(gpu for gpu, verdict in alone.items() if verdict.admitted)))
    shown: list[frozenset[TargetGpu]] = []
    for size in range(len(kinds) - 1, 0, -1):
        for subset in combinations(kinds, size):
            members = frozenset(subset)
            pool = [option for option, gpus in admitted_for if members <= gpus]
            if not pool or len(shown) >= _MOST_SUBSETS or any(members <= larger for larger in shown):
                continue
            best = best_admitted(pool, replace(target, gpus=subset), policy)
            if best is None:
                continue
            shown.append(members)
            rest = [gpu for gpu in kinds if gpu not in members]
            build = best[0].build
            yield Remedy(
                kind="gpus",
                sentence=(
                    f"{_gpu_names(subset)} without {_gpu_names(rest)}: {build.version} (CUDA {build.cuda}) is admitted"
                ),
                admits=str(build.version),
                option="CUDA_VISIBLE_DEVICES",
                facts={"gpus": [str(gpu.compute_capability) for gpu in subset]},
            )


def refusals_by_fact(verdicts: Iterable[Verdict]) -> tuple[Reason, ...]:
    """The refusals that most builds share, most common first: the two or three facts that clash."""
    count: dict[tuple[str, str], int] = {}
    sample: dict[tuple[str, str], Reason] = {}
    for verdict in verdicts:
        for reason in verdict.refusals:
            key = reason.code, str(reason.facts.get("gpu", ""))
            count[key] = count.get(key, 0) + 1
            sample.setdefault(key, reason)
    order = sorted(count, key=lambda key: (-count[key], key))
    return tuple(sample[key] for key in order)
