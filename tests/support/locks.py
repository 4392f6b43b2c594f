"""Targets, pins and resolutions for tests of locks: small, complete and deterministic."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from packaging import tags
from packaging.requirements import Requirement
from packaging.utils import parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from cudalock.builds.model import Build, TritonRelease
from cudalock.compat.judging import judge
from cudalock.compat.model import Policy
from cudalock.index.model import IndexFile, PageRef
from cudalock.lock import build_lock
from cudalock.lock.model import Lock
from cudalock.requirements.model import AskedRequirement, Request
from cudalock.resolve.model import Pin, Resolution, Triple
from cudalock.target.model import Platform, PythonVersion, Target, TargetGpu
from cudalock.versions import Architecture, ComputeCapability, CudaVersion, DriverVersion

__all__ = ["a_lock", "asked", "linux_target", "pin", "request", "torch_triple"]


def linux_target(
    *gpus: str,
    driver: str | None = "580.65.06",
    python: tuple[int, int] = (3, 12),
    machine: str = "x86_64",
    **more: Any,
) -> Target:
    """A Linux machine with glibc 2.28 and these GPUs (compute capabilities)."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(28, 16, -1)] + [f"linux_{machine}"]
    version = f"{python[0]}.{python[1]}"
    values: dict[str, Any] = {
        "platform": Platform("linux", machine, ("glibc", (2, 28))),
        "python": PythonVersion(*python),
        "tags": (*tags.cpython_tags(python, platforms=platforms), *tags.compatible_tags(python, platforms=platforms)),
        "marker_environment": {
            "implementation_name": "cpython",
            "implementation_version": f"{version}.0",
            "os_name": "posix",
            "platform_machine": machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": f"{version}.0",
            "python_version": version,
            "sys_platform": "linux",
        },
        "driver": DriverVersion(driver) if driver else None,
        "gpus": tuple(TargetGpu(compute_capability=ComputeCapability.parse(gpu)) for gpu in gpus),
    }
    return Target(**(values | more))


def pin(
    filename: str,
    *,
    requires: Iterable[str] = (),
    index: str = "main",
    label: str | None = None,
    url: str | None = None,
    sha256: str | None = "",
    **more: Any,
) -> Pin:
    """A pin of a file by its name; its sha256 is that of its name unless given (None: the index gives none)."""
    if filename.endswith(".whl"):
        name, version = parse_wheel_filename(filename)[:2]
    else:
        name, version = parse_sdist_filename(filename)
    digest = hashlib.sha256(filename.encode()).hexdigest() if sha256 == "" else sha256
    file = IndexFile(
        page=PageRef(index, name, label),
        url=url or f"https://files.example/{filename.replace('+', '%2B')}",
        filename=filename,
        hashes={"sha256": digest} if digest else {},
        size=1000,
        upload_time=datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC),
    )
    return Pin(name=name, version=version, file=file, requires=tuple(map(Requirement, requires)), **more)


def asked(*texts: str, origin: str = "argument") -> tuple[AskedRequirement, ...]:
    """Requirements as they come from the command line."""
    return tuple(AskedRequirement(requirement=Requirement(text), origin=origin) for text in texts)


def request(*texts: str, **more: Any) -> Request:
    """A request for these requirements."""
    return Request(requirements=asked(*texts), **more)


def torch_triple(
    target: Target,
    *,
    torch: str = "2.9.1+cu128",
    cuda: str | None = "12.8",
    architectures: str = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120",
    triton: str | None = "3.5.1",
    release: TritonRelease | None = None,
    policy: Policy | None = None,
) -> Triple:
    """A triple judged by the real rules."""
    version = Version(triton) if triton else None
    build = Build(
        version=Version(torch),
        cuda=CudaVersion.parse(cuda) if cuda else None,
        architectures=tuple(map(Architecture.parse, architectures.split())) if cuda else (),
        triton=Requirement(f"triton=={triton}") if triton else None,
        source="pytorch" if "+" in torch else "main",
        label=torch.partition("+")[2] or None,
        evidence="wheel",
    )
    if release is None and version is not None:
        release = TritonRelease(version=version, ptxas=CudaVersion(12, 8))
    verdict = judge(build, target, triton=release, policy=policy or Policy())
    return Triple(
        torch=build.version, triton=version, cuda=build.cuda, build=build, triton_release=release, verdict=verdict
    )


def a_lock(
    target: Target,
    *,
    texts: Iterable[str] = ("torch>=2.8",),
    policy: Policy | None = None,
    index_urls: Mapping[str, str] | None = None,
    **triple: Any,
) -> Lock:
    """A lock of torch, triton and two pure packages for a target."""
    policy = policy or Policy()
    chosen = torch_triple(target, policy=policy, **triple)
    tag = f"cp{target.python.major}{target.python.minor}"
    native = f"{tag}-{tag}-manylinux_2_28_{target.platform.machine}"
    pins = [
        pin("sympy-1.14.0-py3-none-any.whl", requires=["mpmath"]),
        pin("mpmath-1.3.0-py3-none-any.whl"),
        pin(
            f"torch-{chosen.torch}-{native}.whl",
            index="pytorch",
            label=chosen.build.label,
            requires=["sympy", "triton"],
        ),
    ]
    if chosen.triton is not None:
        pins.append(pin(f"triton-{chosen.triton}-{native}.whl"))
    resolution = Resolution(
        pins=tuple(sorted(pins, key=lambda item: item.name)), triple=chosen, indexes=("main", "pytorch")
    )
    wanted = Request(requirements=tuple(AskedRequirement(requirement=Requirement(t), origin="argument") for t in texts))
    return build_lock(resolution, target, wanted, policy, index_urls=index_urls)
