"""Puts everything that was asked for into one Request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from packaging.utils import canonicalize_name

from cudalock.errors import UsageError
from cudalock.requirements.faults import Faults
from cudalock.requirements.files import FileReader
from cudalock.requirements.model import AskedRequirement, Request
from cudalock.requirements.parsing import normalized_names, parse_exclude_newer, parse_requirement
from cudalock.requirements.project import read_project

__all__ = ["read_request"]


def read_request(
    arguments: Sequence[str] = (),
    *,
    requirement_files: Sequence[str | Path] = (),
    constraint_files: Sequence[str | Path] = (),
    configured_constraints: Sequence[str | Path] = (),
    project: Path | None = None,
    extras: Sequence[str] = (),
    groups: Sequence[str] = (),
    exclude_newer: str | datetime | None = None,
    allow_build: Iterable[str] = (),
    upgrade: bool = False,
    upgrade_packages: Iterable[str] = (),
    prerelease: Iterable[str] = (),
) -> Request:
    """Reads what was asked for, from all the places where it can be written.

    Args:
        arguments: dependency specifiers from the command line.
        requirement_files: files in pip's syntax (``-r``); relative names inside them are relative to the file.
        constraint_files: the same, limiting versions only (``-c``).
        configured_constraints: files that pip's own configuration names; their origin says so.
        project: a folder with a ``pyproject.toml``, or the file; its dependencies are asked for.
        extras: of that project.
        groups: dependency groups of that project.
        exclude_newer: a date (that day included) or RFC 3339 time; without an offset it is UTC.
        allow_build: names that may come as a source distribution.
        upgrade: whether all existing pins are dropped.
        upgrade_packages: names whose existing pins are dropped.
        prerelease: names for which pre-releases are allowed.

    Raises:
        UsageError: ``requirement-invalid`` and kin with file and line, ``requirements-file-missing``,
            ``extra-unknown``, ``group-unknown``, ``project-missing``, ``project-invalid``,
            ``exclude-newer-invalid``; all faults of arguments and files at once.
    """
    faults = Faults()
    asked = _arguments(arguments, faults)
    reader = FileReader(faults)
    for file in requirement_files:
        reader.read(file, "requirements")
    for file in constraint_files:
        reader.read(file, "constraints")
    for file in configured_constraints:
        reader.read(file, "constraints", label=f"pip's configuration ({Path(file).name})")
    asked += reader.requirements
    asked += _of_project(project, extras, groups, faults)
    faults.raise_if_any()
    moment = parse_exclude_newer(exclude_newer) if isinstance(exclude_newer, str) else exclude_newer
    return Request(
        requirements=tuple(asked),
        constraints=tuple(reader.constraints),
        extras=tuple(sorted({str(canonicalize_name(extra)) for extra in extras})),
        groups=tuple(sorted({str(canonicalize_name(group)) for group in groups})),
        exclude_newer=moment,
        allow_build=normalized_names(allow_build, "--allow-build"),
        upgrade=upgrade,
        upgrade_packages=normalized_names(upgrade_packages, "--upgrade-package"),
        prerelease=normalized_names(prerelease, "--prerelease"),
        notes=tuple(reader.notes),
    )


def _arguments(arguments: Sequence[str], faults: Faults) -> list[AskedRequirement]:
    found: list[AskedRequirement] = []
    for text in arguments:
        try:
            if text.strip().endswith((".txt", ".in")):
                raise _file_as_argument(text)
            found.append(AskedRequirement(requirement=parse_requirement(text, "argument"), origin="argument"))
        except UsageError as error:
            faults.add(error)
    return found


def _file_as_argument(text: str) -> UsageError:
    """``requirements.txt`` would do as the name of a package; whoever writes it wants ``-r``."""
    return UsageError(
        "requirement-is-path",
        f"argument: {text!r} is the name of a file, not a requirement",
        hint=f"to read a file of requirements, write `-r {text}`",
        details={"origin": "argument", "text": text},
    )


def _of_project(
    project: Path | None, extras: Sequence[str], groups: Sequence[str], faults: Faults
) -> tuple[AskedRequirement, ...]:
    if project is None:
        if extras or groups:
            option = "--extra" if extras else "--group"
            faults.add(
                UsageError(
                    "project-missing",
                    f"{option} belongs to a project, and there is none here",
                    hint="run cudalock in the folder of the project's pyproject.toml",
                )
            )
        return ()
    try:
        return read_project(project).asked(extras, groups)
    except UsageError as error:
        faults.add(error)
        return ()
