"""NCCL releases with reported trouble: ``data/nccl.toml``."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from cudalock.facts.loader import Row, cached, table

__all__ = ["nccl_known_bad", "nccl_trouble", "NcclRow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclRow:
    """NCCL releases with reported trouble.

    Attributes:
        versions: which releases.
        symptom: what goes wrong.
        fixed_in: which release mends it, in words; None if unknown.
        workaround: an environment variable or the like; None if unknown.
        references: issue threads.
        strength: ``fixed`` (a maintainer names the fix), ``issue`` (reported with a way to reproduce) or ``claim``.
        source: where it was read.
    """

    versions: SpecifierSet
    symptom: str
    fixed_in: str | None
    workaround: str | None
    references: tuple[str, ...]
    strength: str
    source: str


def _specifier(text: str) -> SpecifierSet:
    try:
        return SpecifierSet(text)
    except ValueError as error:
        raise ValueError(str(error)) from error


def _nccl_row(row: Row) -> NcclRow:
    strength = row.text("strength")
    if strength not in {"fixed", "issue", "claim"}:
        row.fail(f"unknown strength {strength!r}")
    return NcclRow(
        versions=row.parsed("versions", _specifier),
        symptom=row.text("symptom"),
        fixed_in=row.text_or_none("fixed_in"),
        workaround=row.text_or_none("workaround"),
        references=row.texts("references"),
        strength=strength,
        source=row.source,
    )


@cached
def nccl_known_bad() -> tuple[NcclRow, ...]:
    """All NCCL releases with reported trouble. Source: the issue threads that each row names."""
    return tuple(_nccl_row(row) for row in table("nccl").rows("nccl"))


def nccl_trouble(version: Version) -> tuple[NcclRow, ...]:
    """The reported troubles of one NCCL release."""
    return tuple(row for row in nccl_known_bad() if row.versions.contains(version, prereleases=True))
