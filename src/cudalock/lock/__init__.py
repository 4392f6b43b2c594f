"""The lock: a standard ``pylock.toml`` with the contract that says for which drivers and GPUs it is valid.

Names are loaded from their modules when they are first used: ``check`` needs a few of them and a tenth of a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudalock.lock.build import build_lock, complete_hashes, locked_target
    from cudalock.lock.compare import LockDiff, VersionChange, diff_locks, outdated, preferred_pins
    from cudalock.lock.contract import build_contract, build_of, triton_of
    from cudalock.lock.drift import drift_findings
    from cudalock.lock.environment import Installed, InstalledPackages, read_environment, site_packages
    from cudalock.lock.file import dump_lock, read_lock, refuse_foreign, require_intact, write_lock
    from cudalock.lock.fit import Fit, contract_findings, judge_fit, python_findings
    from cudalock.lock.inputs import recorded_policy, recorded_request
    from cudalock.lock.model import Contract, GpuContract, Lock, LockedTarget, LockedTriple

__all__ = [
    "build_contract", "build_lock", "build_of", "complete_hashes", "Contract", "contract_findings", "diff_locks",
    "drift_findings", "dump_lock", "Fit", "GpuContract", "Installed", "InstalledPackages", "judge_fit", "Lock",
    "LockDiff", "locked_target", "LockedTarget", "LockedTriple", "outdated", "preferred_pins", "python_findings",
    "read_environment", "read_lock", "recorded_policy", "recorded_request", "refuse_foreign", "require_intact",
    "site_packages", "triton_of", "VersionChange", "write_lock",
]  # fmt: skip

_HOMES = {
    "build": ("build_lock", "complete_hashes", "locked_target"),
    "compare": ("LockDiff", "VersionChange", "diff_locks", "outdated", "preferred_pins"),
    "contract": ("build_contract", "build_of", "triton_of"),
    "drift": ("drift_findings",),
    "environment": ("Installed", "InstalledPackages", "read_environment", "site_packages"),
    "file": ("dump_lock", "read_lock", "refuse_foreign", "require_intact", "write_lock"),
    "fit": ("Fit", "contract_findings", "judge_fit", "python_findings"),
    "inputs": ("recorded_policy", "recorded_request"),
    "model": ("Contract", "GpuContract", "Lock", "LockedTarget", "LockedTriple"),
}
_HOME_OF = {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
