"""What a wheel of torch or triton really supports: from the tables, else out of the wheel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalock import lazy_names

if TYPE_CHECKING:
    from cudalock.builds.assembler import known_triton, triton_release
    from cudalock.builds.inspection import Inspection, inspect_file, inspect_site, inspect_venv, inspect_wheel
    from cudalock.builds.label import cuda_of, cuda_of_label, platform_of, triton_requirement
    from cudalock.builds.model import Build, Evidence, TritonRelease
    from cudalock.builds.reading import read_build
    from cudalock.builds.wheel import architectures_in

__all__ = [
    "Build",
    "Evidence",
    "Inspection",
    "TritonRelease",
    "architectures_in",
    "cuda_of",
    "cuda_of_label",
    "inspect_file",
    "inspect_site",
    "inspect_venv",
    "inspect_wheel",
    "known_triton",
    "platform_of",
    "read_build",
    "triton_release",
    "triton_requirement",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "assembler": (
            "known_triton",
            "triton_release",
        ),
        "inspection": (
            "Inspection",
            "inspect_file",
            "inspect_site",
            "inspect_venv",
            "inspect_wheel",
        ),
        "label": (
            "cuda_of",
            "cuda_of_label",
            "platform_of",
            "triton_requirement",
        ),
        "model": (
            "Build",
            "Evidence",
            "TritonRelease",
        ),
        "reading": ("read_build",),
        "wheel": ("architectures_in",),
    },
)
