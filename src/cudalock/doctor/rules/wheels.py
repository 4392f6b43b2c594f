"""Torch and what goes with it: the build against the GPUs, companions, CUDA wheels, the platform."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from cudalock import facts
from cudalock.builds import Build, cuda_of_label
from cudalock.compat import companion_fits, companion_notes
from cudalock.doctor.model import DistributionFacts
from cudalock.doctor.rules.fixes import other_torch, torch_or_driver
from cudalock.doctor.rules.situation import Situation, make_finding
from cudalock.findings import Finding

__all__ = ["RULES"]

_MANYLINUX_2_28_SINCE = "2.7"
_GLIBC = (2, 28)
_NUMPY2_SINCE = "2.3"
_TRITONS = frozenset({"triton", "pytorch-triton", "triton-windows"})


def gpu_not_in_wheel(situation: Situation) -> Iterator[Finding]:
    """Rule R2: machine code or usable PTX for every GPU."""
    for reason in situation.refusals("gpu-not-in-wheel"):
        fix = other_torch(situation)
        torch = situation.evidence.torch
        yield make_finding(
            "gpu-not-in-wheel",
            f"{situation.torch_name} has {reason.sentence}",
            {**reason.facts, "cuda": str(torch.cuda) if torch else None, "evidence": torch.evidence if torch else None},
            fix=fix.text if fix else None,
            verified=bool(fix),
        )
    for reason in situation.refusals("ptx-newer-than-driver"):
        fix = torch_or_driver(situation)
        yield make_finding(
            "ptx-newer-than-driver",
            f"{situation.torch_name}: {reason.sentence}",
            reason.facts,
            fix=fix.text if fix else None,
            verified=bool(fix),
        )
    for reason in situation.notes("gpu-only-by-ptx"):
        yield make_finding("gpu-only-by-ptx", f"{situation.torch_name}: {reason.sentence}", reason.facts)


def torch_is_cpu_build(situation: Situation) -> Iterator[Finding]:
    """A CPU build where there is a GPU, or beside extensions that want CUDA."""
    torch = situation.evidence.torch
    installed = situation.evidence.named("torch")
    if torch is None or installed is None:
        return
    labelled = installed.label == "cpu"
    if not (torch.cpu or labelled):
        return
    wants = [one.name for one in situation.evidence.distributions if one.name != "torch" and cuda_of_label(one.label)]
    if situation.has_gpu is False or (situation.has_gpu is None and not wants and not _reported_cpu(situation)):
        return
    message = f"{situation.torch_name} is a CPU build"
    if labelled and torch.cuda is not None:
        message = f"{situation.torch_name} is recorded as a CPU build, and its files are of CUDA {torch.cuda}"
    names = [gpu.name or str(gpu.compute_capability or "") for gpu in situation.host.gpus]
    gpus = ", ".join(name for name in names if name)
    fix = other_torch(situation)
    yield make_finding(
        "torch-is-cpu-build",
        message
        + (
            f", and this machine has a GPU ({gpus})" if gpus else f", and {', '.join(wants)} want CUDA" if wants else ""
        ),
        {
            "torch": str(torch.version) if torch.version else installed.label,
            "gpus": names,
            "want_cuda": wants,
            "replaced_by": _culprits(situation, installed),
        },
        fix=fix.text if fix else None,
        verified=bool(fix),
    )


def _reported_cpu(situation: Situation) -> bool:
    return situation.reported("torch-is-cpu-build")


def _culprits(situation: Situation, torch: DistributionFacts) -> list[str]:
    """Distributions that pin exactly this torch: one of them probably brought it."""
    if torch.version is None:
        return []
    public = torch.version.public
    found = []
    for one in situation.evidence.distributions:
        for requirement in one.requires or ():
            exact = [spec.version for spec in requirement.specifier if spec.operator == "=="]
            if requirement.name == "torch" and public in exact:
                found.append(f"{one.name} {one.version}")
    return found


def companions(situation: Situation) -> Iterator[Finding]:
    """Rule R4 for compiled companions: their torch, and their CUDA."""
    torch = situation.evidence.torch
    if torch is None:
        return
    build = situation.build or (_cpu_build(torch.version) if torch.version and torch.cpu else None)
    for one in situation.evidence.distributions:
        row = facts.companions().get(one.name)
        if row is None or one.name in _TRITONS:
            continue
        if build is None or one.version is None:
            yield from _labels_differ(situation, one)
            continue
        known = torch.version is not None
        for reason in companion_fits(one.name, one.version, build, cuda=cuda_of_label(one.label)):
            code = "companion-cuda-mismatch" if reason.code == "cuda-majors-mixed" else reason.code
            if code == "companion-mismatch" and not known:
                continue
            yield make_finding(code, reason.sentence, reason.facts)
        for reason in companion_notes(one.name, one.version, build) if known else ():
            yield make_finding("extension-build-differs", reason.sentence, reason.facts)


def _cpu_build(version: Version) -> Build:
    return Build(version=version, cuda=None, architectures=())


def _labels_differ(situation: Situation, one: DistributionFacts) -> Iterator[Finding]:
    torch = situation.evidence.torch
    theirs = cuda_of_label(one.label)
    if torch is None or torch.cuda is None or theirs is None or theirs.major == torch.cuda.major:
        return
    message = f"{one.name} is a build of CUDA {theirs} and torch of CUDA {torch.cuda}"
    evidence = {"companion": one.name, "cuda": str(theirs), "torch_cuda": str(torch.cuda)}
    yield make_finding("companion-cuda-mismatch", message, evidence)


def platform(situation: Situation) -> Iterator[Finding]:
    """The C library, and NumPy 2 beside an old torch."""
    torch = situation.evidence.torch
    libc = situation.host.libc
    if torch is not None and libc is not None and libc[0] == "musl":
        yield make_finding("musl-unsupported", f"this system has musl {libc[1][0]}.{libc[1][1]}", {"libc": "musl"})
    old_glibc = libc is not None and libc[0] == "glibc" and libc[1] < _GLIBC
    if torch and torch.version and libc and old_glibc and not situation.older_than(_MANYLINUX_2_28_SINCE):
        have = ".".join(map(str, libc[1]))
        message = f"this system has glibc {have}, and the wheels of {situation.torch_name} need 2.28"
        yield make_finding("glibc-too-old", message, {"libc": have, "torch": str(torch.version)})
    numpy = situation.evidence.named("numpy")
    if numpy and numpy.version and numpy.version.major >= 2 and situation.older_than(_NUMPY2_SINCE):
        message = f"{situation.torch_name} was compiled for NumPy 1, and NumPy {numpy.version} is installed"
        evidence = {"numpy": str(numpy.version), "torch": str(torch.version) if torch else None}
        fix = "install numpy<2: the installed torch stays as it is"
        yield make_finding("numpy2-with-old-torch", message, evidence, fix=fix, verified=True)


def user_site(situation: Situation) -> Iterator[Finding]:
    """Parts of the stack that come from the user's own folder."""
    names = [one.name for one in situation.evidence.distributions if one.place == "user-site"]
    stack = sorted(name for name in names if name in facts.torch_family() or name.startswith("nvidia-"))
    if stack:
        message = f"the user's site folder puts {', '.join(stack[:4])} beside the environment's"
        yield make_finding("user-site-shadows-environment", message, {"distributions": stack})


def lock(situation: Situation) -> Iterator[Finding]:
    """What check says of the lock that was given."""
    yield from situation.evidence.lock


def indexes(situation: Situation) -> Iterator[Finding]:
    """A nightly that will vanish."""
    installed = situation.evidence.named("torch")
    version = installed.version if installed else None
    if version is not None and version.is_devrelease and re.search(r"dev\d{8}", str(version)):
        message = f"torch {version} is a nightly build, which the index drops after some weeks"
        yield make_finding("nightly-pin", message, {"torch": str(version)}, severity="info")


RULES = (gpu_not_in_wheel, torch_is_cpu_build, companions, platform, user_site, lock, indexes)
