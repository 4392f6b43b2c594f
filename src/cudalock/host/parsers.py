"""Pure parsers for what NVIDIA's files and tools print; each shows an input as it was really seen.

None of them does I/O and none raises on odd input: what cannot be read is None or left out, because a probe that half
answers is worth more than one that fails.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from cudalock.versions import ComputeCapability, CudaVersion, DriverVersion

__all__ = [
    "KernelModule",
    "SmiGpu",
    "bus_id",
    "capability_of",
    "cuda_of",
    "driver_of",
    "driver_of_library",
    "gpu_information",
    "library_version_in_failure",
    "mig_listing",
    "os_name_of",
    "proc_version",
    "rejected_field",
    "smi_rows",
    "tegra_release",
]

_PROC_VERSION = re.compile(
    r"NVRM version: NVIDIA UNIX (?P<open>Open )?(?:Kernel Module for \S+|\S+ Kernel Module)\s+"
    r"(?P<version>\d+(?:\.\d+){1,2})(?=\s|$)"
)
_PLACEHOLDERS = ("[n/a]", "n/a", "[not supported]", "not supported", "")
_MEBIBYTE = 1024 * 1024


class KernelModule(NamedTuple):
    """The loaded kernel module: its version and whether it is the open or the proprietary one."""

    version: DriverVersion
    kind: Literal["open", "proprietary"]


class SmiGpu(NamedTuple):
    """One line of ``nvidia-smi --query-gpu``; None where the field is missing or says that it is not supported."""

    name: str | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None
    driver: DriverVersion | None = None
    compute_capability: ComputeCapability | None = None
    memory_bytes: int | None = None
    mig_enabled: bool | None = None


def driver_of(text: str | None) -> DriverVersion | None:
    """A driver version, e.g. ``580.159.04`` of ``/sys/module/nvidia/version``; None if the text is none."""
    try:
        return DriverVersion.parse(text or "")
    except ValueError:
        return None


def capability_of(text: str | None) -> ComputeCapability | None:
    """A compute capability, e.g. ``9.0``; None if the text is none (``[N/A]``)."""
    try:
        return ComputeCapability.parse(text or "")
    except ValueError:
        return None


def cuda_of(number: object) -> CudaVersion | None:
    """From the driver API's number, e.g. 13000; None for zero or anything that is no number."""
    if isinstance(number, int) and not isinstance(number, bool) and number >= 1000:
        return CudaVersion.from_driver_api(number)
    return None


def bus_id(text: str | None) -> str | None:
    """One spelling for a PCI address: ``00000000:3B:00.0`` (NVML) and ``0000:3b:00.0`` (sysfs) become the latter."""
    match = re.fullmatch(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", (text or "").strip().lower())
    if not match:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}.{match[4]}"


def proc_version(text: str) -> KernelModule | None:
    """First line of ``/proc/driver/nvidia/version``.

    E.g. ``NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.144.03  Release Build  (...)`` or
    ``NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024``. The second line names
    the compiler, whose version looks alike, so only the first line counts.
    """
    first = text.strip().partition("\n")[0]
    match = _PROC_VERSION.match(first)
    driver = driver_of(match["version"]) if match else None
    if match is None or driver is None:
        return None
    return KernelModule(driver, "open" if match["open"] else "proprietary")


def gpu_information(text: str) -> Mapping[str, str]:
    """``/proc/driver/nvidia/gpus/*/information``: lines such as ``Model:   NVIDIA H200``, keys in lower case."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip().lower(): value.strip() for key, colon, value in pairs if colon and value.strip()}


def driver_of_library(path: str) -> DriverVersion | None:
    """The version in a library's real name, e.g. ``/usr/lib64/libnvidia-ml.so.570.133.20``; None for a bare soname."""
    match = re.search(r"\.so\.(\d{2,4}(?:\.\d{1,9}){1,2})$", path)
    return driver_of(match[1]) if match else None


def library_version_in_failure(text: str) -> str | None:
    """The version in ``NVML library version: 570.133``, which NVML prints when library and kernel module differ."""
    match = re.search(r"NVML library version:\s*(\d{1,9}(?:\.\d{1,9})*)", text)
    return match[1] if match else None


def rejected_field(text: str) -> str | None:
    """The field of ``Field "compute_cap" is not a valid field to query.`` (older nvidia-smi, on stdout, exit 2)."""
    match = re.search(r'Field "([\w.]+)" is not a valid field to query', text)
    return match[1] if match else None


def smi_rows(text: str, fields: tuple[str, ...]) -> tuple[SmiGpu, ...]:
    """``nvidia-smi --query-gpu=FIELDS --format=csv,noheader``: one line per GPU, in the order of ``fields``.

    E.g. ``NVIDIA H200, 580.159.04, 9.0, 143771 MiB, Disabled, 00000000:00:06.0``. Lines with another number of values
    are no GPU lines (warnings are printed among them) and are left out.
    """
    rows = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) != len(fields) or not line.strip():
            continue
        row = {
            field: value
            for field, value in zip(fields, values, strict=True)
            if value.lower() not in _PLACEHOLDERS and not value.startswith("[")
        }
        rows.append(_smi_gpu(row))
    return tuple(row for row in rows if row != SmiGpu())


def _smi_gpu(row: Mapping[str, str]) -> SmiGpu:
    mig = row.get("mig.mode.current")
    uuid = row.get("uuid", "")
    return SmiGpu(
        name=row.get("name"),
        uuid=uuid if uuid.startswith("GPU-") else None,
        pci_bus_id=bus_id(row.get("pci.bus_id")),
        driver=driver_of(row.get("driver_version")),
        compute_capability=capability_of(row.get("compute_cap")),
        memory_bytes=_memory(row.get("memory.total")),
        mig_enabled=None if mig is None else mig == "Enabled",
    )


def _memory(text: str | None) -> int | None:
    match = re.fullmatch(r"(\d{1,15}) MiB", text or "")
    return int(match[1]) * _MEBIBYTE if match else None


def mig_listing(text: str) -> Mapping[str, tuple[str, ...]]:
    """``nvidia-smi -L``: UUID of each GPU -> UUIDs of its MIG instances.

    E.g. ``GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-fcf41002)`` followed by
    ``  MIG 3g.20gb     Device  0: (UUID: MIG-e07a497d)``; before R470 an instance reads ``MIG-GPU-<uuid>/7/0``.
    """
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        match = re.search(r"\(UUID: ([^)]+)\)", line)
        if not match:
            continue
        if line.startswith("GPU "):
            current = found.setdefault(match[1], [])
        elif line.lstrip().startswith("MIG "):
            current.append(match[1])
    return {uuid: tuple(instances) for uuid, instances in found.items()}


def tegra_release(text: str) -> str | None:
    """``/etc/nv_tegra_release``: ``# R36 (release), REVISION: 4.0, GCID: ...`` becomes ``36.4.0``."""
    match = re.search(r"R(\d{1,9}) \(release\), REVISION: ([\d.]+)", text)
    return f"{match[1]}.{match[2]}" if match else None


def os_name_of(text: str) -> str | None:
    """``/etc/os-release``: its PRETTY_NAME, e.g. ``Debian GNU/Linux 12 (bookworm)``."""
    match = re.search(r'^PRETTY_NAME="?([^"\n]+?)"?$', text, re.MULTILINE)
    return match[1] if match else None
