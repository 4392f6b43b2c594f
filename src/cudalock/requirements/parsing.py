"""One requirement, name or date, as text: parsed, or refused with what to write instead. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidName, InvalidWheelFilename, NormalizedName, canonicalize_name, parse_wheel_filename

from cudalock.errors import UsageError
from cudalock.markers import undefined
from cudalock.versions import has_endless_number

__all__ = ["normalized_names", "parse_exclude_newer", "parse_requirement"]

_VCS = re.compile(r"(?:^|@\s*)(?:git|hg|svn|bzr)\+", re.IGNORECASE)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ARCHIVES = (".whl", ".tar.gz", ".tar.bz2", ".tar.xz", ".tgz", ".zip")


def parse_requirement(text: str, origin: str, *, constraint: bool = False) -> Requirement:
    """Parses a dependency specifier (PEP 508), e.g. ``torch>=2.8`` or ``name @ https://host.example/name.whl``.

    Args:
        text: what was written.
        origin: where, e.g. ``argument`` or ``requirements.txt:3``; named in the error.
        constraint: whether it stands in a constraints file, where extras have no meaning.

    Raises:
        UsageError: code ``requirement-invalid``, ``requirement-is-vcs``, ``requirement-is-path`` or
            ``requirement-url-invalid``.
    """
    text = text.strip()
    if _VCS.search(text):
        raise UsageError(
            "requirement-is-vcs",
            f"{origin}: {text!r} names a version control repository, whose content no hash can pin",
            hint="build a wheel of it and write `name @ file:///path/to/the.whl`, or name a release",
            details=_where(origin, text),
        )
    if has_endless_number(text):
        raise UsageError(
            "requirement-invalid",
            f"{origin}: {text[:80]!r}... holds a number without end",
            hint="a version has a few digits",
            details=_where(origin, text[:80]),
        )
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise _not_a_requirement(text, origin, error) from error
    if requirement.url is None and requirement.name.lower().endswith(_ARCHIVES):
        raise _path_or_url(text, text, origin)  # dots and hyphens make a file name a valid name, too
    if requirement.url is not None:
        _check_url(requirement.url, text, origin)
    if reason := undefined(requirement.marker):
        raise UsageError(
            "requirement-invalid",
            f"{origin}: the marker of {text!r} cannot be evaluated: {reason}",
            hint="compare e.g. python_version, sys_platform or platform_machine, and versions with a version",
            details=_where(origin, text),
        )
    if constraint and requirement.extras:
        raise UsageError(
            "requirement-invalid",
            f"{origin}: a constraint cannot have extras: {text!r}",
            hint=f"write `{requirement.name}{requirement.specifier}` here and ask for the extras in a requirement",
            details=_where(origin, text),
        )
    return requirement


def _where(origin: str, text: str) -> dict[str, Any]:
    """Where a fault is, for ``--json``: the file and the line apart where there is a line."""
    file, colon, line = origin.rpartition(":")
    if colon and line.isdigit():
        return {"origin": origin, "file": file, "line": int(line), "text": text}
    return {"origin": origin, "text": text}


def _not_a_requirement(text: str, origin: str, error: InvalidRequirement) -> UsageError:
    bare = text.split("#", maxsplit=1)[0].strip()
    if _URL.match(bare) or bare.lower().endswith(_ARCHIVES) or bare.startswith((".", "/", "~", "\\")):
        return _path_or_url(bare, text, origin)
    reason = str(error).splitlines()[0].strip() or "it does not parse"
    return UsageError(
        "requirement-invalid",
        f"{origin}: {text!r} is not a requirement: {reason[:1].lower()}{reason[1:]}",
        hint="a requirement is a name with optional extras, versions and marker, e.g. `torch>=2.8`",
        details=_where(origin, text),
    )


def _path_or_url(bare: str, text: str, origin: str) -> UsageError:
    is_url = _URL.match(bare) is not None
    address = bare if is_url else _file_url(bare)
    filename = unquote(urlsplit(address).path.rsplit("/", 1)[-1]) if _splits(address) else bare
    try:
        name = str(parse_wheel_filename(filename)[0])
    except InvalidWheelFilename:
        what = "an address" if is_url else "a path"
        hint = "build a wheel of it and write `name @ file:///path/to/the.whl`"
    else:
        what = "the address of a wheel" if is_url else "the path of a wheel"
        hint = f"write `{name} @ {address}`"
    return UsageError(
        "requirement-is-path",
        f"{origin}: {text!r} is {what}, not a requirement",
        hint=hint,
        details=_where(origin, text),
    )


def _file_url(path: str) -> str:
    try:
        return Path(path).expanduser().resolve().as_uri()
    except (OSError, RuntimeError, ValueError):
        return path


def _splits(url: str) -> bool:
    try:
        urlsplit(url)
    except ValueError:
        return False
    return True


def _check_url(url: str, text: str, origin: str) -> None:
    """A direct URL must lead to a wheel over https, http or file: nothing else can be locked without building."""
    scheme = urlsplit(url).scheme.lower() if _splits(url) else ""
    path = unquote(urlsplit(url).path) if scheme else url
    if scheme not in {"https", "http", "file"} or not path.lower().endswith(".whl"):
        raise UsageError(
            "requirement-url-invalid",
            f"{origin}: the address in {text!r} is not that of a wheel",
            hint="direct addresses are https://, http:// or file:/// and end in .whl",
            details=_where(origin, text),
        )


def normalized_names(names: Iterable[str], option: str) -> frozenset[NormalizedName]:
    """Normalises names given with an option such as ``--allow-build``; commas separate, too.

    Raises:
        UsageError: code ``name-invalid`` if one is no project name.
    """
    found: set[NormalizedName] = set()
    for text in (part.strip() for name in names for part in name.split(",")):
        if not text:
            continue
        try:
            found.add(canonicalize_name(text, validate=True))
        except InvalidName as error:
            raise UsageError(
                "name-invalid",
                f"{option}: {text!r} is not the name of a package",
                hint=f"write the name alone, e.g. `{option} flash-attn`",
                details={"option": option, "text": text},
            ) from error
    return frozenset(found)


def parse_exclude_newer(text: str) -> datetime:
    """Parses ``2026-01-31`` (that day included) or an RFC 3339 time; what has no offset is UTC. The answer is in UTC.

    Raises:
        UsageError: code ``exclude-newer-invalid``.
    """
    text = text.strip()
    try:
        try:
            return datetime.combine(date.fromisoformat(text) + timedelta(days=1), time(), tzinfo=UTC)
        except ValueError:
            moment = datetime.fromisoformat(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            "exclude-newer-invalid",
            f"--exclude-newer: {text!r} is neither a date nor a time",
            hint="write a date such as 2026-01-31 or a time such as 2026-01-31T12:00:00Z",
            details={"text": text},
        ) from error
