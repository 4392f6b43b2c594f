"""``cudalock fetch``: the lock's files into a folder, for machines without network."""

from __future__ import annotations

from pathlib import Path

import click

from cudalock.cli.command import command as make_command
from cudalock.cli.options import file_options, index_options, option
from cudalock.cli.session import Session
from cudalock.cli.wiring import index_settings, source_rules

__all__ = ["command"]


@make_command("fetch")
@click.argument("folder", metavar="DIR")
@option("--lock", default="pylock.toml", show_default=True, metavar="FILE", help="The lock.")
@option("--force", is_flag=True, help="Take a lock that was edited by hand.")
@file_options
@index_options
def command(session: Session, folder: str, lock: str, force: bool, **options: object) -> int:
    """Stores every file of the lock in DIR, each checked against its sha256.

    An interrupted run goes on where it stopped. Then, where there is no network:
    `cudalock install --wheelhouse DIR --venv .venv`.
    """
    from cudalock.install import fetch

    report = fetch(
        Path(lock),
        Path(folder),
        settings=index_settings(session, options),
        rules=source_rules(options),
        force=force,
        reporter=session.reporter,
    )
    payload = {
        "folder": str(report.folder),
        "lock": str(report.lock),
        "fetched": list(report.fetched),
        "present": list(report.present),
        "bytes": report.size_bytes,
    }
    if not session.answer(payload):
        from cudalock.cli.output import emit_text

        emit_text(
            f"{report.folder}: {len(report.fetched)} files fetched, {len(report.present)} were there, "
            f"{report.size_bytes / 1e6:.1f} MB in all\n"
            f"next: cudalock install --lock {report.lock} --wheelhouse {report.folder} --venv .venv"
        )
    return 0
