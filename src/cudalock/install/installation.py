"""One installation under way: what can fail without harm comes first, and what takes time is done while uv works."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.markers import default_environment
from packaging.pylock import Pylock
from packaging.utils import NormalizedName

from cudalock.errors import AnswerIsNo, ToolError, UsageError
from cudalock.install import state
from cudalock.install.documents import (
    built_against_torch,
    from_wheelhouse,
    hosts,
    with_absolute_paths,
    without,
    write_document,
)
from cudalock.install.local_files import name_damaged, require_whole
from cudalock.install.model import InstallOptions, InstallReport
from cudalock.install.python import Interpreter, find_interpreter, require_running
from cudalock.install.uv import Uv, find_uv
from cudalock.install.venv import Place, discard, put_aside, python_of
from cudalock.lock.environment import InstalledPackages, read_environment
from cudalock.lock.model import Lock
from cudalock.progress import Reporter

if TYPE_CHECKING:  # pip is the second way; most runs do without it, as without what is imported in functions below
    from cudalock.install.pip import Pip

__all__ = ["Installation"]

_TOOLS = frozenset({"pip", "setuptools", "wheel", "uv"})


@dataclass(kw_only=True)
class Installation:
    """What is installed where, and how; ``unsaid`` are the steps that the user has not heard of yet."""

    lock: Lock
    lock_path: Path
    venv: Path
    options: InstallOptions
    reporter: Reporter
    inherited: Sequence[int] = ()
    unsaid: list[str] = field(default_factory=list)

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
            from cudalock.install.sources import refuse_other_toolkit

            refuse_other_toolkit(self.lock, late)
        tool = self._tool()
        python = python_of(self.venv)
        usable = place in {Place.OURS, Place.FOREIGN, Place.INCOMPLETE} and (self.venv / "pyvenv.cfg").is_file()
        begun = state.incomplete_mode(self.venv) == "create"  # there may be no interpreter yet
        if self.options.sync and usable and (python.exists() or not begun):
            found = require_running(python)
            self._admit(found)
            return self._sync(tool, document, late, found)
        found = find_interpreter(
            self.options.python or (self.lock.target.python if self.lock.target else None),
            self.lock.pylock.requires_python,
            ask_uv=self._ask_uv(tool),
        )
        self._admit(found)
        if place not in {Place.ABSENT, Place.EMPTY}:
            self._refuse_to_saw_off_the_branch()
        with put_aside(self.venv):
            state.begin(self.venv, lock=self.lock_path, mode="create")
            self.unsaid.append(f"creating {self.venv} with Python {found}")
            self._create(tool, found)
            return self._fill(tool, document, late, found, before={}, created=True)

    def _refuse_to_saw_off_the_branch(self) -> None:
        """What is needed to replace an environment must not lie in it."""
        venv = self.venv.resolve()
        needed = {
            "the lock": self.lock_path,
            "the wheelhouse": self.options.wheelhouse,
            "the working folder": Path.cwd(),
        }
        for what, path in needed.items():
            if path is not None and path.resolve().is_relative_to(venv):
                raise UsageError(
                    "venv-in-use",
                    f"{what} lies in {self.venv}, which is to be replaced",
                    hint="leave that folder, and keep there nothing but the environment",
                    details={"venv": str(self.venv), "path": str(path)},
                )

    def _create(self, tool: Uv | Pip, found: Interpreter) -> None:
        try:
            tool.create_venv(self.venv, found.path, meanwhile=self._while_creating)
        except UsageError:  # pip's configuration cannot be used: seen before anything was installed
            discard(self.venv)
            raise

    def _while_creating(self) -> None:
        """What is needed next and takes time to get ready."""
        import tempfile  # noqa: F401

        import tomli_w  # noqa: F401

        _ = self._network
        if self.options.inherit_stderr:
            self._say_steps()

    def _while_filling(self) -> None:
        self._say_steps()
        from cudalock.install import mending  # noqa: F401

    def _say_steps(self) -> None:
        """Says what is being done; later than it begins, as loading what draws on a terminal would hold it up."""
        for step in self.unsaid:
            self.reporter.step(step)
        self.unsaid.clear()

    def _sync(self, tool: Uv | Pip, document: Pylock, late: frozenset[str], found: Interpreter) -> InstallReport:
        before = _versions(read_environment(self.venv))
        _ = self._network  # what is wrong with pip's configuration is said before anything is touched
        state.begin(self.venv, lock=self.lock_path, mode="sync")
        return self._fill(tool, document, late, found, before=before, created=False)

    def _document(self) -> Pylock:
        """The lock with every file where it is to be taken from."""
        if self.options.wheelhouse is not None:
            return from_wheelhouse(self.lock.pylock, self.options.wheelhouse)
        return with_absolute_paths(self.lock.pylock, self.lock_path.absolute().parent)

    def _tool(self) -> Uv | Pip:
        options = self.options
        quiet, inherited = options.inherit_stderr, self.inherited

        def environ() -> Mapping[str, str]:
            return self._network

        if options.installer == "pip":
            from cudalock.install.pip import find_pip

            return find_pip(self.reporter, inherit_stderr=quiet, environ=environ, inherited=inherited)
        return find_uv(self.reporter, program=options.uv, inherit_stderr=quiet, environ=environ, inherited=inherited)

    @cached_property
    def _network(self) -> Mapping[str, str]:
        """The environment of processes that may contact somebody."""
        from cudalock.install.network import network_environment

        options = self.options
        return network_environment(
            os.environ, index_url=options.index_url, allow_insecure_hosts=options.sources.allow_insecure_hosts
        )

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
        import tempfile

        self.unsaid.append(f"installing {len(document.packages)} packages with {tool.name}")
        if self.options.inherit_stderr:  # before uv draws on the same terminal
            self._say_steps()
        with tempfile.TemporaryDirectory(prefix="cudalock-install-") as folder:
            first = write_document(without(document, late), Path(folder))
            tool.sync(first, python, offline=offline, meanwhile=self._while_filling)
            from cudalock.install.mending import mend

            if late:
                whole = write_document(document, Path(folder), "pylock.whole.toml")
                self._build(tool, whole, python, late, offline=offline)
            mended = mend(
                self.lock,
                self.venv,
                partial(self._reinstall, tool, document, python, Path(folder), late),
                self.reporter,
                created=created,
                past_cache=not self.options.offline or self.options.wheelhouse is not None,
            )
        environment = mended.environment
        if not isinstance(tool, Uv):
            locked = {package.name for package in document.packages}
            tool.uninstall((name for name in environment.packages if name not in locked | _TOOLS), python)
            environment = read_environment(self.venv)
        self._prove(tool, environment)
        after = _versions(environment)
        state.finish(self.venv, self._state(tool, found, after, mended.deviating))
        return InstallReport(
            venv=self.venv,
            python=str(found),
            created=created,
            installer=tool.name,
            added={name: version for name, version in after.items() if name not in before},
            changed={n: (before[n], v) for n, v in after.items() if n in before and before[n] != v},
            removed={name: version for name, version in before.items() if name not in after},
            reinstalled={
                name: after[name] for name in sorted(mended.reinstalled) if before.get(name) == after.get(name)
            },
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
        again = document if isinstance(tool, Uv) else without(document, others)
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
        from cudalock.install.sources import build_variables

        self.reporter.step(f"building {', '.join(sorted(late))}")
        try:
            tool.sync(
                whole,
                python,
                offline=offline,
                options=["--no-build-isolation", *options],
                variables=build_variables(self.lock, os.environ),
            )
        except ToolError as error:
            raise ToolError(
                error.code,
                error.message,
                hint="it is built in the environment itself: what its build needs (setuptools, wheel, ninja) must be in"
                " the lock, so add that to the requirements",
                details=error.details,
            ) from error

    def _prove(self, tool: Uv | Pip, environment: InstalledPackages) -> None:
        """Looks whether the tool did what it was told: what it left out or changed would pass for installed."""
        from cudalock.lock.drift import drift_findings

        wrong = [
            finding.message
            for finding in drift_findings(self.lock, environment)
            if finding.severity == "error" and finding.code != "venv-incomplete"
        ]
        if wrong:
            raise ToolError(
                "install-differs", f"{tool.name} ended well, but {wrong[0]}", details={"differences": wrong}
            )

    def _state(
        self,
        tool: Uv | Pip,
        found: Interpreter,
        contents: Mapping[NormalizedName, str],
        deviating: Mapping[str, int | None],
    ) -> state.InstallState:
        import hashlib

        return state.InstallState(
            lock=str(self.lock_path),
            lock_sha256=hashlib.sha256(self.lock_path.read_bytes()).hexdigest(),
            lock_digest=self.lock.digest,
            installer=tool.name,
            python=str(found),
            packages={str(name): version for name, version in contents.items()},
            deviating=deviating,
        )


def _versions(environment: InstalledPackages) -> dict[NormalizedName, str]:
    return {name: several[0].version for name, several in environment.packages.items()}
