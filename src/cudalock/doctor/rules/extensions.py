"""Extensions built against torch: their symbols, CUDA, GPUs, C library, and the toolkit that would build them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from cudalock import facts
from cudalock.compat.architecture import ptx_accepted, serving_architecture
from cudalock.doctor.model import DistributionFacts, ExtensionFacts
from cudalock.doctor.rules.situation import Situation, make_finding
from cudalock.findings import Finding, Severity
from cudalock.target.model import TargetGpu
from cudalock.versions import CudaVersion

__all__ = ["RULES"]

_CUDART = re.compile(r"libcudart\.so\.(\d{1,9})")
_BUILT_FOR = re.compile(r"torch(\d{1,4}\.\d{1,4})|pt(\d)(\d{1,2})(?!\d)")
_BUILDERS = frozenset({"ninja", "deepspeed", "flash-attn", "causal-conv1d", "mamba-ssm", "apex", "transformer-engine"})
_BITSANDBYTES = re.compile(r"libbitsandbytes_cuda(\d{3})\.(?:so|dll)")
# Open several of their libraries in turn and keep the one that loads: what another one lacks is no fault.
_CHOOSE_THEMSELVES = frozenset({"torchcodec", "bitsandbytes"})


def _modules(situation: Situation) -> Iterator[ExtensionFacts]:
    for one in situation.evidence.extensions:
        if one.module and one.distribution not in _CHOOSE_THEMSELVES:
            yield one


def symbols(situation: Situation) -> Iterator[Finding]:
    """Undefined symbols of torch's own namespaces: built against another torch."""
    seen: set[str] = set()
    for one in _modules(situation):
        if one.missing_symbols and one.distribution not in seen:
            seen.add(one.distribution)
            message = f"{one.distribution} needs {one.missing_symbols[0]}, which {situation.torch_name} does not define"
            data = {"file": one.path, "symbols": list(one.missing_symbols), "built_for": _built_for(situation, one)}
            severity, fix = _severity(one.distribution), _rebuild(situation, one.distribution)
            yield make_finding("extension-abi-mismatch", message, data, severity=severity, fix=fix)


def _severity(name: str) -> Severity | None:
    """A warning for projects that go on without their compiled parts (torchao)."""
    row = facts.companions().get(name)
    return "warning" if row is not None and row.mismatch == "warning" else None


def _rebuild(situation: Situation, name: str) -> str:
    return f"install the build of {name} for {situation.torch_name}, or build it here with --no-build-isolation"


def _built_for(situation: Situation, extension: ExtensionFacts) -> str | None:
    installed = situation.evidence.named(extension.distribution)
    return _torch_in_label(installed) if installed else None


def _torch_in_label(installed: DistributionFacts) -> str | None:
    """The torch release that an extension's local version names: ``+cu12torch2.8cxx11abiTRUE``, ``+pt28cu126``."""
    match = _BUILT_FOR.search(installed.label or "")
    if match is None:
        return None
    return match[1] or f"{match[2]}.{match[3]}"


def other_torch_in_name(situation: Situation) -> Iterator[Finding]:
    """A neighbouring torch release in the label: worth knowing, no fault by itself."""
    torch = situation.evidence.torch
    if torch is None or torch.version is None:
        return
    for one in situation.evidence.distributions:
        built_for = _torch_in_label(one)
        if built_for and Version(built_for).release[:2] != torch.version.release[:2]:
            message = (
                f"{one.name} {one.version} was built for torch {built_for}, and {situation.torch_name} is installed"
            )
            yield make_finding(
                "extension-build-differs", message, {"built_for": built_for, "torch": str(torch.version)}
            )


def cuda_major(situation: Situation) -> Iterator[Finding]:
    """An extension that asks for the CUDA runtime of another major."""
    torch = situation.evidence.torch
    if torch is None or torch.cuda is None:
        return
    seen: set[str] = set()
    for one in _modules(situation):
        majors = {int(match[1]) for name in one.needed if (match := _CUDART.match(name))}
        wrong = sorted(major for major in majors if major != torch.cuda.major and major < 100)
        if wrong and one.distribution not in seen:
            seen.add(one.distribution)
            message = f"{one.distribution} asks for libcudart.so.{wrong[0]}, and torch is of CUDA {torch.cuda}"
            data = {"file": one.path, "needs": wrong[0], "torch_cuda": str(torch.cuda)}
            fix = f"install the build of {one.distribution} for CUDA {torch.cuda.major}"
            severity = _severity(one.distribution)
            yield make_finding(
                "extension-cuda-major-mismatch", message, data, severity=severity, fix=fix, verified=True
            )


def gpu_code(situation: Situation) -> Iterator[Finding]:
    """An extension without code for a GPU, or that refuses its capability."""
    for name, gpu in _refused_by_table(situation):
        row = facts.companions()[name]
        message = f"{name} works from compute capability {row.minimum_capability} on, and {gpu} is below"
        data = {"gpu": str(gpu.compute_capability), "minimum": str(row.minimum_capability), "source": row.source}
        fix = f"do without {name}: torch's own attention (sdpa) works on it" if name == "flash-attn" else None
        yield make_finding("extension-lacks-gpu", message, data, fix=fix)
    torch = situation.evidence.torch
    cuda = torch.cuda if torch and torch.cuda else CudaVersion(13, 0)
    by_owner: dict[str, list[ExtensionFacts]] = {}
    for one in situation.evidence.extensions:
        if one.code:
            by_owner.setdefault(one.distribution, []).append(one)
    for owner, files in sorted(by_owner.items()):
        for gpu in situation.gpus:
            yield from _judge_code(situation, owner, files, gpu, cuda)


