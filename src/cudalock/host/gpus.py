"""Joins what several probes said of the same GPUs, and looks capabilities up where no probe could tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cudalock.errors import CudalockError
from cudalock.host.files import KernelFacts
from cudalock.host.model import Gpu
from cudalock.host.parsers import bus_id
from cudalock.versions import ComputeCapability

if TYPE_CHECKING:
    from cudalock.host.children import LibraryAnswer, SmiAnswer

__all__ = ["files_gpus", "library_gpus", "merge_gpus", "smi_gpus", "with_products"]

Attributes = Mapping[str, Any]
"""What one probe knows of one GPU: attributes of :class:`Gpu`, unknown ones left out."""

_COPIED = (
    "name", "uuid", "pci_bus_id", "pci_device_id", "compute_capability", "memory_bytes", "mig_enabled", "mig_devices",
    "error",
)  # fmt: skip


def library_gpus(answer: LibraryAnswer | None, *, in_cuda_order: bool = False) -> tuple[Attributes, ...]:
    """The GPUs of the probe script; ``in_cuda_order`` keeps CUDA's own numbers."""
    found = []
    for raw in answer.gpus if answer else ():
        gpu = {key: raw[key] for key in _COPIED if raw.get(key) is not None}
        if "pci_bus_id" in gpu:
            gpu["pci_bus_id"] = bus_id(gpu["pci_bus_id"]) or gpu["pci_bus_id"]
        if "compute_capability" in gpu:
            major, minor = gpu["compute_capability"]
            gpu["compute_capability"] = ComputeCapability(major, minor)
        if "mig_devices" in gpu:
            gpu["mig_devices"] = tuple(gpu["mig_devices"])
        if in_cuda_order:
            gpu["cuda_index"] = raw.get("index")
        found.append(gpu)
    return tuple(found)


def smi_gpus(answer: SmiAnswer | None) -> tuple[Attributes, ...]:
    """The GPUs of nvidia-smi."""
    found = []
    for row in answer.gpus if answer else ():
        gpu = {key: getattr(row, key, None) for key in _COPIED}
        if answer and row.uuid and row.uuid in answer.mig:
            gpu["mig_devices"] = answer.mig[row.uuid]
        found.append({key: value for key, value in gpu.items() if value is not None})
    return tuple(found)


def files_gpus(kernel: KernelFacts) -> tuple[Attributes, ...]:
    """The GPUs of /sys and /proc."""
    return tuple(
        {key: value for key in _COPIED if (value := getattr(gpu, key, None)) is not None} for gpu in kernel.gpus
    )


def merge_gpus(sources: Sequence[tuple[str, tuple[Attributes, ...]]], *, complete: frozenset[str]) -> tuple[Gpu, ...]:
    """The list of the first probe that gave a complete one, each GPU filled up from the probes after it."""
    for position, (name, gpus) in enumerate(sources):
        if name in complete and gpus:
            others = [*sources[:position], *sources[position + 1 :]]
            ordered = sorted(gpus, key=_address) if name == "libcuda" else gpus
            return tuple(_filled(index, name, gpu, others) for index, gpu in enumerate(ordered))
    return ()


def _address(gpu: Attributes) -> str:
    return str(gpu.get("pci_bus_id", ""))


def _filled(index: int, primary: str, gpu: Attributes, others: Iterable[tuple[str, tuple[Attributes, ...]]]) -> Gpu:
    attributes = dict(gpu)
    origin = dict.fromkeys(attributes, primary)
    for name, candidates in others:
        twin = next((other for other in candidates if _same(attributes, other)), None)
        for key, value in (twin or {}).items():
            if key not in attributes:
                attributes[key], origin[key] = value, name
    return Gpu(index=index, **attributes, origin=origin)


def _same(one: Attributes, other: Attributes) -> bool:
    for key in ("uuid", "pci_bus_id"):
        if key in one and key in other:
            return bool(one[key] == other[key])
    return False


def with_products(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Capabilities that no probe could tell, by PCI id and then by product name where that names just one."""
    return tuple(_with_product(gpu) if gpu.compute_capability is None else gpu for gpu in gpus)


def _with_product(gpu: Gpu) -> Gpu:
    from cudalock import facts  # reads tables: only needed where every probe failed

    capability = facts.product_of_pci(gpu.pci_device_id) if gpu.pci_device_id else None
    if capability is None and gpu.name:
        try:
            capabilities = facts.find_product(gpu.name).capabilities
        except CudalockError:
            return gpu
        capability = capabilities[0] if len(capabilities) == 1 else None
    if capability is None:
        return gpu
    return replace(gpu, compute_capability=capability, origin={**gpu.origin, "compute_capability": "products"})
