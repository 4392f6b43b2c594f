"""What the probes of the GPU have no part in: operating system, libc, Python, container, WSL, Jetson."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from cudalock.host.files import read_text
from cudalock.host.model import Container, Host
from cudalock.host.parsers import os_name_of, tegra_release

__all__ = ["detect_surroundings", "fold_machine", "python_version", "running_libc"]

_MACHINES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}


def detect_surroundings(*, root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> Host:
    """The machine without its GPUs: no process is started and no driver is touched.

    Args:
        root: folder that stands for ``/``; operating system, machine, libc and Python are always the running ones.
        environ: the environment to look at.
    """
    kernel = (read_text(root, "proc/version") or "").lower()
    tegra = tegra_release(read_text(root, "etc/nv_tegra_release") or "")
    return Host(
        os=_os(),
        os_release=os_name_of(read_text(root, "etc/os-release") or "") or _os_release(),
        machine=running_machine(),
        libc=running_libc(root),
        python=python_version(),
        container=_container(root, environ),
        wsl="microsoft" in kernel,
        jetson=tegra is not None or _is_tegra(root),
        l4t=tegra,
        visible_devices=environ.get("CUDA_VISIBLE_DEVICES"),
        device_order=environ.get("CUDA_DEVICE_ORDER"),
        origin=dict.fromkeys(("os", "machine", "libc", "python"), "python"),
    )


def _os() -> Literal["linux", "windows", "darwin"] | None:
    names: Mapping[str, Literal["linux", "windows", "darwin"]] = {
        "linux": "linux",
        "win32": "windows",
        "darwin": "darwin",
    }
    return names.get(sys.platform)


def _os_release() -> str:
    import platform

    return f"{platform.system()} {platform.release()}"


def fold_machine(machine: str) -> str:
    """One name for a machine: ``AMD64`` -> ``x86_64``, ``arm64`` -> ``aarch64``."""
    lowered = machine.lower()
    return _MACHINES.get(lowered, lowered)


def running_machine() -> str:
    """The machine that this process runs on."""
    if hasattr(os, "uname"):
        return fold_machine(os.uname().machine)
    return fold_machine(os.environ.get("PROCESSOR_ARCHITECTURE", ""))


def python_version() -> str:
    """The running Python as ``3.12.4``, with ``t`` appended when it is free-threaded."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    return version + ("t" if "free-threading" in sys.version else "")


def running_libc(root: Path = Path("/")) -> tuple[str, tuple[int, int]] | None:
    """The C library and its version, e.g. ``("glibc", (2, 36))``; None where there is none of that kind (Windows)."""
    if sys.platform != "linux":
        return None
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, OSError, ValueError):
        text = ""
    if match := re.fullmatch(r"glibc (\d{1,9})\.(\d{1,9}).*", text):
        return "glibc", (int(match[1]), int(match[2]))
    return _musl(root)


def _musl(root: Path) -> tuple[str, tuple[int, int]] | None:
    import subprocess

    for loader in sorted((root / "lib").glob("ld-musl-*.so.1")):
        try:  # without arguments it prints its version on stderr and exits 1
            shown = subprocess.run([str(loader)], capture_output=True, text=True, timeout=5, check=False).stderr
        except (OSError, subprocess.TimeoutExpired):
            continue
        if match := re.search(r"Version (\d{1,9})\.(\d{1,9})", shown):
            return "musl", (int(match[1]), int(match[2]))
    return None


def _is_tegra(root: Path) -> bool:
    if (read_text(root, "sys/devices/soc0/family") or "").strip() == "Tegra":
        return True
    return "nvidia,tegra" in (read_text(root, "proc/device-tree/compatible") or "")


def _container(root: Path, environ: Mapping[str, str]) -> Container | None:
    """The container around this process, from the marks that each kind leaves."""
    kind = _container_kind(root, environ)
    require = environ.get("NVIDIA_REQUIRE_CUDA")
    return Container(kind=kind, require_cuda=require) if kind or require else None


def _container_kind(root: Path, environ: Mapping[str, str]) -> str | None:
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes"
    if "APPTAINER_CONTAINER" in environ or "SINGULARITY_CONTAINER" in environ:
        return "apptainer"
    if (root / "run/.containerenv").exists():
        return "podman"
    if (root / ".dockerenv").exists():
        return "docker"
    cgroups = read_text(root, "proc/1/cgroup") or ""
    for mark, kind in (("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("lxc", "lxc")):
        if mark in cgroups:
            return kind
    return environ.get("container") or None
