"""A served index of small wheels and the lock of them, for tests that install for real."""

from __future__ import annotations

import hashlib
import platform
import sys
from pathlib import Path

from cudalock.compat.model import Policy
from cudalock.lock import build_lock
from cudalock.lock.file import write_lock
from cudalock.resolve.model import Pin, Resolution
from support.fake_index import FakeFile, FakeIndex
from support.locks import linux_target, pin, request

__all__ = ["pin_of", "write_lock_of"]


def pin_of(index: FakeIndex, file: FakeFile, *, sha256: str | None = None) -> Pin:
    """The pin of a file of the index, with its real hash unless another is given."""
    digest = sha256 or hashlib.sha256(file.content).hexdigest()
    made = pin(file.filename, url=index.host + file.path, sha256=digest)
    return replace_size(made, len(file.content))


def replace_size(made: Pin, size: int) -> Pin:
    """The pin with the true size of its file."""
    from dataclasses import replace

    return replace(made, file=replace(made.file, size=size))


def write_lock_of(
    index: FakeIndex,
    path: Path,
    *files: FakeFile,
    python: tuple[int, int] = sys.version_info[:2],
    sha256: str | None = None,
) -> Path:
    """Writes the lock of these files, for this machine's platform; ``sha256`` falsifies all hashes."""
    target = linux_target(driver=None, python=python, machine=platform.machine(), cpu=True)
    pins = sorted((pin_of(index, file, sha256=sha256) for file in files), key=lambda one: one.name)
    wanted = request(*(str(one.name) for one in pins))
    write_lock(path, build_lock(Resolution(pins=tuple(pins)), target, wanted, Policy()), force=True)
    return path
