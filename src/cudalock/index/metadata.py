"""Reads METADATA and PKG-INFO (core metadata) as far as resolution needs it.

Only the headers are scanned: the description may be a megabyte. Old forms that the field's tools still accept are
accepted (``name (>=1)``, a trailing comma, ``>=1.*``); what cannot be understood is an error that names the file.
"""

from __future__ import annotations

import re
from functools import lru_cache

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from cudalock.errors import TransportError
from cudalock.index.model import CoreMetadata
from cudalock.versions import has_endless_number

__all__ = ["BUILD_REQUIRES", "MAX_METADATA_BYTES", "parse_metadata"]

MAX_METADATA_BYTES = 16 * 1024 * 1024
"""The largest METADATA that is read; the largest known are below 1 MB."""

BUILD_REQUIRES = "Cudalock-Build-Requires"
"""A header of our own: what a source distribution's pyproject.toml says of its build, kept with its PKG-INFO."""

_WANTED = frozenset({
    "metadata-version", "name", "version", "requires-python", "requires-dist", "provides-extra", "dynamic",
    BUILD_REQUIRES.lower(),
})  # fmt: skip
_MAX_REQUIREMENTS = 20_000
_OLD_FORM = re.compile(r"^\s*([A-Za-z0-9._-]+(?:\s*\[[^\]]*\])?)\s*\(([^)]*)\)(.*)$", re.DOTALL)
_STAR_ORDER = re.compile(r"(>=|<=|>|<)\s*([0-9][^,;\s*]*)\.\*")
_MISSING_COMMA = re.compile(r"(\d)\s+(?=[<>=!~])")


def parse_metadata(content: bytes, source: str) -> CoreMetadata:
    """The resolution-relevant part of METADATA or PKG-INFO.

    Args:
        content: the file.
        source: names the file in errors, e.g. ``torch-2.9.0-...whl``.

    Raises:
        TransportError: code ``index-invalid-metadata``.
    """
    if len(content) > MAX_METADATA_BYTES:
        raise _invalid(source, f"it is larger than {MAX_METADATA_BYTES} bytes")
    headers = _headers(content)
    name, version_text = _first(headers, "name"), _first(headers, "version")
    if not name or not version_text:
        raise _invalid(source, "it states no name and version")
    try:
        normalized = canonicalize_name(name, validate=True)
        version = Version(version_text)
    except ValueError:
        raise _invalid(source, f"name {name[:80]!r} or version {version_text[:80]!r} is invalid") from None
    lines = headers.get("requires-dist", [])
    if len(lines) > _MAX_REQUIREMENTS:
        raise _invalid(source, f"it states more than {_MAX_REQUIREMENTS} requirements")
    return CoreMetadata(
        name=normalized,
        version=version,
        requires_python=_python(_first(headers, "requires-python"), source),
        requires=tuple(_requirement(line, source) for line in lines),
        extras=frozenset(canonicalize_name(extra) for extra in headers.get("provides-extra", [])),
        dynamic=_dynamic(headers),
        build_requires=tuple(_requirement(line, source) for line in headers.get(BUILD_REQUIRES.lower(), [])),
    )


def _invalid(source: str, reason: str) -> TransportError:
    return TransportError(
        "index-invalid-metadata",
        f"the metadata of {source} cannot be used: {reason}",
        hint="require another version of this project",
        details={"file": source},
    )


def _headers(content: bytes) -> dict[str, list[str]]:
    """The wanted headers up to the first empty line, unfolded; header names in lower case."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for raw in content.removeprefix(b"\xef\xbb\xbf").splitlines():
        if not raw.strip():
            break
        line = raw.decode("utf-8", "replace")
        if line[0] in " \t":
            if current:
                current[-1] += " " + line.strip()
            continue
        key, separator, value = line.partition(":")
        key = key.strip().lower()
        current = found.setdefault(key, []) if separator and key in _WANTED else None
        if current is not None:
            current.append(value.strip())
    return found


def _first(headers: dict[str, list[str]], key: str) -> str:
    return headers.get(key, [""])[0]


def _dynamic(headers: dict[str, list[str]]) -> frozenset[str]:
    """Fields that the sdist's own build may change; before metadata version 2.2 (PEP 643) nothing was promised."""
    stated = frozenset(value.lower() for value in headers.get("dynamic", []))
    try:
        promises = Version(_first(headers, "metadata-version")) >= Version("2.2")
    except ValueError:
        promises = False
    return stated if promises else stated | {"requires-dist", "provides-extra", "requires-python"}


def _python(text: str, source: str) -> SpecifierSet:
    if has_endless_number(text):
        raise _invalid(source, f"Requires-Python {text[:80]!r}... holds a number without end")
    try:
        return _specifier_set(_tidy(text))
    except ValueError:
        raise _invalid(source, f"Requires-Python {text[:80]!r} is invalid") from None


@lru_cache(maxsize=512)
def _specifier_set(text: str) -> SpecifierSet:
    return SpecifierSet(text)


def _requirement(line: str, source: str) -> Requirement:
    if has_endless_number(line):
        raise _invalid(source, f"Requires-Dist {line[:120]!r}... holds a number without end")
    try:
        return Requirement(line)
    except InvalidRequirement:
        pass
    requirement, separator, marker = line.partition(";")
    if match := _OLD_FORM.match(requirement):
        requirement = f"{match[1]} {match[2]}{match[3]}"
    try:
        return Requirement(_tidy(requirement) + (f"; {marker.strip()}" if separator and marker.strip() else ""))
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0][:160]
        raise _invalid(source, f"Requires-Dist {line[:120]!r} is invalid ({reason})") from None


def _tidy(text: str) -> str:
    """Mends what old build tools let through: ``>=1.*``, ``>=1 <2``, a trailing comma, quotes."""
    text = _STAR_ORDER.sub(r"\1\2", text.strip().strip("'\""))
    text = _MISSING_COMMA.sub(r"\1,", text)
    return text.strip().rstrip(",").strip()
