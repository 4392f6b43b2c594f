"""Drivers and the CUDA versions they offer (rule R1): ``data/drivers.toml``."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from cudalock.facts.loader import cached, table
from cudalock.versions import CudaVersion, DriverVersion

__all__ = ["Branch", "branches", "cuda_of_driver", "driver_floor", "driver_native", "Os", "toolkit_driver"]

Os = Literal["linux", "windows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A driver branch.

    Attributes:
        branch: its number, e.g. 580. On Windows a branch also covers higher first numbers (R570: 570 to 573).
        cuda: the CUDA version it offers natively.
        first: the lowest driver of it that NVIDIA lists for that CUDA version.
        newest: the newest driver of it that our sources name; later ones exist where the branch is alive.
        kind: ``LTS``, ``PB`` (production), ``NFB`` (new features) or empty where unknown.
        end_of_life: year and month, None if unknown or open.
        source: where it was read.
    """

    branch: int
    cuda: CudaVersion
    first: DriverVersion
    newest: DriverVersion
    kind: str
    end_of_life: str | None = None
    source: str = ""


@cached
def _floors() -> dict[tuple[int, str], DriverVersion]:
    found: dict[tuple[int, str], DriverVersion] = {}
    for major, row in table("drivers").by_key("floor", lambda row: row.number("cuda_major")).items():
        for os in ("linux", "windows"):
            if (driver := row.parsed_or_none(os, DriverVersion.parse)) is not None:
                found[major, os] = driver
    return found


def driver_floor(cuda_major: int, os: Os) -> DriverVersion | None:
    """The lowest driver that runs builds of a CUDA major by minor-version compatibility (R1).

    None if the major has none (10 and older) or is unknown.
    Source: NVIDIA's minor-version compatibility page and release notes, see ``[[floor]]`` of ``data/drivers.toml``.
    """
    return _floors().get((cuda_major, os))


@cached
def branches(os: Os) -> tuple[Branch, ...]:
    """All known driver branches, ascending.

    Source: NVIDIA's toolkit release notes and data-centre driver tables, see ``[[branch]]`` of ``data/drivers.toml``.
    """
    found = []
    for number, row in table("drivers").by_key("branch", lambda row: row.number("branch")).items():
        first = row.parsed_or_none(os, DriverVersion.parse)
        if first is None:
            continue
        newest = row.parsed_or_none(f"{os}_newest", DriverVersion.parse) or first
        if newest < first:
            row.fail(f"the newest driver {newest} is below the first, {first}")
        found.append(
            Branch(
                branch=number,
                cuda=row.parsed("cuda", CudaVersion.parse),
                first=first,
                newest=newest,
                kind=row.text_or_none("kind") or "",
                end_of_life=row.text_or_none("end_of_life"),
                source=row.source,
            )
        )
    found.sort(key=lambda branch: branch.branch)
    for lower, higher in pairwise(found):
        if not (lower.cuda <= higher.cuda and lower.first < higher.first):
            table("drivers").rows("branch")[0].fail(f"branches {lower.branch} and {higher.branch} are out of order")
    return tuple(found)


def driver_native(cuda: CudaVersion, os: Os) -> DriverVersion | None:
    """The lowest driver whose own CUDA version is at least ``cuda``; None if no known branch offers it."""
    for branch in branches(os):
        if branch.cuda >= cuda:
            return branch.first
    return None


def cuda_of_driver(driver: DriverVersion, os: Os) -> CudaVersion | None:
    """The CUDA version that a driver's branch offers natively.

    A branch that is not known counts as the newest known one below it; a driver older than all known ones gives None.
    Jetson's drivers (540.4.0) are not on this ladder: ask the driver itself there.
    """
    known = branches(os)
    if os == "windows":  # there a branch spans several first numbers, so its lowest driver marks its beginning
        place = bisect_right([branch.first for branch in known], driver)
    else:
        place = bisect_right([branch.branch for branch in known], driver.branch)
    return known[place - 1].cuda if place else None


@cached
def _toolkits() -> dict[str, tuple[DriverVersion | None, DriverVersion | None]]:
    rows = table("drivers").by_key("toolkit", lambda row: row.text("version"))
    return {
        version: (
            row.parsed_or_none("linux", DriverVersion.parse),
            row.parsed_or_none("windows", DriverVersion.parse),
        )
        for version, row in rows.items()
    }


def toolkit_driver(release: str, os: Os) -> DriverVersion | None:
    """The driver that NVIDIA lists beside a toolkit release such as ``12.8.1``; None if it lists none."""
    linux, windows = _toolkits().get(release, (None, None))
    return linux if os == "linux" else windows