def _refused_by_table(situation: Situation) -> Iterator[tuple[str, TargetGpu]]:
    for one in situation.evidence.distributions:
        row = facts.companions().get(one.name)
        for gpu in situation.gpus if row and row.minimum_capability else ():
            if row and row.minimum_capability and gpu.compute_capability < row.minimum_capability:
                yield one.name, gpu


def _judge_code(
    situation: Situation, owner: str, files: list[ExtensionFacts], gpu: TargetGpu, cuda: CudaVersion
) -> Iterator[Finding]:
    code = tuple(sorted({item for file in files for item in file.code or ()}))
    written = max((file.ptx_isa for file in files if file.ptx_isa), default=None)
    # the PTX's own version is in the file: whether the driver reads it does not depend on torch's CUDA
    serving = serving_architecture(code, gpu.compute_capability, cuda, situation.libcuda)
    libcuda = situation.libcuda
    served = serving.architecture is not None and not serving.architecture.ptx
    ptx = serving.architecture if serving.architecture and serving.architecture.ptx else serving.refused_ptx
    data = {"distribution": owner, "gpu": str(gpu.compute_capability), "holds": [str(item) for item in code]}
    if served:
        return
    if ptx is None:
        message = f"{owner} holds no code for {gpu}: {' '.join(data['holds'])}"
        fix = f"install a newer {owner}, or build it with TORCH_CUDA_ARCH_LIST={gpu.compute_capability}"
        yield make_finding("extension-lacks-gpu", message, data, fix=fix)
    elif libcuda is not None and not _reads(libcuda, written, cuda):
        version = ".".join(map(str, written)) if written else f"of CUDA {cuda}"
        message = (
            f"{owner} could only run {ptx} on {gpu}, PTX {version}, which a driver of CUDA {libcuda} does not read"
        )
        yield make_finding("ptx-newer-than-driver", message, {**data, "ptx_isa": version})


def _reads(libcuda: CudaVersion, written: tuple[int, int] | None, cuda: CudaVersion) -> bool:
    known = facts.ptx_isa(libcuda)
    return ptx_accepted(cuda, libcuda) if written is None or known is None else known >= written


def system_libraries(situation: Situation) -> Iterator[Finding]:
    """The C and C++ libraries, and NEEDED entries that nothing provides."""
    libc = situation.host.libc
    have = libc[1] if libc and libc[0] == "glibc" else None
    glibcxx = situation.evidence.glibcxx
    named: set[tuple[str, str]] = set()
    for one in _modules(situation):
        severity = _severity(one.distribution)
        if have and one.glibc and one.glibc[:2] > have and _once(named, "glibc", one):
            needs, ours = ".".join(map(str, one.glibc)), ".".join(map(str, have))
            message = f"{one.distribution} needs glibc {needs}, and this system has {ours}"
            data = {"file": one.path, "needs": needs, "libc": ours}
            yield make_finding("extension-glibc-too-new", message, data, severity=severity)
        elif glibcxx and one.glibcxx and one.glibcxx > glibcxx and _once(named, "glibc", one):
            needs, ours = ".".join(map(str, one.glibcxx)), ".".join(map(str, glibcxx))
            message = f"{one.distribution} needs GLIBCXX_{needs}, and this system's libstdc++ has up to {ours}"
            data = {"file": one.path, "needs": f"GLIBCXX_{needs}"}
            yield make_finding("extension-glibc-too-new", message, data, severity=severity)
        if one.unresolved and _once(named, "needed", one):
            message = f"{one.distribution} needs {', '.join(one.unresolved)}, which the loader does not find"
            unresolved = {"file": one.path, "libraries": list(one.unresolved)}
            yield make_finding("undeclared-needed-library", message, unresolved, severity=severity)


def _once(named: set[tuple[str, str]], what: str, one: ExtensionFacts) -> bool:
    key = what, one.distribution
    new = key not in named
    named.add(key)
    return new


def bitsandbytes(situation: Situation) -> Iterator[Finding]:
    """Whether bitsandbytes, which picks its library by torch's CUDA release, has the one for it."""
    installed = situation.evidence.named("bitsandbytes")
    torch = situation.evidence.torch
    if installed is None or installed.files is None or torch is None or torch.cuda is None:
        return
    held = sorted({match[1] for path in installed.files if (match := _BITSANDBYTES.search(path))})
    forced = situation.evidence.variables.get("BNB_CUDA_VERSION")
    wanted = forced or torch.cuda.label.removeprefix("cu")
    if held and wanted not in held:
        message = f"bitsandbytes {installed.version} has no library for CUDA {torch.cuda}"
        yield make_finding("bitsandbytes-no-binary", message, {"holds": held, "torch_cuda": str(torch.cuda)})


def toolkit(situation: Situation) -> Iterator[Finding]:
    """The toolkit that would build extensions, against torch's CUDA; a fault only where something is built."""
    evidence = situation.evidence
    torch = evidence.torch
    found = evidence.cuda_home or evidence.nvcc
    if torch is None or torch.cuda is None or found is None or found.major == torch.cuda.major:
        return
    builds = sorted(one.name for one in evidence.distributions if one.name in _BUILDERS)
    named = "CUDA_HOME" if evidence.cuda_home else "nvcc"
    severity: Severity = "warning" if builds and (evidence.cuda_home or evidence.complete) else "info"
    message = (
        f"{named} is of CUDA {found}, {situation.torch_name} of CUDA {torch.cuda}: extensions built here do not fit"
    )
    data = {"toolkit": str(found), "torch_cuda": str(torch.cuda), "where": named, "builders": builds}
    yield make_finding("toolkit-mismatch", message, data, severity=severity)


RULES = (symbols, other_torch_in_name, cuda_major, gpu_code, system_libraries, bitsandbytes, toolkit)
