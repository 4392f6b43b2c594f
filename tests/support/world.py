"""A small world: a target with GPUs, an index in memory, and one call that resolves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from cudalock.compat import Policy
from cudalock.requirements.model import AskedRequirement, Request
from cudalock.resolve import Resolution, ResolveOptions, resolve
from cudalock.target import Target, TargetOptions, build_target
from support.memory_index import MemoryIndex


def make_target(
    *gpus: str, driver: str | None = None, python: str = "3.12", platform: str = "linux-x86_64", cpu: bool = False
) -> Target:
    """A target as the options of a command give it."""
    options = TargetOptions(gpus=gpus, driver=driver, python=python, platform=platform, cpu=cpu or None)
    return build_target(options)


def asked(*texts: str, origin: str = "argument") -> tuple[AskedRequirement, ...]:
    """Requirements as the user typed them."""
    return tuple(AskedRequirement(requirement=Requirement(text), origin=origin) for text in texts)


@dataclass
class World:
    """An index and the machine; calling it resolves."""

    index: MemoryIndex = field(default_factory=MemoryIndex)
    target: Target = field(default_factory=lambda: make_target("9.0", driver="580.65.06"))
    policy: Policy = field(default_factory=Policy)
    options: ResolveOptions = field(default_factory=ResolveOptions)

    def __call__(
        self,
        *requirements: str,
        constraints: Iterable[str] = (),
        preferred: Mapping[str, str] | None = None,
        exclude_newer: datetime | None = None,
        allow_build: Iterable[str] = (),
        prerelease: Iterable[str] = (),
        upgrade: bool = False,
        upgrade_packages: Iterable[str] = (),
        **changes: Any,
    ) -> Resolution:
        """Resolves ``requirements``; ``changes`` replace target, policy or options for this call."""
        request = Request(
            requirements=asked(*requirements),
            constraints=asked(*constraints, origin="constraints.txt:1"),
            exclude_newer=exclude_newer,
            allow_build=frozenset(map(canonicalize_name, allow_build)),
            prerelease=frozenset(map(canonicalize_name, prerelease)),
            upgrade=upgrade,
            upgrade_packages=frozenset(map(canonicalize_name, upgrade_packages)),
        )
        return resolve(
            request,
            changes.get("target", self.target),
            self.index,
            policy=changes.get("policy", self.policy),
            preferred={canonicalize_name(name): Version(text) for name, text in (preferred or {}).items()},
            options=changes.get("options", self.options),
        )


def versions(resolution: Resolution) -> dict[str, str]:
    """Name -> version."""
    return {pin.name: str(pin.version) for pin in resolution.pins}
