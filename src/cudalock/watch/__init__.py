"""Counts the Triton compilations of a running program and says what caused each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalock import lazy_names

if TYPE_CHECKING:
    from cudalock.watch.causes import Cause, Variant, causes_of
    from cudalock.watch.child import hooked_environment, watch_command
    from cudalock.watch.inside import Watch, watching
    from cudalock.watch.model import THRESHOLD, Compilation, CompiledFunction, WatchedKernel, WatchReport
    from cudalock.watch.report import make_report

__all__ = [
    "Cause",
    "causes_of",
    "Compilation",
    "CompiledFunction",
    "hooked_environment",
    "make_report",
    "THRESHOLD",
    "Variant",
    "Watch",
    "watch_command",
    "WatchedKernel",
    "watching",
    "WatchReport",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "causes": ("Cause", "Variant", "causes_of"),
        "child": ("hooked_environment", "watch_command"),
        "inside": ("Watch", "watching"),
        "model": ("Compilation", "CompiledFunction", "THRESHOLD", "WatchedKernel", "WatchReport"),
        "report": ("make_report",),
    },
)
