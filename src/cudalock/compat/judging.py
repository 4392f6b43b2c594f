"""Rules R1 to R3 for one build of torch on a whole target, and rule R5's order among the builds of one release.

A target is judged GPU by GPU and admitted exactly if every GPU is. Nothing a GPU is granted depends on its neighbours,
so another GPU never widens what is admitted, and what a set admits every member admits. The one thing that the GPUs
share, a cuda-compat library, only narrows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cudalock import facts
from cudalock.builds.model import Build, TritonRelease
from cudalock.compat.architecture import first_for_ptx, judge_architecture
from cudalock.compat.driver import driver_os, first_driver, judge_driver, lowest_driver, own_cuda
from cudalock.compat.model import GpuVerdict, Mode, Policy, Reason, Verdict
from cudalock.compat.triton import judge_triton
from cudalock.target.model import Target, TargetGpu
from cudalock.versions import ComputeCapability, CudaVersion, DriverVersion

__all__ = ["judge", "judge_without_triton", "preference"]

_STRENGTH = {Mode.NATIVE: 0, Mode.MINOR: 1, Mode.FORWARD: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Single:
    """The answer for one GPU by itself."""

    verdict: GpuVerdict
    mode: Mode | None
    refusals: tuple[Reason, ...]
    notes: tuple[Reason, ...]


_MOST_ANSWERS = 100_000
_answers: dict[object, _Single] = {}


def judge(build: Build, target: Target, *, triton: TritonRelease | None, policy: Policy) -> Verdict:
    """Rules R1 to R3 for a build of torch with the triton that it requires.

    Args:
        build: the build; what it requires of triton is already resolved to ``triton``.
        target: every GPU of it must be served.
        triton: None if the build requires none here (then a note says so), or if it is not known yet.
        policy: what the user allows.

    Returns:
        Admitted exactly if there are no refusals. Order and number of equal GPUs in the target make no difference.
    """
    return _judge(build, target, triton, policy, with_triton=True)


def judge_without_triton(build: Build, target: Target, policy: Policy) -> Verdict:
    """Rules R1 and R2 alone, for sorting out builds before anything is known of their triton."""
    return _judge(build, target, None, policy, with_triton=False)


def _judge(build: Build, target: Target, triton: TritonRelease | None, policy: Policy, *, with_triton: bool) -> Verdict:
    chosen_against = _against_choice(build, target, policy)
    if build.cuda is None or target.cpu:
        return Verdict(refusals=chosen_against)
    if not target.gpus:
        return Verdict(refusals=(*chosen_against, _no_gpu()))
    singles = [_remembered(build, build.cuda, target, gpu, triton, policy) for gpu in _distinct(target.gpus)]
    modes = [single.mode for single in singles if single.mode is not None]
    mode = max(modes, key=_STRENGTH.__getitem__) if len(modes) == len(singles) else None
    shared = _library_breaks(target, mode)
    notes = [note for single in singles for note in single.notes]
    if with_triton and not build.needs_triton:
        notes.append(_no_triton(build, target))
    return Verdict(
        mode=mode,
        gpus=_by_capability(single.verdict for single in singles),
        refusals=_unique((*chosen_against, *(r for single in singles for r in single.refusals), *shared)),
        notes=_unique(notes),
    )


def _remembered(
    build: Build, cuda: CudaVersion, target: Target, gpu: TargetGpu, triton: TritonRelease | None, policy: Policy
) -> _Single:
    """The answer for one GPU, kept: resolution, remedies and the matrix ask for the same ones again and again.

    The key is all that :func:`_judge_gpu` looks at.
    """
    machine = (target.driver and target.driver.text, target.cuda_driver, target.platform.os, target.wsl, target.jetson)
    key = (cuda, build.architectures, not build.needs_triton, machine, target.forward_active, gpu, triton, policy)
    found = _answers.get(key)
    if found is None:
        if len(_answers) >= _MOST_ANSWERS:
            _answers.clear()
        found = _answers[key] = _judge_gpu(build, cuda, target, gpu, triton, policy)
    return found


def _judge_gpu(
    build: Build, cuda: CudaVersion, target: Target, gpu: TargetGpu, triton: TritonRelease | None, policy: Policy
) -> _Single:
    driver = judge_driver(cuda, target, gpu, policy)
    serving, refusals, notes = judge_architecture(build.architectures, cuda, gpu, driver.libcuda)
    by_ptx = serving.architecture is not None and serving.architecture.ptx
    text = "none" if not build.needs_triton else None
    needs_major = None
    if triton is not None:
        # without a driver that runs the build, the triton rule is asked about the libcuda that is there
        answer = judge_triton(triton, gpu, driver.libcuda, policy)
        text, needs_major = answer.text, answer.needs_major
        refusals, notes = refusals + answer.refusals, notes + answer.notes
    verdict = GpuVerdict(
        gpu=gpu.compute_capability,
        serves=str(serving.architecture) if serving.architecture else None,
        by_ptx=by_ptx,
        driver_min=_driver_min(cuda, target, gpu, by_ptx=by_ptx, assembler_major=needs_major, mode=driver.mode),
        triton=text,
    )
    return _Single(
        verdict=verdict,
        mode=driver.mode,
        refusals=driver.refusals + refusals,
        notes=driver.notes + notes + _end_of_life(gpu),
    )


def _driver_min(
    cuda: CudaVersion, target: Target, gpu: TargetGpu, *, by_ptx: bool, assembler_major: int | None, mode: Mode | None
) -> DriverVersion | None:
    """The lowest driver with which this GPU runs this build and its triton; None where drivers are not counted so."""
    if target.jetson:
        return None
    os = driver_os(target)
    floors = [first_driver(gpu.compute_capability, os)]
    if mode is Mode.FORWARD:  # the library brings the CUDA release: any branch that it is made for will do
        floors += [DriverVersion(str(branch)) for branch in sorted(facts.forward_compat_branches(cuda))[:1]]
    else:
        floors += [lowest_driver(cuda, os), first_for_ptx(cuda, os) if by_ptx else None]
        floors += [facts.driver_floor(assembler_major, os) if assembler_major is not None else None]
    return max((floor for floor in floors if floor is not None), default=None)


def _against_choice(build: Build, target: Target, policy: Policy) -> tuple[Reason, ...]:
    """What the user ruled out by name, and rule R9: a CPU build only for a CPU target."""
    if build.cuda is None and not target.cpu:
        reason = Reason(
            rule="choice",
            code="torch-is-cpu-build",
            sentence=f"torch {build.version} from the {build.source} index is a CPU build, and the target has GPUs",
            facts={"torch": str(build.version), "source": build.source, "label": build.label},
        )
        return (reason,)
    if build.cuda is not None and target.cpu:
        reason = Reason(
            rule="choice",
            code="requirements-conflict",
            sentence=f"torch {build.version} is a CUDA {build.cuda} build, and a CPU build was asked for",
            facts={"torch": str(build.version), "cuda": str(build.cuda)},
        )
        return (reason,)
    if policy.cuda is not None and build.cuda is not None and build.cuda != CudaVersion.parse(policy.cuda):
        wanted = CudaVersion.parse(policy.cuda)
        reason = Reason(
            rule="choice",
            code="requirements-conflict",
            sentence=f"torch {build.version} is built with CUDA {build.cuda}, and --cuda {wanted} was asked for",
            facts={"torch": str(build.version), "cuda": str(build.cuda), "asked": str(wanted)},
        )
        return (reason,)
    return ()


def _no_gpu() -> Reason:
    return Reason(rule="R2", code="target-unknown", sentence="the target names no GPU to judge the build for")


def _library_breaks(target: Target, mode: Mode | None) -> tuple[Reason, ...]:
    """A cuda-compat library that one GPU needs is loaded for all of them, and fails where it is not allowed."""
    if mode is not Mode.FORWARD:
        return ()
    return tuple(
        Reason(
            rule="R1",
            code="compat-on-geforce",
            sentence=f"the build needs a cuda-compat library, and forward compatibility fails on {gpu} (error 804)",
            facts={"gpu": str(gpu.compute_capability)},
        )
        for gpu in _distinct(target.gpus)
        if gpu.forward_compatible is False
    )


def _no_triton(build: Build, target: Target) -> Reason:
    place = f"Python {target.python} on {target.platform}"
    advice = "; triton-windows is the one to add by hand" if target.platform.os == "windows" else ""
    return Reason(
        rule="R3",
        code="triton-missing",
        sentence=f"torch {build.version} requires no triton for {place}: torch.compile will not work{advice}",
        facts={"torch": str(build.version), "python": str(target.python), "platform": str(target.platform)},
    )


def _end_of_life(gpu: TargetGpu) -> tuple[Reason, ...]:
    bounds = facts.driver_range(gpu.compute_capability)
    if bounds is None or bounds.last_branch is None:
        return ()
    note = Reason(
        rule="R1",
        code="architecture-end-of-life",
        sentence=f"driver branch {bounds.last_branch} and CUDA {bounds.last_cuda} are the last for {gpu}",
        facts={
            "gpu": str(gpu.compute_capability),
            "last_branch": bounds.last_branch,
            "last_cuda": str(bounds.last_cuda) if bounds.last_cuda else None,
        },
    )
    return (note,)


def _distinct(gpus: Iterable[TargetGpu]) -> list[TargetGpu]:
    """Each kind once and in a fixed order, whatever the order and number they were named in."""
    kinds = {replace(gpu, count=1) for gpu in gpus}
    return sorted(kinds, key=lambda gpu: (gpu.compute_capability, gpu.name or "", str(gpu.forward_compatible)))


def _by_capability(verdicts: Iterable[GpuVerdict]) -> tuple[GpuVerdict, ...]:
    """One verdict a capability; of two (equal GPUs of which one may be lifted) the one that asks for more."""
    kept: dict[ComputeCapability, GpuVerdict] = {}
    for verdict in verdicts:
        before = kept.get(verdict.gpu)
        if before is None or (before.driver_min and verdict.driver_min and before.driver_min < verdict.driver_min):
            kept[verdict.gpu] = verdict
    return tuple(kept.values())


def _unique(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    seen = {(reason.rule, reason.code, reason.sentence): reason for reason in reasons}
    return tuple(seen.values())


def preference(build: Build, verdict: Verdict, target: Target) -> tuple[int, int, int, str]:
    """Sort key of rule R5 among the admitted builds of one release of torch: the smallest is the one to take.

    PyPI's own if native; native builds of the driver's CUDA major, highest first; PyPI's own by minor-version
    compatibility; others by it, nearest to the driver's CUDA first; native builds of an older major; then what needs
    forward compatibility.
    """
    if build.cuda is None:
        return 0, 0, 0 if build.source == "main" else 1, str(build.version)
    number = build.cuda.major * 100 + build.cuda.minor
    main = build.source == "main"
    own = own_cuda(target)
    same_major = own is not None and build.cuda.major == own.major
    if verdict.mode is Mode.NATIVE:
        rank = 0 if main else 1 if same_major else 4
        return rank, -number, 0 if main else 1, str(build.version)
    if verdict.mode is Mode.MINOR:
        return 2 if main else 3, number, 0 if main else 1, str(build.version)
    return 5, number, 0 if main else 1, str(build.version)
