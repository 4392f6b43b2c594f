"""How the process uses memory; a program may decide this for itself, a library may not for its host."""

from __future__ import annotations

__all__ = ["collect_seldom", "share_pools"]

_ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h


def share_pools() -> None:
    """Lets all threads take memory from two pools.

    glibc gives every thread a pool of its own and keeps there what is freed: with the threads that fetch index pages
    that is a third of the memory of a large resolution. Other C libraries have nothing like it.
    """
    import ctypes
    import sys

    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_ARENA_MAX, 2)


def collect_seldom() -> None:
    """Has the collector of reference cycles look at what was made after 100,000 new objects, not after 700.

    A command makes much and throws away little: of a resolution the collector took a tenth of the time.
    """
    import gc

    gc.set_threshold(100_000, 20, 100)
