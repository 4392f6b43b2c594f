"""The lock as a file: read and validated, written at once or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudalock.errors import InternalError, UsageError, nested_or_endless
from cudalock.files import read_file
from cudalock.lock.document import DocumentError, TooNewError, parse_lock
from cudalock.lock.model import Lock
from cudalock.markers import undefined
from cudalock.toml import NotTomlError, parse_toml

if TYPE_CHECKING:
    from packaging.pylock import Pylock

__all__ = ["dump_lock", "parse_text", "read_lock", "refuse_foreign", "require_intact", "write_lock"]

_HEADER = "# Made by cudalock: do not edit, `cudalock resolve` makes it anew.\n"
_MADE_ANEW = "`cudalock resolve` makes it anew"


def dump_lock(lock: Lock) -> str:
    """The text of the file: the same for the same lock, to the byte."""
    return dump_document(lock.pylock.to_dict())


def dump_document(document: Mapping[str, Any]) -> str:
    """As :func:`dump_lock`, of a document in the form of PEP 751."""
    import tomli_w

    return _HEADER + tomli_w.dumps(document)


def read_lock(path: Path) -> Lock:
    """Reads a ``pylock.toml``, cudalock's own or another tool's (``ours`` is then False).

    A digest that does not match is not an error here: see ``digest_ok`` and :func:`require_intact`.

    Raises:
        UsageError: ``lock-missing``, ``lock-unreadable``, ``lock-name-invalid``, ``lock-not-toml``,
            ``lock-version-unsupported``, ``lock-too-new`` or ``lock-invalid`` (which names the faulty key).
    """
    _check_name(path)
    return parse_text(_read_text(path), str(path))


def parse_text(text: str, shown: str) -> Lock:
    """Like :func:`read_lock` for text already read; ``shown`` is the file's name in errors."""
    document = _document(text, shown)
    try:
        lock = parse_lock(document, partial(_pylock, document, shown))
    except TooNewError as error:
        raise UsageError(
            "lock-too-new",
            f"{shown} was made by a newer cudalock: {error.reason}",
            hint="update cudalock, e.g. with `pip install --upgrade cudalock`",
            details={"file": shown, "path": error.path},
        ) from error
    except DocumentError as error:
        raise _invalid(shown, error.path, str(error)) from error
    object.__setattr__(lock, "text", text)
    return lock


def _pylock(document: Mapping[str, Any], shown: str) -> Pylock:
    """The document as ``packaging`` reads and validates it: its import alone takes longer than a whole ``check``."""
    from packaging.pylock import Pylock, PylockUnsupportedVersionError, PylockValidationError

    try:
        pylock = Pylock.from_dict(document)
    except PylockUnsupportedVersionError as error:
        raise UsageError(
            "lock-version-unsupported",
            f"{shown}: lock-version {document.get('lock-version')!r} is not one that cudalock can read",
            hint=f"cudalock reads lock-version 1; {_MADE_ANEW}",
            details={"file": shown, "lock-version": document.get("lock-version")},
        ) from error
    except PylockValidationError as error:
        where = f"{error.context}: " if error.context else ""
        raise _invalid(shown, error.context, f"{where}{error.message}") from error
    except (ValueError, RecursionError) as error:
        raise _invalid(shown, None, nested_or_endless(error)) from error
    _require_markers(pylock, shown)
    return pylock


def _require_markers(pylock: Pylock, shown: str) -> None:
    """Refuses markers that no tool can evaluate: whether a package belongs into an environment would be a guess."""
    markers = [(f"environments[{i}]", marker, False) for i, marker in enumerate(pylock.environments or ())]
    markers += [(f"packages[{i}].marker", p.marker, True) for i, p in enumerate(pylock.packages) if p.marker]
    for path, marker, of_package in markers:
        if reason := undefined(marker, lock=of_package):
            raise _invalid(shown, path, f"{path}: {str(marker)[:160]!r} cannot be evaluated: {reason}")


