"""A lock becomes an environment: exactly its files, or what was there before, or one that says it is incomplete."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.pylock import Pylock
from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName

from cudalock.errors import AnswerIsNo, ToolError, UsageError
from cudalock.install import state
from cudalock.install.admission import require_admissible
from cudalock.install.documents import (
    built_against_torch,
    from_wheelhouse,
    hosts,
    with_absolute_paths,
    without,
    write_document,
)
from cudalock.install.exclusive import exclusive
from cudalock.install.local_files import name_damaged, require_whole
from cudalock.install.mending import mend
from cudalock.install.model import InstallOptions, InstallReport
from cudalock.install.network import network_environment
from cudalock.install.pip import Pip, find_pip
from cudalock.install.python import Interpreter, find_interpreter, require_running
from cudalock.install.sources import build_variables, refuse_other_toolkit
from cudalock.install.uv import Uv, find_uv
from cudalock.install.venv import Place, bring_back, classify, put_aside, python_of, refuse_unusable
from cudalock.lock.drift import drift_findings
from cudalock.lock.environment import read_environment
from cudalock.lock.file import read_lock, require_intact
from cudalock.lock.model import Lock
from cudalock.progress import SILENT, Reporter
from cudalock.target.model import PythonVersion

__all__ = ["install"]

_TOOLS = frozenset({"pip", "setuptools", "wheel", "uv"})


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
    venv = Path(os.path.abspath(venv))  # noqa: PTH100 - resolve() would follow a link that the user may move
    try:
        with exclusive(venv, reporter) as inherited:
            return _installed(lock, lock_path, venv, options, reporter, inherited)
    except OSError as error:
        raise UsageError(
            "disk-write-failed",
            f"{error.filename or venv} cannot be written: {(error.strerror or str(error)).lower()}",
            hint="choose a folder that can be written and has room, for the environment and for TMPDIR",
            details={"venv": str(venv)},
        ) from error
    except (KeyboardInterrupt, SystemExit):
        reporter.message("warning", _left(venv))
        raise


def _require_admissible(lock: Lock, lock_path: Path, options: InstallOptions, reporter: Reporter) -> None:
    from_house = options.wheelhouse is not None
    require_admissible(lock.pylock, lock_path.absolute().parent, options.sources, only_names=from_house)
    if not from_house:
        reporter.message("info", f"files come from {', '.join(hosts(lock.pylock)) or 'this machine alone'}")


def _left(venv: Path) -> str:
    """What an interruption leaves, in a sentence."""
    return {
        Place.ABSENT: f"nothing was left at {venv}",
        Place.EMPTY: f"{venv} is empty, as it was",
        Place.INCOMPLETE: f"{venv} is incomplete and marked so; the same command makes it whole",
    }.get(classify(venv), f"{venv} is as it was")


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
    work = _Installation(
        lock=lock, lock_path=lock_path, venv=venv, options=options, reporter=reporter, inherited=inherited
    )
    return work.run(place)


def _differs(lock: Lock, venv: Path) -> bool:
    environment = read_environment(venv, files=True)
    wanted = lock.pylock.requires_python
    wrong_python = wanted is not None and environment.python is not None and not _admits(wanted, environment.python)
    return wrong_python or bool(drift_findings(lock, environment))


def _admits(wanted: SpecifierSet, python: PythonVersion) -> bool:
    """By major and minor only: more of an environment's Python is not read."""
    return any(wanted.contains(f"{python.major}.{python.minor}.{micro}", prereleases=True) for micro in (0, 99))


