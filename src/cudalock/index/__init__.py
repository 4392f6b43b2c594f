"""Package indexes: finding the main one, reading pages, metadata and parts of files, with a disk cache.

The client is loaded when it is first named, so that the values of :mod:`cudalock.index.model` stay cheap to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalock import lazy_names

if TYPE_CHECKING:
    from cudalock.index.client import IndexClient, Statistics
    from cudalock.index.discovery import DiscoveredIndex, PipSettings, main_index_url, pip_settings
    from cudalock.index.settings import DEFAULT_PYTORCH_URL, IndexSettings

__all__ = [
    "DEFAULT_PYTORCH_URL", "DiscoveredIndex", "IndexClient", "IndexSettings", "main_index_url", "pip_settings",
    "PipSettings", "Statistics",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "client": ("IndexClient", "Statistics"),
        "discovery": ("DiscoveredIndex", "main_index_url", "pip_settings", "PipSettings"),
        "settings": ("DEFAULT_PYTORCH_URL", "IndexSettings"),
    },
)
