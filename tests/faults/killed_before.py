"""Runs cudalock and kills it just before its Nth change of a folder (or start of a child): ``killed_before.py N FOLDER ARGUMENTS...``.

Random moments hit what takes long; the moments that matter are between two changes, and short. Python tells of every
change before it is made (``sys.addaudithook``), so each such moment can be had, in the real program.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

_CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
_EVERY_NTH_INNER = 10
"""A removal of a tree is dozens of removals relative to an open folder: one in so many counts."""


def kill_before(number: int, folder: str) -> None:
    """Arranges that this process ends by SIGKILL before its ``number``-th change below ``folder``, an absolute path."""
    seen = inner = 0

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen, inner
        if event in {"os.remove", "os.rmdir", "os.mkdir"} and arguments[-1] != -1:
            inner += 1
            counts = inner % _EVERY_NTH_INNER == 1
        elif event in _CHANGES:
            counts = _below(arguments[0])
        else:
            counts = event == "subprocess.Popen" or (event == "open" and _writes(arguments) and _below(arguments[0]))
        seen += counts
        if counts and seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def _below(path: object) -> bool:
        return isinstance(path, str | bytes | os.PathLike) and str(Path.cwd() / os.fsdecode(path)).startswith(folder)

    def _writes(arguments: tuple[object, ...]) -> bool:
        flags = arguments[2]
        return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))

    sys.addaudithook(hear)


if __name__ == "__main__":
    kill_before(int(sys.argv[1]), sys.argv[2])
    from cudalock.cli.main import run

    sys.exit(run(sys.argv[3:]))
