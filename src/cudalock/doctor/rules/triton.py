"""Triton: its release against torch's pin, its assemblers against GPU and driver, and what it needs of the host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from cudalock import facts
from cudalock.builds import TritonRelease
from cudalock.compat import Policy, Reason, assembler_for, companion_fits, triton_verdict
from cudalock.compat.driver import drives
from cudalock.doctor.model import Override
from cudalock.doctor.rules.fixes import Fix, other_torch, torch_or_driver, triton_fix
from cudalock.doctor.rules.situation import Situation, make_finding
from cudalock.findings import Finding, Severity
from cudalock.versions import ComputeCapability

__all__ = ["RULES"]

_REFUSALS = frozenset({"assembler-does-not-know-gpu", "assembler-newer-than-driver"})
_NETWORK = (
    "nfs", "lustre", "gpfs", "beegfs", "cifs", "smb", "ceph", "glusterfs", "fuse.sshfs", "fuse.juicefs", "afs", "9p",
)  # fmt: skip
_HEADERS_HARD_SINCE = "2.14"
_TWO_ASSEMBLERS_SINCE = Version("3.6")
_BLACKWELL_CONSUMER = ComputeCapability(12, 0)
_MATURE_ON_IT = Version("3.4")


def requirement_of(situation: Situation) -> Requirement | None:
    """What the installed torch requires of triton."""
    torch = situation.evidence.torch
    return torch.triton if torch else None


def release(situation: Situation) -> Iterator[Finding]:
    """Two distributions of triton, none, or one that torch does not require."""
    evidence = situation.evidence
    both = [one for name in ("triton", "pytorch-triton") if (one := evidence.named(name))]
    required = requirement_of(situation)
    fix = triton_fix(situation, required)
    text, verified = (fix.text, fix.verified) if fix else (None, False)
    if len(both) == 2:
        names = " and ".join(f"{one.name} {one.version or ''}".strip() for one in both)
        message = f"{names} are both installed and share one folder"
        fix_text = f"uninstall both, then {text or 'install the one that torch requires'}"
        data: dict[str, object] = {"distributions": {one.name: str(one.version) for one in both}}
        yield make_finding("triton-two-distributions", message, data, fix=fix_text, verified=verified)
        return
    installed = both[0] if both else None
    if required is None:
        yield from _windows(situation)
        return
    wanted = f"{required.name}{required.specifier}"
    if installed is None:
        if evidence.complete:
            message = f"{situation.torch_name} requires {wanted}, and no triton is installed"
            yield make_finding("triton-missing", message, {"required": wanted}, fix=text, verified=verified)
        return
    same_name = installed.name == canonicalize_name(required.name)
    if installed.version is None or (same_name and _satisfies(required, installed.version)):
        return
    message = f"{installed.name} {installed.version} is installed, and {situation.torch_name} requires {wanted}"
    data = {"installed": f"{installed.name} {installed.version}", "required": wanted}
    yield make_finding("triton-off-pin", message, data, fix=text, verified=verified)


def _satisfies(required: Requirement, version: Version) -> bool:
    exact = required.specifier.contains(version, prereleases=True)
    return exact or required.specifier.contains(Version(version.public), prereleases=True)


def _windows(situation: Situation) -> Iterator[Finding]:
    """Windows: torch pins no triton, a table of pairs says which triton-windows goes with it."""
    windows = situation.evidence.named("triton-windows")
    torch = situation.evidence.torch
    if windows is None or windows.version is None or situation.build is None or torch is None or torch.version is None:
        return
    for reason in companion_fits("triton-windows", windows.version, situation.build):
        yield make_finding("triton-off-pin", reason.sentence, reason.facts)


def _effective(situation: Situation) -> tuple[TritonRelease | None, tuple[Override, ...]]:
    """Triton with the assemblers that variables name, and the overrides that count for a GPU that is there."""
    own = situation.triton
    changed, used = own, []
    for override in situation.evidence.overrides:
        if own is None or changed is None:
            break
        second = override.variable == "TRITON_PTXAS_BLACKWELL_PATH"
        if second and own.ptxas_blackwell is None:
            continue
        names = {assembler_for(own, gpu.compute_capability).name for gpu in situation.gpus}
        # Until 3.6 there is one variable, for every GPU; then each assembler has its own.
        for_all = own.ptxas_blackwell is None or own.version < _TWO_ASSEMBLERS_SINCE
        if names and not for_all and ("ptxas-blackwell" if second else "ptxas") not in names:
            continue
        used.append(override)
        if override.release is not None:
            if second:
                changed = replace(changed, ptxas_blackwell=override.release)
            elif for_all:
                changed = replace(changed, ptxas=override.release, ptxas_blackwell=None, blackwell_from=None)
            else:
                changed = replace(changed, ptxas=override.release)
    return changed, tuple(used)


def _refusals(situation: Situation, triton: TritonRelease | None) -> tuple[Reason, ...]:
    if triton is None or not situation.gpus:
        return ()
    return tuple(one for one in triton_verdict(triton, situation.target, Policy())[1] if one.code in _REFUSALS)


def assemblers(situation: Situation) -> Iterator[Finding]:
    """Rule R3 for every GPU, and what TRITON_PTXAS_PATH and its kin change about it."""
    effective, used = _effective(situation)
    before, after = _refusals(situation, situation.triton), _refusals(situation, effective)
    for override in used:
        yield _override(override, before, after)
    if used and after and not before:
        return  # the variable is the fault, and its finding says so
    for reason in after:
        # fixes are judged for torch and triton together: another torch brings another triton
        fix = torch_or_driver(situation) if situation.build else other_torch(situation)
        fix = fix or Fix("take a newer torch, which brings a newer triton", verified=False)
        yield make_finding(reason.code, reason.sentence, reason.facts, fix=fix.text, verified=fix.verified)


def _override(override: Override, before: tuple[Reason, ...], after: tuple[Reason, ...]) -> Finding:
    evidence = {
        "variable": override.variable,
        "path": override.path,
        "release": str(override.release) if override.release else None,
        "consequences": [reason.code for reason in after] if not before else [],
    }
    what = f"{override.variable} names {override.path}"
    if not override.exists:
        message = f"{what}, which is not there"
        return make_finding(
            "assembler-overridden", message, evidence, severity="error", fix=f"unset {override.variable}"
        )
    if after and not before:
        message = f"{what} (CUDA {override.release}): {after[0].sentence}"
        fix = f"unset {override.variable}: triton's own assembler serves every GPU here"
        return make_finding("assembler-overridden", message, evidence, severity="error", fix=fix, verified=True)
    if before and not after:
        message = f"{what} (CUDA {override.release}), which does what triton's own assembler cannot here"
        return make_finding("assembler-overridden", message, evidence, severity="info", fix="keep it as it is")
    release = f" (CUDA {override.release})" if override.release else ""
    return make_finding("assembler-overridden", f"{what}{release} instead of triton's own assembler", evidence)


def old_driver(situation: Situation) -> Iterator[Finding]:
    """On a driver of CUDA 11 triton is a passenger; once a program met that, it is the fault."""
    libcuda, triton = situation.libcuda, situation.triton
    if libcuda is None or triton is None or libcuda.major >= 12:
        return
    met = situation.reported("assembler-newer-than-driver") or any(
        "device kernel image is invalid" in text for text in situation.evidence.errors
    )
    if not met:
        return
    for gpu in situation.gpus:
        assembler = assembler_for(triton, gpu.compute_capability)
        if assembler.cuda.major <= libcuda.major:
            continue
        message = (
            f"triton {triton.version} calls {assembler} for {gpu}, and a driver of CUDA {libcuda} does not load machine"
            f" code of CUDA {assembler.cuda.major}"
        )
        data = {"assembler": str(assembler), "cuda_driver": str(libcuda), "gpu": str(gpu.compute_capability)}
        floor = facts.driver_floor(assembler.cuda.major, situation.os)
        stays = floor is not None and all(drives(floor, one, situation.os) == "yes" for one in situation.gpus)
        without = "do without torch.compile and Triton"
        fix = f"update the driver to {floor} or newer, or {without}" if stays else without
        yield make_finding("assembler-newer-than-driver", message, data, fix=fix, verified=stays)
        return


def below_minimum(situation: Situation) -> Iterator[Finding]:
    """GPUs on which Triton does not work whatever the release, or that it does not state."""
    limits = facts.triton_limits()
    for reason in situation.notes("gpu-below-triton", "triton-below-stated-minimum"):
        yield make_finding(reason.code, reason.sentence, reason.facts, severity="info")
    if situation.verdict is None:
        for gpu in situation.gpus:
            if gpu.compute_capability < limits.lowest and _has_compiler_stack(situation):
                message = f"Triton and torch.compile do not work on {gpu}: it is below {limits.lowest}"
                yield make_finding("gpu-below-triton", message, {"gpu": str(gpu.compute_capability)}, severity="info")
    triton = situation.triton
    early = [gpu for gpu in situation.gpus if gpu.compute_capability >= _BLACKWELL_CONSUMER]
    if triton is not None and early and triton.version < _MATURE_ON_IT and not _refusals(situation, triton):
        met = any("device not ready" in text.lower() for text in situation.evidence.errors)
        message = f"triton {triton.version} is an early release for {early[0]}, whose kernels are reported to fault"
        data = {"triton": str(triton.version), "gpu": str(early[0].compute_capability), "evidence": "reported"}
        fix = other_torch(situation) if situation.build is None else None
        text = fix.text if fix else "take torch 2.8 or newer, which brings triton 3.4"
        severity: Severity = "error" if met else "info"
        yield make_finding("triton-too-old-for-gpu", message, data, severity=severity, fix=text)


def _has_compiler_stack(situation: Situation) -> bool:
    return any(situation.evidence.named(name) for name in ("torch", "triton", "vllm"))


def host_needs(situation: Situation) -> Iterator[Finding]:
    """A C compiler and Python.h, which Triton needs at first use."""
    evidence = situation.evidence
    if situation.has_gpu is False or not _uses_triton(situation):
        return
    if "cc" in evidence.tools and evidence.tools["cc"] is None:
        named = evidence.variables.get("CC")
        message = f"CC names {named}, which is not there" if named else "neither gcc nor clang is on the search path"
        yield make_finding("host-compiler-missing", message, {"CC": named})
    if "python_headers" in evidence.tools and evidence.tools["python_headers"] is None:
        hard = evidence.torch is not None and evidence.torch.version is not None
        hard = hard and not situation.older_than(_HEADERS_HARD_SINCE)
        why = ", and from torch 2.14 on even plain operations need it" if hard else ""
        message = f"Python.h of Python {evidence.python or ''} is missing{why}".replace("  ", " ")
        yield make_finding("python-headers-missing", message, {"python": evidence.python})


def _uses_triton(situation: Situation) -> bool:
    evidence = situation.evidence
    if any(evidence.named(name) for name in ("triton", "pytorch-triton")) or requirement_of(situation) is not None:
        return True
    torch = evidence.torch
    return not evidence.complete and (torch is None or torch.cpu is not True) and bool(evidence.tools)


def caches(situation: Situation) -> Iterator[Finding]:
    """Where kernels are kept: writable, local, loadable."""
    if not _uses_triton(situation) and not any(cache.filesystem for cache in situation.evidence.caches):
        return
    if situation.evidence.complete and (situation.has_gpu is False or not _uses_triton(situation)):
        return
    for cache in situation.evidence.caches:
        variable = "TRITON_CACHE_DIR" if cache.kind == "triton" else "TORCHINDUCTOR_CACHE_DIR"
        data = {"path": cache.path, "filesystem": cache.filesystem, "foreign": list(cache.foreign)}
        fix = f"set {variable} to a local folder that can be written and executed"
        if cache.writable is False or cache.executable is False:
            fault = "cannot be written" if cache.writable is False else "is mounted noexec"
            yield make_finding("triton-cache-unwritable", f"the cache folder {cache.path} {fault}", data, fix=fix)
        if cache.filesystem and cache.filesystem.startswith(_NETWORK):
            message = f"the cache folder {cache.path} lies on {cache.filesystem}"
            yield make_finding("triton-cache-on-network-filesystem", message, data, fix=fix)
        if cache.foreign:
            message = f"the cache {cache.path} holds entries that cannot be loaded here: {cache.foreign[0]}"
            yield make_finding("triton-cache-stale", message, data)


RULES = (release, assemblers, old_driver, below_minimum, host_needs, caches)
