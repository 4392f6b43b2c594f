"""Builds of torch and its companions for an index in memory; their facts are those of cudalock's own tables."""

from __future__ import annotations

from cudalock.index.model import IndexFile
from support.memory_index import LINUX, MemoryIndex

__all__ = ["add_companion", "add_torch", "add_triton", "stock"]

# the CUDA-versioned requirement of each build, as the real wheels state it
_CUDA_REQUIREMENT = {
    "12.4": "nvidia-cuda-runtime-cu12==12.4.127",
    "12.6": "nvidia-cuda-runtime-cu12==12.6.77",
    "12.8": "nvidia-cuda-runtime-cu12==12.8.90",
    "13.0": "cuda-toolkit[cudart]==13.0.2",
    "13.2": "cuda-toolkit[cudart]==13.2.2",
    "13.4": "cuda-toolkit[cudart]==13.4.0",
}


def add_torch(
    index: MemoryIndex,
    version: str,
    cuda: str,
    *,
    label: str | None = None,
    triton: str | None = None,
    tags: str = LINUX,
    content: bytes | None = None,
) -> IndexFile:
    """One build of torch; with a label it lies on that page of the PyTorch index and carries it in its version."""
    needs = [_CUDA_REQUIREMENT[cuda] + '; platform_system == "Linux"', "filelock"]
    if triton is not None:
        needs.append(f'triton{triton}; platform_system == "Linux"')
    full = f"{version}+{label}" if label else version
    return index.add("torch", full, *needs, label=label, tags=tags, content=content)


def add_triton(index: MemoryIndex, *versions: str, tags: str = LINUX, label: str | None = None) -> None:
    """Releases of triton; with a label they lie in the root of the PyTorch index and are listed on that page."""
    for version in versions:
        index.add("triton", version, tags=tags, label=label, folder="" if label else None)


def add_companion(
    index: MemoryIndex, name: str, version: str, *requires: str, label: str | None = None, tags: str = LINUX
) -> IndexFile:
    """One file of a compiled companion."""
    return index.add(name, f"{version}+{label}" if label else version, *requires, label=label, tags=tags)


def stock(index: MemoryIndex) -> MemoryIndex:
    """torch 2.9.1 to 2.15.0 from both indexes as far as the tests need them, with triton and the CUDA wheels."""
    for version in ("12.4.127", "12.6.77", "12.8.90"):
        index.add("nvidia-cuda-runtime-cu12", version, tags="py3-none-manylinux_2_17_x86_64")
    for toolkit, runtime in {"13.0.2": "13.0.96", "13.2.2": "13.2.86", "13.4.0": "13.4.10"}.items():
        index.add("cuda-toolkit", toolkit, extras={"cudart": [f"nvidia-cuda-runtime=={runtime}"]})
        index.add("nvidia-cuda-runtime", runtime, tags="py3-none-manylinux_2_17_x86_64")
    index.add("filelock", "3.20")
    add_triton(index, "3.2.0", "3.5.1", "3.6.0", "3.8.0", "3.9.0")
    add_torch(index, "2.15.0", "13.2", triton="~=3.9.0")
    for cuda, label in {"13.0": "cu130", "13.2": "cu132", "13.4": "cu134"}.items():
        add_torch(index, "2.15.0", cuda, label=label, triton="~=3.9.0")
    add_torch(index, "2.14.1", "13.0", triton="~=3.8.0")
    for cuda, label in {"12.6": "cu126", "13.0": "cu130", "13.2": "cu132"}.items():
        add_torch(index, "2.14.1", cuda, label=label, triton="~=3.8.0")
    add_torch(index, "2.11.0", "13.0", triton="==3.6.0")
    for cuda, label in {"12.6": "cu126", "12.8": "cu128", "13.0": "cu130"}.items():
        add_torch(index, "2.11.0", cuda, label=label, triton="==3.6.0")
    add_torch(index, "2.9.1", "12.8", triton="==3.5.1")
    for cuda, label in {"12.6": "cu126", "12.8": "cu128", "13.0": "cu130"}.items():
        add_torch(index, "2.9.1", cuda, label=label, triton="==3.5.1")
    add_torch(index, "2.6.0", "12.4", triton="==3.2.0")
    return index
