"""Comparing a lock with what is asked now, with its own pins, and with the lock before it. Pure, without network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.pylock import Package
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from cudalock.compat.model import Policy
from cudalock.lock.build import locked_target
from cudalock.lock.inputs import recorded_inputs, recorded_policy
from cudalock.lock.model import Lock, LockedTriple
from cudalock.markers import holds
from cudalock.requirements.model import AskedRequirement, Request
from cudalock.target.model import Target

__all__ = ["diff_locks", "LockDiff", "outdated", "preferred_pins", "VersionChange"]


def preferred_pins(lock: Lock) -> Mapping[NormalizedName, Version]:
    """The versions that the next resolution keeps where it can; packages at a direct address are not among them."""
    return {
        package.name: package.version
        for package in lock.pylock.packages
        if package.version is not None and not package.is_direct
    }


# --- is the lock still what is asked for?


def outdated(lock: Lock, request: Request, target: Target | None, policy: Policy | None = None) -> list[str]:
    """Why the lock is no longer what is asked for: one sentence each, empty if it still is.

    Args:
        lock: the lock as it lies there.
        request: what is asked for now.
        target: what it should be for; None leaves that out.
        policy: the choices of now; None takes those recorded.
    """
    if not lock.ours:
        return ["the lock was not made by cudalock"]
    reasons = [] if lock.digest_ok else ["the lock was changed after cudalock wrote it"]
    now = recorded_inputs(request, policy or recorded_policy(lock))
    reasons += _inputs_differ(lock.inputs, now)
    if target is not None:
        reasons += _target_differs(lock, target)
        reasons += _pins_violate(lock, request, target)
    return reasons


_WORDS = {"requirements": "requirement", "constraints": "constraint", "extras": "extra", "groups": "group"}


def _inputs_differ(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    reasons: list[str] = []
    for key in ("requirements", "constraints", "extras", "groups", "allow-build", "prerelease"):
        word = _WORDS.get(key, f"--{key} name")
        old, new = set(before.get(key, ())), set(now.get(key, ()))
        reasons += [f"{word} `{text}` is asked for and was not when the lock was made" for text in sorted(new - old)]
        reasons += [f"{word} `{text}` is no longer asked for" for text in sorted(old - new)]
    for key in ("exclude-newer", "cuda", "compat", "without-triton"):
        old_value, new_value = before.get(key), now.get(key)
        if old_value != new_value:
            reasons.append(f"--{key} is {_value(new_value)}, and was {_value(old_value)} when the lock was made")
    return reasons


def _value(value: object) -> str:
    if isinstance(value, str):
        return value
    return "set" if value else "not set"


def _target_differs(lock: Lock, target: Target) -> list[str]:
    if lock.target is None:
        return ["the lock does not say what it was made for"]
    now, before = locked_target(target), lock.target
    pairs = {
        "the platform is": (before.platform, now.platform),
        "Python is": (before.python, now.python),
        "the libc is": (before.libc, now.libc),
        "the driver is": (before.driver, now.driver),
        "the GPUs are": (_names(before.gpus), _names(now.gpus)),
    }
    reasons = [
        f"{what} {new or 'not given'}, and the lock was made for {old or 'none'}"
        for what, (old, new) in pairs.items()
        if old != new
    ]
    if before.cpu != now.cpu:
        reasons.append(
            "the lock was made for CPU" if before.cpu else "the lock was made for GPUs, and CPU is asked for"
        )
    return reasons


def _names(items: Iterable[object]) -> str:
    return ", ".join(str(item) for item in items)


def _pins_violate(lock: Lock, request: Request, target: Target) -> list[str]:
    """Pins that what is asked for rules out, and packages that are missing."""
    packages = {package.name: package for package in lock.pylock.packages}
    environment = dict(target.marker_environment)
    reasons: list[str] = []
    for asked in request.requirements:
        if _holds(asked, environment):
            reasons += _violation(asked, packages.get(canonicalize_name(asked.requirement.name)), required=True)
    for asked in request.constraints:
        if _holds(asked, environment):
            reasons += _violation(asked, packages.get(canonicalize_name(asked.requirement.name)), required=False)
    for package in lock.pylock.packages:
        wanted = [str(dependency.get("name", "")) for dependency in package.dependencies or ()]
        reasons += [f"{package.name} needs {name}, which is not in the lock" for name in wanted if name not in packages]
    return reasons


def _holds(asked: AskedRequirement, environment: Mapping[str, str]) -> bool:
    return holds(asked.requirement.marker, environment)


def _violation(asked: AskedRequirement, package: Package | None, *, required: bool) -> list[str]:
    if package is None:
        return [f"`{asked.requirement}` ({asked.origin}) is not in the lock"] if required else []
    specifier = asked.requirement.specifier
    if package.version is None or specifier.contains(package.version, prereleases=True):
        return []
    return [f"{package.name} {package.version} does not satisfy `{asked.requirement}` ({asked.origin})"]


# --- what changed?


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChange:
    """A package that both locks have; ``before`` equals ``after`` where only the file is another (a rebuilt wheel)."""

    name: NormalizedName
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LockDiff:
    """What a new lock changes: names with versions, sorted; the triple before and after, equal if it stays."""

    added: tuple[tuple[NormalizedName, str], ...] = ()
    removed: tuple[tuple[NormalizedName, str], ...] = ()
    changed: tuple[VersionChange, ...] = ()
    triple_before: LockedTriple | None = None
    triple_after: LockedTriple | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing changed that anybody installs."""
        return not (self.added or self.removed or self.changed) and self.triple_before == self.triple_after

    def to_json(self) -> dict[str, Any]:
        """The difference as it stands in a command's JSON answer."""
        return {
            "added": [{"name": name, "version": version} for name, version in self.added],
            "removed": [{"name": name, "version": version} for name, version in self.removed],
            "changed": [{"name": item.name, "before": item.before, "after": item.after} for item in self.changed],
            "triple_changed": self.triple_before != self.triple_after,
        }


def diff_locks(old: Lock | None, new: Lock) -> LockDiff:
    """Compares two locks package by package; without an old one everything is added."""
    before = _packages(old) if old else {}
    after = _packages(new)
    changed = [
        VersionChange(name=name, before=_version(before[name]), after=_version(after[name]))
        for name in sorted(before.keys() & after.keys())
        if before[name].version != after[name].version or _hashes(before[name]) != _hashes(after[name])
    ]
    return LockDiff(
        added=tuple((name, _version(after[name])) for name in sorted(after.keys() - before.keys())),
        removed=tuple((name, _version(before[name])) for name in sorted(before.keys() - after.keys())),
        changed=tuple(changed),
        triple_before=old.triple if old else None,
        triple_after=new.triple,
    )


def _packages(lock: Lock) -> dict[NormalizedName, Package]:
    return {package.name: package for package in lock.pylock.packages}


def _version(package: Package) -> str:
    return str(package.version) if package.version else "?"


def _hashes(package: Package) -> frozenset[str]:
    hashes = [wheel.hashes for wheel in package.wheels or ()]
    hashes += [package.sdist.hashes] if package.sdist else []
    hashes += [package.archive.hashes] if package.archive else []
    return frozenset(digest for one in hashes for digest in one.values())
