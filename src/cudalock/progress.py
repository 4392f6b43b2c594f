"""How long work is announced: the library reports, only the CLI draws.

A :class:`Reporter` receives events. The base class ignores them all, so library code always has one to call.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["Level", "Reporter", "SILENT"]

Level = Literal["debug", "info", "note", "warning"]


class Reporter:
    """Receives what happens; every method does nothing here, so that an implementation overrides what it shows."""

    def step(self, text: str) -> None:
        """A new stage of the work has begun, e.g. ``resolving 3 requirements``."""

    def message(self, level: Level, text: str, *, code: str | None = None) -> None:
        """Something worth knowing; ``note`` and ``warning`` belong to the result, the rest is for ``-v``."""

    def advance(self, what: str, done: int, total: int | None, *, unit: str = "") -> None:
        """``done`` of ``total`` (None: unknown) of the thing named ``what``; unit ``bytes`` or empty for a count."""

    def output(self, line: str) -> None:
        """One line that an external tool (uv, pip) printed, passed on as it is."""


SILENT = Reporter()
