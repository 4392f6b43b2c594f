"""Small wheels that look like torch's and triton's from outside, with the texts that cudalock reads in them."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterable, Mapping

from packaging.utils import canonicalize_name

from cudalock.errors import TransportError
from cudalock.index.metadata import parse_metadata
from cudalock.index.model import CoreMetadata, IndexFile, PageRef, ProjectPage
from support.wheels import make_metadata, make_wheel

__all__ = ["MemoryReader", "index_file", "metadata_of", "noise", "torch_library", "torch_wheel", "triton_wheel"]


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that do not compress, with no accidental text in them."""
    return random.Random(seed).randbytes(size).replace(b"sm_", b"SM_")


def torch_library(architectures: str, *, at: int = 100_000, size: int = 200_000, before: bytes = b"\0") -> bytes:
    """A ``libtorch_python.so`` with torch's text at offset ``at``."""
    text = before + architectures.encode() + b"\0"
    return b"\x7fELF" + noise(at - 4, 1) + text + noise(max(0, size - at - len(text)), 2)


def torch_wheel(
    version: str,
    architectures: str | None,
    *,
    requires: Iterable[str] = (),
    platform: str = "manylinux_2_28_x86_64",
    library: bytes | None = None,
    name_of_library: str = "torch/lib/libtorch_python.so",
    stored: bool = False,
) -> tuple[str, bytes]:
    """A wheel of torch; ``architectures`` None: a CPU build."""
    content = library if library is not None else torch_library(architectures) if architectures else noise(50_000)
    files = {"torch/__init__.py": b"", name_of_library: content, "torch/version.py": b"", "torch/last.bin": noise(2000)}
    return make_wheel(
        "torch",
        version,
        requires=requires,
        python_tag="cp312",
        abi="cp312",
        platform=platform,
        files=files,
        stored=stored,
    )


def triton_wheel(version: str, ptxas: str, blackwell: str | None = None, *, selection: str = "") -> tuple[str, bytes]:
    """A wheel of triton with assemblers that tell these releases."""

    def assembler(release: str) -> bytes:
        short = ".".join(release.split(".")[:2])
        return noise(70_000, 3) + f"\0Cuda compilation tools, release {short}, V{release}\0".encode() + noise(5000, 4)

    folder = "triton/backends/nvidia"
    files = {
        "triton/__init__.py": b"",
        f"{folder}/compiler.py": selection.encode(),
        f"{folder}/bin/ptxas": assembler(ptxas),
    }
    if blackwell:
        files[f"{folder}/bin/ptxas-blackwell"] = assembler(blackwell)
    platform = "manylinux_2_28_x86_64"
    return make_wheel("triton", version, python_tag="cp312", abi="cp312", platform=platform, files=files)


def metadata_of(version: str, requires: Iterable[str] = (), *, name: str = "torch") -> CoreMetadata:
    """Core metadata as the index client gives it."""
    return parse_metadata(make_metadata(name, version, requires=requires), "test")


def index_file(filename: str, *, index: str = "main", label: str | None = None, root: bool = False) -> IndexFile:
    """A file as listed: on the main index, or on a label's page (``root``: listed there, lying in the root)."""
    project = canonicalize_name(filename.partition("-")[0])
    folder = f"whl/{label}" if label and not root else "whl" if label else "files"
    url = f"https://index.example/{folder}/{filename.replace('+', '%2B')}"
    return IndexFile(page=PageRef(index, project, label), url=url, filename=filename)


class MemoryReader:
    """An index reader over wheels in memory; remembers which were opened."""

    def __init__(self, wheels: Mapping[str, bytes]) -> None:
        self._wheels = wheels
        self.opened: list[str] = []

    def page(self, ref: PageRef) -> ProjectPage:
        raise TransportError("index-unreachable", f"{ref} is not asked for here")

    def metadata(self, file: IndexFile) -> CoreMetadata:
        raise TransportError("index-unreachable", f"{file.filename} is not asked for here")

    def open(self, file: IndexFile) -> io.BytesIO:
        self.opened.append(file.filename)
        return io.BytesIO(self._wheels[file.filename])

    def sha256(self, file: IndexFile) -> str:
        raise TransportError("index-unreachable", f"{file.filename} is not asked for here")

    def ahead(self, task: Callable[[], object]) -> None:
        """Drops it, as a reader may."""

    def prefetch(self, *, pages: Iterable[PageRef] = (), metadata: Iterable[IndexFile] = ()) -> None:
        pass
