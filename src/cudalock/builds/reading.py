"""A build of torch from its file: the table where a row matches, else the wheel itself (rule R7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, cast

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from cudalock import facts
from cudalock.builds.archive import Archive
from cudalock.builds.label import cuda_of, platform_of, triton_requirement
from cudalock.builds.model import Build
from cudalock.builds.wheel import architectures_in_archive
from cudalock.errors import AnswerIsNo
from cudalock.index.model import CoreMetadata, IndexFile, IndexReader
from cudalock.versions import Architecture

__all__ = ["read_build", "version_of"]


def version_of(file: IndexFile, metadata: CoreMetadata) -> Version:
    """The version in the wheel's name, local part included; the metadata's where the name does not parse."""
    try:
        return parse_wheel_filename(file.filename)[1]
    except ValueError:
        return metadata.version


def _own_label(file: IndexFile) -> str | None:
    """The label whose folder the file lies in; pages also list files of the index's root, which say nothing."""
    label = file.page.label
    return label if label and f"/{label}/" in file.url else None


def read_build(
    file: IndexFile,
    metadata: CoreMetadata,
    reader: IndexReader,
    *,
    os: str,
    machine: str,
    environment: Mapping[str, str],
    require_wheel: bool = False,
) -> Build:
    """What one wheel of torch supports.

    Args:
        file: the wheel.
        metadata: of that very wheel.
        reader: through which the wheel is read where the table does not know it (9-12 MB of ranged reads).
        os: ``linux`` or ``windows``, of the target; the wheel's own name outranks it.
        machine: ``x86_64``, ``aarch64``, likewise.
        environment: marker environment of the target, for torch's requirement on triton.
        require_wheel: read the wheel even if the table knows it.

    Raises:
        AnswerIsNo: ``architectures-not-found`` or ``wheel-unreadable``, if the wheel does not tell.
        TransportError: the index does not deliver it.
    """
    if (platform := platform_of(file.filename)) is not None and platform[0] != "macos":
        os, machine = platform
    version = version_of(file, metadata)
    cuda = cuda_of(metadata, file.filename, _own_label(file), environment=environment)
    on_main = file.page.index == "main"
    build = Build(
        version=version,
        cuda=cuda,
        architectures=(),
        triton=triton_requirement(metadata, file.filename, environment=environment),
        os=cast("Literal['linux', 'windows']", os),
        machine=machine,
        source=file.page.index,
        label=file.page.label,
        evidence="wheel",
        origin=file.filename,
    )
    if cuda is None:
        return build
    row = None if require_wheel else facts.torch_row(version, cuda=cuda, os=os, machine=machine, on_main=on_main)
    if row is not None and row.architectures:
        return _with(build, row.architectures, row.evidence, row.source)
    with reader.open(file) as stream:
        architectures = architectures_in_archive(Archive(stream))
    if not architectures:
        raise AnswerIsNo(
            "architectures-not-found",
            f"{file.filename} is a CUDA {cuda} build and names no architectures",
            details={"file": file.filename},
        )
    return _with(build, architectures, "wheel", file.filename)


def _with(
    build: Build,
    architectures: tuple[Architecture, ...],
    evidence: Literal["wheel", "table", "inferred"],
    origin: str,
) -> Build:
    return replace(build, architectures=architectures, evidence=evidence, origin=origin)
