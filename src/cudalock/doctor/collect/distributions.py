"""The installed distributions: versions, origins, requirements that hold here, and the files each one owns."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Literal

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from cudalock.doctor.model import DistributionFacts
from cudalock.markers import holds

__all__ = ["belongs_to_stack", "read_distributions"]

_STACK = ("torch", "triton", "nvidia-", "cuda-", "pytorch-")
_MOST_MISSING = 5


def belongs_to_stack(name: str) -> bool:
    """Whether a distribution is part of torch, triton or CUDA."""
    return name.startswith(_STACK)


def read_distributions(
    site: Iterable[Path], user_site: Path | None, python: str | None
) -> tuple[tuple[DistributionFacts, ...], tuple[str, ...]]:
    """Every distribution with its facts, and what could not be read."""
    environment = _markers(python)
    found: list[DistributionFacts] = []
    gaps: list[str] = []
    places: list[tuple[Path, Literal["environment", "user-site"]]] = [(folder, "environment") for folder in site]
    places += [(user_site, "user-site")] if user_site else []
    seen: set[Path] = set()
    for folder, place in places:
        if folder.resolve() in seen:
            continue
        seen.add(folder.resolve())
        for distribution in distributions(path=[str(folder)]):
            try:
                found.append(_facts(distribution, folder, place, environment))
            except (OSError, KeyError, TypeError, ValueError) as error:
                gaps.append(f"the metadata of a distribution in {folder} cannot be read: {error}")
    return tuple(sorted(found, key=lambda one: (one.name, one.place))), tuple(gaps)


def _markers(python: str | None) -> dict[str, str]:
    found: dict[str, str] = {**default_environment()}  # type: ignore[dict-item]
    if python:
        plain = python.removesuffix("t")
        found["python_full_version"] = plain
        found["python_version"] = ".".join(plain.split(".")[:2])
    found["extra"] = ""
    return found


def _facts(
    distribution: Distribution, folder: Path, place: Literal["environment", "user-site"], environment: Mapping[str, str]
) -> DistributionFacts:
    name = canonicalize_name(distribution.metadata["Name"])
    version = Version(distribution.version)
    files = _files(distribution)
    return DistributionFacts(
        name=name,
        version=version,
        label=version.local,
        origin=_origin(distribution),
        place=place,
        requires=tuple(_requirements(distribution, environment)),
        files=files,
        missing_files=_missing(name, files, folder) if files and belongs_to_stack(name) else (),
    )


def _origin(distribution: Distribution) -> str | None:
    text = distribution.read_text("direct_url.json")
    if not text:
        return None
    try:
        url = json.loads(text).get("url")
    except (ValueError, AttributeError):
        return None
    return _without_credentials(url) if isinstance(url, str) else None


def _without_credentials(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}" if mark else url


def _requirements(distribution: Distribution, environment: Mapping[str, str]) -> Iterator[Requirement]:
    for text in distribution.requires or ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if holds(requirement.marker, environment):
            yield requirement


def _files(distribution: Distribution) -> dict[str, str] | None:
    record = distribution.read_text("RECORD")
    if record is None:
        return None
    return {row[0]: row[1] if len(row) > 1 else "" for row in csv.reader(record.splitlines()) if row}


def _missing(name: str, files: Mapping[str, str], folder: Path) -> tuple[str, ...]:
    """Recorded libraries and packages' ``__init__.py`` that are gone: enough to tell that something removed them.

    Several CUDA wheels own ``nvidia/__init__.py``, so that removing one of them takes it along and harms nothing.
    """
    marks = (".so",) if name.startswith("nvidia-") else (".so", "__init__.py")
    missing: list[str] = []
    for path in files:
        if any(mark in path for mark in marks) and not (folder / path).exists():
            missing.append(path)
            if len(missing) == _MOST_MISSING:
                break
    return tuple(missing)
