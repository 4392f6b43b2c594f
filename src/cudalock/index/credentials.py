"""Who we are to an index: user info of its URL, netrc, keyring. Kept apart from URLs, and out of every text.

Credentials are bound to an origin (scheme, host, port), so they do not follow a redirect to another one.
"""

from __future__ import annotations

import base64
import os
import shutil
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cudalock.index.simple import without_credentials

__all__ = ["CredentialStore", "Credentials", "split_credentials"]

_KEYRING_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user name and password; neither appears in ``repr``."""

    username: str = field(repr=False)
    password: str = field(repr=False)

    @property
    def header(self) -> str:
        """The value of the Authorization header."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode("ascii")


def split_credentials(url: str) -> tuple[str, Credentials | None]:
    """The URL without user info, and what the user info said."""
    info, separator, _ = urlsplit(url).netloc.rpartition("@")
    if not separator:
        return url, None
    username, _, password = info.partition(":")
    return without_credentials(url), Credentials(unquote(username), unquote(password))


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), port


class CredentialStore:
    """Looks credentials up for a URL: those given for its origin, else netrc, and after a refusal the keyring.

    Args:
        given: (URL, credentials) as they came from index URLs.
        environ: ``NETRC``, ``PIP_KEYRING_PROVIDER`` and ``UV_KEYRING_PROVIDER`` are read from it; the keyring command
            is asked only if one of the latter is ``subprocess``, which is pip's and uv's convention.
    """

    def __init__(self, given: Iterable[tuple[str, Credentials]], environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._given = {_origin(url): credentials for url, credentials in given}
        self._keyring: dict[tuple[str, str, int | None], Credentials | None] = {}
        self._netrc: Mapping[str, tuple[str, str | None, str | None]] = {}
        self._netrc_read = False
        self._lock = threading.Lock()

    def header(self, url: str) -> str | None:
        """The Authorization header for a request to the URL, if there is something to send."""
        origin = _origin(url)
        given = self._given.get(origin)
        known = self._keyring.get(origin) or (given if given and given.password else None)
        known = known or self._from_netrc(origin[1]) or given
        return known.header if known else None

    def after_refusal(self, url: str, sent: str | None) -> bool:
        """After status 401: asks the keyring once per origin; True if there is now something else to send.

        ``sent`` is the header of the request that was refused: of several that were under way at once, each may come
        again with what the first of them made known.
        """
        origin = _origin(url)
        with self._lock:
            if origin not in self._keyring:
                if not self._keyring_wanted():
                    return False
                given = self._given.get(origin)
                self._keyring[origin] = self._from_keyring(url, origin[1], given.username if given else "")
            known = self._keyring[origin]
            return known is not None and known.header != sent

    def _from_netrc(self, host: str) -> Credentials | None:
        with self._lock:
            if not self._netrc_read:
                self._netrc_read = True
                self._netrc = self._read_netrc()
        if host not in self._netrc:
            return None
        login, _, password = self._netrc[host]
        return Credentials(login or "", password or "")

    def _read_netrc(self) -> Mapping[str, tuple[str, str | None, str | None]]:
        import netrc

        stated = self._environ.get("NETRC")
        paths = [Path(stated)] if stated else [Path.home() / ".netrc", Path.home() / "_netrc"]
        for path in paths:
            try:
                return netrc.netrc(str(path)).hosts
            except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
                continue  # as pip and curl do: an unreadable netrc means no credentials
        return {}

    def _keyring_wanted(self) -> bool:
        return "subprocess" in {
            self._environ.get("PIP_KEYRING_PROVIDER", "").lower(),
            self._environ.get("UV_KEYRING_PROVIDER", "").lower(),
        }

    def _from_keyring(self, url: str, host: str, username: str) -> Credentials | None:
        command = shutil.which("keyring", path=self._environ.get("PATH"))
        if command is None:
            return None
        for service in (without_credentials(url), host):
            if username:
                answer = _ask([command, "get", service, username])
                if answer:
                    return Credentials(username, answer.rstrip("\r\n"))
            else:
                lines = _ask([command, "--mode", "creds", "get", service, ""]).splitlines()
                if len(lines) == 2:
                    return Credentials(lines[0], lines[1])
        return None


def _ask(command: list[str]) -> str:
    """What the keyring command prints; nothing if it fails. The password comes on its output, never as an argument."""
    import subprocess

    try:
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_KEYRING_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return answer.stdout if answer.returncode == 0 else ""
