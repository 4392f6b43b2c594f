"""``cudalock doctor``: what is wrong with this machine or an environment, ranked, with fixes that the rules admit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cudalock.cli.command import command as make_command
from cudalock.cli.options import option
from cudalock.cli.session import Session
from cudalock.errors import UsageError

if TYPE_CHECKING:
    from cudalock.doctor import DoctorReport, Evidence
    from cudalock.findings import Finding
    from cudalock.lock import Lock

__all__ = ["command"]


@make_command("doctor")
@option("--venv", metavar="DIR", help="The environment; default: the active one, else .venv.")
@option("--python", metavar="EXE", help="Its interpreter instead: a system's or conda's Python.")
@option("--facts", metavar="FILE", help="Judge a recorded machine and environment instead; - for stdin.")
@option("--lock", metavar="FILE", help="Also what check says of this lock.")
@option("--containerd", metavar="FILE", help="Also look at containerd's configuration.")
@option("--image", metavar="NAME", help="Also judge a base image, e.g. nvidia/cuda:12.6.3-base-ubuntu24.04.")
def command(
    session: Session,
    venv: str | None,
    python: str | None,
    facts: str | None,
    lock: str | None,
    containerd: str | None,
    image: str | None,
) -> int:
    """Says what is wrong with this machine or environment, most probable cause first. Changes nothing.

    Torch is never imported; the whole takes under ten seconds. Exit status 1 if a finding is an error.
    """
    from cudalock.doctor import containerd_findings, image_findings, make_report, with_lock

    python = None if _only_a_version(python) else python
    if venv and python:
        raise UsageError("options-conflict", "--venv and --python exclude each other", hint="give one of them")
    if facts and (venv or python):
        other = "--venv" if venv else "--python"
        hint = "a facts file stands for machine and environment"
        raise UsageError("options-conflict", f"--facts and {other} exclude each other", hint=hint)
    further: list[Finding] = []
    document = _lock(lock)
    if containerd:
        further += containerd_findings(Path(containerd))
    evidence = _evidence(session, venv, python, facts)
    if document is not None:
        evidence = with_lock(evidence, document, venv=_venv_of(evidence, venv) if not facts else None)
    if image:
        further += image_findings(image, evidence, document)
    report = make_report(evidence, further)
    if not session.answer(report.to_json()):
        _draw(report)
    return 0 if report.healthy else 1


def _only_a_version(python: str | None) -> bool:
    """Whether the environment names a Python version, which is the target's for other commands, and no interpreter."""
    source = click.get_current_context().get_parameter_source("python")
    return bool(
        python and source is click.core.ParameterSource.ENVIRONMENT and re.fullmatch(r"3\.\d+(\.\d+)?t?", python)
    )


def _evidence(session: Session, venv: str | None, python: str | None, facts: str | None) -> Evidence:
    from cudalock.doctor import collect, evidence_from_facts, with_reports

    if facts:
        from cudalock.host import read_facts

        host, environment = read_facts(facts, reporter=session.reporter)
        return with_reports(evidence_from_facts(host, environment))
    session.reporter.step("reading machine and environment")
    return collect(
        venv=Path(venv) if venv else None, python=Path(python) if python else None, reporter=session.reporter
    )


def _lock(name: str | None) -> Lock | None:
    if name is None:
        return None
    from cudalock.lock import read_lock

    return read_lock(Path(name))


def _venv_of(evidence: Evidence, venv: str | None) -> Path | None:
    """The folder of the examined environment, if it is a virtual one: only such a one can be compared with a lock."""
    if venv:
        return Path(venv)
    folder = Path(evidence.environment).parent.parent if evidence.environment else None
    return folder if folder and (folder / "pyvenv.cfg").is_file() else None


def _draw(report: DoctorReport) -> None:
    from cudalock.cli.output import emit_text
    from cudalock.cli.render import print_findings

    examined = report.examined
    machine = f"driver {examined['driver'] or 'unknown'}, {', '.join(examined['gpus']) or 'no GPU known'}"
    torch = f"torch {examined['torch']}" if examined["torch"] else "no torch known"
    emit_text(f"examined: {machine}; {examined['environment'] or 'no environment'}: {torch}")
    if report.findings:
        print_findings(report.findings)
        for finding in report.findings:
            for consequence in finding.evidence.get("consequences", ()):
                if isinstance(consequence, dict):
                    emit_text(f"  {finding.code} brings about: {consequence['message']} [{consequence['code']}]")
    if report.healthy:
        emit_text("nothing wrong" if not report.next else "nothing wrong as far as is known")
    for step in report.next:
        emit_text(f"next: {step}")
