"""What several rules need, derived once from the evidence: target, build and triton as cudalock.compat sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from packaging.version import Version

from cudalock import facts
from cudalock.builds import Build, TritonRelease, known_triton
from cudalock.compat import Policy, Reason, Verdict, judge
from cudalock.doctor.model import Evidence
from cudalock.errors import CudalockError
from cudalock.findings import Finding, Severity
from cudalock.host.model import Host
from cudalock.target.build import build_target
from cudalock.target.gpus import host_gpus
from cudalock.target.model import Platform, PythonVersion, Target, TargetGpu
from cudalock.target.platforms import parse_python
from cudalock.target.sources import TargetOptions
from cudalock.versions import ComputeCapability, CudaVersion, DriverVersion

__all__ = ["Situation", "make_finding"]

_SOME_GPU = TargetGpu(compute_capability=ComputeCapability(7, 5))
"""Stands for a GPU that nobody named, where only the driver is judged."""
_DRIVER_CODES = frozenset({"driver-too-old", "minor-compat-in-use"})
_TRITON_NAMES = ("triton", "pytorch-triton", "triton-windows")


def make_finding(
    code: str,
    message: str,
    evidence: Mapping[str, Any] | None = None,
    *,
    severity: Severity | None = None,
    cause: str | None = None,
    fix: str | None = None,
    verified: bool = False,
) -> Finding:
    """A finding of the catalogue; severity and fix are the catalogue's unless something better is known."""
    row = facts.finding_codes()[code]
    return Finding(
        code=code,
        severity=severity or row.severity,
        message=message,
        evidence=dict(evidence or {}),
        cause=cause or row.meaning,
        fix=fix or row.fix,
        fix_verified_by_rules=verified,
    )


