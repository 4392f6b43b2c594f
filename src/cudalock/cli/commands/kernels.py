"""``cudalock kernels``: the caches of Triton and Inductor."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cudalock.cli.command import command as make_command
from cudalock.cli.options import option
from cudalock.cli.session import Session

if TYPE_CHECKING:
    from cudalock.kernels.model import KernelCache, KernelEnvironment, Removal

__all__ = ["command"]


@make_command("kernels")
@click.argument("action", type=click.Choice(["list", "prune", "clear"]), default="list")
@option("--venv", metavar="DIR", help="The environment that uses the kernels; default: the active one.")
@option("--dir", repeatable=True, metavar="DIR", help="A cache; default: those that the variables name.")
@option("--yes", is_flag=True, help="Really remove; without it prune and clear only say what they would do.")
def command(session: Session, action: str, venv: str | None, yes: bool, **options: Any) -> int:
    """Lists the kernels that Triton and Inductor keep on disk, or removes them.

    list: by triton, architecture, size and age. prune: removes what this environment can never use again (another
    triton, other GPUs, corrupt, moved) and nothing else. clear: removes all. What a running job may be using stays.
    """
    from cudalock.host import detect
    from cudalock.kernels import clear, kernel_environment, prune, read_caches

    caches = read_caches(folders=[Path(folder) for folder in options["dir"]])
    active = venv or os.environ.get("VIRTUAL_ENV")
    host = detect(reporter=session.reporter)
    environment = kernel_environment(host, venv=Path(active) if active else None)
    if action == "list":
        if not session.answer(_listing(caches, environment)):
            _draw_listing(caches, environment)
        return 0
    removals = prune(caches, environment, delete=yes) if action == "prune" else clear(caches, delete=yes)
    if not session.answer(_answer(caches, environment, removals, deleted=yes)):
        again = [
            action,
            *([f"--venv {shlex.quote(venv)}"] if venv else []),
            *(f"--dir {shlex.quote(one)}" for one in options["dir"]),
        ]
        _draw_removals(caches, environment, removals, " ".join(again), deleted=yes)
    return 1 if any(removal.outcome == "failed" for removal in removals) else 0


def _listing(caches: tuple[KernelCache, ...], environment: KernelEnvironment) -> dict[str, Any]:
    from cudalock.kernels import why_stale

    documents = []
    for cache in caches:
        document = cache.to_json()
        for entry, item in zip(cache.entries, document["entries"], strict=True):
            item["stale"] = why_stale(entry, environment)
        documents.append(document)
    return {"environment": environment.to_json(), "caches": documents}


def _answer(
    caches: tuple[KernelCache, ...], environment: KernelEnvironment, removals: tuple[Removal, ...], *, deleted: bool
) -> dict[str, Any]:
    gone = [removal for removal in removals if removal.outcome in {"removed", "would-remove"}]
    return {
        "environment": environment.to_json(),
        "caches": [str(cache.path) for cache in caches],
        "dry_run": not deleted,
        "bytes": sum(removal.size_bytes for removal in gone),
        "removals": [removal.to_json() for removal in removals],
    }


def _draw_listing(caches: tuple[KernelCache, ...], environment: KernelEnvironment) -> None:
    from rich.table import Table

    from cudalock.cli.output import clean, console_for, emit_text
    from cudalock.kernels import why_stale

    console = console_for(stderr=False)
    _draw_environment(caches, environment)
    for cache in caches:
        emit_text(f"{cache.path} ({cache.kind}, {cache.origin}): {_size(cache.size_bytes)}")
        if cache.entries:
            table = Table(box=None, pad_edge=False, header_style="bold")
            for heading in ("triton", "for", "what", "entries", "size", "age", "state"):
                table.add_column(heading)
            groups: dict[tuple[str, str, str, str], list[Any]] = {}
            for entry in cache.entries:
                stale = why_stale(entry, environment)
                state = "usable" if stale is None else stale.partition(":")[0]
                version = (
                    entry.triton
                    or {"md5": "2.x", "sha256": "3.0, 3.1", "base64": "3.2", "base32": "3.3 on"}[entry.layout]
                )
                key = (version, entry.architecture or entry.python or "", str(entry.kind), state)
                groups.setdefault(key, []).append(entry)
            for group, entries in sorted(groups.items()):
                row = (*group[:3], str(len(entries)), _size(sum(it.size_bytes for it in entries)))
                table.add_row(*map(clean, (*row, _ages([it.modified for it in entries]), group[3])))
            console.print(table)
        for section in cache.sections:
            emit_text(f"  {section.name}: {section.files} files, {_size(section.size_bytes)}, {_age(section.modified)}")
        if cache.foreign:
            emit_text(f"  {len(cache.foreign)} other files or links, left alone: {', '.join(cache.foreign[:5])}")


def _draw_removals(
    caches: tuple[KernelCache, ...],
    environment: KernelEnvironment,
    removals: tuple[Removal, ...],
    again: str,
    *,
    deleted: bool,
) -> None:
    from cudalock.cli.output import emit_text
    from cudalock.cli.render import print_hint

    _draw_environment(caches, environment)
    for removal in removals:
        emit_text(f"{removal.outcome.replace('-', ' ')}: {removal.path} ({_size(removal.size_bytes)}): {removal.why}")
    gone = [removal for removal in removals if removal.outcome in {"removed", "would-remove"}]
    kept = sum(removal.outcome == "kept" for removal in removals)
    verb = "removed" if deleted else "would remove"
    tail = f"; {kept} kept, because a job may be using them" if kept else ""
    entries = "1 entry" if len(gone) == 1 else f"{len(gone)} entries"
    if not caches:
        return
    emit_text(f"{verb} {entries}, {_size(sum(removal.size_bytes for removal in gone))}{tail}")
    if gone and not deleted:
        print_hint(f"`cudalock kernels {again} --yes` removes them")


def _draw_environment(caches: tuple[KernelCache, ...], environment: KernelEnvironment) -> None:
    from cudalock.cli.output import emit_text

    triton = (
        f"triton {environment.triton}" if environment.triton else "triton unknown: no version is held against a kernel"
    )
    gpus = (
        ", ".join(f"sm_{gpu.number}" for gpu in sorted(environment.gpus))
        if environment.gpus
        else "unknown: no architecture is held against a kernel"
    )
    emit_text(f"environment: {triton} ({environment.source}); GPUs: {gpus}")
    if not caches:
        emit_text("there is no kernel cache")


def _size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def _age(modified: float) -> str:
    import time

    seconds = max(time.time() - modified, 0)
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _ages(modified: list[float]) -> str:
    youngest, oldest = _age(max(modified)), _age(min(modified))
    return youngest if youngest == oldest else f"{youngest} to {oldest}"
