"""What a watched program compiled: kernels, their compilations, functions, and the report of all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from cudalock.findings import Finding
from cudalock.watch.causes import Cause, Variant

__all__ = ["THRESHOLD", "Compilation", "CompiledFunction", "WatchReport", "WatchedKernel"]

THRESHOLD = 20
"""Compilations of one kernel above which it is a storm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """One variant of a kernel that was compiled, or found on disk and loaded.

    Attributes:
        action: ``compiled`` or ``loaded``.
        causes: what differs from the nearest variant before it.
        seconds: that compiling took; 0 if loaded.
        pid: process.
        device: index of the GPU, None if unknown.
        autocast: its type if autocast was on, e.g. ``bfloat16``.
        capturing: whether a CUDA graph was being captured.
        tuned: whether an autotuner was trying it out.
        nvtx: whether it was marked for the profiler.
    """

    action: Literal["compiled", "loaded"]
    causes: tuple[Cause, ...]
    seconds: float = 0.0
    pid: int = 0
    device: int | None = None
    autocast: str | None = None
    capturing: bool = False
    tuned: bool = False
    nvtx: bool = False
    variant: Variant = field(default_factory=Variant)

    def to_json(self) -> dict[str, Any]:
        """The compilation as it stands in a command's JSON answer."""
        return {
            "action": self.action,
            "causes": [cause.to_json() for cause in self.causes],
            "seconds": self.seconds,
            "pid": self.pid,
            "device": self.device,
            "autocast": self.autocast,
            "capturing": self.capturing,
            "tuned": self.tuned,
            "nvtx": self.nvtx,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedKernel:
    """All that became of one kernel; of Inductor's kernels, one with the same name and the same text."""

    name: str
    file: str | None = None
    line: int | None = None
    compilations: tuple[Compilation, ...] = ()
    loaded: int = 0

    @property
    def compiled(self) -> int:
        """How often it was really compiled, in all processes."""
        return sum(it.action == "compiled" for it in self.compilations)

    @property
    def seconds(self) -> float:
        """That compiling it took, in all processes."""
        return sum(it.seconds for it in self.compilations)

    def to_json(self) -> dict[str, Any]:
        """The kernel as it stands in a command's JSON answer."""
        return {
            "name": self.name,
            "file": self.file,
            "line": self.line,
            "compiled": self.compiled,
            "loaded": self.loaded,
            "seconds": round(self.seconds, 3),
            "compilations": [it.to_json() for it in self.compilations],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledFunction:
    """A Python function that torch.compile compiled, with its reasons to do so again; ``limit``: where it gives up."""

    name: str
    file: str | None = None
    line: int | None = None
    compiled: int = 0
    reasons: tuple[str, ...] = ()
    limit: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The function as it stands in a command's JSON answer."""
        return {
            "name": self.name,
            "file": self.file,
            "line": self.line,
            "compiled": self.compiled,
            "reasons": list(self.reasons),
            "limit": self.limit,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchReport:
    """What was seen.

    Attributes:
        processes: Python processes that were watched.
        tritons: versions of triton that they imported.
        kernels: those compiled most often first.
        functions: that torch.compile compiled, likewise.
        findings: ``recompile-storm`` for each kernel or function above the threshold.
        unsupported: what a hook could not make sense of.
    """

    processes: int = 0
    tritons: tuple[str, ...] = ()
    kernels: tuple[WatchedKernel, ...] = ()
    functions: tuple[CompiledFunction, ...] = ()
    findings: tuple[Finding, ...] = ()
    threshold: int = THRESHOLD
    unsupported: tuple[str, ...] = ()

    @property
    def compiled(self) -> int:
        """Compilations of all kernels."""
        return sum(kernel.compiled for kernel in self.kernels)

    @property
    def loaded(self) -> int:
        """Kernels that were found on disk."""
        return sum(kernel.loaded for kernel in self.kernels)

    @property
    def seconds(self) -> float:
        """That compiling took in all processes together."""
        return sum(kernel.seconds for kernel in self.kernels)

    def to_json(self) -> dict[str, Any]:
        """The report as it stands in a command's JSON answer."""
        return {
            "processes": self.processes,
            "tritons": list(self.tritons),
            "compiled": self.compiled,
            "loaded": self.loaded,
            "seconds": round(self.seconds, 3),
            "threshold": self.threshold,
            "kernels": [kernel.to_json() for kernel in self.kernels],
            "functions": [function.to_json() for function in self.functions],
            "findings": [finding.to_json() for finding in self.findings],
            "unsupported": list(self.unsupported),
        }
