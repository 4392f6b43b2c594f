"""``cudalock matrix``: releases of torch x CUDA builds, admitted or why not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cudalock.cli.command import command as make_command
from cudalock.cli.options import choice_options, index_options, option, target_options
from cudalock.cli.session import Session
from cudalock.cli.wiring import make_policy, make_resolve_options, make_target, open_index
from cudalock.errors import UsageError

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from rich.text import Text

    from cudalock.resolve.matrix import Matrix, MatrixCell
    from cudalock.target.model import Target

__all__ = ["command"]


@make_command("matrix")
@click.argument("releases", required=False, metavar="[RELEASES]")
@target_options()
@choice_options
@option("--all", "every", is_flag=True, help="All releases, not only the newest twelve.")
@option("--no-target", is_flag=True, help="What each build supports, for no machine in particular.")
@option("--read-wheels", is_flag=True, help="Also read the wheels that no table knows; each takes a second or two.")
@index_options
def command(session: Session, releases: str | None, **options: Any) -> int:
    """Shows every build of torch that the indexes serve and what the rules say of it for the target.

    RELEASES narrows them, e.g. ">=2.9,<2.12". The build marked > is the one that `cudalock resolve torch` takes.
    """
    from cudalock.resolve.matrix import matrix

    policy = make_policy(options)
    resolve_options = make_resolve_options(session, options)
    name = options.pop("target")
    wanted = _specifiers(releases)
    judged = not options["no_target"]
    target = make_target(session, options if judged else {**options, "cpu": False, "gpu": ("9.0",)}, name=name)
    with open_index(session, options) as client:
        session.reporter.step("reading which builds of torch there are")
        result = matrix(
            target,
            client,
            policy=policy,
            specifiers=wanted,
            judged=judged,
            read_wheels=options["read_wheels"],
            options=resolve_options,
            reporter=session.reporter,
        )
    if result.missing:
        session.reporter.message("warning", f"without the PyTorch index: {result.missing}", code="index-unreachable")
    if not session.answer(_as_json(result)):
        _draw(result, target, judged=judged, every=options["every"] or releases is not None)
    return 0 if result.chosen is not None or not judged else 1


def _specifiers(text: str | None) -> SpecifierSet:
    from packaging.specifiers import SpecifierSet

    text = (text or "").removeprefix("torch")
    if text[:1].isdigit():  # 2.9 means the releases that begin so
        text = f"=={text}" if text.endswith("*") or text.count(".") > 1 else f"=={text}.*"
    try:
        return SpecifierSet(text)
    except ValueError as error:
        raise UsageError(
            "requirement-invalid", f"{text!r} does not name releases", hint='write e.g. ">=2.9,<2.12" or "==2.11.*"'
        ) from error


def _as_json(result: Matrix) -> dict[str, Any]:
    return {
        "cells": [cell.to_json() for cell in result.cells],
        "chosen": result.chosen.to_json() if result.chosen else None,
        "indexes": list(result.indexes),
    }


_NEWEST = 12


def _draw(result: Matrix, target: Target, *, judged: bool, every: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from cudalock.cli.commands.resolve import describe
    from cudalock.cli.output import clean, console_for
    from cudalock.resolve.matrix import columns

    console = console_for(stderr=False)
    releases = list(dict.fromkeys(cell.release for cell in result.cells))
    shown = releases if every else releases[:_NEWEST]
    cells = [cell for cell in result.cells if cell.release in set(shown)]
    names = columns(cells)
    table = Table(title=clean(describe(target)) if judged else None, title_justify="left")
    table.add_column("torch", style="bold")
    for name in names:
        table.add_column(name)
    for release in shown:
        row: list[Text] = []
        for name in names:
            here = [cell for cell in cells if cell.release == release and cell.column == name]
            row.append(Text("\n").join([_cell_text(cell, result.chosen, judged=judged) for cell in here]))
        table.add_row(str(release), *row)
    console.print(table)
    if judged:
        _draw_reasons(cells)
    if len(shown) < len(releases):
        console.print(f"{len(releases) - len(shown)} older releases: --all shows them")


def _cell_text(cell: MatrixCell, chosen: MatrixCell | None, *, judged: bool) -> Text:
    from rich.text import Text

    where = "main" if cell.file.page.index == "main" else "pytorch"
    if not judged:
        archs = " ".join(str(a).removeprefix("sm_") for a in cell.build.architectures) if cell.build else "not read"
        return Text(f"{where}: {archs or 'CPU'}")
    if cell.verdict is None:
        return Text(f"? {where}: not in the tables", style="dim")
    if cell.verdict.admitted:
        mark = ">" if cell is chosen else "+"
        return Text(f"{mark} {where} {cell.verdict.mode or 'cpu'}", style="bold green" if cell is chosen else "green")
    rules = " ".join(dict.fromkeys(reason.rule for reason in cell.verdict.refusals))
    return Text(f"- {where} {rules}", style="red")


def _draw_reasons(cells: list[MatrixCell]) -> None:
    """One sentence for each kind of refusal, with the builds it holds for."""
    from cudalock.cli.output import emit_text

    seen: dict[str, list[str]] = {}
    for cell in cells:
        for reason in cell.verdict.refusals if cell.verdict else ():
            seen.setdefault(reason.sentence, []).append(str(cell.version))
    if seen:
        emit_text("> chosen, + admitted, - refused (R1 driver, R2 GPU code, R3 triton, choice yours), because:")
    for sentence, versions in seen.items():
        more = f" and {len(versions) - 3} more" if len(versions) > 3 else ""
        emit_text(f"  {', '.join(versions[:3])}{more}: {sentence}")
