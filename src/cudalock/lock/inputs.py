"""The inputs that a lock records, and the request they make when it is resolved again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cudalock.compat.model import Mode, Policy

if TYPE_CHECKING:  # `check` reads the recorded policy, and needs no requirement for it
    from datetime import datetime

    from packaging.requirements import Requirement

    from cudalock.lock.model import Lock
    from cudalock.requirements.model import AskedRequirement, Request

__all__ = ["recorded_inputs", "recorded_policy", "recorded_request", "requirement_text", "without_credentials"]

_USUAL_MODES = frozenset({Mode.NATIVE, Mode.MINOR})
_PROJECT = "pyproject.toml"


def recorded_inputs(request: Request, policy: Policy) -> dict[str, Any]:
    """What was asked for, as ``[tool.cudalock]`` records it: sorted, normalised, without credentials.

    Empty parts are left out; ``compat`` is written where it is not the default; ``project`` says that
    requirements came from a pyproject.toml.
    """
    inputs: dict[str, Any] = {
        "requirements": _texts(request.requirements),
        "constraints": _texts(request.constraints),
        "extras": tuple(sorted(request.extras)),
        "groups": tuple(sorted(request.groups)),
        "allow-build": tuple(sorted(request.allow_build)),
        "prerelease": tuple(sorted(request.prerelease)),
        "exclude-newer": _moment(request.exclude_newer),
        "cuda": policy.cuda,
        "compat": None if policy.modes == _USUAL_MODES else _compat(policy),
        "without-triton": policy.without_triton,
        "project": any(asked.origin.startswith(_PROJECT) for asked in request.requirements),
    }
    return {key: value for key, value in inputs.items() if value or key == "requirements"}


def _texts(asked: Iterable[AskedRequirement]) -> tuple[str, ...]:
    return tuple(sorted({requirement_text(item.requirement) for item in asked}))


def requirement_text(requirement: Requirement) -> str:
    """One spelling for one requirement: normalised name, sorted parts, no credentials in an address."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    plain = Requirement(str(requirement))
    plain.name = canonicalize_name(plain.name)
    plain.extras = {str(canonicalize_name(extra)) for extra in plain.extras}
    if plain.url is not None:
        plain.url = without_credentials(plain.url)
    return str(plain)


def without_credentials(url: str) -> str:
    """The address without user, password and fragment (a ``#sha256=`` stands in the lock on its own)."""
    from urllib.parse import urlsplit, urlunsplit

    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))


def _moment(moment: datetime | None) -> str | None:
    from datetime import UTC

    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _compat(policy: Policy) -> str:
    """The choice that gives these modes: the strongest of them names it."""
    for mode in (Mode.FORWARD, Mode.MINOR, Mode.NATIVE):
        if mode in policy.modes:
            return mode.value
    return Mode.NATIVE.value


def _modes(compat: str | None) -> frozenset[Mode]:
    if compat is None:
        return _USUAL_MODES
    return {
        "native": frozenset({Mode.NATIVE}),
        "minor": _USUAL_MODES,
        "forward": frozenset(Mode),
    }.get(compat, _USUAL_MODES)


def recorded_request(lock: Lock) -> Request:
    """The request that a lock records; origins say ``the lock``.

    Raises:
        UsageError: if something recorded does not parse, as for any other input.
    """
    from cudalock.requirements.model import Request
    from cudalock.requirements.parsing import normalized_names, parse_exclude_newer

    inputs: Mapping[str, Any] = lock.inputs
    exclude_newer = inputs.get("exclude-newer")
    return Request(
        requirements=_asked(inputs.get("requirements", ())),
        constraints=_asked(inputs.get("constraints", ()), constraint=True),
        extras=tuple(inputs.get("extras", ())),
        groups=tuple(inputs.get("groups", ())),
        exclude_newer=parse_exclude_newer(exclude_newer) if exclude_newer else None,
        allow_build=normalized_names(inputs.get("allow-build", ()), "allow-build"),
        prerelease=normalized_names(inputs.get("prerelease", ()), "prerelease"),
    )


def _asked(texts: Iterable[str], *, constraint: bool = False) -> tuple[AskedRequirement, ...]:
    from cudalock.requirements.model import AskedRequirement
    from cudalock.requirements.parsing import parse_requirement

    return tuple(
        AskedRequirement(requirement=parse_requirement(text, "the lock", constraint=constraint), origin="the lock")
        for text in texts
    )


def recorded_policy(lock: Lock) -> Policy:
    """The user's choices that a lock records: ``--cuda``, ``--compat``, ``--without-triton``."""
    inputs = lock.inputs
    return Policy(
        cuda=inputs.get("cuda"),
        modes=_modes(inputs.get("compat")),
        without_triton=bool(inputs.get("without-triton", False)),
    )
