"""Looks at errors in tests that run many inputs."""

from __future__ import annotations

from collections.abc import Callable

from cudalock.errors import CudalockError

__all__ = ["code_of"]


def code_of(action: Callable[[], object]) -> str | None:
    """The code of the typed error that the action raises, None if it raises none; other errors pass through."""
    try:
        action()
    except CudalockError as error:
        return error.code
    return None
