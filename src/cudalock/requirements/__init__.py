"""What was asked for: arguments, requirements files, constraints and the project's own dependencies as one Request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalock import lazy_names

if TYPE_CHECKING:
    from cudalock.requirements.model import AskedRequirement, Request
    from cudalock.requirements.parsing import normalized_names, parse_exclude_newer, parse_requirement
    from cudalock.requirements.read import read_request

__all__ = [
    "AskedRequirement",
    "normalized_names",
    "parse_exclude_newer",
    "parse_requirement",
    "read_request",
    "Request",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "model": (
            "AskedRequirement",
            "Request",
        ),
        "parsing": (
            "normalized_names",
            "parse_exclude_newer",
            "parse_requirement",
        ),
        "read": ("read_request",),
    },
)
