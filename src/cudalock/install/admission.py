"""What of a lock may be taken: from which hosts and places, under which names, with which hashes.

A lock is untrusted input: it may come out of a merge, a mail or a cloned repository. Its digest
is against accident only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from packaging.pylock import Pylock

from cudalock.errors import UsageError
from cudalock.install.documents import LockedFile, hosts, locked_files

__all__ = ["SourceRules", "require_admissible"]

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!~-]{0,254}")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRules:
    """From where files may come.

    Attributes:
        allowed_hosts: the only hosts that may be contacted; empty: any.
        allow_insecure_hosts: hosts beyond loopback from which files may come by plain ``http://``.
        allow_local_files: files may be named by ``file://``, or lie outside the folder of the lock.
    """

    allowed_hosts: frozenset[str] = frozenset()
    allow_insecure_hosts: frozenset[str] = frozenset()
    allow_local_files: bool = False


def require_admissible(pylock: Pylock, folder: Path, rules: SourceRules, *, only_names: bool = False) -> None:
    """Refuses a lock before anything is contacted or written.

    Args:
        pylock: the lock.
        folder: where it lies: its relative paths begin there.
        rules: what the user allows.
        only_names: the files come from a wheelhouse, so that only their names and hashes count.

    Raises:
        UsageError: ``lock-file-name-unsafe``, ``lock-files-collide``, ``lock-hash-missing``, ``host-not-allowed``,
            ``lock-url-insecure``, ``lock-url-unusable`` or ``lock-local-file``.
    """
    files = tuple(locked_files(pylock))
    _check_names(files)
    for file in files:
        _check_hash(file)
        if not only_names:
            _check_place(file, folder, rules)
    if not only_names:
        _check_hosts(hosts(pylock), rules.allowed_hosts)


def _check_names(files: Iterable[LockedFile]) -> None:
    """A name becomes a file in a folder: without folders, and no name for two contents, in capitals or not."""
    seen: dict[str, str | None] = {}
    for file in files:
        if not _SAFE_NAME.fullmatch(file.name):
            raise _refused(
                file, "lock-file-name-unsafe", f"cannot be written under the name {file.name[:200]!r}",
                "do not install it: no package index has such a file",
            )  # fmt: skip
        if seen.setdefault(file.name.lower(), file.sha256) != file.sha256:
            raise _refused(
                file, "lock-files-collide", f"names {file.name} twice, with different content",
                "do not install it; `cudalock resolve` makes it anew",
            )  # fmt: skip


def _check_hash(file: LockedFile) -> None:
    if file.sha256 is None or not _SHA256.fullmatch(file.sha256):
        raise _refused(
            file, "lock-hash-missing", f"gives no sha256 for {file.name}",
            "`cudalock resolve` makes a lock in which every file has one",
        )  # fmt: skip


def _check_place(file: LockedFile, folder: Path, rules: SourceRules) -> None:
    if file.url is not None:
        _check_url(file, file.url, rules)
    if file.path is not None and not rules.allow_local_files and not _within(folder, file.path):
        raise _refused(
            file, "lock-local-file", f"takes {file.name} from {file.path[:200]}, outside its own folder",
            "if that is meant, allow it with --allow-local-files",
        )  # fmt: skip


def _check_url(file: LockedFile, url: str, rules: SourceRules) -> None:
    scheme, host = _parts(url)
    if scheme == "file":
        if not rules.allow_local_files:
            raise _refused(
                file, "lock-local-file", f"takes {file.name} from {_shown(url)}, a file of this machine",
                "if that is meant, allow it with --allow-local-files",
            )  # fmt: skip
    elif scheme not in {"http", "https"} or not host:
        raise _refused(
            file, "lock-url-unusable", f"takes {file.name} from {_shown(url)}, which is no https:// address",
            "do not install it; `cudalock resolve` makes it anew",
        )  # fmt: skip
    elif scheme == "http" and not _is_loopback(url) and host not in rules.allow_insecure_hosts:
        raise _refused(
            file, "lock-url-insecure", f"takes {file.name} from {_shown(url)}, without encryption",
            f"if that is meant, allow it with --allow-insecure-host {host}",
        )  # fmt: skip


def _is_loopback(url: str) -> bool:
    from cudalock.index.settings import is_loopback  # the usual lock has no plain http, and needs nothing of the index

    return is_loopback(url)


def _shown(url: str) -> str:
    from cudalock.index.simple import shown_url

    return shown_url(url)


def _parts(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
        _ = parts.port
        return parts.scheme.lower(), (parts.hostname or "").lower()
    except ValueError:
        return "", ""


def _within(folder: Path, path: str) -> bool:
    """Whether a path of the lock leads to somewhere in the lock's folder, with every link followed."""
    try:
        root = os.path.realpath(folder)
        return os.path.commonpath([root, os.path.realpath(folder / path)]) == root
    except ValueError:  # another drive, or a zero byte
        return False


def _check_hosts(needed: tuple[str, ...], allowed: frozenset[str]) -> None:
    outside = sorted(set(needed) - allowed) if allowed else []
    if outside:
        raise UsageError(
            "host-not-allowed",
            f"the lock's files lie on {', '.join(outside)}, which allowed-hosts does not name",
            hint="add the host to allowed-hosts in [tool.cudalock], or make the lock from a mirror that is allowed",
            details={"hosts": list(needed), "allowed": sorted(allowed)},
        )


def _refused(file: LockedFile, code: str, what: str, hint: str) -> UsageError:
    details: dict[str, Any] = {"package": file.package, "file": file.name}
    if file.url is not None:
        details["url"] = _shown(file.url)
    return UsageError(code, f"the lock {what} ({file.package})", hint=hint, details=details)
