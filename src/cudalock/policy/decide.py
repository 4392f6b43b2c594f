"""Decides from the environment and the machine. Pure but for the symbol tables of flash-attn."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Literal

from cudalock import facts
from cudalock.builds.assembler import known_triton
from cudalock.builds.model import Build
from cudalock.compat.judging import judge
from cudalock.compat.model import Mode, Reason
from cudalock.compat.model import Policy as Choice
from cudalock.compat.triton import is_passenger, triton_verdict
from cudalock.facts.programs import attention_limits, compile_since
from cudalock.findings import Finding
from cudalock.host.model import Host
from cudalock.policy.model import Attention, Policy
from cudalock.policy.surroundings import Surroundings
from cudalock.policy.symbols import missing_symbols
from cudalock.target.model import Platform, PythonVersion, Target, TargetGpu
from cudalock.versions import ComputeCapability, CudaVersion

__all__ = ["decide", "off_pin"]

_CHOICE = Choice(modes=frozenset(Mode))


@dataclass(frozen=True, slots=True)
class _Trust:
    trusted: bool
    reason: str


def _yes(reason: str) -> _Trust:
    return _Trust(trusted=True, reason=reason)


def _no(reason: str) -> _Trust:
    return _Trust(trusted=False, reason=reason)


def decide(here: Surroundings, host: Host) -> Policy:
    """The policy for the environment ``here`` on the machine ``host``."""
    gpus = tuple(gpu.compute_capability for gpu in host.gpus if gpu.compute_capability is not None)
    findings: list[Finding] = []
    refusal = _torch_refusal(here, host, findings)
    triton = _triton(here, host, gpus, refusal, findings)
    compiling = _compile(here, triton, gpus)
    attention, why = _attention(here, gpus, refusal, findings)
    limits = attention_limits()
    old = here.transformers is not None and here.transformers < limits.dtype_keyword_since
    return Policy(
        triton_trusted=triton.trusted,
        triton_reason=triton.reason,
        compile_trusted=compiling.trusted,
        compile_reason=compiling.reason,
        attention=attention,
        attention_reason=why,
        dtype=_dtype(gpus if refusal is None else ()),
        dtype_keyword="torch_dtype" if old else "dtype",
        findings=tuple(findings),
    )


def off_pin(here: Surroundings) -> Finding | None:
    """The finding if triton is not the one that torch requires; None if it is, or if torch requires none."""
    if here.triton_pin is None:
        return None
    pin = f"{here.triton_pin.name}{here.triton_pin.specifier}"
    if not here.tritons:
        return Finding(
            code="triton-missing",
            severity="error",
            message=f"torch {here.torch} requires {pin}, and it is not installed",
            evidence={"torch": str(here.torch), "requires": pin},
            fix=f'install "{pin}"',
        )
    wrong = [
        f"{name} {version}"
        for name, version in here.tritons.items()
        if not here.triton_pin.specifier.contains(version.public, prereleases=True)
    ]
    if not wrong:
        return None
    return Finding(
        code="triton-off-pin",
        severity="error",
        message=f"torch {here.torch} requires {pin}, installed is {' and '.join(wrong)}",
        evidence={"torch": str(here.torch), "requires": pin, "installed": wrong},
        fix=f'install "{pin}"',
    )


# --- torch itself


def _torch_refusal(here: Surroundings, host: Host, findings: list[Finding]) -> str | None:
    """Why torch does not work on the GPUs of this machine; None if nothing speaks against it."""
    if here.torch is None:
        return "torch is not installed"
    if host.gpus_known and not host.gpus:
        return "there is no NVIDIA GPU"
    if here.torch_cuda == "cpu":
        findings.append(
            Finding(
                code="torch-is-cpu-build",
                severity="error",
                message=f"torch {here.torch} is a CPU build",
                evidence={"torch": str(here.torch)},
                fix="install a CUDA build: `cudalock resolve` chooses one",
            )
        )
        return "torch is a CPU build"
    build, target = _build(here, host), _target(host)
    if build is None or not target.gpus:
        return None
    refusals = [reason for reason in judge(build, target, triton=None, policy=_CHOICE).refusals if reason.rule in _HARD]
    findings += [_finding(reason) for reason in refusals]
    return refusals[0].sentence if refusals else None


_HARD = frozenset({"R1", "R2"})


def _finding(reason: Reason, severity: Literal["error", "warning"] = "error") -> Finding:
    return Finding(code=reason.code, severity=severity, message=reason.sentence, evidence=dict(reason.facts))


def _build(here: Surroundings, host: Host) -> Build | None:
    if here.torch is None or here.torch_cuda in {None, "cpu"}:
        return None
    os: Literal["linux", "windows"] = "windows" if host.os == "windows" else "linux"
    cuda = CudaVersion.parse(str(here.torch_cuda))
    machine = host.machine or platform.machine().lower()
    row = facts.torch_row(here.torch, cuda=cuda, os=os, machine=machine)
    if row is None:
        return None
    return Build(
        version=here.torch,
        cuda=cuda,
        architectures=row.architectures,
        triton=here.triton_pin,
        os=os,
        machine=row.machine,
        evidence="table",
        origin=row.source,
    )


def _target(host: Host) -> Target:
    return Target(
        platform=Platform("windows" if host.os == "windows" else "linux", host.machine or "x86_64", host.libc),
        python=PythonVersion(0, 0),
        driver=host.driver,
        cuda_driver=host.cuda_driver,
        gpus=tuple(
            TargetGpu(compute_capability=gpu.compute_capability, name=gpu.name)
            for gpu in host.gpus
            if gpu.compute_capability is not None
        ),
        wsl=host.wsl,
        jetson=host.jetson,
        forward_active=host.compat_library is not None,
    )


# --- Triton and torch.compile


def _triton(
    here: Surroundings,
    host: Host,
    gpus: tuple[ComputeCapability, ...],
    refusal: str | None,
    findings: list[Finding],
) -> _Trust:
    wrong = off_pin(here)
    if wrong is not None:
        findings.append(wrong)
    if len(here.tritons) > 1:
        names = " and ".join(f"{name} {version}" for name, version in here.tritons.items())
        message = f"{names} are both installed and share one folder"
        findings.append(Finding(code="triton-two-distributions", severity="error", message=message))
        return _no(message)
    if refusal is not None:
        return _no(refusal)
    if wrong is not None:
        return _no(wrong.message)
    if not here.tritons:
        return _no("triton is not installed")
    if not gpus:
        return _no("no GPU of known compute capability was found")
    spoilt = _variables(here, findings) or _tools(here, findings)
    if spoilt is not None:
        return _no(spoilt)
    (version,) = here.tritons.values()
    release = known_triton(version)
    if release is None:
        return _yes(f"triton {version} is torch's own; its assemblers are newer than the tables")
    target = _target(host)
    # the machine as it is: a cuda-compat library counts where it is active, not where it might be installed
    verdicts, refusals = triton_verdict(release, target, Choice())
    findings += [_finding(reason) for reason in refusals]
    if refusals:
        return _no(refusals[0].sentence)
    if passengers := [str(gpu) for gpu in gpus if is_passenger(gpu, host.cuda_driver)]:
        return _no(f"triton does not work on GPU {passengers[0]}")
    assemblers = ", ".join(dict.fromkeys(f"{it.triton} for {it.gpu}" for it in verdicts))
    return _yes(f"triton {version} is the one that torch {here.torch} requires, and calls {assemblers}")


def _variables(here: Surroundings, findings: list[Finding]) -> str | None:
    if here.variables.get("TRITON_INTERPRET", "0") not in {"0", ""}:
        return "TRITON_INTERPRET is set: kernels run in Python, not on the GPU"
    for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        if name in here.variables:
            message = f"{name}={here.variables[name]} replaces the assembler that comes with triton"
            findings.append(
                Finding(code="assembler-overridden", severity="warning", message=message, fix=f"unset {name}")
            )
            return message
    return None


def _tools(here: Surroundings, findings: list[Finding]) -> str | None:
    if here.compiler is None:
        message = "there is no C compiler, with which Triton builds the code that starts a kernel"
        fix = "install gcc, or set CC"
        findings.append(Finding(code="host-compiler-missing", severity="error", message=message, fix=fix))
        return message
    if not here.has_headers:
        message = "Python.h is missing, without which Triton cannot build the code that starts a kernel"
        fix = "install the headers of this Python, e.g. python3-dev"
        findings.append(Finding(code="python-headers-missing", severity="error", message=message, fix=fix))
        return message
    return None


def _compile(here: Surroundings, triton: _Trust, gpus: tuple[ComputeCapability, ...]) -> _Trust:
    if here.torch is None:
        return _no("torch is not installed")
    for name in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"):
        if here.variables.get(name, "0") not in {"0", ""}:
            return _no(f"{name} is set")
    python = f"{here.python[0]}.{here.python[1]}"
    since = compile_since(here.python)
    if since is not None and here.torch < since:
        return _no(f"torch.compile accepts Python {python} from torch {since} on, here is {here.torch.public}")
    if triton.trusted:
        return _yes(f"Triton works and torch {here.torch.public} accepts Python {python}")
    if gpus and here.torch_cuda != "cpu":
        return _no(f"it needs Triton: {triton.reason}")
    if here.compiler is None:
        return _no("on the CPU it needs a C++ compiler, and there is none")
    return _yes("on the CPU it compiles with the C++ compiler")


# --- attention


def _attention(
    here: Surroundings, gpus: tuple[ComputeCapability, ...], refusal: str | None, findings: list[Finding]
) -> tuple[Attention, str]:
    limits = attention_limits()
    why_not_flash = _why_not_flash(here, gpus, refusal, findings)
    if why_not_flash is None:
        lowest = facts.companions()["flash-attn"].minimum_capability
        return "flash_attention_2", f"flash-attn {here.flash_attn} fits torch, and every GPU is {lowest} or newer"
    if here.torch is None:
        return "eager", "torch is not installed"
    if here.torch < limits.sdpa_torch:
        return "eager", f"sdpa needs torch {limits.sdpa_torch}, here is {here.torch.public}; {why_not_flash}"
    if here.transformers is not None and here.transformers < limits.sdpa_transformers:
        since = limits.sdpa_transformers
        return "eager", f"transformers knows sdpa from {since} on, here is {here.transformers}; {why_not_flash}"
    return "sdpa", f"part of torch {here.torch.public}; not flash_attention_2: {why_not_flash}"


def _why_not_flash(
    here: Surroundings, gpus: tuple[ComputeCapability, ...], refusal: str | None, findings: list[Finding]
) -> str | None:
    limits = attention_limits()
    lowest = facts.companions()["flash-attn"].minimum_capability
    if here.flash_attn is None:
        return "flash-attn is not installed"
    if refusal is not None:
        return refusal
    if not gpus:
        return "no GPU of known compute capability was found"
    too_old = [str(gpu) for gpu in gpus if lowest is not None and gpu < lowest]
    if too_old:
        return f"it needs compute capability {lowest}, and there is a GPU of {too_old[0]}"
    if here.flash_attn < limits.flash_attn:
        return f"transformers needs flash-attn {limits.flash_attn}, here is {here.flash_attn}"
    if here.transformers is not None and here.transformers < limits.flash_transformers:
        return f"transformers knows it from {limits.flash_transformers} on, here is {here.transformers}"
    if not here.flash_extensions:
        return "flash-attn has no compiled module for this Python"
    return _foreign_build(here, findings)


def _foreign_build(here: Surroundings, findings: list[Finding]) -> str | None:
    """Whether flash-attn was built for another torch: by what its origin says, else by its symbols."""
    assert here.torch is not None  # noqa: S101 - a refusal says so otherwise
    mine = f"{here.torch.major}.{here.torch.minor}"
    message = None
    if here.flash_built_for is not None and here.flash_built_for != mine:
        message = f"flash-attn {here.flash_attn} was built for torch {here.flash_built_for}, here is {here.torch}"
    elif here.torch_folder is not None:
        missing = missing_symbols(here.flash_extensions[0], here.torch_folder)
        if missing:
            message = f"flash-attn {here.flash_attn} wants {missing[0]}, which torch {here.torch} does not have"
    if message is not None:
        fix = f"install a flash-attn built for torch {mine}"
        findings.append(Finding(code="extension-abi-mismatch", severity="error", message=message, fix=fix))
    return message


def _dtype(gpus: tuple[ComputeCapability, ...]) -> str:
    limits = attention_limits()
    if gpus and min(gpus) >= limits.bfloat16_from:
        return "bfloat16"
    return "float16" if gpus and min(gpus) >= limits.float16_from else "float32"
