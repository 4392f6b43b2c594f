"""Puts what the hooks of all processes wrote down into one report, with a finding for each storm."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cudalock.watch.causes import Variant, causes_of
from cudalock.watch.model import THRESHOLD, Compilation, CompiledFunction, WatchedKernel, WatchReport
from cudalock.watch.storms import function_storm, kernel_storm

__all__ = ["make_report", "read_events"]


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
