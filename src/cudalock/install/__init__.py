"""From a lock to an environment: uv or pip does the work, and what is not whole says so."""

from cudalock.install.documents import hosts
from cudalock.install.files import FetchReport, fetch
from cudalock.install.install import install
from cudalock.install.model import Installer, InstallOptions, InstallReport
from cudalock.install.state import InstallState, incomplete_reason, read_state

__all__ = [
    "FetchReport",
    "InstallOptions",
    "InstallReport",
    "InstallState",
    "Installer",
    "fetch",
    "hosts",
    "incomplete_reason",
    "install",
    "read_state",
]
