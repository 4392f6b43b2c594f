"""What a source distribution requires, asked of its own build through pip, in a folder that is thrown away.

This runs code of the source distribution, on this machine and with the Python that runs cudalock; it is done only for
projects that ``--allow-build`` names and that do not state their requirements otherwise.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from cudalock.errors import ToolError
from cudalock.host.starting import started
from cudalock.index.model import CoreMetadata, IndexFile, IndexReader
from cudalock.install.processes import tool_environment
from cudalock.progress import SILENT, Reporter

__all__ = ["PipMetadata"]

_TIME_LIMIT_S = 300.0
_SHOWN_LINES = 8
_COMMAND = (
    "install", "--dry-run", "--no-deps", "--ignore-installed", "--ignore-requires-python", "--no-input", "--quiet",
    "--disable-pip-version-check", "--no-color",
)  # fmt: skip


class PipMetadata:
    """The port ``BuildMetadata`` of :mod:`cudalock.resolve`: an isolated build is asked for metadata, nothing is built.

    Args:
        reader: through which the file is fetched, so that its hash is checked before anything of it runs.
        index_url: where the build's own requirements come from; None for what pip is configured for.
        offline: whether pip must do without any index.
        time_limit_s: after so many seconds the build is ended.
        reporter: hears that a build runs.
    """

    def __init__(
        self,
        reader: IndexReader,
        *,
        index_url: str | None = None,
        offline: bool = False,
        time_limit_s: float = _TIME_LIMIT_S,
        reporter: Reporter = SILENT,
    ) -> None:
        self._reader = reader
        self._index_url = index_url
        self._offline = offline
        self._time_limit_s = time_limit_s
        self._reporter = reporter

    def __call__(self, file: IndexFile) -> CoreMetadata:
        """The metadata that the build of a source distribution states.

        Raises:
            ToolError: ``pip-missing``, or ``build-failed`` with pip's own words.
            TransportError: the file cannot be fetched, or is not the one that the index announced.
        """
        if find_spec("pip") is None:
            raise ToolError(
                "pip-missing", "there is no pip beside cudalock", hint=f"{sys.executable} -m ensurepip installs one"
            )
        self._reporter.step(f"asking the build of {file.filename} what it requires")
        with tempfile.TemporaryDirectory(prefix="cudalock-build-") as folder:
            source = self._fetch(file, Path(folder))
            report = Path(folder) / "report.json"
            status, said = self._run(source, report)
            if status != 0:
                raise _failed(file, said, status)
            try:
                return _metadata_of(json.loads(report.read_text(encoding="utf-8")))
            except (OSError, ValueError, LookupError, TypeError) as error:
                raise _failed(file, f"pip's report cannot be used: {error}", status) from error

    def _fetch(self, file: IndexFile, folder: Path) -> Path:
        announced = self._reader.sha256(file)
        path = folder / Path(file.filename).name
        with self._reader.open(file) as remote, path.open("wb") as local:
            shutil.copyfileobj(remote, local)
        with path.open("rb") as local:
            found = hashlib.file_digest(local, "sha256").hexdigest()
        if found != announced:
            raise ToolError(
                "index-hash-conflict",
                f"{file.filename} has sha256 {found}, and the index announces {announced}",
                hint="it is not run; report it to the index that serves it",
                details={"file": file.filename, "found": found, "announced": announced},
            )
        return path

    def _run(self, source: Path, report: Path) -> tuple[int, str]:
        """Pip's exit status and what it said; all that it started is ended with it."""
        command = [sys.executable, "-m", "pip", *_COMMAND, "--report", str(report), str(source)]
        options = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            "cwd": source.parent,
            "env": self._environment(),
            "text": True,
            "encoding": "utf-8",
            "errors": "replace",
            "start_new_session": True,
        }
        try:
            with started(command, _end, **options) as process:
                said, _nothing = process.communicate(timeout=self._time_limit_s)
        except subprocess.TimeoutExpired:
            return -1, f"it did not end within {self._time_limit_s:g} s"
        return process.returncode, said

    def _environment(self) -> Mapping[str, str]:
        more = {"PIP_NO_INDEX": "1"} if self._offline else {}
        if self._index_url and not self._offline:
            more["PIP_INDEX_URL"] = self._index_url  # not as an argument: it may hold credentials
        return tool_environment(os.environ, **more)


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.communicate()


def _failed(file: IndexFile, said: str, status: int) -> ToolError:
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    project = file.page.project
    advice = f"give a wheel of it ({project} @ https://.../WHEEL), or leave {project} out"
    if "No module named 'torch'" in said:
        advice = f"its build needs torch before it says what it requires: {advice}"
    return ToolError(
        "build-failed",
        f"the build of {file.filename} does not say what it requires: " + "\n".join(lines[-_SHOWN_LINES:]),
        hint=advice,
        details={"file": file.filename, "status": status, "output": "\n".join(lines)},
    )


def _metadata_of(report: Mapping[str, Any]) -> CoreMetadata:
    """From pip's installation report, version 1."""
    stated = report["install"][0]["metadata"]
    try:
        return CoreMetadata(
            name=canonicalize_name(stated["name"]),
            version=Version(stated["version"]),
            requires_python=SpecifierSet(stated.get("requires_python", "")),
            requires=tuple(Requirement(text) for text in stated.get("requires_dist", ())),
            extras=frozenset(canonicalize_name(extra) for extra in stated.get("provides_extra", ())),
        )
    except ValueError as error:
        raise ValueError(str(error)) from error
