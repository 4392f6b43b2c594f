"""``cudalock explain``: error texts and logs -> what broke first, and what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import click

from cudalock.cli.command import command as make_command
from cudalock.cli.session import Session
from cudalock.errors import UsageError

__all__ = ["command"]


@make_command("explain")
@click.argument("files", nargs=-1, metavar="[FILE...|-]")
def command(session: Session, files: tuple[str, ...]) -> int:
    """Names the faults in error texts and logs: tracebacks, output of pip and uv, logs of containers and clusters.

    Logs that belong together are given together. Without FILE, or for -, standard input is read. Exit status 1 if a
    finding is an error, 0 if nothing is recognised or it is a warning whose cause stays open.
    """
    from cudalock.explain import explain

    with ExitStack() as opened:
        explanation = explain(_sources(files, opened), reporter=session.reporter)
    if not session.answer(explanation.to_json()):
        _draw(explanation)
    return 1 if explanation.failed else 0


def _sources(files: tuple[str, ...], opened: ExitStack) -> Iterator[tuple[str, BinaryIO]]:
    if not files and sys.stdin.isatty():
        raise UsageError(
            "log-missing",
            "there is nothing to explain",
            hint="give a FILE, or pipe a log in: CMD 2>&1 | cudalock explain",
        )
    for name in files or ("-",):
        if name == "-":
            yield "<stdin>", sys.stdin.buffer
            continue
        try:
            stream = Path(name).open("rb")  # noqa: SIM115 - closed by the stack, after it was read
        except (OSError, ValueError) as error:
            hint = "give text files, or - to read what is piped in"
            raise UsageError("log-unreadable", f"{name} cannot be read: {error}", hint=hint) from error
        yield name, opened.enter_context(stream)


def _draw(explanation: Any) -> None:
    from cudalock.cli.output import emit_text
    from cudalock.cli.render import print_findings

    if explanation.first_stage:
        first = explanation.findings[0].evidence
        emit_text(f"first broken stage: {explanation.first_stage} ({first['where']})")
    for finding in explanation.findings:
        emit_text("")
        print_findings([finding])
        _draw_evidence(finding.evidence)
    if explanation.unknown:
        open_causes = any(finding.severity != "info" for finding in explanation.findings)
        known = "several causes are possible" if open_causes else "unknown: no fault in this text is recognised"
        emit_text(("\n" if explanation.findings else "") + known)
        emit_text("to collect next:")
        for item in explanation.collect:
            emit_text(f"  - {item}")


def _draw_evidence(evidence: Any) -> None:
    from cudalock.cli.output import emit_text

    times = f" ({evidence['count']} times)" if evidence["count"] > 1 else ""
    emit_text(f"  seen: {evidence['where']}: {evidence['line']}{times}")
    for one in evidence.get("possible", ()):
        emit_text(f"  possible: {one['cause']}\n    to tell: {one['tell']}")
    for one in evidence.get("consequences", ()):
        emit_text(f"  brings about: {one['message']} [{one['code']}] at {one['where']}")
