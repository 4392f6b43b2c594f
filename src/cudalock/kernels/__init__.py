"""The caches of Triton and Inductor: what lies in them, for whom, and how to take out what nobody can use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalock import lazy_names

if TYPE_CHECKING:
    from cudalock.kernels.environment import kernel_environment
    from cudalock.kernels.judge import why_stale
    from cudalock.kernels.model import CacheEntry, CacheSection, KernelCache, KernelEnvironment, Removal
    from cudalock.kernels.remove import clear, prune
    from cudalock.kernels.scan import cache_folders, read_caches

__all__ = [
    "cache_folders",
    "CacheEntry",
    "CacheSection",
    "clear",
    "kernel_environment",
    "KernelCache",
    "KernelEnvironment",
    "prune",
    "read_caches",
    "Removal",
    "why_stale",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "environment": ("kernel_environment",),
        "judge": ("why_stale",),
        "model": ("CacheEntry", "CacheSection", "KernelCache", "KernelEnvironment", "Removal"),
        "remove": ("clear", "prune"),
        "scan": ("cache_folders", "read_caches"),
    },
)
