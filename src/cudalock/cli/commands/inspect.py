"""``cudalock inspect``: what a requirement, wheel, URL or environment really contains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cudalock.cli.command import command as make_command
from cudalock.cli.options import index_options, option
from cudalock.cli.session import Session
from cudalock.cli.wiring import make_target, open_index
from cudalock.errors import AnswerIsNo, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cudalock.builds import Inspection
    from cudalock.index import IndexClient
    from cudalock.index.model import IndexFile

__all__ = ["command"]


@make_command("inspect")
@click.argument("what", metavar="REQUIREMENT|WHEEL|URL|VENV")
@option("--python", metavar="X.Y", help="Which Python's wheel of a requirement; default: the running one's.")
@option("--platform", metavar="PLATFORM", help="Which platform's wheel of a requirement; default: this one.")
@option("--prerelease", is_flag=True, help="Let the requirement take a pre-release.")
@index_options
def command(session: Session, what: str, **options: Any) -> int:
    """Shows what is really in a wheel: CUDA, GPU architectures, what it requires, the assemblers of a triton.

    WHAT is a requirement such as torch==2.9.1, a wheel file, the URL of a wheel, or a virtual environment. A wheel
    on an index is read by ranges: some 10 MB of a torch wheel, a second or two. `-v` says how many requests and bytes
    it took.
    """
    inspections = _inspect(session, what, options)
    if not session.answer({"inspected": [inspection.to_json() for inspection in inspections]}):
        _draw(inspections)
    for inspection in inspections:
        if inspection.requests is not None:
            session.reporter.message(
                "info", f"{inspection.requests} requests, {(inspection.bytes_read or 0) / 1e6:.1f} MB read of the wheel"
            )
    return 0


def _inspect(session: Session, what: str, options: Mapping[str, Any]) -> tuple[Inspection, ...]:
    from cudalock.builds import inspect_file, inspect_venv, inspect_wheel

    path = Path(what)
    if "://" not in what and (path.is_dir() or path.suffix == ".whl"):
        return inspect_venv(path) if path.is_dir() else (inspect_wheel(path),)
    with open_index(session, options) as client:
        file = _file_of_url(what) if "://" in what else _file_of_requirement(session, what, client, options)
        session.reporter.step(f"reading {file.filename}")
        return (inspect_file(file, client),)


def _file_of_url(url: str) -> IndexFile:
    from packaging.utils import canonicalize_name

    from cudalock.resolve.context import direct_file

    name = url.split("#", maxsplit=1)[0].split("?", maxsplit=1)[0].rsplit("/", 1)[-1].split("-", maxsplit=1)[0]
    return direct_file(canonicalize_name(name), url)[1]


def _file_of_requirement(session: Session, text: str, client: IndexClient, options: Mapping[str, Any]) -> IndexFile:
    """The newest wheel that the requirement admits, for the Python and platform at hand."""
    from packaging.utils import canonicalize_name

    from cudalock.candidates import FileRules, Pages, VersionWish, fitting_files
    from cudalock.requirements.model import Request
    from cudalock.requirements.parsing import parse_requirement

    requirement = parse_requirement(text, "argument")
    if requirement.url:
        return _file_of_url(requirement.url)
    target = make_target(
        session,
        {"gpu": (), "driver": None, "facts": None, "cpu": True, **{k: options[k] for k in ("python", "platform")}},
        name=None,
    )
    project = canonicalize_name(requirement.name)
    pages = Pages(reader=client)
    labels = {specifier.version.partition("+")[2] for specifier in requirement.specifier} - {""}
    listings = [pages.of_label(label, project) for label in sorted(labels)] or [pages.main(project)]
    if not any(listing.found for listing in listings):
        raise AnswerIsNo(
            "package-not-found", f"the index does not know {requirement.name}", hint="look at the spelling of the name"
        )
    wish = VersionWish(specifiers=requirement.specifier, prereleases=options["prerelease"])
    rules = FileRules.of(target, Request())
    found = next(fitting_files([listing.files for listing in listings], wish, rules), None)
    if found is None:
        raise UsageError(
            "wheel-not-found",
            f"no wheel of {requirement} for Python {target.python} on {target.platform}",
            hint="name another with --python and --platform, or give the URL of a wheel",
        )
    return found[1]


def _draw(inspections: tuple[Inspection, ...]) -> None:
    from rich.table import Table

    from cudalock.cli.output import clean, console_for

    console = console_for(stderr=False)
    if not inspections:
        console.print("nothing of the torch family in it")
    for number, inspection in enumerate(inspections):
        if number:
            console.print()
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        for label, value in _rows(inspection):
            table.add_row(label, clean(value))
        console.print(table)


def _rows(inspection: Inspection) -> list[tuple[str, str]]:
    rows = [(inspection.name, str(inspection.version))]
    if inspection.architectures or inspection.name == "torch":
        rows.append(("CUDA", str(inspection.cuda) if inspection.cuda else "none: a CPU build"))
        rows.append(("architectures", " ".join(map(str, inspection.architectures)) or "none"))
    elif inspection.cuda:
        rows.append(("CUDA", str(inspection.cuda)))
    if inspection.triton:
        rows.append(("requires triton", inspection.triton))
    for name, release in (inspection.assemblers or {}).items():
        rows.append((name, release))
    if inspection.blackwell_from:
        rows.append(("ptxas-blackwell for", f"sm_{inspection.blackwell_from} and above"))
    if inspection.requires_python:
        rows.append(("Python", inspection.requires_python))
    if inspection.requires:
        rows.append(("requires", "\n".join(inspection.requires)))
    if inspection.table_agrees is False:
        rows.append(("note", "cudalock's tables say otherwise; the wheel is right"))
    return rows
