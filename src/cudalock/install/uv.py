"""uv as the installer: found, its version checked, run, and its failures said in its own words."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from packaging.version import InvalidVersion, Version

from cudalock.errors import ToolError
from cudalock.install.processes import finish_tool, start_tool, tool_environment
from cudalock.progress import Reporter

__all__ = ["LEAST_UV", "Uv", "find_uv"]

LEAST_UV = Version("0.9")
"""The first uv whose ``pip sync`` takes ``pylock.toml`` with ``--preview-features pylock`` as cudalock needs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uv:
    """A uv that is there and new enough; ``environ`` is asked for when a process of it may contact somebody."""

    program: Path
    version: Version
    reporter: Reporter
    inherit_stderr: bool = False
    environ: Callable[[], Mapping[str, str]] = field(default=lambda: os.environ)
    inherited: Sequence[int] = ()

    @property
    def name(self) -> str:
        """``uv 0.13.9``."""
        return f"uv {self.version}"

    def create_venv(self, venv: Path, python: Path, *, meanwhile: Callable[[], None]) -> None:
        """Makes ``venv`` with the interpreter ``python``; what lies there already stays.

        ``meanwhile`` is called while uv works; what it raises ends uv. uv contacts nobody here.
        """
        command = ["venv", "--quiet", "--no-project", "--no-python-downloads", "--allow-existing"]
        self._run([*command, "--python", str(python), str(venv)], os.environ, meanwhile)

    def sync(
        self,
        lock: Path,
        python: Path,
        *,
        offline: bool = False,
        options: Sequence[str] = (),
        variables: Mapping[str, str] = MappingProxyType({}),
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """Makes the environment of ``python`` hold exactly what ``lock`` says; every file's hash is checked.

        ``meanwhile`` is called while uv works; what it raises ends uv.
        """
        command = ["pip", "sync", "--preview-features", "pylock", "--require-hashes", "--allow-empty-requirements"]
        command += ["--no-python-downloads", "--python", str(python), *options]
        command += [*(["--offline", "--no-index"] if offline else []), str(lock)]
        self._run(command, {**self.environ(), **variables}, meanwhile)

    def reinstalling(self, names: Iterable[str], *, fresh: bool) -> list[str]:
        """The options with which ``sync`` installs ``names`` again; ``fresh``: without a look into uv's cache."""
        options = [part for name in sorted(names) for part in ("--reinstall-package", name)]
        return [*options, "--no-cache"] if fresh else options

    def find_python(self, request: str, *, download: bool) -> Path | None:
        """The interpreter that uv finds for ``request``; None if there is none."""
        if download:
            self._run(["python", "install", "--no-bin", request], self.environ())
        done = subprocess.run(
            [str(self.program), "python", "find", "--no-project", "--no-python-downloads", request],
            capture_output=True,
            text=True,
            check=False,
            env=tool_environment(self.environ()),
        )
        return Path(done.stdout.strip()) if done.returncode == 0 and done.stdout.strip() else None

    def _run(
        self, arguments: Sequence[str], environ: Mapping[str, str], meanwhile: Callable[[], None] | None = None
    ) -> None:
        running = start_tool(
            [str(self.program), *arguments],
            environ=tool_environment(environ),
            inherit_stderr=self.inherit_stderr,
            inherited=self.inherited,
        )
        with contextlib.ExitStack() as stack:
            try:
                process = stack.enter_context(running)
            except OSError as error:
                raise ToolError("uv-failed", f"{self.program} cannot be run: {error.strerror or error}") from error
            if meanwhile is not None:
                meanwhile()
            done = finish_tool(process, self.reporter)
        if done.status != 0:
            raise self._failure(arguments, done.status, done.stderr)

    def _failure(self, arguments: Sequence[str], status: int, stderr: str) -> ToolError:
        what = "venv" if arguments[0] == "venv" else " ".join(arguments[:2])
        words = _own_words(stderr) or "its own words are above"
        return ToolError(
            "uv-failed",
            f"uv {what} failed (exit status {status}): {words}",
            hint=_hint(stderr, offline="--offline" in arguments),
            details={"command": ["uv", *arguments], "status": status, "stderr": stderr},
        )


def _own_words(stderr: str) -> str:
    """From uv's ``error:`` (or its ``×``) to the end, without empty lines."""
    lines = [line.rstrip() for line in stderr.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if line.lstrip().startswith(("error:", "×", "x ")):
            return "\n".join(lines[number:]).removeprefix("error:").strip()
    return "\n".join(lines[-5:])


_NETWORK = re.compile(
    r"[Ff]ailed to (?:download|fetch|extract|read)|error sending request|[Tt]imed? ?out|[Rr]equest failed"
)


_INVALID = re.compile(r"Failed to install: \S+ \((\S+?)==")


def _hint(stderr: str, *, offline: bool) -> str | None:
    if "ash mismatch" in stderr:
        return (
            "the file is not the one that was locked: do not install it; resolve anew only if you know why it changed"
        )
    if offline and (_NETWORK.search(stderr) or "network was disabled" in stderr or "offline" in stderr.lower()):
        return "fetch the files first: cudalock fetch DIR, then cudalock install --wheelhouse DIR"
    if "The wheel is invalid" in stderr and (damaged := _INVALID.search(stderr)):
        return f"its files in uv's cache were altered or damaged: `uv cache clean {damaged[1]}`, then try again"
    if "No space left" in stderr:
        return "free disk space, or set UV_CACHE_DIR to a folder on a larger disk"
    if "Read-only file system" in stderr or "ermission denied" in stderr:
        return "choose folders that can be written, with --venv and UV_CACHE_DIR"
    if "certificate" in stderr.lower() or "UnknownIssuer" in stderr:
        return "name your organisation's certificate bundle in SSL_CERT_FILE"
    if any(f"{status} " in stderr for status in ("401", "403", "407")):
        return "give credentials in netrc, through keyring (UV_KEYRING_PROVIDER=subprocess), or in the index URL"
    if _NETWORK.search(stderr):
        return "check the network and HTTPS_PROXY and try again; if the file is gone, `cudalock resolve` finds another"
    return None


def find_uv(
    reporter: Reporter,
    *,
    program: Path | None = None,
    inherit_stderr: bool = False,
    environ: Callable[[], Mapping[str, str]] = lambda: os.environ,
    inherited: Sequence[int] = (),
) -> Uv:
    """The uv installed beside cudalock, else the one on PATH, or ``program``.

    Its processes get what ``environ`` gives and keep the descriptors ``inherited`` open.

    Raises:
        ToolError: ``uv-missing``, ``uv-too-old`` or ``uv-failed``.
    """
    found = program or _beside_us() or _on_path()
    if found is None or not Path(found).is_file():
        where = f" at {found}" if found else ""
        raise ToolError(
            "uv-missing",
            f"there is no uv{where}",
            hint="install it beside cudalock (pip install uv), or use the second way: --installer pip",
        )
    version = (None if program else _installed_version(Path(found))) or _version(Path(found))
    if version < LEAST_UV:
        raise ToolError(
            "uv-too-old",
            f"{found} is uv {version}; cudalock needs {LEAST_UV} or newer",
            hint="pip install --upgrade uv, or use the second way: --installer pip",
        )
    return Uv(
        program=Path(found),
        version=version,
        reporter=reporter,
        inherit_stderr=inherit_stderr,
        environ=environ,
        inherited=inherited,
    )


def _beside_us() -> str | None:
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        return None


def _on_path() -> str | None:
    import shutil

    return shutil.which("uv")


def _installed_version(program: Path) -> Version | None:
    """That of the distribution which the program is part of, as its installer recorded it: uv need not be started."""
    uv = sys.modules.get("uv")
    if uv is None or uv.__file__ is None:
        return None
    packages = Path(uv.__file__).parent.parent
    recorded = list(packages.glob("uv-*.dist-info"))
    if len(recorded) != 1 or not _records(recorded[0], program, packages):
        return None
    try:
        return Version(recorded[0].name.removeprefix("uv-").removesuffix(".dist-info"))
    except InvalidVersion:
        return None


def _records(dist_info: Path, program: Path, packages: Path) -> bool:
    """Whether the distribution's RECORD has the program, with the size that it has."""
    try:
        lines = (dist_info / "RECORD").read_text(encoding="utf-8").splitlines()
        place, size = os.path.normpath(program), program.stat().st_size
    except (OSError, ValueError):
        return False
    named = (line.rsplit(",", 2) for line in lines if program.name in line)
    return any(len(row) == 3 and row[2] == str(size) and os.path.normpath(packages / row[0]) == place for row in named)


def _version(program: Path) -> Version:
    try:
        done = subprocess.run([str(program), "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError("uv-failed", f"{program} cannot be run: {error}") from error
    match = re.match(r"uv (\d+(?:\.\d+)+)", done.stdout)
    if done.returncode != 0 or match is None:
        said = (done.stderr or done.stdout).strip() or "nothing"
        raise ToolError("uv-failed", f"{program} --version failed (exit status {done.returncode}), saying: {said}")
    return Version(match[1])
