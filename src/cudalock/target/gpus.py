"""The GPUs of a target: from what a user writes, and from a host as its programs will see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cudalock import facts
from cudalock.errors import CudalockError, UsageError
from cudalock.host.model import Gpu, Host
from cudalock.target.model import TargetGpu
from cudalock.versions import ComputeCapability

__all__ = [
    "counted", "describe", "gpu_from_text", "host_gpus", "is_tegra", "one_capability", "stated_capability",
]  # fmt: skip

_TEGRA = frozenset(ComputeCapability.parse(text) for text in ("5.3", "6.2", "7.2", "8.7", "10.1", "11.0"))
"""Capabilities that only Tegra modules (Jetson, DRIVE) have."""


def gpu_from_text(text: str) -> TargetGpu:
    """A GPU by product name (``RTX 4090``) or compute capability (``8.9``, ``sm_89``).

    Raises:
        UsageError: ``gpu-unknown`` with near matches; ``gpu-ambiguous`` with the choices where a name stands for
            products of several capabilities.
    """
    capability = stated_capability(text)
    if capability is not None:
        if facts.driver_range(capability) is None:
            raise UsageError(
                "gpu-unknown",
                f"no GPU of compute capability {capability} is known",
                hint="name the product instead, e.g. --gpu 'RTX 4090', or a capability such as 8.9",
                details={"gpu": text},
            )
        return TargetGpu(compute_capability=capability)
    product = facts.find_product(text)
    return TargetGpu(
        compute_capability=one_capability(product, text, option="gpu"),
        name=product.name,
        forward_compatible=product.forward_compatible,
    )


def stated_capability(text: str) -> ComputeCapability | None:
    """The compute capability that a text states (``8.9``, ``sm_89``), None if it is something else."""
    try:
        return ComputeCapability.parse(text.strip().lower())
    except ValueError:
        return None


def one_capability(product: facts.ProductMatch, text: str, *, option: str) -> ComputeCapability:
    """The capability of a product found for ``text``, which was given with ``--OPTION``.

    Raises:
        UsageError: ``gpu-ambiguous`` with the choices where the name stands for products of several capabilities.
    """
    if len(product.capabilities) != 1:
        choices = [str(capability) for capability in product.capabilities]
        raise UsageError(
            "gpu-ambiguous",
            f"{product.name} exists with compute capability {' and '.join(choices)}",
            hint=f"say which: {' or '.join(f'--{option} {choice}' for choice in choices)}",
            details={option: text, "choices": choices},
        )
    return product.capabilities[0]


def counted(gpus: Iterable[TargetGpu]) -> tuple[TargetGpu, ...]:
    """Equal kinds joined into one with its count, in order of capability and name."""
    counts: dict[tuple[ComputeCapability, str], TargetGpu] = {}
    for gpu in gpus:
        key = gpu.compute_capability, gpu.name or ""
        seen = counts.get(key)
        counts[key] = replace(seen, count=seen.count + gpu.count) if seen else gpu
    return tuple(counts[key] for key in sorted(counts))


def describe(gpus: Iterable[TargetGpu]) -> str:
    """The GPUs in one phrase: ``GTX 1080 (6.1) and RTX 5090 (12.0)``."""
    return " and ".join(str(gpu) for gpu in gpus)


def is_tegra(gpus: Iterable[TargetGpu]) -> bool:
    """Whether all of them are integrated in a Tegra module."""
    found = [gpu.compute_capability in _TEGRA for gpu in gpus]
    return bool(found) and all(found)


def host_gpus(host: Host) -> tuple[tuple[TargetGpu, ...], tuple[str, ...]]:
    """The GPUs that programs on the host see, and what the user should know about that.

    Raises:
        UsageError: ``gpu-unknown`` if the capability of a visible GPU could not be found out.
    """
    visible, notes = _visible(host)
    kinds = []
    for gpu in visible:
        if gpu.compute_capability is None:
            if gpu.name and (named := _by_name(gpu.name)):
                kinds.append(named)
                continue
            raise UsageError(
                "gpu-unknown",
                f"the compute capability of GPU {gpu.index} ({gpu.name or gpu.pci_device_id or 'no name'}) is unknown"
                + (f": {gpu.error}" if gpu.error else ""),
                hint="name the GPU with --gpu, e.g. --gpu 'RTX 4090' or --gpu 8.9",
                details={"gpu": gpu.name, "index": gpu.index},
            )
        kinds.append(
            TargetGpu(
                compute_capability=gpu.compute_capability, name=gpu.name, forward_compatible=_may_be_lifted(gpu.name)
            )
        )
    parted = [gpu for gpu in visible if gpu.mig_enabled]
    if parted:
        numbers = ", ".join(str(gpu.index) for gpu in parted)
        notes = (*notes, f"GPU {numbers} runs in MIG mode: a process sees one MIG instance of it")
    return counted(kinds), notes


def _by_name(name: str) -> TargetGpu | None:
    """The GPU by its product name; one that is ambiguous stays an error that lists the choices."""
    try:
        return gpu_from_text(name)
    except UsageError as error:
        if error.code != "gpu-unknown":
            raise
        return None


def _may_be_lifted(name: str | None) -> bool | None:
    if name is None:
        return None
    try:
        return facts.find_product(name).forward_compatible
    except CudalockError:
        return None


def _visible(host: Host) -> tuple[tuple[Gpu, ...], tuple[str, ...]]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves; an entry that is wrong hides itself and all after it."""
    value = host.visible_devices
    if value is None or not host.gpus:
        return host.gpus, ()
    by_number = _by_cuda_number(host)
    chosen: dict[int, Gpu] = {}
    for entry in (part.strip() for part in value.split(",")):
        if entry.isdigit() and by_number is None:
            note = (
                f"CUDA_VISIBLE_DEVICES={value} counts GPUs in CUDA's own order, which is not known here: "
                "all GPUs are taken into account (set CUDA_DEVICE_ORDER=PCI_BUS_ID to make it clear)"
            )
            return host.gpus, (note,)
        found = _entry(entry, host.gpus, by_number or {})
        if found is None:
            break
        chosen[found.index] = found
    gpus = tuple(gpu for gpu in host.gpus if gpu.index in chosen)
    if len(gpus) == len(host.gpus):
        return gpus, ()
    return gpus, (f"CUDA_VISIBLE_DEVICES={value} leaves {len(gpus)} of {len(host.gpus)} GPUs visible",)


def _by_cuda_number(host: Host) -> Mapping[int, Gpu] | None:
    """CUDA's number -> GPU; None if it cannot be known and matters."""
    if all(gpu.cuda_index is not None for gpu in host.gpus):
        return {gpu.cuda_index: gpu for gpu in host.gpus if gpu.cuda_index is not None}
    alike = len({gpu.compute_capability for gpu in host.gpus}) == 1
    return dict(enumerate(host.gpus)) if alike or host.device_order == "PCI_BUS_ID" else None


def _entry(entry: str, gpus: tuple[Gpu, ...], by_number: Mapping[int, Gpu]) -> Gpu | None:
    if entry.isdigit():
        return by_number.get(int(entry))
    if entry.startswith("MIG-GPU-"):  # before R470: MIG-GPU-<uuid>/<gpu instance>/<compute instance>
        entry = entry.removeprefix("MIG-").partition("/")[0]
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    matches = [gpu for gpu in gpus if any(uuid.startswith(entry) for uuid in (gpu.uuid or "", *gpu.mig_devices))]
    return matches[0] if len(matches) == 1 else None
