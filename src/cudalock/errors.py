"""Every error that cudalock raises on purpose.

An error has a stable kebab-case ``code``, one ``message`` for people, a ``hint`` that names the next step and the exit
status of the command. Scripts read the code; people read the message. This module imports nothing of cudalock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

__all__ = [
    "AnswerIsNo",
    "CudalockError",
    "InternalError",
    "ToolError",
    "TransportError",
    "UsageError",
    "nested_or_endless",
]

_CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class CudalockError(Exception):
    """Base of all errors of cudalock.

    Args:
        code: stable kebab-case name of the fault, e.g. ``index-unreachable``.
        message: one sentence (or a short paragraph) that says what is wrong.
        hint: what to do next, or None where nothing useful can be said.
        details: further facts, JSON-serialisable, shown with ``--json``.
    """

    exit_status: ClassVar[int] = 70

    def __init__(
        self, code: str, message: str, *, hint: str | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        if not _CODE.fullmatch(code):
            raise ValueError(f"not a kebab-case code: {code!r}")
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.details: Mapping[str, Any] = MappingProxyType(dict(details or {}))

    def to_json(self) -> dict[str, Any]:
        """The error as the value of ``"error"`` in a command's JSON answer."""
        return {"code": self.code, "message": self.message, "hint": self.hint, **self.details}


class AnswerIsNo(CudalockError):  # noqa: N818 - it names the answer: the question was understood and the answer is no
    """The question was understood and the answer is no: unsatisfiable, check failed, verification failed (exit 1)."""

    exit_status = 1


class UsageError(CudalockError):
    """The command line, a configuration file, a lock or another input cannot be used as it is (exit 2)."""

    exit_status = 2


class TransportError(CudalockError):
    """An index or the network did not deliver (exit 3)."""

    exit_status = 3


class ToolError(CudalockError):
    """An external tool (uv, pip, a compiler) is missing, too old or failed (exit 4)."""

    exit_status = 4


class InternalError(CudalockError):
    """A bug of cudalock itself (exit 70)."""

    exit_status = 70


def nested_or_endless(error: Exception) -> str:
    """Why a parser of TOML or JSON gave up on a document whose form may be right, in words."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else "it holds a number without end"
