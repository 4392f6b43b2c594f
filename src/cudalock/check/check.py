"""Puts the findings of a lock, a machine and an environment into one report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cudalock.findings import Finding
from cudalock.lock.fit import judge_fit, python_findings

if TYPE_CHECKING:
    from pathlib import Path

    from cudalock.host.model import Host
    from cudalock.lock.environment import InstalledPackages
    from cudalock.lock.model import Lock
    from cudalock.target.model import Target

__all__ = ["check", "CheckReport"]

_SEVERITIES = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What a check found.

    Attributes:
        findings: errors first, then warnings, then what is only worth knowing.
        unknown: what could not be judged because the machine did not tell; that is not a fault.
    """

    findings: tuple[Finding, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong as far as is known."""
        return not any(finding.severity == "error" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The report as it stands in the command's JSON answer."""
        return {
            "passed": self.passed,
            "findings": [finding.to_json() for finding in self.findings],
            "unknown": list(self.unknown),
        }


def check(lock: Lock, *, host_target: Target | Host | None = None, venv: Path | None = None) -> CheckReport:
    """Checks a lock against a machine and, if given, an environment against the lock.

    Args:
        lock: as read; one that was changed by hand is a warning.
        host_target: the machine, as a target or as detected; None leaves the machine out.
        venv: a virtual environment whose contents should be those of the lock.

    Raises:
        UsageError: ``venv-missing``, ``venv-is-file`` or ``venv-invalid``.
    """
    findings = [*_edited(lock)]
    unknown: tuple[str, ...] = ()
    environment = _environment(venv) if venv is not None else None
    python = environment.python if environment else None
    if host_target is not None:
        fit = judge_fit(lock, host_target, python=python)
        findings += fit.findings
        unknown = fit.unknown
    elif python is not None:
        findings += python_findings(lock, python)
    if environment is not None:
        from cudalock.lock.drift import drift_findings

        findings += drift_findings(lock, environment)
    findings.sort(key=lambda finding: _SEVERITIES[finding.severity])
    return CheckReport(findings=tuple(findings), unknown=unknown)


def _environment(venv: Path) -> InstalledPackages:
    from cudalock.lock.environment import read_environment

    return read_environment(venv, files=True)


def _edited(lock: Lock) -> list[Finding]:
    if not lock.ours or lock.digest_ok:
        return []
    return [
        Finding(
            code="lock-digest-mismatch",
            severity="warning",
            message="the lock was changed after cudalock wrote it: its content does not match its digest",
            evidence={"digest": lock.digest},
            fix="`cudalock resolve` makes it anew",
        )
    ]
