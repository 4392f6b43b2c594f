"""Reads files that somebody names, as far as such files go."""

from __future__ import annotations

import errno
from pathlib import Path

__all__ = ["read_file"]

_LARGEST = 64 * 2**20


def read_file(path: Path, *, most: int = _LARGEST) -> bytes:
    """The content of a lock, a configuration, requirements or facts; a pipe will do (``-r <(...)``).

    Raises:
        OSError: as for any file, and with ``EFBIG`` beyond ``most`` bytes: ``/dev/zero`` would never end.
    """
    with path.open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(path))
    return content
