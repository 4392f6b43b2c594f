"""Resolution: from requirements and a target to one consistent set of files, the triple included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalock import lazy_names

if TYPE_CHECKING:
    from cudalock.resolve.earlier import Earlier
    from cudalock.resolve.model import Pin, Resolution, Triple
    from cudalock.resolve.options import BuildMetadata, ResolveOptions
    from cudalock.resolve.resolver import resolve

__all__ = ["BuildMetadata", "Earlier", "Pin", "Resolution", "ResolveOptions", "Triple", "resolve"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "earlier": ("Earlier",),
        "model": (
            "Pin",
            "Resolution",
            "Triple",
        ),
        "options": (
            "BuildMetadata",
            "ResolveOptions",
        ),
        "resolver": ("resolve",),
    },
)