@dataclass(frozen=True)
class Situation:
    """The evidence with what follows from it; not slotted, because what is derived is cached."""

    evidence: Evidence

    @property
    def host(self) -> Host:
        """The machine."""
        return self.evidence.host

    @property
    def os(self) -> Literal["linux", "windows"]:
        """Whose driver numbers hold."""
        return "windows" if self.host.wsl or self.host.os == "windows" else "linux"

    @cached_property
    def gpus(self) -> tuple[TargetGpu, ...]:
        """The visible GPUs whose capability is known; () if none is."""
        known = tuple(gpu for gpu in self.host.gpus if gpu.compute_capability is not None)
        try:
            return host_gpus(replace(self.host, gpus=known))[0]
        except CudalockError:
            return ()

    @property
    def has_gpu(self) -> bool | None:
        """Whether the machine has an NVIDIA GPU; None if that is unknown."""
        if self.host.gpus or self.host.jetson:
            return True
        return False if self.host.gpus_known else None

    @cached_property
    def libcuda(self) -> CudaVersion | None:
        """The CUDA release that the machine offers, raised by a cuda-compat library or not."""
        return self.target.cuda_driver

    @cached_property
    def driver_cuda(self) -> CudaVersion | None:
        """The CUDA release of the driver itself."""
        return facts.cuda_of_driver(self.host.driver, self.os) if self.host.driver and not self.host.jetson else None

    @cached_property
    def target(self) -> Target:
        """The machine as the compatibility rules take it; gaps stay gaps (no driver: ``driver`` is None)."""
        host = self.host
        if host.driver is not None and self.gpus:
            filled = replace(
                host,
                os=host.os or "linux",
                machine=host.machine or ("aarch64" if host.jetson else "x86_64"),
                python=host.python or "3.12",
                gpus=tuple(gpu for gpu in host.gpus if gpu.compute_capability is not None),
            )
            try:
                return build_target(TargetOptions(), host=filled, strict=False)
            except CudalockError:
                pass
        python = parse_python(host.python)[0] if host.python else PythonVersion(3, 12)
        cuda = host.cuda_driver or self.driver_cuda
        return Target(
            platform=Platform(self.os if not host.wsl else "linux", host.machine or "x86_64", host.libc),
            python=python,
            driver=host.driver,
            cuda_driver=cuda,
            gpus=self.gpus or (_SOME_GPU,),
            wsl=host.wsl,
            jetson=host.jetson,
            forward_active=self.forward_active,
        )

    @property
    def forward_active(self) -> bool:
        """Whether libcuda offers more than the driver by itself: a cuda-compat library is loaded."""
        host = self.host
        if host.compat_library:
            return True
        own = self.driver_cuda
        return bool(own and host.cuda_driver and host.cuda_driver > own and not host.wsl and self._branch_known)

    @property
    def _branch_known(self) -> bool:
        driver = self.host.driver
        return driver is not None and driver.branch <= facts.branches(self.os)[-1].branch

    @cached_property
    def build(self) -> Build | None:
        """The installed torch as a build; None if it, its CUDA release or its architectures are unknown."""
        torch = self.evidence.torch
        if torch is None or torch.cuda is None:
            return None
        return Build(
            version=torch.version or Version(f"0+{torch.cuda.label}"),
            cuda=torch.cuda,
            architectures=torch.architectures or (),
            triton=torch.triton,
            os="windows" if self.host.os == "windows" else "linux",
            machine=self.host.machine or "x86_64",
            evidence=torch.evidence,
        )

    @cached_property
    def triton(self) -> TritonRelease | None:
        """The installed triton with its assemblers: from its files, else by the table."""
        installed = next((found for name in _TRITON_NAMES if (found := self.evidence.named(name))), None)
        if installed is None or installed.version is None:
            return None
        table = known_triton(Version(installed.version.base_version))
        read = self.evidence.assemblers
        if read is None or read.ptxas is None:
            return replace(table, version=installed.version) if table else None
        return TritonRelease(
            version=installed.version,
            ptxas=read.ptxas,
            ptxas_blackwell=read.ptxas_blackwell,
            blackwell_from=read.blackwell_from,
            evidence="wheel",
        )

    @cached_property
    def verdict(self) -> Verdict | None:
        """What the compatibility rules say of torch and the triton that is there; None where torch is unknown."""
        if self.build is None:
            return None
        return judge(self.build, self.target, triton=self.triton, policy=Policy())

    def refusals(self, *codes: str) -> tuple[Reason, ...]:
        """The refusals of the rules with these codes, as far as what they rest on is known."""
        if self.verdict is None:
            return ()
        return tuple(reason for reason in self.verdict.refusals if reason.code in codes and self._holds(reason))

    def notes(self, *codes: str) -> tuple[Reason, ...]:
        """The notes of the rules with these codes, as far as what they rest on is known."""
        if self.verdict is None:
            return ()
        return tuple(reason for reason in self.verdict.notes if reason.code in codes and self._holds(reason))

    def _holds(self, reason: Reason) -> bool:
        """Whether a reason does not rest on the GPU, the driver or the architectures that nobody told."""
        if not self.gpus and (reason.code not in _DRIVER_CODES or "gpu" in reason.facts):
            return False
        if reason.code in {"ptx-newer-than-driver", "gpu-only-by-ptx"} and self.libcuda is None:
            return False
        architectures = self.evidence.torch.architectures if self.evidence.torch else None
        return not (reason.rule == "R2" and architectures is None)

    def reported(self, *codes: str) -> bool:
        """Whether a text that a program printed names one of these codes."""
        return any(finding.code in codes for finding in self.evidence.reported)

    @property
    def torch_name(self) -> str:
        """The installed torch in words."""
        torch = self.evidence.torch
        if torch is None:
            return "torch"
        if torch.version is None:
            return f"torch of CUDA {torch.cuda}" if torch.cuda else "torch"
        return f"torch {torch.version}"

    def older_than(self, release: str) -> bool:
        """Whether the installed torch is of an earlier release; False if it is unknown."""
        torch = self.evidence.torch
        return bool(torch and torch.version and Version(torch.version.public) < Version(release))

    @property
    def driver(self) -> DriverVersion | None:
        """The driver's version."""
        return self.host.driver
