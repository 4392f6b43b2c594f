"""The machine: driver, its libraries as the probes met them, GPUs and what surrounds them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cudalock.compat import Reason
from cudalock.doctor.rules.fixes import Fix, other_torch, torch_or_driver
from cudalock.doctor.rules.situation import Situation, make_finding
from cudalock.findings import Finding
from cudalock.host.model import ProbeOutcome
from cudalock.versions import ComputeCapability

__all__ = ["RULES"]

_TURING = ComputeCapability(7, 5)
_VIRTUAL = re.compile(r"^(NVIDIA )?GRID |\d+[QCAB]$")


def _failed(situation: Situation, *codes: int, text: str | None = None) -> ProbeOutcome | None:
    """The probe that failed with one of these codes, or whose words match."""
    for probe in situation.host.probes:
        worded = text is not None and probe.error is not None and re.search(text, probe.error, re.IGNORECASE)
        if not probe.answered and (probe.error_code in codes or worded):
            return probe
    return None


def _words(probe: ProbeOutcome) -> dict[str, object]:
    return {"probe": probe.name, "error": probe.error, "error_code": probe.error_code}


def driver_not_found(situation: Situation) -> Iterator[Finding]:
    """No probe found a driver, although there is a GPU or a torch that wants one."""
    host = situation.host
    if host.driver or host.cuda_driver or not host.probes or host.os == "darwin":
        return
    torch = situation.evidence.torch
    evidence = {"probes": {probe.name: probe.error for probe in host.probes if not probe.answered}}
    inside = bool(host.container and host.container.kind)
    fix = "start the container with the NVIDIA runtime: --gpus all, or --device nvidia.com/gpu=all" if inside else None
    if host.gpus:
        names = ", ".join(gpu.name or gpu.pci_device_id or f"GPU {gpu.index}" for gpu in host.gpus)
        yield make_finding("driver-not-found", f"there is a GPU ({names}) and no NVIDIA driver", evidence, fix=fix)
    elif torch is not None and torch.cuda is not None:
        message = f"{situation.torch_name} is a CUDA build, and no NVIDIA driver is found here"
        yield make_finding("driver-not-found", message, evidence, fix=fix)
    elif situation.has_gpu is False:
        message = "no NVIDIA GPU and no driver are here: an environment made on this machine cannot know its target"
        yield make_finding("target-unknown", message, evidence, severity="info")


def no_target(situation: Situation) -> Iterator[Finding]:
    """A report of a machine without GPU, and of a torch without CUDA made on it."""
    torch = situation.evidence.torch
    if situation.host.probes or situation.has_gpu is not False or torch is None or not torch.cpu:
        return
    message = "this machine has no GPU, so an environment made on it got a CPU build"
    yield make_finding("target-unknown", message, {"torch": str(torch.version) if torch.version else "cpu"})


def driver_library_mismatch(situation: Situation) -> Iterator[Finding]:
    """Kernel module and user library are of different releases."""
    host = situation.host
    probe = _failed(situation, 18, 803, text=r"driver/library version mismatch|system has unsupported display driver")
    if probe is None and not (host.driver_library and host.driver and host.driver_library != host.driver):
        return
    library = f", the library {host.driver_library}" if host.driver_library else ""
    message = f"kernel module and library of the driver differ: the module is {host.driver or 'of another release'}"
    evidence = {
        "driver": str(host.driver) if host.driver else None,
        "library": str(host.driver_library) if host.driver_library else None,
        **(_words(probe) if probe else {}),
    }
    yield make_finding("driver-library-mismatch", message + library, evidence)


def container_lost_gpu(situation: Situation) -> Iterator[Finding]:
    """NVML 999 in a container."""
    probe = _failed(situation, 999)
    if probe is not None and probe.name == "nvml":
        yield make_finding("container-lost-gpu", "NVML answers with an unknown error (999)", _words(probe))


def fabric_manager(situation: Situation) -> Iterator[Finding]:
    """Error 802 on NVSwitch machines."""
    probe = _failed(situation, 802, text="system not yet initialized")
    if probe is not None:
        message = "CUDA is not initialised (error 802): the fabric manager does not run or is of another release"
        yield make_finding("fabric-manager-mismatch", message, _words(probe))


def nvml_unavailable(situation: Situation) -> Iterator[Finding]:
    """NVML does not answer and another probe does."""
    nvml = next((probe for probe in situation.host.probes if probe.name == "nvml"), None)
    others = [probe.name for probe in situation.host.probes if probe.answered and probe.name != "nvml"]
    if nvml is None or nvml.answered or not others or situation.host.driver is None or situation.host.jetson:
        return
    message = f"NVML does not answer ({nvml.error}); {' and '.join(others)} did"
    yield make_finding("nvml-unavailable", message, _words(nvml))


def compat_library(situation: Situation) -> Iterator[Finding]:
    """A cuda-compat library is loaded: right on data-centre GPUs, error 804 elsewhere."""
    host = situation.host
    probe = _failed(situation, 804, text="forward compatibility was attempted")
    if not situation.forward_active and probe is None:
        return
    evidence = {
        "library": host.compat_library,
        "driver": str(host.driver) if host.driver else None,
        "cuda_of_driver": str(situation.driver_cuda) if situation.driver_cuda else None,
        "cuda_reported": str(host.cuda_driver) if host.cuda_driver else None,
        **(_words(probe) if probe else {}),
    }
    refused = [str(gpu) for gpu in situation.gpus if gpu.forward_compatible is False]
    where = f" ({host.compat_library})" if host.compat_library else ""
    if refused or probe:
        whom = ", ".join(refused) or "this GPU"
        message = f"a cuda-compat library{where} is loaded, and forward compatibility fails on {whom} (error 804)"
        yield make_finding("compat-on-geforce", message, evidence)
    else:
        message = (
            f"a cuda-compat library{where} raises CUDA to {host.cuda_driver or 'its own'} over driver {host.driver}"
        )
        yield make_finding("compat-library-in-use", message, evidence)


def driver_too_old(situation: Situation) -> Iterator[Finding]:
    """Rule R1: the driver is below what the build needs, or no longer drives the GPU."""
    for reason in situation.refusals("driver-too-old"):
        fix = torch_or_driver(situation) or _driver_named(reason)
        yield make_finding(
            "driver-too-old",
            f"{situation.torch_name}: {reason.sentence}",
            {**reason.facts, "forward_active": situation.forward_active},
            fix=fix.text if fix else None,
            verified=bool(fix and fix.verified),
        )
    for reason in situation.refusals("architecture-end-of-life"):
        message, evidence = reason.sentence, dict(reason.facts)
        yield make_finding("architecture-end-of-life", message, evidence, severity="error", fix=_older_driver(reason))


def _driver_named(reason: Reason) -> Fix | None:
    lowest = reason.facts.get("driver_min")
    return Fix(f"update the driver to {lowest} or newer", verified=False) if lowest else None


def _older_driver(reason: Reason) -> str | None:
    last = reason.facts.get("last_branch")
    return f"install a driver of branch {last}" if last else None


def forward_possible(situation: Situation) -> Iterator[Finding]:
    """A data-centre GPU below the build's CUDA: a cuda-compat package would lift it."""
    from cudalock.compat import Mode, Policy, judge

    if situation.build is None or not situation.refusals("driver-too-old") or situation.forward_active:
        return
    if not all(gpu.forward_compatible for gpu in situation.gpus):
        return
    modes = frozenset(Mode)
    lifted = judge(situation.build, situation.target, triton=situation.triton, policy=Policy(modes=modes))
    if lifted.admitted:
        cuda = situation.build.cuda
        message = f"a cuda-compat package of CUDA {cuda} would run {situation.torch_name} on this driver"
        yield make_finding("forward-compat-possible", message, {"cuda": str(cuda)}, verified=True)


