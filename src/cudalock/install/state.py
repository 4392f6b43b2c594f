"""The two files by which an environment tells how far it has come.

``cudalock-incomplete`` lies in it from before the first change until after the last one; ``cudalock-state.json`` says
what was installed from which lock. An environment with the former never counts as installed, whatever else is in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cudalock.lock.environment import INCOMPLETE_MARKER, STATE

__all__ = [
    "NEW_SUFFIX",
    "STATE",
    "InstallState",
    "begin",
    "finish",
    "incomplete_mode",
    "incomplete_reason",
    "read_state",
]

NEW_SUFFIX = ".cudalock-new"
"""Ends the name of an environment's folder until the mark lies in it."""

_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallState:
    """What was installed: the lock's file and digests, the tool, the Python and the versions.

    ``deviating`` has the sizes (None: absent) of files that their own wheel's RECORD states otherwise.
    """

    lock: str
    lock_sha256: str
    lock_digest: str | None
    installer: str
    python: str
    packages: Mapping[str, str] = field(default_factory=dict)
    deviating: Mapping[str, int | None] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The content of ``cudalock-state.json``."""
        return {
            "schema": _SCHEMA,
            "lock": self.lock,
            "lock-sha256": self.lock_sha256,
            "lock-digest": self.lock_digest,
            "installer": self.installer,
            "python": self.python,
            "packages": dict(sorted(self.packages.items())),
            "deviating": dict(sorted(self.deviating.items())),
        }


def begin(venv: Path, *, lock: Path, mode: str) -> None:
    """Marks ``venv`` as incomplete; ``mode`` is ``create`` or ``sync``.

    A folder that is not there is made under another name, and gets its own with the mark in it: killed in between, an
    empty folder would look like one that the user made, and the environment that it was to replace would be forgotten.
    """
    before = _read(venv / STATE) or _read(venv / INCOMPLETE_MARKER) or {}
    mark = {"schema": _SCHEMA, "lock": str(lock), "mode": mode, "deviating": before.get("deviating", {})}
    if not venv.exists():
        new = venv.with_name(venv.name + NEW_SUFFIX)
        new.mkdir(parents=True, exist_ok=True)
        _put(new / INCOMPLETE_MARKER, mark)
        new.rename(venv)
    elif mode == "create":  # nothing but the mark may ever lie in a folder that was empty; half a mark is one too
        _put(venv / INCOMPLETE_MARKER, mark)
    else:
        _write(venv / INCOMPLETE_MARKER, mark)
        (venv / STATE).unlink(missing_ok=True)


def finish(venv: Path, state: InstallState) -> None:
    """Writes what is installed, then takes the mark away: in this order, so that no moment pretends."""
    _write(venv / STATE, state.to_json())
    (venv / INCOMPLETE_MARKER).unlink(missing_ok=True)


def incomplete_reason(venv: Path) -> str | None:
    """A sentence if an installation into ``venv`` did not end, else None."""
    mark = _read(venv / INCOMPLETE_MARKER)
    if mark is None:
        return None
    lock = mark.get("lock")
    return f"an installation{f' of {lock}' if lock else ''} into {venv} was begun and did not end"


def incomplete_mode(venv: Path) -> str | None:
    """``create`` or ``sync`` if an installation did not end, else None; ``create`` if the mark cannot be read."""
    mark = _read(venv / INCOMPLETE_MARKER)
    return None if mark is None else "sync" if mark.get("mode") == "sync" else "create"


def read_state(venv: Path) -> InstallState | None:
    """What cudalock installed into ``venv``; None if it did not, or did not finish, or the file is not readable."""
    said = None if os.path.lexists(venv / INCOMPLETE_MARKER) else _read(venv / STATE)
    if not said or said.get("schema") != _SCHEMA:
        return None
    packages, deviating = said.get("packages"), said.get("deviating")
    return InstallState(
        lock=str(said.get("lock", "")),
        lock_sha256=str(said.get("lock-sha256", "")),
        lock_digest=said.get("lock-digest"),
        installer=str(said.get("installer", "")),
        python=str(said.get("python", "")),
        packages=packages if isinstance(packages, dict) else {},
        deviating=deviating if isinstance(deviating, dict) else {},
    )


def _write(path: Path, content: Mapping[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    _put(temporary, content)
    temporary.replace(path)


def _put(path: Path, content: Mapping[str, Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(content, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> dict[str, Any] | None:
    """The object in the file; {} if the file is there and holds none; None if it is not there."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {} if path.is_symlink() else None
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
