"""Names of folders in Triton's cache: one per key, encoded differently over time.

Source: caches written by triton 2.1 to 3.9 (``runtime/cache.py`` of each release): md5 as hex before 3.0, sha256 as hex
in 3.0 and 3.1, as URL-safe base64 in 3.2, as base32 from 3.3 on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from packaging.specifiers import SpecifierSet

from cudalock.kernels.model import Layout

__all__ = ["is_trash", "layout_of", "TEMPORARY", "TRASH", "WRITTEN_BY"]

WRITTEN_BY: Mapping[Layout, SpecifierSet] = {
    "md5": SpecifierSet("<3.0.dev0"),
    "sha256": SpecifierSet(">=3.0.dev0,<3.2.dev0"),
    "base64": SpecifierSet(">=3.2.dev0,<3.3.dev0"),
    "base32": SpecifierSet(">=3.3.dev0"),
}
"""The triton releases that use each layout."""

TRASH = ".cudalock-trash-"
"""Prefix of folders on their way out: renamed, not yet deleted."""

TEMPORARY = re.compile(r"tmp\.pid_(\d+)_")
"""Folders in which a process writes a file before it moves it to its place; the number is the process's."""

_PATTERNS: tuple[tuple[Layout, re.Pattern[str]], ...] = (
    ("md5", re.compile(r"[0-9a-f]{32}")),
    ("sha256", re.compile(r"[0-9a-f]{64}")),
    ("base32", re.compile(r"[A-Z2-7]{52}")),
    ("base64", re.compile(r"[A-Za-z0-9_-]{43}")),
)


def layout_of(name: str) -> Layout | None:
    """The layout of a folder's name; None if it is no key."""
    return next((layout for layout, pattern in _PATTERNS if pattern.fullmatch(name)), None)


def is_trash(name: str) -> bool:
    """Whether an earlier run of ours was cut short while it deleted this folder."""
    return name.startswith(TRASH)
