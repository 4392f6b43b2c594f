"""``cudalock watch``: which Triton kernels a program compiles, and why again."""

from __future__ import annotations

import os
import sys
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import click

from cudalock.cli.command import command as make_command
from cudalock.cli.commands.run import program_environment
from cudalock.cli.options import option
from cudalock.cli.session import Session

if TYPE_CHECKING:
    from cudalock.watch.model import WatchReport

__all__ = ["command"]

_SHOWN = 12


@make_command("watch")
@option("--venv", metavar="DIR", help="Run the program in this environment.")
@option(
    "--threshold",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Compilations of one kernel above which it is a storm.",
)
@click.argument("program", nargs=-1, type=click.UNPROCESSED, required=True)
def command(session: Session, venv: str | None, threshold: int, program: tuple[str, ...]) -> int:
    """Runs PROGRAM and counts the Triton kernels that it compiles, with the cause of each.

    The report goes to stderr when PROGRAM has ended; with --json it goes to stdout, and PROGRAM's own output to stderr.
    The exit status is PROGRAM's own. With a GPU, compilations are marked for NVIDIA's profilers (NVTX).
    """
    from cudalock.watch import watch_command

    status, report = watch_command(
        program,
        environ=program_environment(venv, os.environ),
        threshold=threshold,
        stdout=sys.stderr.fileno() if session.as_json else None,
    )
    if not session.answer({"program": list(program), "status": status, **report.to_json()}):
        _draw(report, verbose=session.reporter.verbosity > 0)
    return status


def _draw(report: WatchReport, *, verbose: bool) -> None:
    from cudalock.cli.output import emit_line
    from cudalock.cli.render import print_findings

    line = partial(emit_line, stderr=True)

    if not report.processes:
        line("cudalock watch: no Python process was seen; a Python with -I, -E or -S ignores the hook")
        return
    versions = ", ".join(report.tritons) or "not imported"
    line(
        f"cudalock watch: triton {versions}; {report.compiled} kernels compiled in {report.seconds:.1f} s,"
        f" {report.loaded} loaded from the cache, {report.processes} Python processes"
    )
    for kernel in report.kernels[: None if verbose else _SHOWN]:
        line(f"{kernel.name}: {kernel.compiled} compiled, {kernel.loaded} loaded, {kernel.seconds:.1f} s")
        if verbose:
            for one in kernel.compilations:
                notes = [f"autocast {one.autocast}"] if one.autocast else []
                notes += ["while a CUDA graph was captured"] if one.capturing else []
                tail = f" ({', '.join(notes)})" if notes else ""
                line(f"  {one.action}: {'; '.join(map(str, one.causes))}{tail}")
        else:
            causes = Counter(
                f"{cause.kind} {cause.argument or ''}".strip()
                for one in kernel.compilations
                if one.action == "compiled"
                for cause in one.causes
                if cause.kind != "first"
            )
            for text, count in causes.most_common(4):
                line(f"  {count} x {text}")
    if not verbose and len(report.kernels) > _SHOWN:
        line(f"and {len(report.kernels) - _SHOWN} more: -v shows all, with the cause of each compilation")
    for function in report.functions:
        if function.compiled > 1:
            reason = f": {function.reasons[0]}" if function.reasons else ""
            line(f"torch.compile compiled {function.name} {function.compiled} times{reason}")
    for text in report.unsupported:
        line(f"not understood: {text}")
    print_findings(report.findings, stderr=True)


command.allow_interspersed_args = False
