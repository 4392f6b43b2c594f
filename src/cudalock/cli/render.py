"""How findings, reasons and tables look on a terminal. Colour never carries meaning alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cudalock.cli.output import emit_line

if TYPE_CHECKING:
    from cudalock.findings import Finding

__all__ = ["print_error", "print_findings", "print_hint"]

_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}


def print_findings(findings: Iterable[Finding], *, stderr: bool = False) -> None:
    """One block a finding: severity, sentence and code, then cause and fix where there are any."""
    for finding in findings:
        emit_line(
            (f"{finding.severity}: ", _STYLES[finding.severity]),
            finding.message,
            (f" [{finding.code}]", "dim"),
            stderr=stderr,
        )
        if finding.cause:
            emit_line(f"  cause: {finding.cause}", stderr=stderr)
        if finding.fix:
            emit_line(("  fix: ", "bold"), finding.fix, stderr=stderr)


def print_error(message: str, code: str, hint: str | None) -> None:
    """What ended a command, and the next step."""
    emit_line(("error: ", "bold red"), message, (f" [{code}]", "dim"), stderr=True)
    if hint:
        print_hint(hint)


def print_hint(text: str) -> None:
    """A next step, set apart from what stands above it."""
    emit_line("\n", ("hint: ", "bold cyan"), text, stderr=True)
