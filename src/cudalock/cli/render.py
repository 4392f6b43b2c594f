"""How findings, reasons and tables look on a terminal. Colour never carries meaning alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.text import Text

from cudalock.cli.output import clean

if TYPE_CHECKING:
    from rich.console import Console

    from cudalock.findings import Finding

__all__ = ["print_findings", "print_hint"]

_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}


def print_findings(console: Console, findings: Iterable[Finding]) -> None:
    """One block a finding: severity, sentence and code, then cause and fix where there are any."""
    for finding in findings:
        line = Text()
        line.append(f"{finding.severity}: ", style=_STYLES[finding.severity])
        line.append(clean(finding.message))
        line.append(f" [{finding.code}]", style="dim")
        console.print(line)
        if finding.cause:
            console.print(Text(f"  cause: {clean(finding.cause)}"))
        if finding.fix:
            fix = Text("  fix: ", style="bold")
            fix.append(clean(finding.fix), style="not bold")
            console.print(fix)


def print_hint(console: Console, text: str) -> None:
    """A next step, set apart from what stands above it."""
    hint = Text("\n")
    hint.append("hint: ", style="bold cyan")
    hint.append(clean(text))
    console.print(hint)