@dataclass(kw_only=True)
class _Installation:
    """One installation under way."""

    lock: Lock
    lock_path: Path
    venv: Path
    options: InstallOptions
    reporter: Reporter
    inherited: Sequence[int] = ()

    def run(self, place: Place) -> InstallReport:
        """Prepares everything that can fail without harm, then works."""
        document = self._document()
        require_whole(document, self.options.wheelhouse)
        try:
            return self._run(place, document)
        except ToolError as error:
            if (damaged := name_damaged(document, self.options.wheelhouse)) is not None:
                raise damaged from error
            raise

    def _run(self, place: Place, document: Pylock) -> InstallReport:
        late = built_against_torch(document)
        if late:
            refuse_other_toolkit(self.lock, late)
        tool = self._tool()
        python = python_of(self.venv)
        usable = place in {Place.OURS, Place.FOREIGN, Place.INCOMPLETE} and (self.venv / "pyvenv.cfg").is_file()
        if self.options.sync and usable and python.exists():
            found = require_running(python)
            self._admit(found)
            return self._sync(tool, document, late, found)
        found = find_interpreter(
            self.options.python or (self.lock.target.python if self.lock.target else None),
            self.lock.pylock.requires_python,
            ask_uv=self._ask_uv(tool),
        )
        self._admit(found)
        with put_aside(self.venv):
            state.begin(self.venv, lock=self.lock_path, mode="create")
            self.reporter.step(f"creating {self.venv} with Python {found}")
            tool.create_venv(self.venv, found.path)
            return self._fill(tool, document, late, found, before={}, created=True)

    def _sync(self, tool: Uv | Pip, document: Pylock, late: frozenset[str], found: Interpreter) -> InstallReport:
        before = self._contents()
        state.begin(self.venv, lock=self.lock_path, mode="sync")
        return self._fill(tool, document, late, found, before=before, created=False)

    def _document(self) -> Pylock:
        """The lock with every file where it is to be taken from."""
        if self.options.wheelhouse is not None:
            return from_wheelhouse(self.lock.pylock, self.options.wheelhouse)
        return with_absolute_paths(self.lock.pylock, self.lock_path.absolute().parent)

    def _tool(self) -> Uv | Pip:
        options = self.options
        environ = network_environment(
            os.environ, index_url=options.index_url, allow_insecure_hosts=options.sources.allow_insecure_hosts
        )
        quiet, inherited = options.inherit_stderr, self.inherited
        if options.installer == "pip":
            return find_pip(self.reporter, inherit_stderr=quiet, environ=environ, inherited=inherited)
        return find_uv(self.reporter, program=options.uv, inherit_stderr=quiet, environ=environ, inherited=inherited)

    def _ask_uv(self, tool: Uv | Pip) -> Callable[[str], Path | None] | None:
        if not isinstance(tool, Uv):
            return None
        return lambda request: tool.find_python(request, download=self.options.download_python)

    def _admit(self, found: Interpreter) -> None:
        """Refuses a platform or Python that the lock's own environments exclude."""
        wanted = self.lock.pylock.requires_python
        if wanted is not None and not wanted.contains(found.version, prereleases=True):
            raise UsageError(
                "python-mismatch",
                f"{found.path} is Python {found}; the lock is for {wanted}",
                hint="--clear makes the environment anew with the right one",
            )
        markers: dict[str, Any] = {**default_environment(), "python_full_version": found.version}
        markers["python_version"] = ".".join(found.version.split(".")[:2])
        environments = self.lock.pylock.environments or ()
        if environments and not any(marker.evaluate(markers) for marker in environments):
            raise AnswerIsNo(
                "lock-not-for-this-machine",
                f"{self.lock_path} is for another platform: {' or '.join(map(str, environments))}",
                hint="resolve for this machine, or take the lock that was made for it",
                details={"environments": [str(marker) for marker in environments]},
            )

    def _fill(
        self,
        tool: Uv | Pip,
        document: Pylock,
        late: frozenset[str],
        found: Interpreter,
        *,
        before: Mapping[NormalizedName, str],
        created: bool,
    ) -> InstallReport:
        python = python_of(self.venv)
        offline = self.options.offline or self.options.wheelhouse is not None
        self.reporter.step(f"installing {len(document.packages)} packages with {tool.name}")
        with tempfile.TemporaryDirectory(prefix="cudalock-install-") as folder:
            first = write_document(without(document, late), Path(folder))
            tool.sync(first, python, offline=offline)
            if late:
                whole = write_document(document, Path(folder), "pylock.whole.toml")
                self._build(tool, whole, python, late, offline=offline)
            deviating = mend(
                self.lock,
                self.venv,
                partial(self._reinstall, tool, document, python, Path(folder), late),
                self.reporter,
                created=created,
                past_cache=not self.options.offline or self.options.wheelhouse is not None,
            )
        if isinstance(tool, Pip):
            locked = {package.name for package in document.packages}
            tool.uninstall((name for name in self._contents() if name not in locked and name not in _TOOLS), python)
        self._prove(tool)
        after = self._contents()
        state.finish(self.venv, self._state(tool, found, after, deviating))
        return InstallReport(
            venv=self.venv,
            python=str(found),
            created=created,
            installer=tool.name,
            added={name: version for name, version in after.items() if name not in before},
            changed={n: (before[n], v) for n, v in after.items() if n in before and before[n] != v},
            removed={name: version for name, version in before.items() if name not in after},
            hosts=() if self.options.wheelhouse else hosts(document),
        )

    def _reinstall(
        self,
        tool: Uv | Pip,
        document: Pylock,
        python: Path,
        folder: Path,
        late: frozenset[str],
        names: frozenset[NormalizedName],
        fresh: bool,
    ) -> None:
        offline = self.options.offline or self.options.wheelhouse is not None
        others = frozenset(str(package.name) for package in document.packages) - names
        # uv's sync would remove what a document leaves out; pip would reinstall all of it
        again = without(document, others) if isinstance(tool, Pip) else document
        path = write_document(again, folder, "pylock.again.toml")
        options = tool.reinstalling(names, fresh=fresh)
        if names & late:
            self._build(tool, path, python, names & late, offline=offline, options=options)
        else:
            tool.sync(path, python, offline=offline, options=options)

    def _build(
        self,
        tool: Uv | Pip,
        whole: Path,
        python: Path,
        late: frozenset[str],
        *,
        offline: bool,
        options: Sequence[str] = (),
    ) -> None:
        """The second pass: torch is in, and what compiles against it is built without isolation, to find it."""
        self.reporter.step(f"building {', '.join(sorted(late))}")
        variables = build_variables(self.lock, os.environ)
        try:
            tool.sync(whole, python, offline=offline, options=["--no-build-isolation", *options], **variables)
        except ToolError as error:
            raise ToolError(
                error.code,
                error.message,
                hint="it is built in the environment itself: what its build needs (setuptools, wheel, ninja) must be in"
                " the lock, so add that to the requirements",
                details=error.details,
            ) from error

    def _prove(self, tool: Uv | Pip) -> None:
        """Looks whether the tool did what it was told: what it left out or changed would pass for installed."""
        environment = read_environment(self.venv)
        wrong = [
            finding.message
            for finding in drift_findings(self.lock, environment)
            if finding.severity == "error" and finding.code != "venv-incomplete"
        ]
        if wrong:
            raise ToolError(
                "install-differs", f"{tool.name} ended well, but {wrong[0]}", details={"differences": wrong}
            )

    def _contents(self) -> dict[NormalizedName, str]:
        packages = read_environment(self.venv).packages
        return {name: several[0].version for name, several in packages.items()}

    def _state(
        self,
        tool: Uv | Pip,
        found: Interpreter,
        contents: Mapping[NormalizedName, str],
        deviating: Mapping[str, int | None],
    ) -> state.InstallState:
        return state.InstallState(
            lock=str(self.lock_path),
            lock_sha256=hashlib.sha256(self.lock_path.read_bytes()).hexdigest(),
            lock_digest=self.lock.digest,
            installer=tool.name,
            python=str(found),
            packages={str(name): version for name, version in contents.items()},
            deviating=deviating,
        )
