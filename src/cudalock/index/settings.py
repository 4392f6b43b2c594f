"""What the index client can be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from cudalock.errors import UsageError
from cudalock.index.credentials import Credentials
from cudalock.index.simple import shown_url

__all__ = ["DEFAULT_PYTORCH_URL", "IndexSettings", "check_index_url", "is_loopback"]

DEFAULT_PYTORCH_URL = "https://download.pytorch.org/whl"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """Settings of an :class:`cudalock.index.IndexClient`.

    Attributes:
        main_url: the main index; None means that :func:`cudalock.index.main_index_url` finds it. May hold user info.
        main_credentials: for the main index, where its URL holds none.
        pytorch_url: base of the PyTorch index; ``/<label>/<project>/`` is appended.
        sources: name -> URL of further indexes, as in ``[tool.cudalock.sources]``.
        cache_dir: folder of the disk cache; None keeps nothing on disk.
        offline: answer from the disk cache alone; what is not there is error ``index-offline-miss``.
        refresh: ask the index even where the cached page is still fresh.
        timeout_s: seconds without a byte after which a request counts as stalled.
        retries: how often a failed request is repeated.
        connections: most connections, and background threads, at once.
        allow_insecure_hosts: hosts beyond loopback that may be reached by plain ``http://``.
        allowed_hosts: the only hosts that may be contacted, also by redirects; empty: any.
        ca_bundle: file of trusted certificates (``PIP_CERT`` and kin are honoured without it).
        proxy: URL of a proxy; None leaves it to ``HTTPS_PROXY`` and kin.
    """

    main_url: str | None = None
    main_credentials: Credentials | None = None
    pytorch_url: str = DEFAULT_PYTORCH_URL
    sources: Mapping[str, str] = field(default_factory=dict)
    cache_dir: Path | None = None
    offline: bool = False
    refresh: bool = False
    timeout_s: float = 15.0
    retries: int = 3
    connections: int = 24
    allow_insecure_hosts: frozenset[str] = frozenset()
    allowed_hosts: frozenset[str] = frozenset()
    ca_bundle: Path | None = None
    proxy: str | None = None


def is_loopback(url: str) -> bool:
    """Whether the URL's host is this machine."""
    return (urlsplit(url).hostname or "").lower() in _LOOPBACK


def check_index_url(url: str, origin: str, allow_insecure_hosts: frozenset[str] = frozenset()) -> None:
    """Raises UsageError (``index-url-invalid``, ``index-url-insecure``) unless the URL can serve as an index.

    Args:
        url: the URL; user info may be in it and is not shown.
        origin: where the URL was set, named in the error.
        allow_insecure_hosts: hosts beyond loopback for which plain http is accepted.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in {"http", "https"} or not host or not url.isascii() or not url.isprintable():
        raise UsageError(
            "index-url-invalid",
            f"the index URL {shown_url(url)!r} from {origin} is not an http or https URL",
            hint="give the URL of a package index, for example --index-url https://packages.example/simple/",
        )
    if parts.query or parts.fragment:
        raise UsageError(
            "index-url-invalid",
            f"the index URL {shown_url(url)!r} from {origin} has a query or a fragment",
            hint="give the URL up to its path; credentials go into netrc, the keyring or before the host: https://USER@...",
        )
    if parts.scheme == "http" and not is_loopback(url) and host.lower() not in allow_insecure_hosts:
        raise UsageError(
            "index-url-insecure",
            f"the index {shown_url(url)} from {origin} is reached without encryption",
            hint=f"use its https:// URL, or allow it with --allow-insecure-host {host}",
        )
