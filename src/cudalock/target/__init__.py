"""The machine a lock is made for: from options, configuration, an existing lock or the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalock import lazy_names

if TYPE_CHECKING:
    from cudalock.target.build import build_target, needs_host_gpus, with_gpus
    from cudalock.target.model import Platform, PythonVersion, Target, TargetGpu
    from cudalock.target.platforms import marker_environment, parse_platform, parse_python, wheel_tags
    from cudalock.target.sources import RecordedTarget, TargetOptions

__all__ = [
    "Platform",
    "PythonVersion",
    "RecordedTarget",
    "Target",
    "TargetGpu",
    "TargetOptions",
    "build_target",
    "marker_environment",
    "needs_host_gpus",
    "parse_platform",
    "parse_python",
    "wheel_tags",
    "with_gpus",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "build": (
            "build_target",
            "needs_host_gpus",
            "with_gpus",
        ),
        "model": (
            "Platform",
            "PythonVersion",
            "Target",
            "TargetGpu",
        ),
        "platforms": (
            "marker_environment",
            "parse_platform",
            "parse_python",
            "wheel_tags",
        ),
        "sources": (
            "RecordedTarget",
            "TargetOptions",
        ),
    },
)
