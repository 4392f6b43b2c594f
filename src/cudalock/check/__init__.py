"""The lock's contract against this machine, and an environment against the lock; offline, without importing torch."""

from cudalock.check.check import CheckReport, check

__all__ = ["check", "CheckReport"]
