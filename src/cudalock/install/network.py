"""What uv and pip are told of the network, so that they go the way that cudalock itself goes.

All of it travels in environment variables: arguments of a process can be read by every user of the machine. uv does not
read pip's configuration, and left to itself would ask its own default index for what a build requires.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlsplit, urlunsplit

from cudalock.errors import CudalockError
from cudalock.index.discovery import DiscoveredIndex, configured_index, pip_settings

__all__ = ["network_environment"]

_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


def network_environment(
    environ: Mapping[str, str], *, index_url: str | None = None, allow_insecure_hosts: frozenset[str] = frozenset()
) -> dict[str, str]:
    """``environ`` with the main index, its credentials, certificates, proxy and keyring under the names of uv and pip.

    Args:
        environ: the process's own; what uv and pip understand in it stays.
        index_url: ``index-url`` of ``[tool.cudalock]``.
        allow_insecure_hosts: hosts that may be reached by plain http.

    Raises:
        UsageError: ``pip-configuration-invalid``.
    """
    pip = pip_settings(environ)
    more: dict[str, str] = {}
    if pip.ca_bundle is not None:
        more["SSL_CERT_DIR" if pip.ca_bundle.is_dir() else "SSL_CERT_FILE"] = str(pip.ca_bundle)
        more["PIP_CERT"] = str(pip.ca_bundle)
    if pip.proxy and not any(environ.get(name) for name in _PROXIES):
        more |= {"HTTPS_PROXY": pip.proxy, "HTTP_PROXY": pip.proxy}
    for one, other in (("UV", "PIP"), ("PIP", "UV")):
        provider = environ.get(f"{one}_KEYRING_PROVIDER")
        if provider == "subprocess" and not environ.get(f"{other}_KEYRING_PROVIDER"):
            more[f"{other}_KEYRING_PROVIDER"] = provider
    index = _index(environ, index_url, allow_insecure_hosts)
    if index is not None:
        more |= {"UV_DEFAULT_INDEX": _with_credentials(index), "PIP_INDEX_URL": _with_credentials(index)}
    return {**environ, **more}


def _index(environ: Mapping[str, str], index_url: str | None, hosts: frozenset[str]) -> DiscoveredIndex | None:
    """None if none is configured or the configured one is of no use: installing the lock's files needs none."""
    config = {"index-url": index_url} if index_url else None
    try:
        return configured_index(environ, config, allow_insecure_hosts=hosts)
    except CudalockError:
        return None


def _with_credentials(index: DiscoveredIndex) -> str:
    if index.credentials is None:
        return index.url
    user = quote(index.credentials.username, safe="")
    password = quote(index.credentials.password, safe="")
    parts = urlsplit(index.url)
    return urlunsplit(parts._replace(netloc=f"{user}:{password}@{parts.netloc}"))
