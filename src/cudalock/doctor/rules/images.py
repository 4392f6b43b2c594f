"""Base images and container configuration: what they ask for, against lock and driver."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tomli

from cudalock.doctor.rules.situation import Situation, make_finding
from cudalock.errors import UsageError
from cudalock.findings import Finding
from cudalock.lock.model import Lock
from cudalock.target.model import TargetGpu
from cudalock.versions import CudaVersion, DriverVersion

__all__ = ["lint_containerd", "lint_image", "requirement_met"]

# Tags of nvidia/cuda: docker_k8s facts, from the repository that makes the images.
_TAG = re.compile(
    r"(?P<version>\d+\.\d+(?:\.\d+)?)(?:-cudnn(?P<cudnn>\d*))?-(?P<flavour>base|runtime|devel)(?:-cudnn(?P<cudnn2>\d*))?"
    r"-(?P<os>[a-z0-9]+(?:\.[0-9]+)*)"
)
_GLIBC_OF = {
    "ubuntu16.04": (2, 23), "ubuntu18.04": (2, 27), "ubuntu20.04": (2, 31), "ubuntu22.04": (2, 35),
    "ubuntu24.04": (2, 39), "centos7": (2, 17), "ubi7": (2, 17), "centos8": (2, 28), "ubi8": (2, 28),
    "rockylinux8": (2, 28), "ubi9": (2, 34), "rockylinux9": (2, 34), "rockylinux10": (2, 39), "ubi10": (2, 39),
    "amzn2023": (2, 34),
}  # fmt: skip
_NEEDED_GLIBC = (2, 28)
_CONDITION = re.compile(r"(cuda|driver|arch|brand)(>=|<=|!=|=|<|>)(.+)")
_RUNTIME_TYPE = "io.containerd.runc.v2"
_LEGACY_TYPES = frozenset({"io.containerd.runtime.v1.linux", "io.containerd.runc.v1"})
_PLUGINS = ("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "cri")
_BINARY = re.compile(r"(^|/)nvidia-container-runtime(\.(cdi|legacy|experimental))?$")


def requirement_met(
    text: str, *, cuda: CudaVersion | None, driver: DriverVersion | None, gpus: Sequence[TargetGpu] = ()
) -> bool | None:
    """Whether ``NVIDIA_REQUIRE_CUDA`` holds: a space is "or", a comma "and"; None if it cannot be told.

    Properties that are not known here (the brand of an unknown GPU) leave their alternative undecided.
    """
    answers = [_all_met(part.split(","), cuda, driver, gpus) for part in text.split()]
    if any(answer is True for answer in answers):
        return True
    return None if any(answer is None for answer in answers) or not answers else False


def _all_met(
    conditions: Sequence[str], cuda: CudaVersion | None, driver: DriverVersion | None, gpus: Sequence[TargetGpu]
) -> bool | None:
    answers = [_met(condition, cuda, driver, gpus) for condition in conditions]
    if any(answer is False for answer in answers):
        return False
    return None if any(answer is None for answer in answers) else True


def _met(
    condition: str, cuda: CudaVersion | None, driver: DriverVersion | None, gpus: Sequence[TargetGpu]
) -> bool | None:
    match = _CONDITION.fullmatch(condition)
    if match is None:
        return True  # unknown properties are ignored by the runtime
    name, operator, value = match.groups()
    try:
        if name == "cuda":
            return None if cuda is None else _compare(operator, cuda, CudaVersion.parse(value))
        if name == "driver":
            return None if driver is None else _compare(operator, driver, DriverVersion.parse(value))
    except ValueError:
        return None
    if name == "brand" and gpus and all(gpu.forward_compatible is not None for gpu in gpus):
        ours = "tesla" if all(gpu.forward_compatible for gpu in gpus) else "geforce"
        return _compare(operator, ours, value) if operator in {"=", "!="} else None
    return None


def _compare(operator: str, left: Any, right: Any) -> bool:
    return bool(
        {
            ">=": left >= right, "<=": left <= right, "=": left == right,
            "!=": left != right, ">": left > right, "<": left < right,
        }[operator]
    )  # fmt: skip


def lint_image(name: str, situation: Situation, lock: Lock | None) -> Iterator[Finding]:
    """A base image, by its name, against the driver and the lock.

    Raises:
        UsageError: ``image-unknown`` if the tag is none of nvidia/cuda.
    """
    tag = name.rpartition(":")[2]
    match = _TAG.fullmatch(tag)
    if match is None:
        raise UsageError(
            "image-unknown",
            f"{name} is not the name of an nvidia/cuda image",
            hint="name one such as nvidia/cuda:12.6.3-base-ubuntu24.04",
        )
    cuda = CudaVersion.parse(match["version"])
    yield from _image_and_driver(name, cuda, situation)
    yield from _image_and_lock(name, cuda, match["flavour"], lock)
    yield from _image_system(name, match["os"], lock)


def _image_and_driver(name: str, cuda: CudaVersion, situation: Situation) -> Iterator[Finding]:
    offered = situation.driver_cuda or situation.host.cuda_driver
    evidence = {"image": name, "cuda": str(cuda), "cuda_driver": str(offered) if offered else None}
    if offered is None:
        return
    lifted = all(gpu.forward_compatible for gpu in situation.gpus) and bool(situation.gpus)
    if offered < cuda and not (lifted and _branch_listed(cuda, situation.driver)):
        message = f"{name} asks for cuda>={cuda}, and the driver offers CUDA {offered}: the container does not start"
        fix = f"use an image of CUDA {offered} or older, e.g. one of CUDA {offered}, or update the driver"
        yield make_finding("container-requires-newer-cuda", message, evidence, fix=fix, verified=True)
    elif offered < cuda:
        message = f"{name} brings a cuda-compat library, which lifts this driver from CUDA {offered} to {cuda}"
        yield make_finding("compat-library-in-use", message, evidence)


def _branch_listed(cuda: CudaVersion, driver: DriverVersion | None) -> bool:
    from cudalock import facts

    return driver is not None and driver.branch in facts.forward_compat_branches(cuda)


def _image_and_lock(name: str, cuda: CudaVersion, flavour: str, lock: Lock | None) -> Iterator[Finding]:
    if lock is None or lock.triple is None or lock.triple.cuda is None:
        return
    wanted = lock.triple.cuda
    evidence = {"image": name, "cuda": str(cuda), "cuda_of_lock": str(wanted), "flavour": flavour}
    if cuda.major != wanted.major:
        message = f"{name} is of CUDA {cuda.major} and the lock's torch of CUDA {wanted.major}"
        fix = f"use an image of CUDA {wanted}, or one without CUDA: torch's wheels bring their own libraries"
        yield make_finding("toolkit-mismatch", message, evidence, fix=fix, verified=True)
    elif cuda != wanted and flavour == "devel":
        message = f"{name} is of CUDA {cuda} and the lock's torch of CUDA {wanted}: extensions built in it may differ"
        yield make_finding("toolkit-mismatch", message, evidence, severity="info")


def _image_system(name: str, system: str, lock: Lock | None) -> Iterator[Finding]:
    libc = _GLIBC_OF.get(system)
    needed = _libc_of(lock)
    if libc is not None and libc < needed:
        message = f"{name} has glibc {libc[0]}.{libc[1]}, and torch's wheels need {needed[0]}.{needed[1]}"
        yield make_finding("glibc-too-old", message, {"image": name, "system": system})


def _libc_of(lock: Lock | None) -> tuple[int, int]:
    text = lock.target.libc if lock and lock.target else None
    match = re.fullmatch(r"glibc[- ](\d{1,9})\.(\d{1,9})", text or "")
    return (int(match[1]), int(match[2])) if match else _NEEDED_GLIBC


def lint_containerd(text: str, name: str) -> tuple[Finding, ...]:
    """A containerd configuration: is the NVIDIA runtime declared in the way that containerd understands?

    Raises:
        UsageError: ``containerd-config-invalid`` if it is not TOML.
    """
    try:
        document = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise UsageError(
            "containerd-config-invalid", f"{name} is not TOML: {error}", hint="give containerd's config.toml"
        ) from error
    found = [finding for runtime in _runtimes(document) for finding in _lint_runtime(name, *runtime)]
    if not found and not any(_is_nvidia(key, table) for key, table in _runtimes(document)):
        message = f"{name} declares no NVIDIA runtime"
        fix = "`nvidia-ctk runtime configure --runtime=containerd`, or use CDI (`nvidia-ctk cdi generate`)"
        found = [make_finding("containerd-runtime-invalid", message, {"file": name}, severity="warning", fix=fix)]
    return tuple(found)


def _runtimes(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    plugins = document.get("plugins")
    for key in _PLUGINS:
        plugin = plugins.get(key) if isinstance(plugins, dict) else None
        containerd = plugin.get("containerd") if isinstance(plugin, dict) else None
        runtimes = containerd.get("runtimes") if isinstance(containerd, dict) else None
        for name, table in runtimes.items() if isinstance(runtimes, dict) else ():
            if isinstance(table, dict):
                yield name, table


def _is_nvidia(name: str, table: Mapping[str, Any]) -> bool:
    options = table.get("options")
    binary = str(options.get("BinaryName", "")) if isinstance(options, dict) else ""
    return "nvidia" in name or "nvidia" in binary


def _lint_runtime(file: str, name: str, table: Mapping[str, Any]) -> Iterator[Finding]:
    if not _is_nvidia(name, table) and "nvidia" not in str(table.get("runtime_type", "")):
        return
    kind = table.get("runtime_type")
    options = table.get("options")
    binary = options.get("BinaryName") if isinstance(options, dict) else None
    evidence = {"file": file, "runtime": name, "runtime_type": kind, "BinaryName": binary}
    right = f'runtime_type = "{_RUNTIME_TYPE}" with BinaryName = "/usr/bin/nvidia-container-runtime" under options'
    if kind is not None and kind != _RUNTIME_TYPE:
        legacy = kind in _LEGACY_TYPES
        shim = "containerd-shim-" + "-".join(str(kind).split(".")[-2:])
        why = (
            f"{kind} was removed with containerd 2"
            if legacy
            else f"containerd would look for a program {shim}, which no NVIDIA package has"
        )
        yield make_finding(
            "containerd-runtime-invalid",
            f"runtime {name} has the type {kind}: {why}",
            evidence,
            severity="warning" if legacy else "error",
            fix=f"set {right}",
        )
    if not isinstance(binary, str) or not _BINARY.search(binary):
        yield make_finding(
            "containerd-runtime-invalid",
            f"runtime {name} names {binary or 'no BinaryName'}: containers get runc without GPUs",
            evidence,
            fix=f"set {right}",
        )
