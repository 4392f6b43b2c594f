"""What verification found: one outcome per rung, judged into a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cudalock.findings import Finding

__all__ = ["Rung", "VerifyReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One rung of the ladder and how it ended; ``detail`` is its measurement or the error's own words."""

    name: str
    outcome: Literal["passed", "failed", "skipped", "timeout", "crashed"]
    seconds: float = 0.0
    detail: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """All rungs in order, and the finding that the first failing rung names.

    ``proven`` is True only if kernels ran on every visible GPU; a cross-compilation alone proves nothing of the kind.
    """

    rungs: tuple[Rung, ...]
    findings: tuple[Finding, ...] = ()
    proven: bool = False

    @property
    def passed(self) -> bool:
        """Whether no rung failed and no finding is an error."""
        return not any(r.outcome in {"failed", "timeout", "crashed"} for r in self.rungs) and not any(
            f.severity == "error" for f in self.findings
        )
