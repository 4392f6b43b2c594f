"""A build: what one wheel of one release of torch really supports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # named in annotations only
    from packaging.requirements import Requirement
    from packaging.version import Version

    from cudalock.versions import Architecture, CudaVersion

__all__ = ["Build", "Evidence", "TritonRelease"]

Evidence = Literal["wheel", "table", "inferred"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One build of torch.

    Attributes:
        version: as in the wheel's name, local part included (``2.14.1+cu126``; PyPI's own has none).
        cuda: the CUDA release it was built with; None for a CPU build.
        architectures: machine code and PTX in it, ascending; empty for a CPU build.
        triton: torch's own requirement on triton (or pytorch-triton), None if it has none on this platform and Python.
        triton_required: it requires one although ``triton`` is None: the requirement itself is not known.
        os, machine: ``linux`` / ``x86_64`` and so on.
        source: ``main`` or ``pytorch``; ``label`` the page of the PyTorch index it lies on.
        evidence: where ``cuda`` and ``architectures`` come from: the wheel itself, our tables, or inferred.
        origin: a human-readable source of the evidence (table row's source, or the file that was read).
    """

    version: Version
    cuda: CudaVersion | None
    architectures: tuple[Architecture, ...]
    triton: Requirement | None = None
    triton_required: bool = False
    os: Literal["linux", "windows"] = "linux"
    machine: str = "x86_64"
    source: str = "main"
    label: str | None = None
    evidence: Evidence = "table"
    origin: str = ""

    @property
    def is_cpu(self) -> bool:
        """Whether the build has no CUDA in it at all."""
        return self.cuda is None

    @property
    def needs_triton(self) -> bool:
        """Whether torch requires a triton on this platform and Python."""
        return self.triton is not None or self.triton_required


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonRelease:
    """Which assembler a release of triton calls for which GPU.

    Attributes:
        version: of triton.
        ptxas: release of the assembler for GPUs below ``blackwell_from`` (all GPUs if that is None), e.g. (12, 8).
        ptxas_blackwell: release of the second assembler, None if there is none.
        blackwell_from: lowest architecture number (sm number, e.g. 100) for which the second assembler is called.
        evidence: ``table`` or ``wheel``.
    """

    version: Version
    ptxas: CudaVersion
    ptxas_blackwell: CudaVersion | None = None
    blackwell_from: int | None = None
    evidence: Evidence = "table"
    origin: str = ""
