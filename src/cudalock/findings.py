"""One fault, one name: the finding that check, verify, doctor and explain share.

The catalogue of codes is data (``data/findings.toml``); :mod:`cudalock.facts` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Finding", "Severity"]

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong or worth knowing, with the evidence for it.

    Attributes:
        code: a code of the catalogue, e.g. ``gpu-not-in-wheel``.
        severity: ``error`` makes the command's answer no.
        message: one sentence for people.
        evidence: the facts behind it, JSON-serialisable.
        cause: why it is so, where the message does not say it all.
        fix: the cheapest step that mends it, or None.
        fix_verified_by_rules: whether the rules of the triple were applied to the fix and admit it.
    """

    code: str
    severity: Severity
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    cause: str | None = None
    fix: str | None = None
    fix_verified_by_rules: bool = False

    def to_json(self) -> dict[str, Any]:
        """The finding as it stands in a command's JSON answer."""
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "evidence": dict(self.evidence),
            "cause": self.cause,
            "fix": self.fix,
            "fix_verified_by_rules": self.fix_verified_by_rules,
        }
