"""Files of a lock that lie on this machine: whether each is the one that was locked, and can be unpacked at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from packaging.pylock import Pylock

from cudalock.errors import UsageError
from cudalock.install.documents import LockedFile, locked_files

__all__ = ["name_damaged", "require_whole"]


def require_whole(pylock: Pylock, wheelhouse: Path | None) -> None:
    """Looks at the sizes of local files before anything is touched: what is cut short is known at once.

    Args:
        pylock: with absolute paths.
        wheelhouse: the folder that ``fetch`` made, if the files lie there.

    Raises:
        UsageError: ``locked-file-damaged``.
    """
    for file, path in _local(pylock):
        if path.is_file() and (said := _wrong_size(file, path)):
            raise _damaged(file, path, said, _again(wheelhouse))


def name_damaged(pylock: Pylock, wheelhouse: Path | None) -> UsageError | None:
    """After an installer failed: the error that names the first local file that it cannot have liked, None if none."""
    for file, path in _local(pylock):
        try:
            if said := _wrong_size(file, path) or _wrong_hash(file, path):
                return _damaged(file, path, said, _again(wheelhouse))
            if said := _unreadable(path):
                # the index served it like that when it was locked: fetching it again gives the same
                hint = f"have the index serve a whole file, or take another version of {file.package}, and resolve anew"
                return _damaged(file, path, f"{said}, and it was locked like that", hint)
        except OSError as error:
            said = f"it cannot be read: {(error.strerror or str(error)).lower()}"
            return _damaged(file, path, said, _again(wheelhouse))
    return None


def _local(pylock: Pylock) -> Iterator[tuple[LockedFile, Path]]:
    for file in locked_files(pylock):
        if file.path is not None:
            yield file, Path(file.path)
        elif file.url is not None and file.url.lower().startswith("file:"):
            from urllib.request import url2pathname  # brings http, ssl and email along

            yield file, Path(url2pathname(urlsplit(file.url).path))


def _wrong_size(file: LockedFile, path: Path) -> str:
    found = path.stat().st_size
    return f"it has {found} bytes, and the lock records {file.size}" if file.size not in {None, found} else ""


def _wrong_hash(file: LockedFile, path: Path) -> str:
    import hashlib

    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    return f"its sha256 is {found}, and the lock records {file.sha256}" if file.sha256 not in {None, found} else ""


def _unreadable(path: Path) -> str:
    if path.suffix != ".whl":
        return ""
    import zipfile
    import zlib

    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        return f"it is no wheel that can be unpacked ({error})"
    return f"its member {bad} is damaged" if bad else ""


def _again(wheelhouse: Path | None) -> str:
    if wheelhouse is None:
        return "put the file that was locked in its place, or resolve anew"
    return f"get it anew: `cudalock fetch {wheelhouse}` with the lock replaces what is not as locked"


def _damaged(file: LockedFile, path: Path, said: str, hint: str) -> UsageError:
    return UsageError(
        "locked-file-damaged",
        f"{path} is damaged or another file: {said}",
        hint=hint,
        details={"file": str(path), "package": file.package, "locked_sha256": file.sha256},
    )
