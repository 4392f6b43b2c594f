"""From a lock to an environment: uv or pip does the work, and what is not whole says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalock import lazy_names
from cudalock.install.install import install  # not lazily: its module has the same name

if TYPE_CHECKING:
    from cudalock.install.admission import SourceRules
    from cudalock.install.documents import hosts
    from cudalock.install.files import FetchReport, fetch
    from cudalock.install.model import Installer, InstallOptions, InstallReport
    from cudalock.install.state import InstallState, incomplete_reason, read_state

__all__ = [
    "FetchReport",
    "InstallOptions",
    "InstallReport",
    "InstallState",
    "Installer",
    "SourceRules",
    "fetch",
    "hosts",
    "incomplete_reason",
    "install",
    "read_state",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "admission": ("SourceRules",),
        "documents": ("hosts",),
        "files": (
            "FetchReport",
            "fetch",
        ),
        "model": (
            "Installer",
            "InstallOptions",
            "InstallReport",
        ),
        "state": (
            "InstallState",
            "incomplete_reason",
            "read_state",
        ),
    },
)
