"""The folder of an environment: what lies there, and how it is put aside and brought back."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from cudalock.errors import UsageError
from cudalock.install import state
from cudalock.lock.environment import INCOMPLETE_MARKER, OLD_SUFFIX

__all__ = ["Place", "bring_back", "classify", "discard", "put_aside", "python_of", "refuse_unusable", "what_is_left"]


_TRASH = ".cudalock-trash"


class Place(StrEnum):
    """What lies where an environment is to be."""

    ABSENT = "absent"
    EMPTY = "empty"
    FILE = "file"
    OURS = "ours"
    INCOMPLETE = "incomplete"
    FOREIGN = "foreign"
    OTHER = "other"


def python_of(venv: Path) -> Path:
    """Where the interpreter of the environment ``venv`` lies."""
    return venv / "Scripts" / "python.exe" if os.name == "nt" else venv / "bin" / "python"


def classify(venv: Path) -> Place:
    """Looks at what lies at ``venv``, without following what it says."""
    if not venv.exists():
        return Place.FILE if venv.is_symlink() else Place.ABSENT
    if not venv.is_dir():
        return Place.FILE
    if os.path.lexists(venv / INCOMPLETE_MARKER):
        return Place.INCOMPLETE
    if (venv / "pyvenv.cfg").is_file():
        return Place.OURS if (venv / state.STATE).is_file() else Place.FOREIGN
    return Place.OTHER if any(venv.iterdir()) else Place.EMPTY


def refuse_unusable(venv: Path, place: Place, *, sync: bool, clear: bool) -> None:
    """Refuses what may not be touched.

    Raises:
        UsageError: ``venv-in-use`` (it is cudalock's own), ``venv-is-file``, ``venv-not-a-venv``, ``venv-exists``,
            ``venv-missing`` (``sync`` without one) or ``venv-incomplete``.
    """
    details = {"venv": str(venv), "place": str(place)}
    if Path(sys.prefix).resolve() == venv.resolve() and place is not Place.ABSENT:
        raise UsageError(
            "venv-in-use",
            f"{venv} is the environment that cudalock itself runs from",
            hint="install cudalock in an environment of its own, or give --venv another path",
            details=details,
        )
    if place is Place.FILE:
        raise UsageError(
            "venv-is-file", f"{venv} is a file, not a folder", hint="give --venv another path", details=details
        )
    if place is Place.OTHER:
        raise UsageError(
            "venv-not-a-venv",
            f"{venv} is a folder with other things in it, not a virtual environment",
            hint="give --venv another path; cudalock never empties such a folder",
            details=details,
        )
    if sync and place in {Place.ABSENT, Place.EMPTY}:
        return
    if place is Place.INCOMPLETE and not sync and not clear and state.incomplete_mode(venv) == "sync":
        raise UsageError(
            "venv-incomplete",
            f"synchronising {venv} was begun and did not end",
            hint="--sync goes on with it, --clear makes it anew",
            details=details,
        )
    if place in {Place.OURS, Place.FOREIGN} and not sync and not clear:
        whose = (
            "made by cudalock from another lock, or changed since" if place is Place.OURS else "not made by cudalock"
        )
        raise UsageError(
            "venv-exists",
            f"there is an environment {venv}, {whose}",
            hint="--sync changes it to hold exactly the lock, --clear replaces it",
            details=details,
        )


@contextlib.contextmanager
def put_aside(venv: Path) -> Iterator[None]:
    """Within it ``venv`` is free; what was there comes back if the work fails, and goes when it succeeds.

    Environments cannot be moved, so the new one is built in its own place and the old one waits beside it, as
    ``NAME.cudalock-old``. If we are killed it still lies there: the next installation, finding the new one incomplete,
    takes it for the old one. What an earlier installation had only begun to make is not worth keeping; an environment
    that one was about to synchronise is.
    """
    waiting = _waiting(venv)
    if state.incomplete_mode(venv) == "create":
        _free(venv)
    elif venv.exists() and any(venv.iterdir()):  # an empty folder is filled where it is: it may be a mounted volume
        _remove(waiting)
        _move(venv, waiting)
    try:
        yield
    except BaseException:
        if waiting.exists():
            _remove(venv)
            _move(waiting, venv)
        raise
    _remove(waiting)


def bring_back(venv: Path) -> bool:
    """After a kill: what was being removed goes; an old environment is back if the new one was not begun yet.

    Returns:
        Whether it is back.
    """
    waiting = _waiting(venv)
    for rest in (_trash(venv), _trash(waiting), venv.with_name(venv.name + state.NEW_SUFFIX)):
        with contextlib.suppress(OSError):
            _erase(rest)
    if not os.path.lexists(venv) and (waiting / "pyvenv.cfg").is_file():
        _move(waiting, venv)
        return True
    if state.read_state(venv) is not None:  # the new one is whole: only removing the old one was left
        _remove(waiting)
    return False


def discard(venv: Path) -> None:
    """Removes an environment into which nothing was installed yet."""
    _free(venv)
    with contextlib.suppress(OSError):
        (venv / INCOMPLETE_MARKER).unlink()


def what_is_left(venv: Path) -> str:
    """What an interruption leaves, in a sentence."""
    place, waiting = classify(venv), _waiting(venv)
    if place is Place.ABSENT and waiting.exists():
        return f"what was at {venv} lies at {waiting}; the next installation brings it back"
    if place is Place.OURS and (waiting.exists() or _trash(waiting).exists()):
        return f"{venv} is complete; what it replaced goes with the next installation"
    return {
        Place.ABSENT: f"nothing was left at {venv}",
        Place.EMPTY: f"{venv} is empty, as it was",
        Place.INCOMPLETE: f"{venv} is incomplete and marked so; the same command makes it whole",
    }.get(place, f"{venv} is as it was")


def _waiting(venv: Path) -> Path:
    return venv.with_name(venv.name + OLD_SUFFIX)


def _trash(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}{_TRASH}")


def _move(source: Path, destination: Path) -> None:
    try:
        source.rename(destination)
    except OSError as error:
        raise UsageError(
            "venv-not-movable",
            f"{source} cannot be put aside: {(error.strerror or str(error)).lower()}",
            hint="--sync changes it where it is",
            details={"venv": str(source)},
        ) from error


def _remove(folder: Path) -> None:
    """Removes a folder, under another name: half an environment must not lie where a whole one is expected."""
    trash = _trash(folder)
    try:
        _erase(trash)
        if os.path.lexists(folder):
            folder.rename(trash)
            _erase(trash)
    except OSError as error:
        raise _not_removable(folder, error) from error


def _free(venv: Path) -> None:
    """Removes what was begun; where its folder itself must stay (a mounted volume), all in it but the mark."""
    try:
        _remove(venv)
    except UsageError:
        try:
            for path in venv.iterdir():
                if path.name != INCOMPLETE_MARKER:
                    _erase(path)
        except OSError as error:
            raise _not_removable(venv, error) from error


def _erase(path: Path) -> None:
    from shutil import rmtree

    if path.is_dir() and not path.is_symlink():
        rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _not_removable(folder: Path, error: OSError) -> UsageError:
    return UsageError(
        "venv-not-removable",
        f"{folder} cannot be removed: {(error.strerror or str(error)).lower()}",
        hint="check its permissions, and remove it by hand",
        details={"venv": str(folder)},
    )
