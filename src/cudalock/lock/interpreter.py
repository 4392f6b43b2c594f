"""What markers see of an environment's Python, which is another than the one that runs cudalock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cudalock.lock.environment import InstalledPackages
from cudalock.markers import holds

if TYPE_CHECKING:
    from packaging.markers import Marker

__all__ = ["possible_answers", "possible_pythons"]

_IMPLEMENTATIONS = {"cpython": "CPython", "pypy": "PyPy", "graalpy": "GraalVM", "graalvm": "GraalVM"}
_MICROS = range(40)  # no feature release has had as many
_MINORS = range(8, 21)
_PRE_RELEASES = ("a1", "b1", "rc1")


def possible_pythons(environment: InstalledPackages) -> list[Mapping[str, str]]:
    """Every Python that an environment may have, as far as it says: each the part of a marker environment.

    One where everything is known. Else a marker on which they all agree is decided by what is known, and any other
    is not. The system is this machine's: environments are not carried about.
    """
    return [
        _values(full, implementation)
        for full in _full_versions(environment)
        for implementation in _implementations(environment)
    ]


def possible_answers(marker: Marker, pythons: Sequence[Mapping[str, str]]) -> set[bool]:
    """What a marker says for them: one answer, or two where it asks for what is not known."""
    text = str(marker)
    asks = "python" in text or "implementation" in text  # as all names do whose values differ between them
    return {holds(marker, python) for python in (pythons if asks else pythons[:1])}


def _full_versions(environment: InstalledPackages) -> Iterator[str]:
    if environment.python_full is not None:
        yield environment.python_full
        return
    python = environment.python
    for major, minor in [(python.major, python.minor)] if python else [(3, minor) for minor in _MINORS]:
        yield from (f"{major}.{minor}.0{suffix}" for suffix in _PRE_RELEASES)
        yield from (f"{major}.{minor}.{micro}" for micro in _MICROS)


def _implementations(environment: InstalledPackages) -> Iterator[str]:
    yield from [environment.implementation] if environment.implementation else ("cpython", "pypy", "graalpy")


def _values(full: str, implementation: str) -> Mapping[str, str]:
    return {
        "python_full_version": full,
        "python_version": ".".join(full.split(".")[:2]),
        "implementation_name": "graalpy" if implementation == "graalvm" else implementation,
        "platform_python_implementation": _IMPLEMENTATIONS.get(implementation, implementation),
        # of others than CPython the language's version stands for their own, which nothing states
        "implementation_version": full,
    }
