"""The catalogue of findings: ``data/findings.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cudalock.facts.loader import Row, cached, table

__all__ = ["finding_codes", "FindingRow"]

_SEVERITIES: Mapping[str, Literal["error", "warning", "info"]] = {
    "error": "error",
    "warning": "warning",
    "info": "info",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    """One fault with its one name.

    Attributes:
        code: kebab-case name.
        severity: how bad it is unless the place that reports it says otherwise.
        group: ``machine``, ``wheels``, ``triton``, ``extensions`` or ``locks``.
        title: a phrase.
        meaning: what is wrong and why.
        fix: the next step.
    """

    code: str
    severity: Literal["error", "warning", "info"]
    group: str
    title: str
    meaning: str
    fix: str


def _finding(code: str, row: Row) -> FindingRow:
    severity = row.text("severity")
    if severity not in _SEVERITIES:
        row.fail(f"unknown severity {severity!r}")
    return FindingRow(
        code=code,
        severity=_SEVERITIES[severity],
        group=row.text("group"),
        title=row.text("title"),
        meaning=row.text("meaning"),
        fix=row.text("fix"),
    )


@cached
def finding_codes() -> Mapping[str, FindingRow]:
    """Every finding by its code, in the order of the table."""
    rows = table("findings").by_key("finding", lambda row: row.text("code"))
    return {code: _finding(code, row) for code, row in rows.items()}