def open_module(situation: Situation) -> Iterator[Finding]:
    """The open kernel module with a GPU that it does not know."""
    if situation.host.kernel_module != "open":
        return
    for gpu in situation.gpus:
        if gpu.compute_capability < _TURING:
            message = f"the open kernel module is loaded and does not drive {gpu}"
            yield make_finding("open-module-on-old-gpu", message, {"gpu": str(gpu.compute_capability)})


def container_requires(situation: Situation) -> Iterator[Finding]:
    """NVIDIA_REQUIRE_CUDA against the driver's own CUDA."""
    from cudalock.doctor.rules.images import requirement_met

    container = situation.host.container
    text = container.require_cuda if container else None
    if not text or situation.evidence.variables.get("NVIDIA_DISABLE_REQUIRE", "").lower() in {"1", "true"}:
        return
    offered = situation.driver_cuda or situation.host.cuda_driver
    if (
        offered is None
        or requirement_met(text, cuda=offered, driver=situation.driver, gpus=situation.gpus) is not False
    ):
        return
    wanted = text.split()[0]
    runs = situation.verdict is not None and situation.verdict.admitted and bool(situation.gpus)
    message = f"the image asks for {wanted}, and the driver {situation.driver or ''} offers CUDA {offered}".replace(
        "  ", " "
    )
    fix = other_torch(situation)
    yield make_finding(
        "container-requires-newer-cuda",
        message,
        {"require_cuda": wanted, "cuda_driver": str(offered), "driver": str(situation.driver or "")},
        severity="info" if runs else None,
        cause="the torch that is installed runs on this driver all the same" if runs else None,
        fix=f"use an image of CUDA {offered} or older, or update the host's driver"
        + (f"; inside it {fix.text}" if fix and not runs and situation.build else ""),
        verified=bool(fix and not runs and situation.build),
    )


