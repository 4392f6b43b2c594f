"""Whether an environment can reuse a cached kernel. What is unknown never counts against an entry."""

from __future__ import annotations

from packaging.version import Version

from cudalock.kernels.keys import WRITTEN_BY
from cudalock.kernels.model import CacheEntry, KernelEnvironment

__all__ = ["why_stale"]


def why_stale(entry: CacheEntry, environment: KernelEnvironment) -> str | None:
    """Why the environment can never use the entry again, as a phrase; None if it can, or if nobody knows.

    The key of an entry covers triton's own files, so that another version never finds it; it covers the GPU's
    architecture; a library is loaded only by the Python that its name states; and the paths in a group are absolute.
    """
    if entry.kind == "other":
        return None
    return (
        entry.fault
        or _other_triton(entry, environment)
        or _other_gpu(entry, environment)
        or _other_python(entry, environment)
    )


def _other_triton(entry: CacheEntry, environment: KernelEnvironment) -> str | None:
    mine = environment.triton
    if mine is None:
        return None
    if entry.triton is not None:
        return None if _same(entry.triton, mine) else f"made by triton {entry.triton}, here is {mine}"
    range_of_layout = WRITTEN_BY[entry.layout]
    if range_of_layout.contains(mine.public, prereleases=True):
        return None
    return f"made by a triton {str(range_of_layout).replace('.dev0', '')}, here is {mine}"


def _same(text: str, mine: Version) -> bool:
    try:
        return Version(text).public == mine.public
    except ValueError:
        return True  # somebody's own build with a name of its own: unknown


def _other_gpu(entry: CacheEntry, environment: KernelEnvironment) -> str | None:
    if not environment.gpus or entry.architecture is None or environment.overrides:
        return None
    here = ", ".join(f"sm_{gpu.number}" for gpu in sorted(environment.gpus))
    if any(entry.architecture.rstrip("af") == f"sm_{gpu.number}" for gpu in environment.gpus):
        return None
    return f"compiled for {entry.architecture}, here is {here}"


def _other_python(entry: CacheEntry, environment: KernelEnvironment) -> str | None:
    if entry.python is None or environment.python is None:
        return None
    mine, theirs = (tag.replace("cpython-", "").replace("cp", "") for tag in (environment.python, entry.python))
    return None if mine == theirs else f"built for {entry.python}, here is {environment.python}"
