"""Where a target can come from, highest precedence first: options, configuration, an existing lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cudalock.config import TargetTable
from cudalock.errors import UsageError
from cudalock.spelling import near_words
from cudalock.target.platforms import parse_libc
from cudalock.versions import ComputeCapability, DriverVersion

__all__ = ["Layer", "RecordedTarget", "TargetOptions", "layers_above_host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """The target options of a command, from flags or the environment; None and () if not given.

    Attributes:
        name: of a target in the configuration (``--target``).
        facts: path of the facts file that the host was read from, if it was.
        origins: attribute -> ``environment`` for what came from there; all else came from a flag.
    """

    gpus: tuple[str, ...] = ()
    driver: str | None = None
    python: str | None = None
    platform: str | None = None
    cpu: bool | None = None
    name: str | None = None
    facts: Path | str | None = None
    origins: Mapping[str, str] = field(default_factory=dict)


class RecordedTarget(Protocol):
    """What an existing lock records of its target (:class:`cudalock.lock.model.LockedTarget`)."""

    @property
    def platform(self) -> str: ...  # noqa: D102
    @property
    def python(self) -> str: ...  # noqa: D102
    @property
    def libc(self) -> str | None: ...  # noqa: D102
    @property
    def driver(self) -> DriverVersion | None: ...  # noqa: D102
    @property
    def gpus(self) -> tuple[ComputeCapability, ...]: ...  # noqa: D102
    @property
    def cpu(self) -> bool: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What one source says, as text; the host is not among these."""

    origin: str
    gpus: tuple[str, ...] = ()
    driver: str | None = None
    python: str | None = None
    platform: str | None = None
    libc: tuple[str, tuple[int, int]] | None = None
    cpu: bool | None = None


def layers_above_host(
    options: TargetOptions,
    targets: Mapping[str, TargetTable],
    default: TargetTable | None,
    lock: RecordedTarget | None,
) -> list[Layer]:
    """The sources above the host, highest first."""
    flags = Layer(
        origin="flag",
        gpus=options.gpus,
        driver=options.driver,
        python=options.python,
        platform=options.platform,
        cpu=options.cpu,
    )
    layers = [flags]
    if options.name is not None:
        layers.append(_configured(_named(options.name, targets)))
    if default is not None:
        layers.append(_configured(default))
    if lock is not None:
        layers.append(
            Layer(
                origin="lock",
                gpus=tuple(str(gpu) for gpu in lock.gpus),
                driver=str(lock.driver) if lock.driver else None,
                python=lock.python,
                platform=lock.platform,
                libc=parse_libc(lock.libc) if lock.libc else None,
                cpu=lock.cpu or None,
            )
        )
    return layers


def _configured(table: TargetTable) -> Layer:
    return Layer(
        origin="config",
        gpus=table.gpus,
        driver=table.driver,
        python=table.python,
        platform=table.platform,
        cpu=table.cpu,
    )


def _named(name: str, targets: Mapping[str, TargetTable]) -> TargetTable:
    if name in targets:
        return targets[name]
    near = near_words(name, targets)
    known = ", ".join(sorted(targets)) or "none"
    raise UsageError(
        "target-name-unknown",
        f"no target is named {name!r}",
        hint=f"did you mean {' or '.join(near)}?"
        if near
        else f"add [tool.cudalock.targets.{name}]; there are: {known}",
        details={"target": name, "known": sorted(targets)},
    )