def _document(text: str, shown: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except NotTomlError as error:
        reason = "it holds conflict markers of a merge" if "<<<<<<<" in text else str(error)
        raise UsageError(
            "lock-not-toml",
            f"{shown} is not TOML: {reason}",
            hint="`cudalock resolve --force` makes it anew; without --force no file is replaced that is not recognised",
            details={"file": shown},
        ) from error


def _invalid(shown: str, path: str | None, reason: str) -> UsageError:
    return UsageError(
        "lock-invalid",
        f"{shown} is not a valid lock: {reason}",
        hint=_MADE_ANEW,
        details={"file": shown, "path": path},
    )


def _read_text(path: Path) -> str:
    try:
        return read_file(path).decode("utf-8")
    except FileNotFoundError as error:
        raise UsageError(
            "lock-missing",
            f"there is no lock {path}",
            hint="make one with `cudalock resolve torch`, or name another with --lock FILE",
            details={"file": str(path)},
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            "lock-not-toml",
            f"{path} is not TOML: it is not UTF-8 text (byte {error.start})",
            hint=_MADE_ANEW,
            details={"file": str(path)},
        ) from error
    except (OSError, ValueError) as error:
        reason = "it is a folder" if isinstance(error, IsADirectoryError) else _reason(error)
        raise UsageError("lock-unreadable", f"{path} cannot be read: {reason}", details={"file": str(path)}) from error


def _check_name(path: Path) -> None:
    if not re.fullmatch(r"pylock\.(?:[^.]+\.)?toml", path.name):  # as PEP 751 names them
        raise UsageError(
            "lock-name-invalid",
            f"a lock cannot be named {path.name!r}: uv and pip would not recognise it",
            hint="name it pylock.toml or pylock.NAME.toml, without a further dot in NAME",
            details={"file": str(path)},
        )


def require_intact(lock: Lock, path: Path, *, force: bool = False) -> None:
    """Refuses a lock that was changed after cudalock wrote it.

    Raises:
        UsageError: code ``lock-digest-mismatch``, unless ``force``.
    """
    if lock.ours and not lock.digest_ok and not force:
        raise UsageError(
            "lock-digest-mismatch",
            f"{path} was changed after cudalock wrote it: its content does not match its digest",
            hint="`cudalock resolve` makes it anew; --force takes it as it is",
            details={"file": str(path), "digest": lock.digest},
        )


def refuse_foreign(path: Path, *, force: bool = False) -> None:
    """Refuses a path that cannot take a lock; to be called before long work as well as when writing.

    Raises:
        UsageError: ``lock-name-invalid``, ``lock-folder-missing``, ``lock-not-ours`` (the file there is another
            tool's or not recognisable, unless ``force``) or ``lock-unwritable``.
    """
    _check_name(path)
    if path.is_dir():
        raise UsageError("lock-unwritable", f"{path} is a folder", details={"file": str(path)})
    if not _real(path).parent.is_dir():
        raise UsageError(
            "lock-folder-missing",
            f"there is no folder {_real(path).parent} to write the lock to",
            hint="make it first, or name another place for the lock",
            details={"file": str(path)},
        )
    if not force and path.exists() and not _is_ours(path):
        raise UsageError(
            "lock-not-ours",
            f"{path} is there and was not made by cudalock",
            hint="--force overwrites it; --output FILE writes to another file",
            details={"file": str(path)},
        )


def _is_ours(path: Path) -> bool:
    """Whether it carries our table; an unfinished merge of one of our locks does not count, as nobody can tell."""
    try:
        document = parse_toml(read_file(path).decode("utf-8"))
    except (OSError, ValueError):
        return False
    tool = document.get("tool")
    return isinstance(tool, Mapping) and "cudalock" in tool


def write_lock(path: Path, lock: Lock, *, force: bool = False) -> bool:
    """Writes the lock in one step: whoever looks sees the old file or the new one, never a part.

    A symbolic link is followed, not replaced, and the permissions of an existing file are kept.

    Returns:
        Whether the file changed; equal content is not written again.

    Raises:
        UsageError: as :func:`refuse_foreign`.
    """
    refuse_foreign(path, force=force)
    text = lock.text
    if text is None or not text.startswith(_HEADER):
        text = dump_lock(lock)
        if parse_text(text, str(path)) != lock:
            raise InternalError("lock-round-trip", f"the lock does not read back as it was written to {path}")
    real = _real(path)
    content = text.encode("utf-8")
    try:
        if real.exists() and real.read_bytes() == content:
            return False
        _replace(real, content)
    except OSError as error:
        raise UsageError(
            "lock-unwritable",
            f"{path} cannot be written: {_reason(error)}",
            hint="check the permissions of the folder and the space on the disk",
            details={"file": str(path)},
        ) from error
    return True


def _real(path: Path) -> Path:
    try:
        return path.resolve() if path.is_symlink() else path
    except (OSError, RuntimeError):  # a link that leads to itself
        return path


def _replace(real: Path, content: bytes) -> None:
    temporary = real.with_name(f".{real.name}.{os.urandom(4).hex()}.tmp")
    # created with the mode that any new file gets here; an existing file's mode is then taken over
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if real.exists():
                temporary.chmod(stat.S_IMODE(real.stat().st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(real)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(real.parent)


def _sync_folder(folder: Path) -> None:
    """Makes the renaming itself durable, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
