"""The project's configuration: ``[tool.cudalock]`` of the nearest ``pyproject.toml``.

Every value is checked for its type and every key for its name; what a value means is up to the stage that uses it.

```toml
[tool.cudalock]
driver = "535.161.08"             # the default target: gpu, driver, python, platform, cpu
gpu = ["RTX 4090"]
compat = "native"                 # any option of the commands, by its long name
[tool.cudalock.targets.cluster]   # a named target, for --target cluster
gpu = ["H100"]
driver = "570.124.06"
python = "3.12"
platform = "linux-x86_64"
[tool.cudalock.sources.internal]  # an extra index and the only projects that come from it
url = "https://packages.example/simple"
projects = ["our-kernels"]
```
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cudalock.errors import UsageError
from cudalock.files import read_file
from cudalock.spelling import near_words
from cudalock.toml import NotTomlError, parse_toml

__all__ = ["find_pyproject", "OPTION_KEYS", "ProjectConfig", "read_config", "SourceTable", "TargetTable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTable:
    """A target as it is written: texts, not yet understood; None and () if not given."""

    name: str | None = None
    gpus: tuple[str, ...] = ()
    driver: str | None = None
    python: str | None = None
    platform: str | None = None
    cpu: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """An extra index: its URL and the projects, by normalised name, that come from it and from nowhere else."""

    url: str
    projects: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectConfig:
    """What ``[tool.cudalock]`` says.

    Attributes:
        path: the pyproject.toml it was read from; None if there is none.
        defaults: option -> value by the option's long name without dashes in front, e.g. ``compat``,
            ``pytorch-index-url``, ``exclude-newer``; the options of a target are in ``target`` instead.
        target: the default target.
        targets: named targets.
        sources: extra indexes by name.
    """

    path: Path | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    target: TargetTable = TargetTable()
    targets: Mapping[str, TargetTable] = field(default_factory=dict)
    sources: Mapping[str, SourceTable] = field(default_factory=dict)

    @property
    def index_url(self) -> str | None:
        """The main index, if the project names one."""
        return self.defaults.get("index-url")

    @property
    def pytorch_index_url(self) -> str | None:
        """The PyTorch index or its mirror, if the project names one."""
        return self.defaults.get("pytorch-index-url")

    @property
    def allowed_hosts(self) -> tuple[str, ...]:
        """Hosts that may be asked over plain HTTP or from which files may come although no index is there."""
        return tuple(self.defaults.get("allowed-hosts", ()))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TypeError("expected text in quotes")
    return value.strip()


def _version_text(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise TypeError(f'expected text in quotes: "{value}"')
    return _text(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("expected true or false")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) and item.strip() for item in items):
        raise TypeError("expected a list of texts")
    return tuple(item.strip() for item in items)


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise TypeError("expected a number of seconds above 0")
    return float(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError("expected a whole number")
    return value


def _date(value: Any) -> str:
    # TOML has dates of its own; the option takes them as text
    return value.isoformat() if hasattr(value, "isoformat") else _text(value)


def _url(value: Any) -> str:
    text = _text(value)
    if not re.match(r"(https?|file)://[^\s]+$", text):
        raise TypeError("expected a URL that begins with https://, http:// or file://")
    return text


def _one_of(*choices: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in choices:
            near = near_words(str(value), choices, most=1)
            raise TypeError(f"expected one of {', '.join(choices)}" + (f"; did you mean {near[0]}?" if near else ""))
        return str(value)

    return check


OPTION_KEYS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "allow-build": _texts,
        "allow-insecure-host": _texts,
        "allow-local-files": _truth,
        "allowed-hosts": _texts,
        "cache-dir": _text,
        "compat": _one_of("native", "minor", "forward"),
        "constraint": _texts,
        "cuda": _version_text,
        "dir": _texts,
        "exclude-newer": _date,
        "extra": _texts,
        "find-links": _texts,
        "group": _texts,
        "index-url": _url,
        "installer": _one_of("uv", "pip"),
        "lock": _text,
        "no-pytorch-index": _truth,
        "offline": _truth,
        "no-progress": _truth,
        "prerelease": _texts,
        "project": _text,
        "pytorch-index-url": _url,
        "quiet": _count,
        "require-pytorch-index": _truth,
        "requirement": _texts,
        "retries": _count,
        "target": _texts,
        "threshold": _count,
        "timeout": _seconds,
        "uv": _text,
        "venv": _text,
        "verbose": _count,
        "wheelhouse": _text,
        "without-triton": _truth,
    }
)
"""Options that ``[tool.cudalock]`` may set, with the check of their values."""

_TARGET_KEYS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"gpu": _texts, "driver": _version_text, "python": _version_text, "platform": _text, "cpu": _truth}
)
_SOURCE_KEYS: Mapping[str, Callable[[Any], Any]] = MappingProxyType({"url": _url, "projects": _texts})


def find_pyproject(start: Path) -> Path | None:
    """The nearest ``pyproject.toml`` in ``start`` or a folder above it; None if there is none."""
    folder = start.resolve()
    for candidate in (folder, *folder.parents):
        path = candidate / "pyproject.toml"
        if path.is_file():
            return path
    return None


def read_config(start: Path | None = None, *, path: Path | None = None) -> ProjectConfig:
    """Reads the configuration that holds in ``start`` (default: the current folder), or that of the file ``path``.

    No file, or one without ``[tool.cudalock]``, gives an empty configuration.

    Raises:
        UsageError: ``config-unreadable``, ``config-not-toml`` with the line, or ``config-invalid`` which names file,
            key and what is expected, with the nearest known key for an unknown one.
    """
    path = path or find_pyproject(start or Path.cwd())
    if path is None:
        return ProjectConfig()
    tool = _load(path).get("tool", {})
    table = tool.get("cudalock", {}) if isinstance(tool, dict) else {}
    return _Reading(path).project(table)


def _load(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(read_file(path).decode("utf-8"))
    except OSError as error:
        raise UsageError(
            "config-unreadable", f"cannot read {path}: {error.strerror or error}", hint="check its permissions"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError("config-not-toml", f"{path} is not UTF-8 text", hint="save it as UTF-8") from error
    except NotTomlError as error:
        where = f"{path}:{error.line}" if error.line else str(path)
        raise UsageError(
            "config-not-toml",
            f"{where} is not TOML: {error}",
            hint="mend that line" if error.line else "mend or remove that part",
            details={"file": str(path), "line": error.line},
        ) from error


class _Reading:
    """One file being read; knows its path for the errors."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _fail(self, key: str, message: str, hint: str | None = None) -> UsageError:
        return UsageError(
            "config-invalid",
            f"{self._path}: {key}: {message}",
            hint=hint or "see `cudalock resolve --help` for what the option takes",
            details={"file": str(self._path), "key": key},
        )

    def _table(self, value: Any, key: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._fail(key, "expected a table")
        return value

    def _checked(
        self, table: Mapping[str, Any], known: Mapping[str, Callable[[Any], Any]], prefix: str
    ) -> dict[str, Any]:
        """The values of a table, each checked; a key that is not known is an error with the nearest one."""
        found = {}
        for key, value in table.items():
            if key not in known:
                near = near_words(key.replace("_", "-"), known, most=1)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}"
                raise self._fail(f"{prefix}.{key}", "no such option", hint)
            try:
                found[key] = known[key](value)
            except TypeError as error:
                raise self._fail(f"{prefix}.{key}", str(error)) from None
        return found

    def project(self, value: Any) -> ProjectConfig:
        table = dict(self._table(value, "tool.cudalock"))
        targets = self._table(table.pop("targets", {}), "tool.cudalock.targets")
        sources = self._table(table.pop("sources", {}), "tool.cudalock.sources")
        options = self._checked(table, {**OPTION_KEYS, **_TARGET_KEYS}, "tool.cudalock")
        return ProjectConfig(
            path=self._path,
            defaults={key: option for key, option in options.items() if key not in _TARGET_KEYS},
            target=_target({key: option for key, option in options.items() if key in _TARGET_KEYS}),
            targets={name: self._target(name, item) for name, item in targets.items()},
            sources={name: self._source(name, item) for name, item in sources.items()},
        )

    def _target(self, name: str, value: Any) -> TargetTable:
        key = f"tool.cudalock.targets.{name}"
        # the name becomes part of a file's name: pylock.NAME.toml, which PEP 751 keeps free of dots
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise self._fail(key, "a target's name may hold letters, digits, - and _ only", "rename the target")
        checked = self._checked(self._table(value, key), _TARGET_KEYS, key)
        if checked.get("cpu") and checked.get("gpu"):
            raise self._fail(key, "cpu and gpu exclude each other", "remove one of them")
        return _target(checked, name)

    def _source(self, name: str, value: Any) -> SourceTable:
        from packaging.utils import canonicalize_name

        key = f"tool.cudalock.sources.{name}"
        if name in ("main", "pytorch"):
            raise self._fail(key, f"{name} is the name of a built-in index", "choose another name")
        checked = self._checked(self._table(value, key), _SOURCE_KEYS, key)
        for needed in _SOURCE_KEYS:
            if not checked.get(needed):
                raise self._fail(f"{key}.{needed}", "is missing", f"add {needed} to [{key}]")
        projects = tuple(sorted({canonicalize_name(project) for project in checked["projects"]}))
        return SourceTable(url=checked["url"], projects=projects)


def _target(checked: Mapping[str, Any], name: str | None = None) -> TargetTable:
    return TargetTable(
        name=name,
        gpus=checked.get("gpu", ()),
        driver=checked.get("driver"),
        python=checked.get("python"),
        platform=checked.get("platform"),
        cpu=checked.get("cpu"),
    )
