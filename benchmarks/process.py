"""A server in a process of its own, so that it takes no time from the interpreter that is measured."""

from __future__ import annotations

import subprocess
import sys
from types import TracebackType
from typing import Self

__all__ = ["IndexProcess"]


class IndexProcess:
    """Runs a module that prints its port and serves an index there; use it as a context manager.

    Args:
        module: started with ``python -m``.
        arguments: of the module.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        self._command = [sys.executable, "-m", module, *arguments]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        self.port = int(self._process.stdout.readline()) if self._process.stdout else 0
        self.index_url = f"http://127.0.0.1:{self.port}/simple/"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
