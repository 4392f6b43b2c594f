"""The GPU compile test: a ladder of rungs run by the environment's own Python, judged into one report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalock import lazy_names

if TYPE_CHECKING:
    from cudalock.verify.model import Rung, VerifyReport
    from cudalock.verify.runner import RUNGS, TIME_LIMIT_S, capabilities_to_cross_compile, verify

__all__ = ["RUNGS", "Rung", "TIME_LIMIT_S", "VerifyReport", "capabilities_to_cross_compile", "verify"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "model": (
            "Rung",
            "VerifyReport",
        ),
        "runner": (
            "RUNGS",
            "TIME_LIMIT_S",
            "capabilities_to_cross_compile",
            "verify",
        ),
    },
)
