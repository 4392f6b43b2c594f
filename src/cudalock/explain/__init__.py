"""Turns error texts and logs into findings: what broke first, the line that shows it, and what mends it."""

from __future__ import annotations

from cudalock.explain.explaining import explain, explain_text
from cudalock.explain.model import Explanation, Stage

__all__ = ["explain", "explain_text", "Explanation", "Stage"]
