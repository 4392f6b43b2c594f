"""A lock becomes an environment: exactly its files, or what was there before, or one that says it is incomplete."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from packaging.specifiers import SpecifierSet

from cudalock.errors import UsageError
from cudalock.install.admission import require_admissible
from cudalock.install.documents import hosts
from cudalock.install.exclusive import exclusive
from cudalock.install.installation import Installation
from cudalock.install.model import InstallOptions, InstallReport
from cudalock.install.venv import Place, bring_back, classify, refuse_unusable, what_is_left
from cudalock.lock.environment import read_environment
from cudalock.lock.file import read_lock, require_intact
from cudalock.lock.model import Lock
from cudalock.progress import SILENT, Reporter
from cudalock.target.model import PythonVersion

__all__ = ["install"]


def install(
    lock_path: Path,
    venv: Path,
    *,
    lock: Lock | None = None,
    options: InstallOptions | None = None,
    reporter: Reporter = SILENT,
) -> InstallReport:
    """Makes ``venv`` hold exactly what the lock says; see :class:`InstallOptions`.

    Whether the lock's contract admits this machine is not looked at: callers judge that first, with
    :func:`cudalock.lock.contract_findings`.

    Args:
        lock_path: the lock's file.
        venv: folder of the environment.
        lock: the lock, where it was read already.
        options: how; by default a fresh environment with uv.
        reporter: hears of the steps and of the installer's own lines.

    Raises:
        UsageError: the lock, the place, the wheelhouse or the Python cannot be used; nothing was touched. Also
            ``disk-write-failed`` and ``venv-busy``, and what :func:`require_admissible` refuses.
        AnswerIsNo: ``lock-not-for-this-machine`` (another platform or Python), ``toolkit-mismatch``.
        ToolError: uv or pip is missing, too old or failed. An environment that was there is back, or, with ``sync``,
            marked as incomplete.

    A file on this machine that is not as locked is a UsageError ``locked-file-damaged``.
    """
    options = options or InstallOptions()
    if lock is None:
        lock = read_lock(lock_path)
    require_intact(lock, lock_path, force=options.force)
    _require_admissible(lock, lock_path, options, reporter)
    venv = _place_of(venv)
    try:
        with exclusive(venv, reporter) as inherited:
            return _installed(lock, lock_path, venv, options, reporter, inherited)
    except BrokenPipeError:
        raise  # nobody hears us any more: that is no fault of the disk
    except OSError as error:
        raise UsageError(
            "disk-write-failed",
            f"{error.filename or venv} cannot be written: {(error.strerror or str(error)).lower()}",
            hint="choose a folder that can be written and has room, for the environment and for TMPDIR",
            details={"venv": str(venv)},
        ) from error
    except (KeyboardInterrupt, SystemExit):
        reporter.message("warning", what_is_left(venv))
        raise


def _require_admissible(lock: Lock, lock_path: Path, options: InstallOptions, reporter: Reporter) -> None:
    from_house = options.wheelhouse is not None
    require_admissible(lock.pylock, lock_path.absolute().parent, options.sources, only_names=from_house)
    if not from_house:
        reporter.message("info", f"files come from {', '.join(hosts(lock.pylock)) or 'this machine alone'}")


def _place_of(venv: Path) -> Path:
    """The folder itself where the path is a link to one: it is what is renamed, and two names of it are one place."""
    venv = Path(os.path.abspath(venv))  # noqa: PTH100 - a link further up is left as it is
    if not venv.name:
        raise UsageError(
            "venv-not-a-venv", f"{venv} cannot be an environment", hint="give --venv a folder of its own, e.g. .venv"
        )
    return venv.resolve() if venv.is_symlink() and venv.is_dir() else venv


def _installed(
    lock: Lock,
    lock_path: Path,
    venv: Path,
    options: InstallOptions,
    reporter: Reporter,
    inherited: Sequence[int],
) -> InstallReport:
    if bring_back(venv):
        reporter.message("note", f"replacing {venv} was cut short; what was there is back")
    place = classify(venv)
    if place in {Place.OURS, Place.FOREIGN} and not options.clear and not _differs(lock, venv):
        reporter.message("info", f"{venv} already holds what {lock_path} says")
        python = read_environment(venv).python
        return InstallReport(venv=venv, python=str(python or ""), up_to_date=True, hosts=hosts(lock.pylock))
    refuse_unusable(venv, place, sync=options.sync, clear=options.clear)
    work = Installation(
        lock=lock, lock_path=lock_path, venv=venv, options=options, reporter=reporter, inherited=inherited
    )
    return work.run(place)


def _differs(lock: Lock, venv: Path) -> bool:
    from cudalock.lock.drift import drift_findings

    environment = read_environment(venv, files=True)
    wanted = lock.pylock.requires_python
    wrong_python = wanted is not None and environment.python is not None and not _admits(wanted, environment.python)
    return wrong_python or bool(drift_findings(lock, environment))


def _admits(wanted: SpecifierSet, python: PythonVersion) -> bool:
    """By major and minor only: more of an environment's Python is not read."""
    return any(wanted.contains(f"{python.major}.{python.minor}.{micro}", prereleases=True) for micro in (0, 99))
