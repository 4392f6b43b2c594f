"""Package indexes: finding the main one, reading pages, metadata and parts of files, with a disk cache.

The client is loaded when it is first named, so that the values of :mod:`cudalock.index.model` stay cheap to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudalock.index.settings import DEFAULT_PYTORCH_URL, IndexSettings

if TYPE_CHECKING:
    from cudalock.index.client import IndexClient, Statistics
    from cudalock.index.discovery import DiscoveredIndex, PipSettings, main_index_url, pip_settings

__all__ = [
    "DEFAULT_PYTORCH_URL", "DiscoveredIndex", "IndexClient", "IndexSettings", "main_index_url", "pip_settings",
    "PipSettings", "Statistics",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in {"IndexClient", "Statistics"}:
        from cudalock.index import client

        return getattr(client, name)
    if name in {"DiscoveredIndex", "PipSettings", "main_index_url", "pip_settings"}:
        from cudalock.index import discovery

        return getattr(discovery, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
