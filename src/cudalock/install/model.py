"""What an installation is asked to do, and what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from packaging.utils import NormalizedName

from cudalock.install.admission import SourceRules

__all__ = ["InstallOptions", "InstallReport", "Installer"]

Installer = Literal["uv", "pip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOptions:
    """How to install.

    Attributes:
        installer: ``uv``, or ``pip`` as the second way, which needs no uv at all.
        sync: install into an existing environment; what the lock does not have is removed from it.
        clear: replace an existing environment; it comes back if anything fails.
        force: take a lock whose digest does not match its content.
        wheelhouse: a folder made by ``fetch``: files come from there and from nowhere else.
        python: a version (``3.12``, ``3.14t``) or the path of an interpreter; None: what the lock was made for.
        download_python: uv may download a Python that this machine does not have.
        offline: no network; what uv's cache does not hold is an error.
        inherit_stderr: uv and pip write on our own stderr (a terminal, on which they draw their progress); otherwise
            their lines go to the reporter.
        uv: the uv to use instead of the one installed beside cudalock.
        sources: from which hosts and places files may come.
        index_url: ``index-url`` of ``[tool.cudalock]``, for what builds require and for its credentials.
    """

    installer: Installer = "uv"
    sync: bool = False
    clear: bool = False
    force: bool = False
    wheelhouse: Path | None = None
    python: str | None = None
    download_python: bool = False
    offline: bool = False
    inherit_stderr: bool = False
    uv: Path | None = None
    sources: SourceRules = field(default_factory=SourceRules)
    index_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallReport:
    """What was done.

    Attributes:
        up_to_date: the environment already held exactly what the lock says; nothing was touched.
        created: the environment was made; False if it was there and was synchronised.
        installer: name and version of the tool, e.g. ``uv 0.13.9``; None if nothing was installed.
        added, removed: name -> version; ``changed``: name -> (before, after).
        reinstalled: name -> version, of what was there and had damaged files.
        hosts: names of the hosts that the lock's files lie on.
    """

    venv: Path
    python: str
    up_to_date: bool = False
    created: bool = False
    installer: str | None = None
    added: Mapping[NormalizedName, str] = field(default_factory=dict)
    changed: Mapping[NormalizedName, tuple[str, str]] = field(default_factory=dict)
    removed: Mapping[NormalizedName, str] = field(default_factory=dict)
    reinstalled: Mapping[NormalizedName, str] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()
