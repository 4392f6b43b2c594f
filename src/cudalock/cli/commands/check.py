"""``cudalock check``: the lock against this machine, and an environment against the lock; offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cudalock.cli.command import command as make_command
from cudalock.cli.options import option, target_options
from cudalock.cli.session import Session
from cudalock.cli.wiring import TARGET_NAMES, make_target

__all__ = ["command"]


@make_command("check")
@option("--lock", default="pylock.toml", show_default=True, metavar="FILE", help="The lock.")
@option(
    "--venv",
    metavar="DIR",
    help="Also compare this environment with the lock: versions, and whether files are gone or altered.",
)
@target_options()
def command(session: Session, lock: str, venv: str | None, **options: Any) -> int:
    """Says whether the lock is valid for this machine, for every GPU. Offline, and without importing torch.

    Target options check the lock against another machine. Exit status 1 if something is wrong.
    """
    from cudalock.check import check
    from cudalock.lock import read_lock

    document = read_lock(Path(lock))
    report = check(document, host_target=_machine(session, options), venv=Path(venv) if venv else None)
    if not session.answer({"lock": lock, **report.to_json()}):
        _draw(lock, report)
    return 0 if report.passed else 1


def _machine(session: Session, options: dict[str, Any]) -> Any:
    """The machine as detected (with its gaps), or the one that options describe."""
    name = options.pop("target")
    if name or any(options[key] for key in TARGET_NAMES if key != "facts"):
        return make_target(session, options, name=name)
    if options["facts"]:
        from cudalock.host import read_facts

        return read_facts(options["facts"], reporter=session.reporter)[0]
    from cudalock.host import detect

    return detect(reporter=session.reporter)


def _draw(lock: str, report: Any) -> None:
    from cudalock.cli.output import emit_text

    if report.findings:
        from cudalock.cli.render import print_findings

        print_findings(report.findings)
    for item in report.unknown:
        emit_text(f"unknown: {item}")
    if report.passed:
        emit_text(f"{lock}: nothing wrong" if not report.unknown else f"{lock}: nothing wrong as far as is known")
