"""Targets and builds for tests of the rules, from the tables that ship with cudalock."""

from __future__ import annotations

from functools import cache

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from cudalock import facts
from cudalock.builds.assembler import known_triton
from cudalock.builds.model import Build, TritonRelease
from cudalock.compat.remedy import TorchOption
from cudalock.target.model import Platform, PythonVersion, Target, TargetGpu
from cudalock.versions import Architecture, ComputeCapability, CudaVersion, DriverVersion

__all__ = ["linux_target", "make_build", "make_triton", "torch_options"]


def linux_target(
    driver: str, *capabilities: str, cuda: str | None = None, forward_compatible: bool | None = None, **more: object
) -> Target:
    """A linux-x86_64 target with Python 3.12; ``cuda`` overrides what the driver offers."""
    version = DriverVersion.parse(driver)
    gpus = tuple(
        TargetGpu(compute_capability=ComputeCapability.parse(text), forward_compatible=forward_compatible)
        for text in capabilities
    )
    offered = CudaVersion.parse(cuda) if cuda else facts.cuda_of_driver(version, "linux")
    return Target(
        platform=Platform("linux", "x86_64", ("glibc", (2, 28))),
        python=PythonVersion(3, 12),
        driver=version,
        cuda_driver=offered,
        gpus=gpus,
        **more,  # type: ignore[arg-type]
    )


def make_build(version: str, cuda: str | None, architectures: str, *, source: str = "main", triton: str = "") -> Build:
    """A build from text: ``make_build("2.9.0", "12.8", "sm_75 sm_80 compute_90")``."""
    return Build(
        version=Version(version),
        cuda=CudaVersion.parse(cuda) if cuda else None,
        architectures=tuple(Architecture.parse(word) for word in architectures.split()),
        triton=Requirement(f"triton{triton}") if triton else None,
        source=source,
        label=Version(version).local,
    )


def make_triton(version: str, ptxas: str, blackwell: str | None = None, threshold: int | None = None) -> TritonRelease:
    """A release of triton from text."""
    return TritonRelease(
        version=Version(version),
        ptxas=CudaVersion.parse(ptxas),
        ptxas_blackwell=CudaVersion.parse(blackwell) if blackwell else None,
        blackwell_from=threshold,
    )


@cache
def torch_options(pin: str = "") -> tuple[TorchOption, ...]:
    """All builds for linux-x86_64 that the tables know, with the newest triton that each requires."""
    wanted = SpecifierSet(pin)
    tritons = [row.version for row in facts.triton_rows()]
    found = []
    for row in facts.torch_rows():
        if row.os != "linux" or row.machine != "x86_64" or row.cuda is None:
            continue
        requirement = Requirement(f"triton{row.triton}") if row.triton else None
        release = max((one for one in tritons if requirement and one in requirement.specifier), default=None)
        found.append(
            TorchOption(
                build=Build(
                    version=Version(f"{row.version}+{row.label}" if row.label else str(row.version)),
                    cuda=row.cuda,
                    architectures=row.architectures,
                    triton=requirement,
                    source="main" if row.on_main else "pytorch",
                    label=row.label,
                    evidence=row.evidence,
                    origin=row.source,
                ),
                triton=known_triton(release) if release else None,
                wanted=row.version in wanted,
            )
        )
    return tuple(found)