def driver_packages(situation: Situation) -> Iterator[Finding]:
    """Packages of the driver in a container image."""
    if situation.evidence.driver_packages:
        names = ", ".join(situation.evidence.driver_packages)
        evidence = {"packages": list(situation.evidence.driver_packages)}
        yield make_finding("driver-package-in-container", f"the image contains {names}", evidence)


def worth_knowing(situation: Situation) -> Iterator[Finding]:
    """What is no fault: compatibility mode, MIG, mixed GPUs, WSL, Jetson, vGPU, end of life."""
    host = situation.host
    for reason in situation.notes("minor-compat-in-use", "architecture-end-of-life"):
        yield make_finding(reason.code, reason.sentence, reason.facts, severity="info")
    parted = [gpu.index for gpu in host.gpus if gpu.mig_enabled or (gpu.name and re.search(r"\bMIG\b", gpu.name))]
    if parted:
        message = f"GPU {', '.join(map(str, parted))} runs in MIG mode: a process sees one instance of it"
        yield make_finding("mig-one-instance-visible", message, {"gpus": parted})
    capabilities = sorted({gpu.compute_capability for gpu in situation.gpus})
    if len(capabilities) > 1:
        message = f"the GPUs are of {len(capabilities)} kinds: {', '.join(map(str, capabilities))}"
        yield make_finding(
            "mixed-architectures", message, {"gpus": [str(one) for one in capabilities]}, severity="info"
        )
    if host.jetson:
        yield make_finding("tegra-host", f"this is a Jetson (Jetson Linux {host.l4t or 'of unknown release'})")
    if host.wsl:
        yield make_finding(
            "wsl-driver", f"under WSL the driver {host.driver or ''} is the one of Windows".replace("  ", " ")
        )
    for gpu in host.gpus:
        if gpu.name and _VIRTUAL.search(gpu.name):
            yield make_finding("vgpu-guest", f"{gpu.name} is a virtual GPU: its host decides about the driver")


RULES = (
    driver_not_found, no_target, driver_library_mismatch, container_lost_gpu, fabric_manager, nvml_unavailable,
    compat_library, driver_too_old, forward_possible, open_module, container_requires, driver_packages, worth_knowing,
)  # fmt: skip
