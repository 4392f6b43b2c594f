"""What is installed in a virtual environment, read from its files: no Python is started and nothing is imported."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import NormalizedName, canonicalize_name

from cudalock.errors import UsageError
from cudalock.lock.owned import damaged_files
from cudalock.target.model import PythonVersion

__all__ = [
    "INCOMPLETE_MARKER",
    "OLD_SUFFIX",
    "STATE",
    "Installed",
    "InstalledPackages",
    "read_environment",
    "site_packages",
]

INCOMPLETE_MARKER = "cudalock-incomplete"
"""Lies in the root of an environment while cudalock installs into it, and stays there if that is cut short."""

STATE = "cudalock-state.json"
"""Lies in the root of an environment that cudalock made, and says what is in it."""

OLD_SUFFIX = ".cudalock-old"
"""Ends the name under which an environment waits while cudalock makes the one that takes its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """One installed distribution; ``complete`` is False if its metadata or its list of files is missing."""

    name: NormalizedName
    version: str
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPackages:
    """The contents of an environment.

    Attributes:
        venv: its folder.
        python: from ``pyvenv.cfg``, None if that does not say it.
        python_full: likewise, down to the micro version (``3.12.1``, ``3.13.0rc2``).
        implementation: of its Python in lower case (``cpython``, ``pypy``), None if that is not known.
        packages: by name; a name with several has them all, which is a fault.
        torch_cuda: the CUDA release that torch's own ``version.py`` states, ``cpu`` for a CPU build, None if unknown.
        incomplete: whether cudalock's mark of an unfinished installation lies there.
        damaged: files that are gone or not of the recorded size, by the name of their distribution, if asked for.
    """

    venv: Path
    python: PythonVersion | None
    packages: Mapping[NormalizedName, tuple[Installed, ...]] = field(default_factory=dict)
    python_full: str | None = None
    implementation: str | None = None
    torch_cuda: str | None = None
    incomplete: bool = False
    damaged: Mapping[NormalizedName, tuple[str, ...]] = field(default_factory=dict)


def read_environment(venv: Path, *, files: bool = False) -> InstalledPackages:
    """Reads names and versions of all installed distributions; with ``files``, also looks at every file of theirs.

    Files that were other than recorded when cudalock had just installed them, from a wheel with a false RECORD, are
    as they should be.

    Raises:
        UsageError: ``venv-missing``, ``venv-is-file``, ``venv-invalid`` (a folder that is no virtual environment) or
            ``venv-incomplete`` (nothing is there, because replacing it was cut short).
    """
    _check_is_venv(venv)
    found: dict[NormalizedName, list[Installed]] = {}
    torch_cuda: str | None = None
    damaged: dict[NormalizedName, tuple[str, ...]] = {}
    excused = _excused(venv) if files else {}
    for folder in site_packages(venv):
        dist_infos: dict[NormalizedName, tuple[Path, ...]] = {}
        for entry in sorted(folder.glob("*.dist-info")):
            installed = _installed(entry)
            found.setdefault(installed.name, []).append(installed)
            dist_infos[installed.name] = (*dist_infos.get(installed.name, ()), entry)
        if files:
            damaged |= damaged_files(folder, dist_infos, excused)
        torch_cuda = torch_cuda or _torch_cuda(folder)
    configuration = _configuration(venv)
    return InstalledPackages(
        venv=venv,
        python=_python_of(venv, configuration),
        python_full=_full_version(configuration),
        implementation=_implementation(venv, configuration),
        packages={name: tuple(found[name]) for name in sorted(found)},
        torch_cuda=torch_cuda,
        incomplete=(venv / INCOMPLETE_MARKER).exists(),
        damaged=damaged,
    )


def _check_is_venv(venv: Path) -> None:
    details = {"venv": str(venv)}
    old = Path(os.path.abspath(venv) + OLD_SUFFIX)  # noqa: PTH100 - a link is looked at, not followed
    if not venv.exists() and old.is_dir():
        raise UsageError(
            "venv-incomplete",
            f"replacing {venv} was begun and did not end; what was there lies in {old}",
            hint="the next `cudalock install` into it brings that back",
            details=details,
        )
    if not venv.exists():
        hint = f"make it with `cudalock install --venv {venv}`"
        raise UsageError("venv-missing", f"there is no environment {venv}", hint=hint, details=details)
    if not venv.is_dir():
        message = f"{venv} is a file, not an environment"
        raise UsageError("venv-is-file", message, hint="give the folder of the environment", details=details)
    if not (venv / "pyvenv.cfg").is_file() and not (venv / INCOMPLETE_MARKER).exists():
        raise UsageError(
            "venv-invalid",
            f"{venv} is not a virtual environment: it has no pyvenv.cfg",
            hint="give the folder that `cudalock install --venv` or `uv venv` made",
            details=details,
        )


