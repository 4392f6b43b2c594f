"""Whether a machine is one that a lock is valid for: its contract against the machine's facts, for every GPU, offline.

What the machine does not tell is unknown, not wrong: a login node or an image build has no driver, and a lock can be
installed there all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cudalock import facts
from cudalock.compat.model import Mode
from cudalock.errors import CudalockError
from cudalock.findings import Finding, Severity
from cudalock.host.model import Gpu, Host
from cudalock.lock.inputs import recorded_policy
from cudalock.lock.model import Contract, GpuContract, Lock
from cudalock.target.model import Platform, PythonVersion, Target, TargetGpu
from cudalock.versions import ComputeCapability

if TYPE_CHECKING:  # the rules are loaded where there is a GPU or a driver to judge
    from cudalock.builds.model import Build
    from cudalock.compat.model import Reason, Verdict

__all__ = ["contract_findings", "Fit", "judge_fit", "python_findings"]

_LEGACY_GLIBC = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_LIFTED_BY_DRIVER = frozenset({"driver-too-old", "ptx-newer-than-driver", "assembler-newer-than-driver"})
_CHOSEN = frozenset({"flag", "environment", "config", "facts"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How a machine fits a lock: findings, and what could not be judged because the machine did not tell."""

    findings: tuple[Finding, ...] = ()
    unknown: tuple[str, ...] = ()


def contract_findings(
    lock: Lock, machine: Target | Host, *, python: PythonVersion | None = None
) -> tuple[Finding, ...]:
    """The findings of :func:`judge_fit` alone."""
    return judge_fit(lock, machine, python=python).findings


def judge_fit(lock: Lock, machine: Target | Host, *, python: PythonVersion | None = None) -> Fit:
    """Judges a machine against the contract of a lock.

    Args:
        lock: one of cudalock's; of another tool's lock nothing is known.
        machine: a target, or the host as detected; what is None or empty in it counts as unknown.
        python: of the environment that the lock is for; else that of a target where it was chosen, not just found.

    Returns:
        Findings of severity error where the lock will not work, with a warning or info where it works with a catch.
    """
    if not lock.ours or lock.target is None:
        return Fit(unknown=("drivers and GPUs: the lock was not made by cudalock and says nothing of them",))
    target, unknown = (machine, ()) if isinstance(machine, Target) else _target_of(machine, lock.contract)
    findings = [*_platform(lock, machine, target), *_python(lock, machine, python), *_libc(lock, target.platform)]
    no_gpu_build = lock.contract is None or lock.triple is None or lock.triple.cuda is None
    if no_gpu_build or target.cpu or any(item.severity == "error" for item in findings):
        return Fit(findings=tuple(findings))
    gpu_fit = _gpus(lock, target)
    return Fit(findings=(*findings, *gpu_fit.findings), unknown=(*unknown, *gpu_fit.unknown))


def _target_of(host: Host, contract: Contract | None) -> tuple[Target, tuple[str, ...]]:
    """The host as a target with gaps, which is enough for a lock: it needs no tags and no markers."""
    unknown: list[str] = []
    # Which products a cuda-compat library lifts matters, and is looked up, only where one is in play.
    lifting = host.compat_library is not None or (contract is not None and contract.compat is Mode.FORWARD)
    gpus: list[TargetGpu] = []
    for gpu in host.gpus:
        if gpu.compute_capability is None:
            unknown.append(f"the compute capability of GPU {gpu.index} ({gpu.name or 'no name'})")
        else:
            gpus.append(
                TargetGpu(
                    compute_capability=gpu.compute_capability,
                    name=gpu.name,
                    forward_compatible=_lifts(gpu) if lifting else None,
                )
            )
    target = Target(
        platform=Platform("windows" if host.os == "windows" else "linux", host.machine or "x86_64", host.libc),
        python=PythonVersion(0, 0),
        driver=host.driver,
        cuda_driver=host.cuda_driver,
        gpus=tuple(gpus),
        wsl=host.wsl,
        jetson=host.jetson,
        forward_active=host.compat_library is not None,
    )
    return target, tuple(unknown)


def _lifts(gpu: Gpu) -> bool | None:
    """Whether a cuda-compat library may lift this product; None where the product is not known."""
    if gpu.name is None:
        return None
    try:
        return facts.find_product(gpu.name).forward_compatible
    except CudalockError:
        return None


# --- platform, Python, libc


def _platform(lock: Lock, machine: Target | Host, target: Target) -> list[Finding]:
    wanted = lock.target.platform if lock.target else None
    if isinstance(machine, Host) and (machine.os is None or machine.machine is None):
        return []
    here = f"darwin-{machine.machine}" if isinstance(machine, Host) and machine.os == "darwin" else str(target.platform)
    if wanted == here:
        return []
    return [
        Finding(
            code="lock-not-for-this-machine",
            severity="error",
            message=f"the lock is for {wanted}, not for {here}",
            evidence={"lock": wanted, "machine": here},
            fix=_anew(target),
        )
    ]


