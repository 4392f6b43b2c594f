"""Puts what the hooks of all processes wrote down into one report, with a finding for each storm."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cudalock.findings import Finding
from cudalock.watch.causes import Cause, Variant, causes_of
from cudalock.watch.storms import function_storm, kernel_storm

__all__ = ["Compilation", "CompiledFunction", "make_report", "read_events", "THRESHOLD", "WatchedKernel", "WatchReport"]

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


@dataclass(kw_only=True)
class _Story:
    """A kernel while its events are read."""

    name: str
    file: str | None
    line: int | None
    compilations: list[Compilation] = field(default_factory=list)
    loaded: int = 0


def read_events(directory: Path) -> list[dict[str, Any]]:
    """All events in a folder, in order of time; half a line at the end of a killed process is left out."""
    events = []
    for path in sorted(directory.glob("events-*.jsonl")):
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                if isinstance(event, dict):
                    events.append(event)
    return sorted(events, key=lambda event: float(event.get("time", 0)))


def make_report(events: Iterable[Mapping[str, Any]], *, threshold: int = THRESHOLD) -> WatchReport:
    """The report of a run.

    Args:
        events: in order of time, as the hook wrote them.
        threshold: compilations of one kernel above which it is a storm.
    """
    stories: dict[tuple[Any, ...], _Story] = {}
    functions: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    processes: set[Any] = set()
    tritons: dict[str, None] = {}
    unsupported: dict[str, None] = {}
    for event in events:
        kind = event.get("event")
        processes.add(event.get("pid"))
        if kind == "kernel":
            _add(stories, event)
        elif kind == "torch-compile":
            functions.setdefault((event.get("file"), event.get("line"), event.get("function")), []).append(event)
        elif kind == "triton" and event.get("version"):
            tritons[str(event["version"])] = None
        elif kind == "unsupported":
            unsupported[str(event.get("error"))] = None
    kernels = [
        WatchedKernel(
            name=story.name,
            file=story.file,
            line=story.line,
            compilations=tuple(story.compilations),
            loaded=story.loaded,
        )
        for story in stories.values()
    ]
    kernels.sort(key=lambda kernel: (-kernel.compiled, kernel.name))
    compiled = sorted((_function(key, its) for key, its in functions.items()), key=lambda it: (-it.compiled, it.name))
    storms = [kernel_storm(kernel, threshold) for kernel in kernels]
    storms += [function_storm(function, threshold) for function in compiled]
    return WatchReport(
        processes=len(processes),
        tritons=tuple(tritons),
        kernels=tuple(kernels),
        functions=tuple(compiled),
        findings=tuple(storm for storm in storms if storm is not None),
        threshold=threshold,
        unsupported=tuple(unsupported),
    )


def _add(stories: dict[tuple[Any, ...], _Story], event: Mapping[str, Any]) -> None:
    name, file, line = str(event.get("kernel")), event.get("file"), event.get("line")
    # Inductor writes a module for each kernel and numbers the names anew in each graph: only the text tells them apart
    generated = "torchinductor" in str(file) or "compile_tasks" in str(event.get("module"))
    key = (name, event.get("source")) if generated else (name, event.get("module"), file, line)
    story = stories.setdefault(key, _Story(name=name, file=file, line=line))
    variant = Variant(
        arguments=event.get("arguments") or {},
        options=event.get("options") or {},
        target=tuple(event.get("target") or ()),
        device=event.get("device"),
        source=event.get("source"),
        tuned=tuple(event.get("tuned") or ()),
    )
    known = [it.variant for it in story.compilations]
    if event.get("action") == "loaded":
        story.loaded += 1
        fingerprint = variant.fingerprint()
        if any(other.fingerprint() == fingerprint for other in known):
            return
    story.compilations.append(
        Compilation(
            action="compiled" if event.get("action") == "compiled" else "loaded",
            causes=causes_of(variant, known),
            seconds=float(event.get("seconds") or 0.0),
            pid=int(event.get("pid") or 0),
            device=event.get("device"),
            autocast=event.get("autocast"),
            capturing=bool(event.get("capturing")),
            tuned=bool(event.get("tuned")),
            nvtx=bool(event.get("nvtx")),
            variant=variant,
        )
    )


def _function(key: tuple[Any, ...], events: list[Mapping[str, Any]]) -> CompiledFunction:
    file, line, name = key
    reasons = Counter(str(event["reason"]).strip() for event in events if event.get("reason"))
    return CompiledFunction(
        name=str(name),
        file=file,
        line=line,
        compiled=len(events),
        reasons=tuple(reason for reason, _ in reasons.most_common()),
        limit=next((event["limit"] for event in events if isinstance(event.get("limit"), int)), None),
    )
