"""``cudalock run``: check, then become the program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cudalock.cli.command import command as make_command
from cudalock.cli.options import option
from cudalock.cli.session import Session
from cudalock.errors import ToolError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cudalock.check import CheckReport

__all__ = ["command", "program_environment"]


@make_command("run")
@option("--lock", default="pylock.toml", show_default=True, metavar="FILE", help="The lock.")
@option("--venv", metavar="DIR", help="Compare this environment with the lock, and run the program in it.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, required=True)
def command(session: Session, lock: str, venv: str | None, program: tuple[str, ...]) -> int:
    """Checks the lock against this machine, then runs PROGRAM in place of cudalock.

    On a mismatch the findings are printed and PROGRAM does not start (exit status 1). Otherwise the exit status and
    the signals are PROGRAM's own. Options of cudalock stand before the --.
    """
    from cudalock.check import check
    from cudalock.host import detect
    from cudalock.lock import read_lock

    report = check(read_lock(Path(lock)), host_target=detect(), venv=Path(venv) if venv else None)
    if not report.passed:
        if not session.answer({"lock": lock, **report.to_json()}):
            _draw(report, least="info")
        return 1
    if session.reporter.verbosity >= 0:
        _draw(report, least="info" if session.reporter.verbosity > 0 else "warning")
    return _become(program, program_environment(venv, os.environ))


def program_environment(venv: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that runs in a virtual environment: its programs first, as activation does it."""
    if venv is None:
        return dict(environ)
    home = Path(venv).absolute()
    scripts = home / ("Scripts" if sys.platform == "win32" else "bin")
    kept = {name: value for name, value in environ.items() if name != "PYTHONHOME"}
    path = os.pathsep.join([str(scripts), *([environ["PATH"]] if environ.get("PATH") else [])])
    return {**kept, "PATH": path, "VIRTUAL_ENV": str(home)}


def _draw(report: CheckReport, *, least: str) -> None:
    findings = [finding for finding in report.findings if least == "info" or finding.severity != "info"]
    if findings:
        from cudalock.cli.render import print_findings

        print_findings(findings, stderr=True)


def _become(program: tuple[str, ...], environ: dict[str, str]) -> int:
    # an empty part of PATH means the current folder; which says None for a name that is nowhere
    if not program[0]:
        raise UsageError("usage", "the program's name is empty", hint="cudalock run [OPTIONS] -- PROGRAM [ARGUMENTS]")
    found = shutil.which(program[0], path=environ.get("PATH"))
    if found is None:
        raise ToolError(
            "program-not-found",
            f"there is no program {program[0]!r}",
            hint="check the name, or give the environment that has it with --venv DIR",
        )
    sys.stdout.flush()
    sys.stderr.flush()
    if sys.platform == "win32":  # exec there would detach the program from the terminal
        return subprocess.run([found, *program[1:]], env=environ, check=False).returncode
    try:
        os.execve(found, program, environ)  # noqa: S606 - becoming the user's own program is the point
    except OSError as error:
        raise ToolError(
            "program-not-started", f"{found} does not start: {error.strerror or error}", hint="check the file"
        ) from error


command.allow_interspersed_args = False
