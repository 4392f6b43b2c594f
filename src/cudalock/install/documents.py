"""The lock as the installer is given it: a copy that says where its files are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from packaging.pylock import Package, PackageArchive, PackageSdist, PackageWheel, Pylock
from packaging.utils import canonicalize_name

from cudalock.errors import UsageError

__all__ = [
    "LockedFile",
    "built_against_torch",
    "from_wheelhouse",
    "hosts",
    "locked_files",
    "with_absolute_paths",
    "without",
    "write_document",
]

_Entry = TypeVar("_Entry", PackageWheel, PackageSdist, PackageArchive)
_TORCH = canonicalize_name("torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedFile:
    """One file of a lock; ``url`` or ``path`` says where it is."""

    package: str
    name: str
    sha256: str | None
    size: int | None = None
    url: str | None = None
    path: str | None = None


def locked_files(pylock: Pylock) -> Iterator[LockedFile]:
    """Every file that the lock names, in its order.

    Raises:
        UsageError: ``lock-not-files``: a package is a folder or a checkout, which are no files.
    """
    for package in pylock.packages:
        if package.vcs is not None or package.directory is not None:
            raise UsageError(
                "lock-not-files",
                f"{package.name} is locked as a {'checkout' if package.vcs else 'folder'}, not as a file with a hash",
                hint="name a release or a wheel instead, and resolve anew",
                details={"package": str(package.name)},
            )
        for entry in _entries(package):
            yield LockedFile(
                package=str(package.name),
                name=_file_name(entry),
                sha256=entry.hashes.get("sha256"),
                size=entry.size,
                url=entry.url,
                path=entry.path,
            )


def _entries(package: Package) -> Iterator[PackageWheel | PackageSdist | PackageArchive]:
    yield from package.wheels or ()
    if package.sdist is not None:
        yield package.sdist
    if package.archive is not None:
        yield package.archive


def _file_name(entry: PackageWheel | PackageSdist | PackageArchive) -> str:
    """Without any folder, whatever the lock says: it becomes the name of a file that is written."""
    name = getattr(entry, "name", None)
    if not name:
        name = _path_of(entry.url) if entry.url else (entry.path or "")
    return str(name).replace("\\", "/").rpartition("/")[2]


def _path_of(url: str) -> str:
    try:
        return unquote(urlsplit(url).path)
    except ValueError:
        return ""


def hosts(pylock: Pylock) -> tuple[str, ...]:
    """The hosts that are contacted to install the lock, sorted; for an allow-list or a firewall."""
    found = {_host(file.url) for file in locked_files(pylock) if file.url}
    return tuple(sorted(host for host in found if host))


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def built_against_torch(pylock: Pylock) -> frozenset[str]:
    """Names of the packages that come as source and need torch to be built: they are built after torch is in."""
    return frozenset(
        str(package.name)
        for package in pylock.packages
        if not package.wheels and _is_source(package) and any(_names_torch(d) for d in package.dependencies or ())
    )


def _is_source(package: Package) -> bool:
    return package.sdist is not None or (
        package.archive is not None and not _file_name(package.archive).endswith(".whl")
    )


def _names_torch(dependency: object) -> bool:
    return isinstance(dependency, dict) and canonicalize_name(str(dependency.get("name", ""))) == _TORCH


def without(pylock: Pylock, names: frozenset[str]) -> Pylock:
    """The lock less the packages named, and less dependencies on them."""
    return dataclasses.replace(pylock, packages=[p for p in pylock.packages if str(p.name) not in names])


def with_absolute_paths(pylock: Pylock, folder: Path) -> Pylock:
    """The lock with paths that hold wherever it lies; ``folder`` is where it lies now."""
    return _placed(pylock, lambda file: (file.url, str((folder / file.path).absolute()) if file.path else None))


def from_wheelhouse(pylock: Pylock, wheelhouse: Path) -> Pylock:
    """The lock with every file taken from the folder ``wheelhouse`` and from nowhere else.

    Raises:
        UsageError: ``wheelhouse-missing`` or ``wheelhouse-incomplete``.
    """
    if not wheelhouse.is_dir():
        raise UsageError(
            "wheelhouse-missing", f"there is no folder {wheelhouse}", hint=f"make it: cudalock fetch {wheelhouse}"
        )
    missing = [file.name for file in locked_files(pylock) if not (wheelhouse / file.name).is_file()]
    if missing:
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise UsageError(
            "wheelhouse-incomplete",
            f"{wheelhouse} lacks files of the lock: {shown}",
            hint=f"complete it where there is a network: cudalock fetch {wheelhouse}",
            details={"missing": missing},
        )
    return _placed(pylock, lambda file: (None, str((wheelhouse / file.name).absolute())))


def _placed(pylock: Pylock, place: Callable[[LockedFile], tuple[str | None, str | None]]) -> Pylock:
    files = {(file.package, file.name): file for file in locked_files(pylock)}

    def moved(package: Package, entry: _Entry) -> _Entry:
        url, path = place(files[str(package.name), _file_name(entry)])
        return dataclasses.replace(entry, url=url, path=path)

    packages = [
        dataclasses.replace(
            package,
            wheels=[moved(package, wheel) for wheel in package.wheels] if package.wheels else package.wheels,
            sdist=moved(package, package.sdist) if package.sdist else None,
            archive=moved(package, package.archive) if package.archive else None,
        )
        for package in pylock.packages
    ]
    return dataclasses.replace(pylock, packages=packages)


def write_document(pylock: Pylock, folder: Path, name: str = "pylock.toml") -> Path:
    """Writes a copy for the installer into a temporary ``folder``."""
    import tomli_w

    path = folder / name
    path.write_text(tomli_w.dumps(pylock.to_dict()), encoding="utf-8")
    return path
