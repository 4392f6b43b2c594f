"""How the process uses memory; a program may decide this for itself, a library may not for its host."""

from __future__ import annotations

__all__ = ["collect_seldom", "return_memory"]

# glibc's malloc.h
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8


def return_memory() -> None:
    """Lets glibc give back what is freed, for a resolution that reads a hundred megabytes of index pages in threads.

    It would give every thread a pool of its own and keep there what is freed (a third of the peak), and it would take
    even megabytes from these pools once the first of them had been freed (a seventh). Other C libraries do neither.
    """
    import ctypes
    import sys

    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_ARENA_MAX, 2)
            mallopt(_MMAP_THRESHOLD, 1 << 20)


def collect_seldom() -> None:
    """Has the collector of reference cycles look at what was made after 100,000 new objects, not after 700.

    A command makes much and throws away little: of a resolution the collector took a tenth of the time.
    """
    import gc

    gc.set_threshold(100_000, 20, 100)
