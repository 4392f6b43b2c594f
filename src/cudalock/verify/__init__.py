"""The GPU compile test: a ladder of rungs run by the environment's own Python, judged into one report."""

from cudalock.verify.model import Rung, VerifyReport
from cudalock.verify.runner import RUNGS, TIME_LIMIT_S, capabilities_to_cross_compile, verify

__all__ = ["RUNGS", "Rung", "TIME_LIMIT_S", "VerifyReport", "capabilities_to_cross_compile", "verify"]
