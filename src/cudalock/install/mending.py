"""After an installer ended well: what it took for installed by its version, and is not, is installed again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import NormalizedName

from cudalock.lock.drift import to_reinstall
from cudalock.lock.environment import InstalledPackages, read_environment, site_packages
from cudalock.lock.model import Lock
from cudalock.lock.owned import size_of
from cudalock.progress import Reporter

__all__ = ["Mended", "mend"]

Reinstall = Callable[[frozenset[NormalizedName], bool], None]
"""Installs the packages named again; True: past the installer's cache, whose files may be the altered ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """The environment as it was read last, its damage dealt with.

    ``deviating`` are the files that remain other than recorded, with their sizes (None: absent).
    ``reinstalled`` are the packages that were put in once more.
    """

    environment: InstalledPackages
    deviating: Mapping[str, int | None]
    reinstalled: frozenset[NormalizedName] = frozenset()


def mend(
    lock: Lock, venv: Path, reinstall: Reinstall, reporter: Reporter, *, created: bool, past_cache: bool
) -> Mended:
    """Reinstalls what has lost files or has other ones than recorded, until it is whole.

    uv links files from its cache into environments: who edits one there edits the cache, and a reinstallation brings
    the edited file back. So the second attempt, for a fresh environment the first, goes past the cache. What comes so
    out of a wheel whose hash was checked is what the wheel holds, whatever its RECORD says.

    Args:
        lock: what the environment is to hold.
        venv: the environment, into which the installer has put it.
        reinstall: does it once more, for the packages named.
        reporter: hears of it.
        created: whether everything was installed just now, so that only the cache or the wheels can be at fault.
        past_cache: whether files can be had without the installer's cache.
    """
    names: frozenset[NormalizedName] = frozenset()
    reinstalled: frozenset[NormalizedName] = frozenset()
    for fresh in (True,) if created else (False, True):
        environment = read_environment(venv, files=True)
        names = to_reinstall(lock, environment)
        if not names:
            return _mended(environment, {}, reinstalled)
        shown = ", ".join(sorted(names))
        if fresh and not past_cache:
            reporter.message(
                "warning", f"{shown}: files are not as recorded, and without a network they come from a cache"
            )
            return _mended(environment, {}, reinstalled)
        reporter.step(f"reinstalling {shown}")
        reinstall(names, fresh)
        reinstalled |= names
    environment = read_environment(venv, files=True)
    left = {name: paths for name, paths in environment.damaged.items() if name in names}
    if mended := sorted(names - left.keys()):
        advice = f"`uv cache clean {' '.join(mended)}` rids other environments of them too"
        reporter.message("warning", f"the installer's cache holds altered files of {', '.join(mended)}; {advice}")
    if left:
        reporter.message("note", f"the RECORD of {', '.join(left)} does not state the files of its own wheel")
    sites, paths = site_packages(venv), [path for several in left.values() for path in several]
    return _mended(environment, {path: size_of(f"{site}/{path}") for site in sites for path in paths}, reinstalled)


def _mended(
    environment: InstalledPackages, deviating: Mapping[str, int | None], reinstalled: frozenset[NormalizedName]
) -> Mended:
    return Mended(environment=replace(environment, damaged={}), deviating=deviating, reinstalled=reinstalled)
