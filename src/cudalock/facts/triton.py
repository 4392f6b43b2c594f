"""Which assembler each release of triton calls for which GPU (R3): ``data/triton.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from packaging.version import Version

from cudalock.facts.loader import cached, table
from cudalock.versions import ComputeCapability, CudaVersion

__all__ = ["triton_limits", "triton_row", "triton_rows", "TritonLimits", "TritonRow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonRow:
    """The assemblers in one release of triton.

    Attributes:
        version: of triton.
        ptxas: CUDA version of the assembler for GPUs below ``blackwell_from`` (for all, if that is None).
        ptxas_blackwell: CUDA version of the second assembler, None if there is none.
        blackwell_from: lowest architecture number for which the second one is called, e.g. 100.
        ptxas_release, ptxas_blackwell_release: full releases, e.g. ``12.8.93``.
        blackwell_override: environment variable that names another second assembler, None if there is none.
        source: where it was read.
    """

    version: Version
    ptxas: CudaVersion
    ptxas_blackwell: CudaVersion | None = None
    blackwell_from: int | None = None
    ptxas_release: str = ""
    ptxas_blackwell_release: str | None = None
    blackwell_override: str | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonLimits:
    """GPUs that triton supports, whatever its assembler knows.

    Attributes:
        lowest: below it torch refuses triton altogether.
        stated: the minimum that triton's own README states; below it simple kernels compile.
        override: environment variable that names another first assembler.
        source: where it was read.
    """

    lowest: ComputeCapability
    stated: ComputeCapability
    override: str
    source: str


@cached
def triton_rows() -> tuple[TritonRow, ...]:
    """Every known release of triton, ascending.

    Source: the binaries in the release's own wheels, see ``data/triton.toml``.
    """
    found: dict[Version, TritonRow] = {}
    for row in table("triton").rows("triton"):
        second = row.text_or_none("ptxas_blackwell")
        lowest = row.number_or_none("blackwell_from")
        if (second is None) != (lowest is None):
            row.fail("'ptxas_blackwell' and 'blackwell_from' go together")
        for version in row.parsed_list("versions", Version):
            if version in found:
                row.fail(f"{version} stands in two rows")
            found[version] = TritonRow(
                version=version,
                ptxas=row.parsed("ptxas", CudaVersion.parse),
                ptxas_blackwell=row.parsed_or_none("ptxas_blackwell", CudaVersion.parse),
                blackwell_from=lowest,
                ptxas_release=row.text("ptxas"),
                ptxas_blackwell_release=second,
                blackwell_override=row.text_or_none("blackwell_override"),
                source=row.source,
            )
    return tuple(found[version] for version in sorted(found))


@cached
def triton_row(version: Version) -> TritonRow | None:
    """The assemblers of one release of triton (a local part of the version is ignored); None if it is unknown."""
    public = Version(version.public)
    return next((row for row in triton_rows() if row.version == public), None)


@cached
def triton_limits() -> TritonLimits:
    """The compute capabilities below which triton does not work, or is not meant to.

    Source: torch's ``GPUTooOldForTriton`` and triton's README, see ``[limits]`` of ``data/triton.toml``.
    """
    row = table("triton").section("limits")
    capability = partial(row.parsed, parse=ComputeCapability.parse)
    return TritonLimits(
        lowest=capability("lowest"),
        stated=capability("stated"),
        override=row.text("override"),
        source=row.source_of(row.text("source")),
    )
