"""What a wheel's name and requirements say of its CUDA release and its triton.

The local version (``+cu126``, ``+cpu``) is the wheel's own word. Without one the requirements tell, their markers
evaluated for the platform of the wheel: the aarch64 wheels of torch up to 2.10 list the nvidia packages for x86_64
only and are CPU builds, as are the main index's Windows wheels, whose requirements are those of Linux.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Literal

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from cudalock.index.model import CoreMetadata
from cudalock.markers import holds
from cudalock.versions import CudaVersion

__all__ = ["cuda_of", "cuda_of_label", "platform_of", "triton_requirement", "wheel_environment"]

Os = Literal["linux", "windows", "macos"]

# Distributions whose pinned version is the toolkit's, best witness first.
_WITNESSES = (
    re.compile(r"cuda-toolkit"),
    re.compile(r"nvidia-cuda-runtime(-cu\d{2,3})?"),
    re.compile(r"nvidia-cuda-nvrtc(-cu\d{2,3})?"),
    re.compile(r"nvidia-cuda-cupti(-cu\d{2,3})?"),
)
_TRITON_NAMES = frozenset({"triton", "pytorch-triton"})
_PLATFORM_SYSTEM = {
    "linux": ("Linux", "linux", "posix"),
    "windows": ("Windows", "win32", "nt"),
    "macos": ("Darwin", "darwin", "posix"),
}
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64", "win_amd64": "x86_64", "win_arm64": "aarch64"}


def cuda_of_label(text: str | None) -> CudaVersion | None:
    """The CUDA release that a label or local version names (``cu128``); None for ``cpu``, ``rocm6.3`` and the like."""
    match = re.match(r"(cu\d{2,3})(?:[._-]|$)", text or "")
    return CudaVersion.parse(match[1]) if match else None


@lru_cache(maxsize=16384)
def platform_of(filename: str) -> tuple[Os, str] | None:
    """Operating system and machine of a wheel by its name, None for ``any`` and for what we do not know."""
    for tag in _tags(filename):
        platform = tag.platform
        if platform.startswith("win"):
            return "windows", _MACHINES.get(platform, "x86")
        if platform.startswith("macosx"):
            return "macos", "aarch64" if platform.endswith("arm64") else "x86_64"
        if match := re.search(r"linux(?:_\d+_\d+|\d*)_(.+)$", platform):
            return "linux", _MACHINES.get(match[1], match[1])
    return None


def _tags(filename: str) -> Iterable[Tag]:
    try:
        return parse_wheel_filename(filename)[3]
    except ValueError:
        return frozenset()


def wheel_environment(filename: str, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The marker environment in which a wheel's requirements hold: the given one, on the wheel's own platform."""
    found: dict[str, str] = {**default_environment()}  # type: ignore[dict-item]
    if environment:
        found.update(environment)
    else:
        for tag in _tags(filename):
            if match := re.fullmatch(r"cp(\d)(\d+)t?", tag.interpreter):
                found["python_version"] = f"{match[1]}.{match[2]}"
                found["python_full_version"] = f"{match[1]}.{match[2]}.0"
    if platform := platform_of(filename):
        os, machine = platform
        found["platform_system"], found["sys_platform"], found["os_name"] = _PLATFORM_SYSTEM[os]
        found["platform_machine"] = {("windows", "x86_64"): "AMD64", ("macos", "aarch64"): "arm64"}.get(
            platform, machine
        )
    found.setdefault("extra", "")
    return found


def _holding(requirements: Iterable[Requirement], environment: Mapping[str, str]) -> Iterator[Requirement]:
    for requirement in requirements:
        if holds(requirement.marker, environment):
            yield requirement


def _pinned(requirement: Requirement) -> Version | None:
    for specifier in requirement.specifier:
        if specifier.operator in {"==", "==="}:
            try:
                return Version(specifier.version.removesuffix(".*"))
            except ValueError:
                return None
    return None


def cuda_of(
    metadata: CoreMetadata, filename: str, label: str | None, *, environment: Mapping[str, str] | None = None
) -> CudaVersion | None:
    """The CUDA release that a wheel was built with, None for a CPU build.

    Args:
        metadata: of that very wheel; what a release requires may differ between its wheels.
        filename: of the wheel; its local version outranks everything else.
        label: of the PyTorch index page that the file really lies under, None elsewhere or if the page only lists it.
        environment: marker environment; the platform is the wheel's in any case.
    """
    local = metadata.version.local
    with suppress(ValueError):
        local = parse_wheel_filename(filename)[1].local or local
    if local:
        return cuda_of_label(local)
    holding = tuple(_holding(metadata.requires, wheel_environment(filename, environment)))
    for witness in _WITNESSES:
        for requirement in holding:
            if witness.fullmatch(canonicalize_name(requirement.name)) and (version := _pinned(requirement)):
                return CudaVersion(version.major, version.minor)
    return cuda_of_label(label)


def triton_requirement(
    metadata: CoreMetadata, filename: str, *, environment: Mapping[str, str] | None = None
) -> Requirement | None:
    """Torch's own requirement on triton that holds for the wheel's platform and the environment's Python, if any."""
    for requirement in _holding(metadata.requires, wheel_environment(filename, environment)):
        if canonicalize_name(requirement.name) in _TRITON_NAMES:
            return requirement
    return None
