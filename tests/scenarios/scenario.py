"""Reads the scenario files and puts target, request and policy of a scenario together."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cudalock.compat.model import Mode, Policy
from cudalock.host.model import Gpu, Host
from cudalock.requirements.model import AskedRequirement, Request
from cudalock.resolve import ResolveOptions
from cudalock.target import Target, TargetOptions, build_target
from cudalock.versions import ComputeCapability, CudaVersion, DriverVersion

__all__ = ["Scenario", "load"]

_MODES = {
    "native": frozenset({Mode.NATIVE}),
    "minor": frozenset({Mode.NATIVE, Mode.MINOR}),
    "forward": frozenset({Mode.NATIVE, Mode.MINOR, Mode.FORWARD}),
}
_KEYS = frozenset({
    "id", "why", "gpus", "driver", "python", "platform", "cpu", "host", "requirements", "constraints", "allow-build", "cuda",
    "compat", "without-triton", "pytorch", "pytorch-reachable", "expect", "refuse", "notes", "pins", "sources", "absent",
    "held-back", "warnings", "target-notes",
})  # fmt: skip


@dataclass(frozen=True)
class Scenario:
    """One scenario as it stands in its file; what it leaves out has the defaults of this class's methods."""

    identifier: str
    table: dict[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return self.identifier

    def get(self, key: str, default: Any = None) -> Any:
        return self.table.get(key, default)

    def target(self) -> Target:
        host = self.get("host")
        described = TargetOptions(
            gpus=tuple(self.get("gpus", ())),
            driver=self.get("driver"),
            python=self.get("python", None if host else "3.12"),
            platform=self.get("platform", None if host else "linux-x86_64"),
            cpu=self.get("cpu"),
        )
        return build_target(described, host=_host(host) if host else None)

    def request(self) -> Request:
        return Request(
            requirements=tuple(
                AskedRequirement(requirement=Requirement(text), origin="argument")
                for text in self.get("requirements", ["torch"])
            ),
            constraints=tuple(
                AskedRequirement(requirement=Requirement(text), origin="c.txt:1")
                for text in self.get("constraints", ())
            ),
            allow_build=frozenset(canonicalize_name(name) for name in self.get("allow-build", ())),
        )

    def policy(self) -> Policy:
        cuda = self.get("cuda")
        return Policy(
            cuda=str(CudaVersion.parse(cuda)) if cuda else None,
            modes=_MODES[self.get("compat", "minor")],
            without_triton=self.get("without-triton", False),
        )

    def options(self) -> ResolveOptions:
        return ResolveOptions(pytorch=self.get("pytorch", "auto"))


def _host(table: dict[str, Any]) -> Host:
    libc, numbers = table["libc"].split()
    major, minor = numbers.split(".")
    return Host(
        os=table["os"],
        machine=table["machine"],
        libc=(libc, (int(major), int(minor))),
        driver=DriverVersion.parse(table["driver"]) if "driver" in table else None,
        cuda_driver=CudaVersion.parse(table["cuda-driver"]) if "cuda-driver" in table else None,
        gpus=tuple(
            Gpu(
                index=index,
                name=gpu["name"],
                uuid=gpu["uuid"],
                compute_capability=ComputeCapability.parse(gpu["cc"]),
                mig_enabled="mig" in gpu,
                mig_devices=tuple(gpu.get("mig", ())),
            )
            for index, gpu in enumerate(table["gpus"])
        ),
        gpus_known=True,
        visible_devices=table.get("visible-devices"),
        compat_library=table.get("compat-library"),
        python=table["python"],
        wsl=table.get("wsl", False),
    )


@cache
def load() -> tuple[Scenario, ...]:
    """All scenarios of all files, in order; an unknown key or a repeated id is an error of the file."""
    scenarios: dict[str, Scenario] = {}
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        for table in tomllib.loads(path.read_text(encoding="utf-8"))["scenario"]:
            identifier = table["id"]
            if unknown := set(table) - _KEYS:
                raise ValueError(f"{path.name}: {identifier}: unknown {sorted(unknown)}")
            if identifier in scenarios or ("expect" in table) == ("refuse" in table):
                raise ValueError(f"{path.name}: {identifier}: repeated, or not exactly one of expect and refuse")
            scenarios[identifier] = Scenario(identifier, table)
    return tuple(scenarios.values())