def _python(lock: Lock, machine: Target | Host, python: PythonVersion | None) -> list[Finding]:
    if python is None and isinstance(machine, Target) and machine.origin.get("python") in _CHOSEN:
        python = machine.python
    return [] if python is None else python_findings(lock, python)


def python_findings(lock: Lock, python: PythonVersion) -> list[Finding]:
    """Whether the lock is for this Python; a lock of another tool is not judged."""
    wanted = lock.target.python if lock.target else None
    if wanted is None or wanted == str(python):
        return []
    return [
        Finding(
            code="lock-not-for-this-machine",
            severity="error",
            message=f"the lock is for Python {wanted}, and the environment has Python {python}",
            evidence={"lock": wanted, "python": str(python)},
            fix=f"use Python {wanted}, or make the lock for this one with `cudalock resolve --python {python}`",
        )
    ]


def _libc(lock: Lock, platform: Platform) -> list[Finding]:
    """Wheels name the oldest glibc that they run on; the lock asks for the newest of these."""
    if platform.os != "linux" or platform.libc is None:
        return []
    needs = [(needed, name) for name in lock.wheels if (needed := _glibc_of(name))]
    if not needs:
        return []
    needed, filename = max(needs)
    family, version = platform.libc
    evidence = {
        "file": filename,
        "needs": f"glibc {needed[0]}.{needed[1]}",
        "libc": f"{family} {version[0]}.{version[1]}",
    }
    if family != "glibc":
        message = f"{filename} needs glibc, and this machine has {family}"
        return [Finding(code="musl-unsupported", severity="error", message=message, evidence=evidence)]
    if version >= needed:
        return []
    message = f"{filename} needs {evidence['needs']}, and this machine has {evidence['libc']}"
    fix = "use a newer system (or a container of one), or make a lock for this machine with `cudalock resolve`"
    return [Finding(code="glibc-too-old", severity="error", message=message, evidence=evidence, fix=fix)]


def _glibc_of(filename: str) -> tuple[int, int] | None:
    """The oldest glibc that a wheel's platform tags name; None if they name none."""
    found: list[tuple[int, int]] = []
    for tag in filename.removesuffix(".whl").rpartition("-")[2].split("."):
        if match := re.match(r"manylinux_(\d{1,9})_(\d{1,9})_", tag):
            found.append((int(match[1]), int(match[2])))
        elif (legacy := tag.split("_", 1)[0]) in _LEGACY_GLIBC:
            found.append(_LEGACY_GLIBC[legacy])
    return min(found, default=None)


# --- driver and GPUs


def _gpus(lock: Lock, target: Target) -> Fit:
    driver_known = target.driver is not None or target.cuda_driver is not None
    if not driver_known and not target.gpus:
        return Fit(unknown=("the driver and the GPUs of this machine",))
    from cudalock.compat.judging import judge
    from cudalock.lock.contract import build_of, triton_of

    contract, build = lock.contract, build_of(lock)
    if contract is None or build is None:
        return Fit()
    if not target.gpus:
        return Fit(findings=_by_driver_alone(contract, target), unknown=("the GPUs of this machine",))
    if not driver_known:
        return Fit(findings=_by_gpus_alone(build, target), unknown=("the driver of this machine",))
    # what the user ruled out when resolving does not matter here: only whether it runs
    modes = {Mode.NATIVE, Mode.MINOR} | ({Mode.FORWARD} if contract.compat is Mode.FORWARD else set())
    policy = replace(recorded_policy(lock), cuda=None, modes=frozenset(modes))
    verdict = judge(build, target, triton=triton_of(lock), policy=policy)
    findings = [_refusal(reason, verdict, contract, target) for reason in verdict.refusals]
    if not findings and verdict.mode is not Mode.FORWARD:
        findings += _below_recorded(contract, build, target)
    if findings:
        return Fit(findings=tuple(findings))
    notes = [_finding(reason, _note_severity(reason)) for reason in verdict.notes]
    return Fit(findings=(*notes, *_other_gpus(lock, target)))


def _refusal(reason: Reason, verdict: Verdict, contract: Contract, target: Target) -> Finding:
    """A refusal as an error, with the driver that would lift it where one would."""
    finding = _finding(reason, "error", fix=_anew(target))
    if target.driver is None or reason.code not in _LIFTED_BY_DRIVER:
        return finding
    gpu = reason.facts.get("gpu")
    lowest = [item.driver_min for item in verdict.gpus if gpu in {None, str(item.gpu)} and item.driver_min]
    if reason.code == "ptx-newer-than-driver" and contract.driver_native:
        lowest.append(contract.driver_native)
    if not lowest:
        return finding
    return replace(finding, fix=f"update the driver to {max(lowest)} or newer; or {_anew(target)}")


