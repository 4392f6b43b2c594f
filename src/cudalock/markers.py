"""Evaluates the markers of requirements and locks: always an answer, whatever somebody wrote into them.

``packaging`` reads more markers than it can evaluate: ``os_name ~= 'posix'`` and ``python_version ~= '3'`` compare
what has no such order, and ``extras`` and ``dependency_groups`` are names that exist in a lock only. ``packaging`` is
imported by whoever has a marker already, not by this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.markers import Marker

__all__ = ["holds", "holds_prepared", "undefined"]

_NOTHING_ASKED: Mapping[str, str | AbstractSet[str]] = {
    "extra": "",
    "extras": frozenset(),
    "dependency_groups": frozenset(),
}
# UndefinedComparison and versions that are none are ValueErrors, and UndefinedEnvironmentName is a KeyError
_UNDEFINED = (ValueError, KeyError)


def holds(marker: Marker | None, environment: Mapping[str, str | AbstractSet[str]], extra: str = "") -> bool:
    """Whether a marker holds; one with a comparison that has no meaning does not.

    Args:
        marker: None holds everywhere.
        environment: what is known of the target; the rest is taken from the running Python.
        extra: the extra that is asked for. Extras and groups of a lock are never asked for.
    """
    if marker is None:
        return True
    try:
        return marker.evaluate({**_NOTHING_ASKED, **environment, "extra": extra})
    except _UNDEFINED:
        return False


def holds_prepared(marker: Marker, environment: Mapping[str, str], extra: str) -> bool:
    """As :func:`holds`, for an environment that ``packaging`` has prepared once and that is asked often."""
    try:
        return marker.evaluate_prepared({**_NOTHING_ASKED, **environment, "extra": extra})
    except _UNDEFINED:
        return False


def undefined(marker: Marker | None, *, lock: bool = False) -> str | None:
    """Why no tool can evaluate a marker, in words; None if it can be evaluated.

    Args:
        marker: as ``packaging`` reads it.
        lock: whether it is that of a lock's package: only there have extras and groups a meaning.
    """
    if marker is None:
        return None
    try:
        marker.evaluate({**(_NOTHING_ASKED if lock else {}), "platform_release": ""})  # the same on any machine
    except KeyError as error:
        return f"{error.args[0]} has a meaning in a lock's packages only"
    except ValueError:
        return "it compares what cannot be compared so"
    return None
