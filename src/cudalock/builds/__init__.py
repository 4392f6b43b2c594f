"""What a wheel of torch or triton really supports: from the tables, else out of the wheel."""

from cudalock.builds.assembler import known_triton, triton_release
from cudalock.builds.inspection import Inspection, inspect_file, inspect_venv, inspect_wheel
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
    "inspect_venv",
    "inspect_wheel",
    "known_triton",
    "platform_of",
    "read_build",
    "triton_release",
    "triton_requirement",
]
