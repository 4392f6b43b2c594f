"""The lock's files in a folder, for machines without network: ``fetch`` here, ``install --wheelhouse`` there."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from packaging.utils import canonicalize_name

from cudalock.errors import TransportError, UsageError
from cudalock.index.model import IndexFile, PageRef
from cudalock.index.settings import IndexSettings
from cudalock.install.admission import SourceRules, require_admissible
from cudalock.install.documents import LockedFile, locked_files
from cudalock.lock.file import read_lock, require_intact
from cudalock.lock.model import Lock
from cudalock.progress import SILENT, Reporter

if TYPE_CHECKING:
    from cudalock.index import IndexClient

__all__ = ["FetchReport", "fetch"]

_AT_ONCE = 4  # files of gigabytes: more connections gain nothing
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReport:
    """What lies in the folder now: ``fetched`` came just now, ``present`` was there with the right hash."""

    folder: Path
    lock: Path
    fetched: tuple[str, ...]
    present: tuple[str, ...]
    size_bytes: int


def fetch(
    lock_path: Path,
    folder: Path,
    *,
    lock: Lock | None = None,
    settings: IndexSettings | None = None,
    rules: SourceRules | None = None,
    force: bool = False,
    reporter: Reporter = SILENT,
) -> FetchReport:
    """Downloads every file of the lock into ``folder``, each checked against its hash, and puts the lock beside them.

    Files that are there with the right hash are kept, so an interrupted run goes on where it stopped. A file appears
    under its name only when it is complete.

    Raises:
        UsageError: ``lock-not-files``, ``fetch-folder-is-file``, ``disk-write-failed``, ``locked-file-missing``, and
            what :func:`cudalock.install.admission.require_admissible` refuses.
        TransportError: a host does not deliver, or delivers other content (``index-hash-conflict``).
    """
    if lock is None:
        lock = read_lock(lock_path)
    require_intact(lock, lock_path, force=force)
    source = lock_path.absolute().parent
    require_admissible(lock.pylock, source, rules or SourceRules())
    wanted = tuple(locked_files(lock.pylock))
    try:
        return _fetched(lock_path, folder, wanted, settings, reporter)
    except OSError as error:
        raise UsageError(
            "disk-write-failed",
            f"{error.filename or folder} cannot be written: {(error.strerror or str(error)).lower()}",
            hint="name a folder that can be written and has room",
            details={"folder": str(folder)},
        ) from error


def _fetched(
    lock_path: Path, folder: Path, wanted: Sequence[LockedFile], settings: IndexSettings | None, reporter: Reporter
) -> FetchReport:
    _make(folder)
    present = tuple(file.name for file in wanted if _is_there(file, folder))
    missing = [file for file in wanted if file.name not in set(present)]
    reporter.step(f"fetching {len(missing)} of {len(wanted)} files into {folder}")
    from cudalock.index import IndexClient

    with IndexClient(settings, reporter=reporter) as client, ThreadPoolExecutor(_AT_ONCE) as workers:
        source = lock_path.absolute().parent
        jobs = [workers.submit(_bring, client, file, folder, source) for file in missing]
        try:
            for number, job in enumerate(jobs, 1):
                job.result()
                reporter.advance("files", number, len(jobs))
        except BaseException:
            workers.shutdown(wait=False, cancel_futures=True)
            client.close()
            raise
    copy = folder / lock_path.name
    if copy.absolute() != lock_path.absolute():
        _copy(lock_path, copy)
    return FetchReport(
        folder=folder,
        lock=copy,
        fetched=tuple(file.name for file in missing),
        present=present,
        size_bytes=sum((folder / file.name).stat().st_size for file in wanted),
    )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UsageError("fetch-folder-is-file", f"{folder} is a file, not a folder", hint="name another") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(
            "disk-write-failed", f"{folder} cannot be made: {reason}", hint="name another folder"
        ) from error


def _is_there(file: LockedFile, folder: Path) -> bool:
    path = folder / file.name
    return path.is_file() and (file.size is None or path.stat().st_size == file.size) and _sha256(path) == file.sha256


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _bring(client: IndexClient, file: LockedFile, folder: Path, source: Path) -> None:
    if file.url is not None and not file.url.lower().startswith("file:"):
        page = PageRef("main", canonicalize_name(file.package))
        hashes = {"sha256": file.sha256} if file.sha256 else {}
        client.download(
            IndexFile(page=page, url=file.url, filename=file.name, hashes=hashes, size=file.size), folder / file.name
        )
        return
    path = source / (file.path or url2pathname(urlsplit(file.url or "").path))
    if not path.is_file():
        raise UsageError(
            "locked-file-missing", f"the lock names {path}, which is not there", hint="put it there, or resolve anew"
        )
    if _sha256(path) != file.sha256:
        raise TransportError("index-hash-conflict", f"{path} is not the file that was locked: its sha256 differs")
    _copy(path, folder / file.name)


def _copy(source: Path, destination: Path) -> None:
    """Under its name only when it is complete."""
    temporary = destination.with_name(f".{destination.name}.part")
    try:
        shutil.copyfile(source, temporary)
        temporary.replace(destination)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
