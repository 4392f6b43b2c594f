"""One installation at a time into one environment, also when an earlier one was killed and its uv still works on.

The lock is held on an open file that uv and pip inherit: it ends with the last of the processes that work there,
however they end. Windows has no such lock; there two installations into one environment are the user's to avoid.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from cudalock.errors import UsageError
from cudalock.progress import Reporter

__all__ = ["LOCK_SUFFIX", "exclusive"]

LOCK_SUFFIX = ".cudalock-lock"
_PATIENCE_S = 1800.0
_LOOK_AGAIN_S = 0.1


@contextlib.contextmanager
def exclusive(venv: Path, reporter: Reporter, *, patience_s: float = _PATIENCE_S) -> Iterator[tuple[int, ...]]:
    """Within it nobody else installs into ``venv``; yields the descriptors that child processes must inherit.

    The lock's file lies beside the environment and goes with the last user. Where it cannot be made, for want of
    permission or of such locks, there is none: the installation itself then says what is wrong with the place.

    Raises:
        UsageError: ``venv-busy`` if another installation does not end within ``patience_s`` seconds.
    """
    path = venv.with_name(venv.name + LOCK_SUFFIX)
    made = _make_folders(path.parent)
    try:
        with _locking(path, venv, reporter, patience_s) as inherited:
            yield inherited
    finally:
        for folder in made:  # nothing was made in them, or they are not empty
            with contextlib.suppress(OSError):
                folder.rmdir()


def _make_folders(folder: Path) -> list[Path]:
    """Makes a folder and those above it, as the lock needs a place; returns those made, the innermost first."""
    missing = []
    while not folder.exists() and folder != folder.parent:
        missing.append(folder)
        folder = folder.parent
    with contextlib.suppress(OSError):  # the installation itself says what is wrong with the place
        for one in reversed(missing):
            one.mkdir(exist_ok=True)
    return missing


@contextlib.contextmanager
def _locking(path: Path, venv: Path, reporter: Reporter, patience_s: float) -> Iterator[tuple[int, ...]]:
    descriptor = _locked(path, venv, reporter, patience_s)
    if descriptor is None:
        yield ()
        return
    try:
        yield (descriptor,)
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _locked(path: Path, venv: Path, reporter: Reporter, patience_s: float) -> int | None:
    if sys.platform == "win32":
        return None
    import fcntl

    told = False
    deadline = time.monotonic() + patience_s
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:  # another one has just tidied up the folder that it had made
            if path.parent.exists() or not _make_folders(path.parent) or not path.parent.exists():
                return None
            continue
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, descriptor):
                return descriptor
            os.close(descriptor)  # its last user took the file away in between
            continue
        except BlockingIOError:
            os.close(descriptor)
        except OSError:  # a file system without such locks
            os.close(descriptor)
            return None
        if time.monotonic() > deadline:
            raise UsageError(
                "venv-busy",
                f"another installation into {venv} is under way",
                hint="wait for it to end, or end the uv or pip that works there",
                details={"venv": str(venv)},
            )
        if not told:
            reporter.message("note", f"another installation into {venv} is under way; waiting for it to end")
            told = True
        time.sleep(_LOOK_AGAIN_S)


def _is_still(path: Path, descriptor: int) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    return False
