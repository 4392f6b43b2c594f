"""What was asked for, in one frozen value, whatever it was read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # named in annotations only
    from datetime import datetime

    from packaging.requirements import Requirement
    from packaging.utils import NormalizedName

__all__ = ["AskedRequirement", "Request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRequirement:
    """A requirement or constraint and where it stands: ``argument``, ``requirements.txt:3``, ``pyproject.toml``."""

    requirement: Requirement
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything that decides what is resolved, the target aside.

    Attributes:
        requirements: what must be in the lock; a requirement may carry a direct URL of a wheel.
        constraints: limit versions without asking for the package; pip's own configured constraint included.
        extras, groups: of the project, recorded for the lock (already expanded into ``requirements``).
        exclude_newer: files uploaded later are not seen.
        allow_build: names that may come as a source distribution.
        upgrade: all existing pins are dropped; ``upgrade_packages`` only these.
        prerelease: names for which pre-releases are allowed, beyond those that a requirement itself names.
        notes: sentences the user should see, e.g. that an option of a requirements file has no effect here.
    """

    requirements: tuple[AskedRequirement, ...] = ()
    constraints: tuple[AskedRequirement, ...] = ()
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    exclude_newer: datetime | None = None
    allow_build: frozenset[NormalizedName] = frozenset()
    upgrade: bool = False
    upgrade_packages: frozenset[NormalizedName] = frozenset()
    prerelease: frozenset[NormalizedName] = frozenset()
    notes: tuple[str, ...] = ()