def site_packages(venv: Path) -> tuple[Path, ...]:
    """The folders of an environment that hold packages, each once (``lib64`` is often a link to ``lib``)."""
    candidates = [venv / "Lib" / "site-packages"]
    for library in ("lib", "lib64"):
        candidates += sorted((venv / library).glob("python*/site-packages"))
    real: dict[Path, Path] = {}
    for folder in candidates:
        if folder.is_dir():
            real.setdefault(folder.resolve(), folder)
    return tuple(real.values())


def _excused(venv: Path) -> Mapping[str, int | None]:
    for name in (STATE, INCOMPLETE_MARKER):
        try:
            said = json.loads((venv / name).read_text(encoding="utf-8"))
            deviating = said["deviating"]
            return {path: size for path, size in deviating.items() if size is None or isinstance(size, int)}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            continue
    return {}


def _configuration(venv: Path) -> Mapping[str, str]:
    """``pyvenv.cfg``: ``version`` as the standard library writes it, ``version_info`` as uv and virtualenv do."""
    try:
        text = (venv / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.partition("=") for line in text.splitlines())
    return {key.strip().lower(): value.strip() for key, separator, value in pairs if separator}


def _version_text(configuration: Mapping[str, str]) -> str:
    return configuration.get("version_info") or configuration.get("version") or ""


def _full_version(configuration: Mapping[str, str]) -> str | None:
    """As markers have it: ``3.12.1`` of ``3.12.1.final.0``, ``3.13.0rc2`` of ``3.13.0.candidate.2``."""
    match = re.fullmatch(
        r"(\d{1,9}\.\d{1,9}\.\d{1,9})(?:\.?(final|alpha|beta|candidate|a|b|rc)\.?(\d{1,9}))?\+?",
        _version_text(configuration),
    )
    if match is None:
        return None
    kind = {"alpha": "a", "beta": "b", "candidate": "rc"}.get(match[2], match[2])
    return match[1] if kind in {None, "final"} else f"{match[1]}{kind}{match[3]}"


def _implementation(venv: Path, configuration: Mapping[str, str]) -> str | None:
    """What uv and virtualenv state; the standard library states nothing, and other implementations show by name."""
    if stated := configuration.get("implementation"):
        return stated.lower()
    told = f"{configuration.get('executable', '')} {configuration.get('home', '')}".lower()
    others = any(venv.glob("bin/pypy*")) or any(venv.glob("bin/graalpy*"))
    return None if others or "pypy" in told or "graal" in told else "cpython"


def _python_of(venv: Path, configuration: Mapping[str, str]) -> PythonVersion | None:
    match = re.match(r"(\d{1,9})\.(\d{1,9})", _version_text(configuration))
    if match is None:
        return None
    free_threaded = any((venv / "lib").glob(f"python{match[1]}.{match[2]}t"))
    return PythonVersion(int(match[1]), int(match[2]), free_threaded)


def _installed(dist_info: Path) -> Installed:
    """By METADATA's header; without one, the name of the folder says what it once was."""
    stem_name, _, stem_version = dist_info.name.removesuffix(".dist-info").partition("-")
    headers = _headers(dist_info / "METADATA")
    return Installed(
        name=canonicalize_name(headers.get("name") or stem_name),
        version=headers.get("version") or stem_version,
        complete="version" in headers and (dist_info / "RECORD").is_file(),
    )


def _headers(path: Path) -> dict[str, str]:
    """Name and version; they stand at the top, and the description below can be long."""
    headers: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if not line.strip() or len(headers) == 2:
                    break
                key, colon, value = line.partition(":")
                if colon and key.lower() in {"name", "version"}:
                    headers.setdefault(key.lower(), value.strip())
    except OSError:
        return {}
    return headers


def _torch_cuda(folder: Path) -> str | None:
    """``cuda: Optional[str] = '12.8'`` in torch/version.py; ``None`` there means a CPU build."""
    try:
        text = (folder / "torch" / "version.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r"^cuda\s*(?::[^=\n]*)?=\s*(?:['\"]([\d.]+)['\"]|None)", text, re.MULTILINE)
    return None if match is None else match[1] or "cpu"
