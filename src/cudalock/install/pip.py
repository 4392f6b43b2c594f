"""pip as the second installer: the pip of our own environment, working on the other environment's Python."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import MappingProxyType

from cudalock.errors import ToolError
from cudalock.install.processes import run_tool, tool_environment
from cudalock.progress import Reporter

__all__ = ["Pip", "find_pip"]


class Pip:
    """The pip that is installed beside cudalock."""

    def __init__(
        self,
        reporter: Reporter,
        *,
        inherit_stderr: bool = False,
        environ: Callable[[], Mapping[str, str]] = lambda: os.environ,
        inherited: Sequence[int] = (),
    ) -> None:
        self._reporter = reporter
        self._environ = environ
        self._inherited = inherited
        self._inherit_stderr = inherit_stderr
        self.name = f"pip {metadata.version('pip')}"

    def create_venv(self, venv: Path, python: Path, *, meanwhile: Callable[[], None]) -> None:
        """Makes ``venv`` with the venv module of ``python``, after ``meanwhile``; what lies there already stays."""
        meanwhile()
        command = [str(python), "-I", "-m", "venv", "--without-pip", str(venv)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=tool_environment(self._environ())
        )
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise ToolError(
                "venv-failed",
                f"{python} -m venv failed (exit status {done.returncode}): {said}",
                hint="Debian keeps the venv module in a package of its own, python3-venv; --installer uv needs none",
            )

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
        """Installs what ``lock`` says with the hashes in it, after ``meanwhile``; removes nothing."""
        if meanwhile is not None:
            meanwhile()
        command = ["install", "--no-deps", "--no-compile", *options]
        self._run(python, [*command, *(["--no-index"] if offline else []), "-r", str(lock)], **variables)

    def reinstalling(self, names: Iterable[str], *, fresh: bool) -> list[str]:
        """The options with which ``sync`` installs all of a lock again; ``fresh``: without pip's cache."""
        return ["--force-reinstall", *(["--no-cache-dir"] if fresh else [])]

    def uninstall(self, names: Iterable[str], python: Path) -> None:
        """Removes the distributions named."""
        if wanted := sorted(names):
            self._run(python, ["uninstall", "--yes", *wanted])

    def _run(self, python: Path, arguments: Sequence[str], **environ: str) -> None:
        command = [sys.executable, "-I", "-m", "pip", "--python", str(python), "--no-input", *arguments]
        environ["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
        done = run_tool(
            command,
            environ=tool_environment(self._environ(), **environ),
            reporter=self._reporter,
            inherit_stderr=self._inherit_stderr,
            inherited=self._inherited,
        )
        if done.status != 0:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            first = next((n for n, line in enumerate(lines) if line.startswith("ERROR:")), -5)
            words = "\n".join(lines[first:]).removeprefix("ERROR:").strip() or "its own words are above"
            raise ToolError(
                "pip-failed",
                f"pip {arguments[0]} failed (exit status {done.status}): {words}",
                details={"command": ["pip", *arguments], "status": done.status, "stderr": done.stderr},
            )


def find_pip(
    reporter: Reporter,
    *,
    inherit_stderr: bool = False,
    environ: Callable[[], Mapping[str, str]] = lambda: os.environ,
    inherited: Sequence[int] = (),
) -> Pip:
    """The pip installed beside cudalock.

    Raises:
        ToolError: ``pip-missing``.
    """
    try:
        return Pip(reporter, inherit_stderr=inherit_stderr, environ=environ, inherited=inherited)
    except metadata.PackageNotFoundError as error:
        raise ToolError(
            "pip-missing", "there is no pip beside cudalock", hint="python -m ensurepip, or --installer uv"
        ) from error
