"""What the kernel's files say: /sys, /proc and /dev below a root folder, so that recorded trees can be replayed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from cudalock.host.parsers import bus_id, driver_of, gpu_information, proc_version
from cudalock.versions import DriverVersion

__all__ = ["FileGpu", "KernelFacts", "compat_folder", "find_cuda_library", "nvidia_traces", "read_kernel", "read_text"]

_VENDOR_NVIDIA = "0x10de"
_CLASS_DISPLAY = "0x03"
_DEVICE_NODES = ("dev/nvidiactl", "dev/nvidia0", "dev/dxg", "dev/nvmap", "dev/nvhost-gpu", "dev/nvgpu")
_LIBRARY_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/lib/wsl/lib",
    "usr/local/nvidia/lib64",
    "usr/local/nvidia/lib",
    "run/opengl-driver/lib",
    "usr/lib/aarch64-linux-gnu/nvidia",
    "usr/lib/aarch64-linux-gnu/tegra",
)


class FileGpu(NamedTuple):
    """A GPU as the kernel lists it; ``pci_device_id`` is four hex digits such as ``2330``."""

    pci_bus_id: str
    pci_device_id: str | None = None
    name: str | None = None
    uuid: str | None = None


class KernelFacts(NamedTuple):
    """What /sys and /proc told; ``pci_listed`` is False where there is no list of PCI devices to look at (gVisor)."""

    driver: DriverVersion | None = None
    driver_from: str | None = None
    kernel_module: Literal["open", "proprietary"] | None = None
    gpus: tuple[FileGpu, ...] = ()
    pci_listed: bool = False


def read_text(root: Path, relative: str) -> str | None:
    """Text of a small file below ``root``; None if it cannot be read, for whatever reason."""
    try:
        return (root / relative).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def read_kernel(root: Path) -> KernelFacts:
    """Driver version, kind of kernel module and GPUs from files alone; each part may be missing."""
    module = proc_version(read_text(root, "proc/driver/nvidia/version") or "")
    loaded = driver_of(read_text(root, "sys/module/nvidia/version"))
    driver, origin = (loaded, "sysfs") if loaded else (module.version, "procfs") if module else (None, None)
    pci = _pci_gpus(root)
    return KernelFacts(
        driver=driver,
        driver_from=origin,
        kernel_module=module.kind if module else None,
        gpus=_merge(pci or (), _proc_gpus(root)),
        pci_listed=pci is not None,
    )


def _entries(folder: Path) -> list[str] | None:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return None


def _pci_gpus(root: Path) -> tuple[FileGpu, ...] | None:
    """NVIDIA display controllers (class 03) of /sys/bus/pci; None if that list does not exist."""
    names = _entries(root / "sys/bus/pci/devices")
    if names is None:
        return None
    found = []
    for name in names:
        base = f"sys/bus/pci/devices/{name}"
        if (read_text(root, f"{base}/vendor") or "").strip() != _VENDOR_NVIDIA:
            continue
        if not (read_text(root, f"{base}/class") or "").startswith(_CLASS_DISPLAY):
            continue
        device = (read_text(root, f"{base}/device") or "").strip().removeprefix("0x")
        found.append(FileGpu(pci_bus_id=bus_id(name) or name, pci_device_id=device or None))
    return tuple(found)


def _proc_gpus(root: Path) -> tuple[FileGpu, ...]:
    """GPUs that the loaded driver has taken, from /proc/driver/nvidia/gpus/*/information."""
    base = "proc/driver/nvidia/gpus"
    found = []
    for name in _entries(root / base) or []:
        information = gpu_information(read_text(root, f"{base}/{name}/information") or "")
        uuid = information.get("gpu uuid", "")
        found.append(
            FileGpu(
                pci_bus_id=bus_id(information.get("bus location") or name) or name,
                name=information.get("model"),
                uuid=uuid if uuid.startswith("GPU-") and "?" not in uuid else None,
            )
        )
    return tuple(found)


def _merge(pci: Iterable[FileGpu], proc: tuple[FileGpu, ...]) -> tuple[FileGpu, ...]:
    """The driver's own list where there is one, since a container shows less there than on the PCI bus."""
    by_bus = {gpu.pci_bus_id: gpu for gpu in pci}
    if not proc:
        return tuple(by_bus.values())
    return tuple(
        FileGpu(
            pci_bus_id=gpu.pci_bus_id,
            pci_device_id=by_bus[gpu.pci_bus_id].pci_device_id if gpu.pci_bus_id in by_bus else None,
            name=gpu.name,
            uuid=gpu.uuid,
        )
        for gpu in proc
    )


def nvidia_traces(root: Path, environ: Mapping[str, str]) -> str | None:
    """A trace of an NVIDIA driver (device node, module, library), so that a machine without one is asked nothing.

    Returns the path of the trace relative to ``root``, or None.
    """
    for node in (*_DEVICE_NODES, "sys/module/nvidia", "proc/driver/nvidia"):
        if (root / node).exists():
            return node
    return find_cuda_library(root, environ, "libnvidia-ml.so.1") or find_cuda_library(root, environ)


def find_cuda_library(root: Path, environ: Mapping[str, str], name: str = "libcuda.so.1") -> str | None:
    """Where a driver library lies: the folders of LD_LIBRARY_PATH first, then those that distributions use."""
    search = [folder.lstrip("/") for folder in environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for folder in (*search, *_LIBRARY_FOLDERS):
        if (root / folder / name).exists():
            return f"{folder}/{name}"
    return None


def compat_folder(path: str | None) -> bool:
    """Whether a libcuda lies in a cuda-compat package's folder, e.g. ``/usr/local/cuda-13.0/compat/libcuda.so.1``."""
    return path is not None and any("compat" in part for part in Path(path).parts[:-1])
