"""Which index is the main one: the one that the user's pip and uv are configured for (design §7).

This module alone knows where pip keeps its configuration; a test compares it with pip itself. It does not import pip
for that, because the import takes a third of the time that a whole warm run may take.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from cudalock.errors import UsageError
from cudalock.index.credentials import Credentials, split_credentials
from cudalock.index.settings import check_index_url
from cudalock.index.simple import shown_url

__all__ = [
    "DiscoveredIndex", "PipSettings", "configured_index", "default_from_pip", "default_from_uv", "main_index_url",
    "pip_settings",
]  # fmt: skip

_CONFIG_NAME = "pip.ini" if sys.platform == "win32" else "pip.conf"
_CERTIFICATE_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredIndex:
    """The main index. ``url`` has no user info and ends in a slash; ``origin`` says in words where it was set."""

    url: str
    origin: str
    credentials: Credentials | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipSettings:
    """What else the user's pip is told.

    Attributes:
        constraints: constraint files or URLs; they count as ``-c``.
        constraints_origin: where they were set, in words.
        ignored: (option, value, origin) of indexes that pip would use and cudalock does not; URLs without user info.
        ca_bundle: file of trusted certificates.
        proxy: URL of a proxy (may hold user info: not for display).
    """

    constraints: tuple[str, ...] = ()
    constraints_origin: str = ""
    ignored: tuple[tuple[str, str, str], ...] = ()
    ca_bundle: Path | None = None
    proxy: str | None = None


def main_index_url(
    explicit: str | None = None,
    environ: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
    *,
    allow_insecure_hosts: frozenset[str] = frozenset(),
) -> DiscoveredIndex:
    """Finds the main index.

    Args:
        explicit: value of ``--index-url``.
        environ: ``CUDALOCK_INDEX_URL``, ``UV_DEFAULT_INDEX``, ``PIP_INDEX_URL`` and pip's locations are read from it.
        config: ``[tool.cudalock]``; its ``index-url``.
        allow_insecure_hosts: hosts that may be reached by plain http.

    Raises:
        UsageError: ``index-url-invalid``, ``index-url-insecure``, ``pip-configuration-invalid``, ``index-unknown``.
    """
    environ = os.environ if environ is None else environ
    for url, origin in _stated(explicit, environ, config or {}):
        if url.strip():
            return _discovered(url.strip(), origin, allow_insecure_hosts)
    raise UsageError(
        "index-unknown",
        "no package index is configured, and neither pip nor uv names its default",
        hint="name one with --index-url or CUDALOCK_INDEX_URL",
    )


def configured_index(
    environ: Mapping[str, str],
    config: Mapping[str, Any] | None = None,
    *,
    allow_insecure_hosts: frozenset[str] = frozenset(),
) -> DiscoveredIndex | None:
    """Like :func:`main_index_url`, but None where only a default is left, which uv and pip have themselves."""
    for url, origin in _configured(None, environ, config or {}):
        if url.strip():
            return _discovered(url.strip(), origin, allow_insecure_hosts)
    return None


def _discovered(url: str, origin: str, allow_insecure_hosts: frozenset[str]) -> DiscoveredIndex:
    check_index_url(url, origin, allow_insecure_hosts)
    clean, credentials = split_credentials(url)
    return DiscoveredIndex(url=clean.rstrip("/") + "/", origin=origin, credentials=credentials)


def _stated(explicit: str | None, environ: Mapping[str, str], config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _configured(explicit, environ, config)
    yield default_from_pip() or "", "pip's default"
    yield default_from_uv() or "", "uv's default"


def _configured(
    explicit: str | None, environ: Mapping[str, str], config: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """(URL, origin) in order of precedence; later sources are read only if the earlier say nothing."""
    yield explicit or "", "--index-url"
    yield environ.get("CUDALOCK_INDEX_URL", ""), "CUDALOCK_INDEX_URL"
    from_project = config.get("index-url", "")
    if not isinstance(from_project, str):
        raise UsageError(
            "config-invalid", "index-url in [tool.cudalock] is not text", hint='write index-url = "https://..."'
        )
    yield from_project, "index-url in [tool.cudalock]"
    # uv accepts NAME=URL here.
    yield re.sub(r"^[A-Za-z0-9_.-]+=(?=\w+://)", "", environ.get("UV_DEFAULT_INDEX", "")), "UV_DEFAULT_INDEX"
    yield environ.get("PIP_INDEX_URL", ""), "PIP_INDEX_URL"
    value, origin = _PipConfiguration(environ).get("index-url")
    yield value, origin


def pip_settings(environ: Mapping[str, str] | None = None) -> PipSettings:
    """What pip is told beside the index: constraints, certificates, proxy, and sources that cudalock leaves alone.

    Raises:
        UsageError: ``pip-configuration-invalid``.
    """
    environ = os.environ if environ is None else environ
    configuration = _PipConfiguration(environ)
    constraints, constraints_origin = configuration.get("constraint")
    ignored = []
    for option in ("extra-index-url", "find-links"):
        values, origin = configuration.get(option)
        ignored += [(option, shown_url(value) if "://" in value else value, origin) for value in values.split()]
    if configuration.get("no-index")[0].lower() in {"1", "true", "yes", "on"}:
        ignored.append(("no-index", "true", configuration.get("no-index")[1]))
    bundle = next((environ[name] for name in _CERTIFICATE_VARIABLES if environ.get(name)), None)
    bundle = bundle or configuration.get("cert")[0] or None
    return PipSettings(
        constraints=tuple(constraints.split()),
        constraints_origin=constraints_origin,
        ignored=tuple(ignored),
        ca_bundle=Path(bundle).expanduser() if bundle else None,
        proxy=configuration.get("proxy")[0] or None,
    )


def default_from_pip() -> str | None:
    """The index that pip ships as its default."""
    try:
        from pip._internal.models.index import PyPI
    except (ImportError, AttributeError):
        return None
    return str(PyPI.simple_url)


def default_from_uv() -> str | None:
    """The index that uv names as its default in its help text."""
    command = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if command is None:
        return None
    import subprocess

    environ = {**os.environ, "NO_COLOR": "1"}
    try:
        answer = subprocess.run(
            [command, "help", "pip", "install"],
            capture_output=True, text=True, check=False, timeout=20, env=environ, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    match = re.search(r"default:\s*<?(https://[^\s>)]+)", answer.stdout)
    return match[1] if match else None


class _PipConfiguration:
    """pip's merged settings for ``pip install``: files in pip's order, then ``PIP_*``."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._values: dict[str, tuple[str, str]] = {}
        for path in pip_configuration_files(environ):
            self._read(path)

    def get(self, option: str) -> tuple[str, str]:
        """(value, origin); the value is empty if the option is not set."""
        variable = "PIP_" + option.upper().replace("-", "_")
        if self._environ.get(variable):
            return self._environ[variable], variable
        return self._values.get(option, ("", ""))

    def _read(self, path: Path) -> None:
        import configparser

        parser = configparser.RawConfigParser()
        try:
            with path.open(encoding="utf-8") as stream:
                parser.read_file(stream)
        except (configparser.Error, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UsageError(
                "pip-configuration-invalid",
                f"pip's configuration file {path} cannot be read: {reason}",
                hint="mend the file, or set PIP_CONFIG_FILE to another one",
            ) from None
        except OSError:
            return  # as pip does: a file that is not there or not ours says nothing
        for section in ("global", "install"):
            if parser.has_section(section):
                for key, value in parser.items(section):
                    option = key.lower().replace("_", "-").removeprefix("--")
                    self._values[option] = (value.strip(), f"pip's configuration file {path}")


def pip_configuration_files(environ: Mapping[str, str]) -> list[Path]:
    """The files that pip reads, weakest first, whether they exist or not."""
    stated = environ.get("PIP_CONFIG_FILE")
    if stated == os.devnull:
        return []
    folders = _shared_folders(environ)
    files = [folder / _CONFIG_NAME for folder in folders]
    if not (stated and Path(stated).exists()):
        files += [folder / _CONFIG_NAME for folder in _user_folders(environ)]
    files.append(Path(sys.prefix) / _CONFIG_NAME)
    if stated:
        files.append(Path(stated))
    return files


def _shared_folders(environ: Mapping[str, str]) -> list[Path]:
    if sys.platform == "win32":
        return [Path(platformdirs.site_config_dir("pip", appauthor=False))]
    if sys.platform == "darwin":
        stated = platformdirs.site_data_dir("pip", appauthor=False, multipath=True)
        return [Path(folder) for folder in stated.split(os.pathsep)]
    stated = environ.get("XDG_CONFIG_DIRS", "").strip() or "/etc/xdg"
    return [Path(folder) / "pip" for folder in stated.split(os.pathsep)] + [Path("/etc")]


def _user_folders(environ: Mapping[str, str]) -> list[Path]:
    home = Path.home()
    if sys.platform == "win32":
        return [home / "pip", Path(platformdirs.user_config_dir("pip", appauthor=False, roaming=True))]
    if sys.platform == "darwin":
        library = home / "Library" / "Application Support" / "pip"
        return [home / ".pip", library if library.is_dir() else home / ".config" / "pip"]
    stated = environ.get("XDG_CONFIG_HOME", "").strip()
    return [home / ".pip", (Path(stated) if stated else home / ".config") / "pip"]
