"""Finds what is wrong with a machine or an environment, and the cheapest fix that the rules admit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudalock.doctor.collect import collect
from cudalock.doctor.model import DoctorReport, Evidence
from cudalock.doctor.replay import evidence_from_facts
from cudalock.doctor.rules import diagnose, next_steps
from cudalock.doctor.rules.images import lint_containerd, lint_image
from cudalock.doctor.rules.ranking import rank
from cudalock.doctor.rules.situation import Situation
from cudalock.errors import UsageError
from cudalock.files import read_file
from cudalock.findings import Finding

if TYPE_CHECKING:
    from cudalock.lock.model import Lock

__all__ = [
    "DoctorReport",
    "Evidence",
    "collect",
    "containerd_findings",
    "diagnose",
    "evidence_from_facts",
    "image_findings",
    "make_report",
    "with_lock",
    "with_reports",
]


def with_reports(evidence: Evidence, errors: Iterable[str] = ()) -> Evidence:
    """The evidence with what explain's patterns make of the texts that programs printed."""
    texts = (*evidence.errors, *errors)
    if not texts:
        return evidence
    from cudalock.explain import explain_text

    # one text: what a program printed belongs together, and one line may be the consequence of another
    return replace(evidence, errors=texts, reported=explain_text("\n".join(texts)).findings)


def with_lock(evidence: Evidence, lock: Lock, *, venv: Path | None = None) -> Evidence:
    """The evidence with what ``check`` says of a lock, on this machine and for that environment."""
    from cudalock.check import check

    report = check(lock, host_target=evidence.host, venv=venv)
    # what check only notes about the machine, the doctor's own rules say as well
    findings = tuple(one for one in report.findings if one.severity != "info")
    return replace(evidence, lock=findings)


def containerd_findings(path: Path) -> tuple[Finding, ...]:
    """Whether containerd's configuration declares the NVIDIA runtime as containerd understands it.

    Raises:
        UsageError: ``containerd-config-missing`` or ``containerd-config-invalid``.
    """
    try:
        text = read_file(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = "give containerd's config.toml, usually /etc/containerd/config.toml"
        raise UsageError("containerd-config-missing", f"{path} cannot be read: {error}", hint=hint) from error
    return lint_containerd(text, str(path))


def image_findings(name: str, evidence: Evidence, lock: Lock | None) -> tuple[Finding, ...]:
    """What is wrong with a base image of nvidia/cuda for this driver and lock.

    Raises:
        UsageError: ``image-unknown``.
    """
    return tuple(lint_image(name, Situation(evidence), lock))


def make_report(evidence: Evidence, further: Iterable[Finding] = ()) -> DoctorReport:
    """The diagnosis of the evidence, with findings from elsewhere (image, containerd) ranked among its own."""
    own = diagnose(evidence)
    findings = rank((*own, *further))
    return DoctorReport(findings=findings, next=next_steps(evidence, findings), examined=_examined(evidence))


def _examined(evidence: Evidence) -> Mapping[str, Any]:
    torch = evidence.torch
    return {
        "environment": evidence.environment,
        "python": evidence.python,
        "driver": str(evidence.host.driver) if evidence.host.driver else None,
        "gpus": [gpu.name or str(gpu.compute_capability) for gpu in evidence.host.gpus],
        "torch": str(torch.version) if torch and torch.version else None,
        "torch_cuda": str(torch.cuda) if torch and torch.cuda else None,
        "distributions": len(evidence.distributions),
        "libraries": {one.soname: one.path for one in evidence.libraries},
        "variables": dict(evidence.variables),
        "seconds": dict(evidence.seconds),
    }
