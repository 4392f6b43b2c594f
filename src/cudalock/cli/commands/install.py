"""``cudalock install``: the lock becomes an environment, and the GPU compile test proves it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cudalock.cli.command import command as make_command
from cudalock.cli.options import file_options, option
from cudalock.cli.session import Session
from cudalock.cli.wiring import source_rules
from cudalock.errors import AnswerIsNo

if TYPE_CHECKING:
    from cudalock.host import Host
    from cudalock.install import InstallReport
    from cudalock.lock import Lock
    from cudalock.verify import VerifyReport

__all__ = ["command"]


@make_command("install")
@option("--venv", required=True, metavar="DIR", help="The environment to make.")
@option("--lock", default="pylock.toml", show_default=True, metavar="FILE", help="The lock.")
@option("--sync", is_flag=True, help="Install into an existing environment; what the lock does not name is removed.")
@option("--clear", is_flag=True, help="Replace an existing environment.")
@option("--force", is_flag=True, help="Install although the lock does not fit this machine or was edited.")
@option(
    "--wheelhouse", metavar="DIR", help="Take all files from a folder made by `cudalock fetch`, and from nowhere else."
)
@option("--installer", type=click.Choice(["uv", "pip"]), default="uv", show_default=True, help="What installs.")
@option("--python", metavar="X.Y|PATH", help="The Python of the environment; default: the one the lock was made for.")
@option("--download-python", is_flag=True, help="Let uv download a Python that is not here.")
@option("--offline", is_flag=True, help="No network: only what the installer has cached.")
@option("--no-verify", is_flag=True, help="Leave out the GPU compile test.")
@option("--allow-insecure-host", repeatable=True, metavar="HOST", help="Take files from HOST by plain http:// too.")
@file_options
def command(session: Session, venv: str, lock: str, **options: Any) -> int:
    """Builds an environment that holds exactly what the lock names, then compiles and runs kernels in it.

    A machine that contradicts the lock is refused before anything is downloaded. On a machine without a driver the
    kernel is compiled for the lock's GPUs instead, and the GPU remains unproven.
    """
    from cudalock.host import detect
    from cudalock.install import InstallOptions, install
    from cudalock.lock import read_lock

    path = Path(lock)
    document = read_lock(path)
    host = detect(reporter=session.reporter)
    _require_fit(session, document, host, force=options["force"])
    report = install(
        path,
        Path(venv),
        lock=document,
        options=InstallOptions(
            installer=options["installer"],
            sync=options["sync"],
            clear=options["clear"],
            force=options["force"],
            wheelhouse=Path(options["wheelhouse"]) if options["wheelhouse"] else None,
            python=options["python"],
            download_python=options["download_python"],
            offline=options["offline"],
            sources=source_rules(options),
            index_url=session.config.index_url,
            inherit_stderr=sys.stderr.isatty() and session.reporter.verbosity >= 0,
        ),
        reporter=session.reporter,
    )
    if not session.as_json:
        _draw(report)
    verified = None if options["no_verify"] else _verify(session, Path(venv), document, host)
    proven = bool(verified and verified.proven and verified.passed)
    if session.as_json:
        from cudalock.cli.commands.verify import report_json

        session.answer(_as_json(report, proven) | {"verify": report_json(verified) if verified else None})
    elif not proven and document.triple is not None and document.triple.cuda is not None:
        _say_unproven(venv, host, verified)
    return 0 if verified is None or verified.passed else 1


def _require_fit(session: Session, lock: Lock, host: Host, *, force: bool) -> None:
    """Refuses a machine that contradicts the contract, names what is only worth knowing."""
    from cudalock.lock import judge_fit

    fit = judge_fit(lock, host)
    errors = [finding for finding in fit.findings if finding.severity == "error"]
    for finding in fit.findings:
        if finding.severity != "error":
            session.reporter.message("warning" if finding.severity == "warning" else "note", finding.message)
    for unknown in fit.unknown:
        session.reporter.message("note", f"unknown on this machine: {unknown}")
    if not errors:
        return
    if force:
        for finding in errors:
            session.reporter.message(
                "warning", f"{finding.message} (--force: installing all the same)", code=finding.code
            )
        return
    raise AnswerIsNo(
        errors[0].code,
        "; ".join(finding.message for finding in errors),
        hint=errors[0].fix
        or "make a lock for this machine with `cudalock resolve`, or install all the same with --force",
        details={"findings": [finding.to_json() for finding in errors]},
    )


def _verify(session: Session, venv: Path, lock: Lock, host: Host) -> VerifyReport | None:
    """Runs the compile test; without a driver it cross-compiles for the lock's GPUs."""
    from cudalock.cli.commands.verify import draw_report, rung_printer
    from cudalock.verify import capabilities_to_cross_compile, verify

    if lock.triple is None:
        return None  # nothing in the lock leads to torch: there is nothing to prove on a GPU
    archs = () if host.driver or host.gpus else capabilities_to_cross_compile(lock)
    if not (host.driver or host.gpus) and not archs:
        return None
    session.reporter.step("compiling kernels for the lock's GPUs" if archs else "running the GPU compile test")
    report = verify(
        venv, lock=lock, archs=archs, reporter=session.reporter, on_rung=None if session.as_json else rung_printer()
    )
    if not session.as_json:
        draw_report(report)
    return report


def _draw(report: InstallReport) -> None:
    from cudalock.cli.output import emit_text

    if report.up_to_date:
        emit_text(f"{report.venv} already holds exactly what the lock names")
        return
    done = {"installed": report.added, "changed": report.changed, "removed": report.removed}
    done["installed again"] = report.reinstalled
    counts = [f"{len(names)} {what}" for what, names in done.items() if names] or ["0 installed"]
    emit_text(f"{report.venv}: {', '.join(counts)} with {report.installer} (Python {report.python})")


def _as_json(report: InstallReport, proven: bool) -> dict[str, Any]:
    return {
        "venv": str(report.venv),
        "python": report.python,
        "up_to_date": report.up_to_date,
        "created": report.created,
        "installer": report.installer,
        "added": dict(report.added),
        "changed": {name: list(change) for name, change in report.changed.items()},
        "removed": dict(report.removed),
        "reinstalled": dict(report.reinstalled),
        "hosts": list(report.hosts),
        "gpu_proven": proven,
    }


def _say_unproven(venv: str, host: Host, verified: VerifyReport | None) -> None:
    if verified is not None and not verified.passed:
        return  # the report has said what failed
    from cudalock.cli.output import emit_text

    why = "this machine has no NVIDIA driver" if not host.driver else "the compile test was left out"
    emit_text(f"the GPU is not proven: {why}. On the machine with the GPU: cudalock verify --venv {venv}")