def _anew(target: Target) -> str:
    """How to learn whether anything fits the machine: its own words, as a lock there would speak for another one."""
    gpus = [f"--gpu {capability}" for capability in target.capabilities]
    driver = [f"--driver {target.driver}"] if target.driver is not None else []
    return f"`cudalock resolve {' '.join([*gpus, *driver, '--platform', str(target.platform)])}` takes what fits it"


def _finding(reason: Reason, severity: Severity, *, fix: str | None = None) -> Finding:
    return Finding(
        code=reason.code,
        severity=severity,
        message=reason.sentence,
        evidence={"rule": reason.rule, **reason.facts},
        fix=fix,
    )


def _note_severity(reason: Reason) -> Severity:
    """A note admits: it is a warning where the catalogue says so, never an error."""
    return "warning" if reason.code == "gpu-only-by-ptx" else "info"


def _by_driver_alone(contract: Contract, target: Target) -> tuple[Finding, ...]:
    from cudalock.compat.driver import reaches

    if target.driver is None or contract.driver_min is None or contract.compat is Mode.FORWARD:
        return ()
    if reaches(target.driver, contract.driver_min):
        return ()
    return (_driver_too_old(target, "driver-too-old", contract.driver_min, str(contract.driver_min)),)


def _driver_too_old(target: Target, code: str, lowest: object, needs: str, gpu: TargetGpu | None = None) -> Finding:
    whom = f" for {gpu}" if gpu else ""
    return Finding(
        code=code,
        severity="error",
        message=f"the lock needs driver {needs} or newer{whom}, and this machine has {target.driver}",
        evidence={
            "driver": str(target.driver),
            "driver_min": str(lowest),
            **({"gpu": str(gpu.compute_capability)} if gpu else {}),
        },
        fix=f"update the driver to {lowest} or newer; or {_anew(target)}",
    )


def _by_gpus_alone(build: Build, target: Target) -> tuple[Finding, ...]:
    """Without a driver it is still known which GPUs the build holds no code for, PTX included."""
    from cudalock.compat.architecture import serving_architecture

    if build.cuda is None:
        return ()
    findings: list[Finding] = []
    for gpu in target.gpus:
        serving = serving_architecture(build.architectures, gpu.compute_capability, build.cuda, None)
        if serving.architecture is None and serving.refused_ptx is None:
            holds = [str(item) for item in build.architectures]
            findings.append(
                Finding(
                    code="gpu-not-in-wheel",
                    severity="error",
                    message=f"no code for {gpu}: the build holds {' '.join(holds) or 'no known architecture'}",
                    evidence={"gpu": str(gpu.compute_capability), "architectures": holds},
                    fix=_anew(target),
                )
            )
    return tuple(findings)


def _below_recorded(contract: Contract, build: Build, target: Target) -> list[Finding]:
    """What the lock itself records, where it knows more than the tables of this cudalock."""
    from cudalock.compat.driver import driver_os, reaches

    findings: list[Finding] = []
    for gpu in target.gpus:
        entry = _entry_for(contract, build, gpu.compute_capability)
        lowest = (entry.driver_min if entry else None) or contract.driver_min
        if target.driver is None or lowest is None or target.jetson or reaches(target.driver, lowest):
            continue
        floor = facts.driver_floor(build.cuda.major, driver_os(target)) if build.cuda else None
        # the assembler is to blame only where the build itself would run, for other GPUs, on this driver
        general = contract.driver_min is None or reaches(target.driver, contract.driver_min)
        by_assembler = general and entry is not None and floor is not None and lowest > floor
        code = "assembler-newer-than-driver" if by_assembler else "driver-too-old"
        findings.append(_driver_too_old(target, code, lowest, str(lowest), gpu))
    return findings


def _entry_for(contract: Contract, build: Build, gpu: ComputeCapability) -> GpuContract | None:
    """The entry of the GPU itself, else that of the architecture which serves it."""
    from cudalock.compat.architecture import serving_architecture

    if gpu in contract.gpus or build.cuda is None:
        return contract.gpus.get(gpu)
    serving = serving_architecture(build.architectures, gpu, build.cuda, build.cuda).architecture
    return contract.gpus.get(serving.capability) if serving else None


def _other_gpus(lock: Lock, target: Target) -> list[Finding]:
    made_for = lock.target.gpus if lock.target else ()
    others = [gpu for gpu in target.gpus if gpu.compute_capability not in made_for]
    if not others or not made_for:
        return []
    return [
        Finding(
            code="lock-made-for-other-gpu",
            severity="info",
            message=f"the lock was made for {_texts(map(_gpu, made_for))} and is valid for {_texts(others)} too",
            evidence={
                "lock": [str(gpu) for gpu in made_for],
                "machine": sorted({str(gpu.compute_capability) for gpu in others}),
            },
            fix="`cudalock resolve` on this machine may find a better build",
        )
    ]


def _gpu(capability: ComputeCapability) -> TargetGpu:
    return TargetGpu(compute_capability=capability)


def _texts(items: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(str(item) for item in items))
