"""From options, configuration, an existing lock and the host to one Target; pure, given the host.

Each attribute comes from the first source that has it: options, then a facts file (which speaks for the machine in the
host's place), the named or default target of the configuration, the existing lock, the host. A driver is never taken
from a source below the one that named the GPUs: it would be another machine's. Then the newest driver that drives them
is assumed, and said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from cudalock import facts
from cudalock.config import TargetTable
from cudalock.errors import UsageError
from cudalock.host.model import Host
from cudalock.target.drivers import (
    assumed_driver,
    cuda_of_jetson,
    driver_from_text,
    early_driver_notes,
    undriven,
    undriven_error,
)
from cudalock.target.gpus import counted, describe, gpu_from_text, host_gpus, is_tegra
from cudalock.target.model import Platform, PythonVersion, Target, TargetGpu
from cudalock.target.platforms import DEFAULT_GLIBC, marker_environment, parse_platform, parse_python, wheel_tags
from cudalock.target.sources import Layer, RecordedTarget, TargetOptions, layers_above_host
from cudalock.versions import ComputeCapability, CudaVersion, DriverVersion

__all__ = ["build_target", "needs_host_gpus", "with_gpus"]


def build_target(
    options: TargetOptions,
    *,
    host: Callable[[], Host] | Host | None = None,
    surroundings: Callable[[], Host] | Host | None = None,
    targets: Mapping[str, TargetTable] | None = None,
    default: TargetTable | None = None,
    lock: RecordedTarget | None = None,
    strict: bool = True,
) -> Target:
    """Puts a target together; asks for the host only if something is still open.

    Args:
        options: from the command line and the environment.
        host: the machine, or how to detect it; what a facts file says if ``options.facts`` is set.
        surroundings: the machine without its GPUs, cheaper, for platform and Python; default: the host.
        targets: named targets of the configuration.
        default: default target of the configuration.
        lock: the target recorded in the existing lock.
        strict: False keeps a machine whose driver does not drive one of its GPUs as it is, with a note (for
            ``doctor``), where otherwise it is refused.

    Raises:
        UsageError: ``target-unknown`` if there is no GPU and none was named; ``target-incomplete``,
            ``target-name-unknown``, ``options-conflict``; and those of reading each attribute: ``gpu-unknown``,
            ``gpu-ambiguous``, ``driver-invalid``, ``driver-does-not-drive-gpu``, ``platform-unknown``,
            ``platform-unsupported``, ``python-invalid``.
        AnswerIsNo: ``driver-does-not-drive-gpu`` for a machine, rather than options, where that is so.
    """
    return _Building(options, host, surroundings, targets or {}, default, lock, strict=strict).target()


def needs_host_gpus(
    options: TargetOptions,
    *,
    targets: Mapping[str, TargetTable] | None = None,
    default: TargetTable | None = None,
    lock: RecordedTarget | None = None,
) -> bool:
    """Whether the GPUs or the driver will have to come from the host, so that probing it is worth its time."""
    layers = layers_above_host(options, targets or {}, default, lock)
    return not any(layer.cpu or layer.gpus for layer in layers)


def with_gpus(target: Target, capabilities: Iterable[ComputeCapability], driver: DriverVersion | None = None) -> Target:
    """The same target with other GPUs, and another driver if one is given: for what-if questions."""
    changed = replace(target, gpus=tuple(TargetGpu(compute_capability=one) for one in sorted(set(capabilities))))
    if driver is None:
        return changed
    os: facts.Os = "windows" if target.wsl or target.platform.os == "windows" else "linux"
    cuda = cuda_of_jetson(driver) if target.jetson else facts.cuda_of_driver(driver, os)
    return replace(changed, driver=driver, cuda_driver=cuda, forward_active=False)


class _Building:
    """One target in the making: collects origins and notes on the way."""

    def __init__(
        self,
        options: TargetOptions,
        host: Callable[[], Host] | Host | None,
        surroundings: Callable[[], Host] | Host | None,
        targets: Mapping[str, TargetTable],
        default: TargetTable | None,
        lock: RecordedTarget | None,
        *,
        strict: bool,
    ) -> None:
        self._options = options
        self._host_source = host
        self._surroundings_source = surroundings
        self._seen_host: Host | None = None
        self._layers = layers_above_host(options, targets, default, lock)
        self._strict = strict
        # A facts file stands where the host would, but was named on purpose: right below the other options.
        self._machine = "facts" if options.facts is not None else "host"
        self._origin: dict[str, str] = {}
        self._notes: list[str] = []
        self._gpu_source: Layer | None = None

    def target(self) -> Target:
        """Runs the steps in the order in which they depend on each other."""
        if self._options.cpu and (self._options.gpus or self._options.driver):
            other = "--gpu" if self._options.gpus else "--driver"
            raise UsageError("options-conflict", f"--cpu and {other} exclude each other", hint="give one of them")
        platform = self._platform()
        python, micro = self._python()
        shared: dict[str, Any] = {
            "platform": platform,
            "python": python,
            "tags": wheel_tags(platform, python),
            "marker_environment": marker_environment(platform, python, micro),
            "name": self._options.name,
            "origin": self._origin,
        }
        gpus = self._gpus()
        if gpus is None:
            return Target(**shared, cpu=True, notes=tuple(self._notes))
        from_host = self._origin["gpus"] == self._machine
        wsl = from_host and self._host().wsl
        jetson = self._host().jetson if from_host else is_tegra(gpus)
        if jetson and (platform.os, platform.machine) != ("linux", "aarch64"):
            raise UsageError(
                "options-conflict",
                f"{describe(gpus)} is part of an aarch64 module, and the target's platform is {platform}",
                hint="add --platform linux-aarch64",
            )
        numbers: facts.Os = "windows" if wsl or platform.os == "windows" else "linux"
        driver = self._driver(gpus, numbers)
        if not jetson:  # Jetson drivers come with the board and are numbered on their own
            self._require_driven(gpus, driver, numbers)
        cuda, forward = self._cuda(driver, numbers, jetson=jetson)
        if wsl:
            self._notes.append(f"WSL: driver {driver} is the Windows driver, and Windows' driver versions apply")
        return Target(
            **shared,
            gpus=gpus,
            driver=driver,
            cuda_driver=cuda,
            wsl=wsl,
            jetson=jetson,
            forward_active=forward,
            notes=tuple(self._notes),
        )

    def _host(self) -> Host:
        """The machine, asked once."""
        if self._seen_host is None:
            source = self._host_source
            self._seen_host = Host() if source is None else source if isinstance(source, Host) else source()
        return self._seen_host

    def _surroundings(self) -> Host:
        """The machine for platform and Python: of a facts file nothing but what it says."""
        source = self._surroundings_source
        if source is None or self._machine == "facts" or self._seen_host is not None:
            return self._host()
        if not isinstance(source, Host):
            self._surroundings_source = source = source()
        return source

    def _note_origin(self, attribute: str, origin: str) -> None:
        self._origin[attribute] = self._options.origins.get(attribute, origin) if origin == "flag" else origin

    def _sources(self) -> list[Layer | None]:
        """The layers in order of precedence, None standing for the machine."""
        if self._machine == "facts":
            return [*self._layers[:1], None, *self._layers[1:]]
        return [*self._layers, None]

    def _platform(self) -> Platform:
        for layer in self._sources():
            platform = self._machine_platform() if layer is None else self._layer_platform(layer)
            if platform is not None:
                self._note_origin("platform", self._machine if layer is None else layer.origin)
                if platform.os == "linux" and platform.libc is None:
                    self._notes.append(
                        f"{platform} is taken to have glibc {DEFAULT_GLIBC[0]}.{DEFAULT_GLIBC[1]}; name another one "
                        f"with e.g. --platform {platform.machine}-manylinux_2_35"
                    )
                    return replace(platform, libc=("glibc", DEFAULT_GLIBC))
                return platform
        raise UsageError(
            "target-incomplete",
            "the target's platform is unknown",
            hint="name it, e.g. --platform linux-x86_64",
            details={"missing": "platform"},
        )

    def _layer_platform(self, layer: Layer) -> Platform | None:
        if layer.platform is None:
            return None
        platform = parse_platform(layer.platform)
        return replace(platform, libc=layer.libc) if layer.libc and platform.os == "linux" else platform

    def _machine_platform(self) -> Platform | None:
        host = self._surroundings()
        if host.os == "darwin":
            return parse_platform("darwin")
        if host.os is None or host.machine is None:
            return None
        platform = parse_platform(f"{'win' if host.os == 'windows' else host.os}-{host.machine}")
        return replace(platform, libc=host.libc) if platform.os == "linux" else platform

    def _python(self) -> tuple[PythonVersion, int | None]:
        for layer in self._sources():
            text = self._surroundings().python if layer is None else layer.python
            if text is None:
                continue
            python, micro = parse_python(text)
            origin = self._machine if layer is None else layer.origin
            self._note_origin("python", origin)
            if origin == "lock" and micro is None:
                micro = self._running_micro(python)
            return python, micro
        raise UsageError(
            "target-incomplete",
            "the target's Python version is unknown",
            hint="name it, e.g. --python 3.12",
            details={"missing": "python"},
        )

    def _running_micro(self, python: PythonVersion) -> int | None:
        """The running micro version where the lock's feature release runs here: the lock was made with it."""
        running = self._surroundings().python if self._surroundings_source is not None else None
        version, micro = parse_python(running) if running else (None, None)
        return micro if version == python else None

    def _gpus(self) -> tuple[TargetGpu, ...] | None:
        """The GPUs, or None for a CPU target."""
        for layer in self._sources():
            if layer is None:
                gpus, notes = host_gpus(self._host())
                if gpus:
                    self._notes.extend(notes)
                    self._note_origin("gpus", self._machine)
                    return gpus
                continue
            if layer.cpu:
                self._note_origin("cpu", layer.origin)
                return None
            if layer.gpus:
                self._gpu_source = layer
                self._note_origin("gpus", layer.origin)
                return counted(gpu_from_text(text) for text in layer.gpus)
        raise self._no_gpu()

    def _no_gpu(self) -> UsageError:
        host = self._host()
        where = "the facts name no GPU" if self._machine == "facts" else "this machine has no NVIDIA GPU"
        if host.gpus:
            where = f"CUDA_VISIBLE_DEVICES={host.visible_devices!r} hides every GPU of this machine"
        elif not host.gpus_known and self._machine == "host":
            where = "no probe could tell whether this machine has a GPU"
        return UsageError(
            "target-unknown",
            f"{where}, and none was named",
            hint="name the machine to lock for: --gpu with --driver (e.g. --gpu 'RTX 4090' --driver 580.65.06), "
            "--target NAME for one of [tool.cudalock.targets], or --cpu for CPU builds",
            details={
                "probes": [{"name": probe.name, "error": probe.error} for probe in host.probes if not probe.answered]
            },
        )

    def _driver(self, gpus: tuple[TargetGpu, ...], numbers: facts.Os) -> DriverVersion:
        """The driver, from no source below that of the GPUs: what lies below describes another machine."""
        for layer in self._sources():
            if layer is None and self._gpu_source is None and (driver := self._host().driver):
                self._note_origin("driver", self._machine)
                return driver
            if layer is not None and layer.driver:
                driver, note = driver_from_text(layer.driver, numbers)
                self._note_origin("driver", layer.origin)
                self._notes.extend([note] if note else [])
                return driver
            if layer is self._gpu_source:
                break
        offered = self._host().cuda_driver if self._gpu_source is None else None
        if offered and (lowest := facts.driver_native(offered, numbers)):
            self._origin["driver"] = self._machine
            self._notes.append(
                f"the driver version is unknown, but it offers CUDA {offered}: {lowest} is assumed, the first to do so"
            )
            return lowest
        if self._origin["gpus"] == "host":
            raise UsageError(
                "target-unknown",
                "this machine has a GPU, but no probe could read a driver version",
                hint="name the driver that the machine will have, e.g. --driver 580.65.06, or install one",
                details={"missing": "driver"},
            )
        driver, note = assumed_driver(gpus, numbers)
        self._origin["driver"] = "default"
        self._notes.append(note)
        return driver

    def _require_driven(self, gpus: tuple[TargetGpu, ...], driver: DriverVersion, numbers: facts.Os) -> None:
        missed = undriven(gpus, driver, numbers)
        if not missed:
            if numbers == "linux":
                self._notes.extend(early_driver_notes(gpus, driver))
            return
        machine = {self._origin["gpus"], self._origin["driver"]} <= {"host", "facts"}
        error = undriven_error(missed, driver, numbers, everything=gpus, stated=not machine)
        if self._strict or not machine:
            raise error
        self._notes.append(error.message)

    def _cuda(self, driver: DriverVersion, numbers: facts.Os, *, jetson: bool) -> tuple[CudaVersion | None, bool]:
        """The CUDA version the driver offers, and whether a cuda-compat library raises it on the machine."""
        native = cuda_of_jetson(driver) if jetson else facts.cuda_of_driver(driver, numbers)
        if self._origin["driver"] != self._machine:
            return native, False
        host = self._host()
        reported = host.cuda_driver
        if reported is None:
            return native, host.compat_library is not None
        known = driver.branch <= facts.branches(numbers)[-1].branch
        raised = not jetson and not host.wsl and known and native is not None and reported > native
        forward = host.compat_library is not None or raised
        if forward:
            self._notes.append(
                f"a cuda-compat library raises CUDA from {native} to {reported} on this machine"
                + (f" ({host.compat_library})" if host.compat_library else "")
            )
        return reported, forward
