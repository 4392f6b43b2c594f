"""The cheapest change of torch or driver that the rules admit; nothing that they refuse is ever offered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from cudalock import facts
from cudalock.builds import Build, TritonRelease, known_triton
from cudalock.compat import Policy, TorchOption, best_admitted, judge, remedies
from cudalock.doctor.rules.situation import Situation
from cudalock.errors import UsageError
from cudalock.target.platforms import parse_python

__all__ = ["Fix", "other_driver", "other_torch", "pinned_triton", "torch_options", "torch_or_driver", "triton_fix"]

_MANYLINUX_2_28 = (2, 28)
_NEEDS_2_28_SINCE = (2, 6)
"""Some builds of 2.6 do, all from 2.7 on."""


@dataclass(frozen=True, slots=True)
class Fix:
    """Advice, and whether the rules were asked and said yes."""

    text: str
    verified: bool


@lru_cache(maxsize=16)
def torch_options(os: Literal["linux", "windows"], machine: str, python: str | None) -> tuple[TorchOption, ...]:
    """Every build of torch that the tables know for a platform, with the triton that it pins."""
    return tuple(_options(os, machine, python))


def _options(os: Literal["linux", "windows"], machine: str, python: str | None) -> Iterator[TorchOption]:
    for row in facts.torch_rows():
        if row.os != os or row.machine != machine or row.cuda is None:
            continue
        text = f"{row.version}+{row.label}" if row.label else str(row.version)
        holds = row.triton_python is None or python is None or _in(python, row.triton_python)
        requirement = Requirement(f"triton{row.triton}") if row.triton and holds else None
        build = Build(
            version=Version(text),
            cuda=row.cuda,
            architectures=row.architectures,
            triton=requirement,
            os=os,
            machine=machine,
            source="main" if row.on_main else "pytorch",
            label=row.label,
            evidence=row.evidence,
        )
        yield TorchOption(build=build, triton=pinned_triton(requirement))


def _in(python: str, specifier: str) -> bool:
    try:
        return SpecifierSet(specifier).contains(Version(python.removesuffix("t")))
    except ValueError:
        return True


def pinned_triton(requirement: Requirement | None) -> TritonRelease | None:
    """The newest release of triton that the table knows and a requirement allows: ``==3.5.1``, ``~=3.9.0``."""
    if requirement is None:
        return None
    versions = (row.version for row in facts.triton_rows())
    allowed = [one for one in versions if requirement.specifier.contains(one, prereleases=True)]
    return known_triton(max(allowed)) if allowed else None


def _known_options(situation: Situation) -> tuple[TorchOption, ...]:
    """The builds that can be installed here and can be judged with the triton that they bring."""
    platform = situation.target.platform
    options = torch_options(platform.os, platform.machine, situation.evidence.python)
    return tuple(option for option in options if _judgeable(option) and _has_wheel(option.build, situation))


def _judgeable(option: TorchOption) -> bool:
    return option.build.triton is None or option.triton is not None


def _has_wheel(build: Build, situation: Situation) -> bool:
    """Whether there is a file for the C library and the Python, as far as they are known."""
    libc = situation.host.libc
    if libc is not None and situation.host.os != "windows":
        old = libc[1] < _MANYLINUX_2_28 and build.version.release >= _NEEDS_2_28_SINCE
        if libc[0] != "glibc" or old:
            return False
    if situation.evidence.python is None:
        return True
    try:
        python = str(parse_python(situation.evidence.python)[0])
    except UsageError:
        return False
    return python in facts.torch_pythons(build.version)


def other_torch(situation: Situation) -> Fix | None:
    """The build to install instead: of the same release if one is admitted, else the newest that is.

    None if nothing is admitted, or if the machine is not known well enough to judge it.
    """
    if not situation.gpus or situation.libcuda is None:
        return None
    options = _known_options(situation)
    torch = situation.evidence.torch
    best = None
    if torch is not None and torch.version is not None:
        public = Version(torch.version.public)
        same = [option for option in options if Version(option.build.version.public) == public]
        best = best_admitted(same, situation.target, Policy())
    best = best or best_admitted(options, situation.target, Policy())
    if best is None:
        return None
    build, triton = best[0].build, best[0].triton
    beside = f" and triton {triton.version}" if triton else ""
    return Fix(
        f"install torch {build.version}{beside}, which this machine admits:"
        f" `cudalock resolve torch=={build.version.public} --cuda {build.cuda}`, then `cudalock install`",
        verified=True,
    )


def other_driver(situation: Situation) -> Fix | None:
    """The lowest newer driver with which the installed torch is admitted."""
    build = situation.build
    if build is None or situation.driver is None or not situation.gpus:
        return None
    option = TorchOption(build=build, triton=situation.triton)
    steps = [step for step in remedies([option], situation.target, Policy()) if step.kind == "driver"]
    if not steps:
        return None
    return Fix(f"update the driver to {steps[0].facts['driver']} or newer", verified=True)


def torch_or_driver(situation: Situation, *, driver_first: bool = False) -> Fix | None:
    """Both ways out where both are open, the cheaper one first: another build, or a newer driver."""
    ways = [other_torch(situation), other_driver(situation)]
    if driver_first:
        ways.reverse()
    texts = [way.text for way in ways if way is not None]
    return Fix(", or ".join(texts), verified=True) if texts else None


def triton_fix(situation: Situation, requirement: Requirement | None) -> Fix | None:
    """The triton that torch requires, if the rules admit it with this torch on this machine."""
    release = pinned_triton(requirement)
    if release is None or requirement is None:
        return None
    if situation.build is None or not situation.gpus or situation.libcuda is None:
        return Fix(f"install {requirement.name}{requirement.specifier}, which torch requires", verified=False)
    if not judge(situation.build, situation.target, triton=release, policy=Policy()).admitted:
        return other_torch(situation)
    return Fix(f"install {requirement.name}{requirement.specifier}, which torch requires", verified=True)
