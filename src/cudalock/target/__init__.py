"""The machine a lock is made for: from options, configuration, an existing lock or the host."""

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
