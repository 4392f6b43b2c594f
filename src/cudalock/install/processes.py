"""Runs uv and pip: their lines are passed on while they work, kept for the error, and they end when we do."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cudalock.host.starting import started
from cudalock.progress import Reporter

__all__ = ["Finished", "finish_tool", "run_tool", "start_tool", "tool_environment"]

_KEPT_LINES = 200
_END_S = 3.0

# Settings that would install something else, somewhere else, than the lock says.
_OVERRIDING = frozenset({
    "UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_BREAK_SYSTEM_PACKAGES", "UV_PROJECT_ENVIRONMENT", "UV_TARGET", "UV_PREFIX",
    "UV_EXCLUDE_NEWER", "UV_CONSTRAINT", "UV_OVERRIDE", "UV_BUILD_CONSTRAINT", "UV_NO_BINARY", "UV_NO_BINARY_PACKAGE",
    "UV_NO_BUILD_ISOLATION", "UV_NO_VERIFY_HASHES", "UV_WORKING_DIR", "UV_PROJECT",
    "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_CONSTRAINT", "PIP_REQUIREMENT", "PIP_NO_BINARY",
    "PIP_ONLY_BINARY", "PIP_PYTHON", "PIP_DRY_RUN", "PIP_REQUIRE_VIRTUALENV", "PIP_UPLOADED_PRIOR_TO",
    "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "CONDA_PREFIX", "__PYVENV_LAUNCHER__",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a tool ended; ``stderr`` is empty if it wrote on our own."""

    status: int
    stderr: str


def tool_environment(environ: Mapping[str, str], **more: str) -> dict[str, str]:
    """``environ`` without what would override the lock; proxies, certificates, caches and credentials stay."""
    return {key: value for key, value in environ.items() if key not in _OVERRIDING} | more


def run_tool(
    command: Sequence[str],
    *,
    environ: Mapping[str, str],
    reporter: Reporter,
    inherit_stderr: bool = False,
    inherited: Sequence[int] = (),
) -> Finished:
    """Runs ``command`` to its end: :func:`start_tool`, then :func:`finish_tool`."""
    with start_tool(command, environ=environ, inherit_stderr=inherit_stderr, inherited=inherited) as process:
        return finish_tool(process, reporter)


def finish_tool(process: subprocess.Popen[str], reporter: Reporter) -> Finished:
    """Passes on what the tool prints until it ends."""
    kept: deque[str] = deque(maxlen=_KEPT_LINES)
    try:
        for raw in process.stdout or ():
            line = raw.rstrip("\r\n")
            kept.append(line)
            reporter.output(line)
        status = process.wait()
    finally:
        if process.stdout is not None:
            process.stdout.close()
    return Finished(status=status, stderr="\n".join(kept))


def start_tool(
    command: Sequence[str], *, environ: Mapping[str, str], inherit_stderr: bool = False, inherited: Sequence[int] = ()
) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    """The running ``command``; within it an interruption ends it, with all that it started, and goes on.

    ``inherited`` are descriptors that it keeps open: while it lives, whatever becomes of us, they are.

    Raises:
        OSError: the program cannot be started.
    """
    return started(
        command,
        _end,
        stdin=subprocess.DEVNULL,
        # pip speaks on stdout what uv speaks on stderr; our own stdout is for results only
        stdout=subprocess.DEVNULL if inherit_stderr else subprocess.PIPE,
        stderr=None if inherit_stderr else subprocess.STDOUT,
        env=dict(environ),
        text=True,
        encoding="utf-8",
        errors="replace",
        pass_fds=tuple(inherited) if sys.platform != "win32" else (),
        start_new_session=True,  # a group of its own, so that what it started can be ended with it
    )


def _end(process: subprocess.Popen[str]) -> None:
    """Asks the tool to end, as Ctrl-C would, then makes it; what it started ends with it."""
    if sys.platform == "win32":
        process.terminate()
    else:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_END_S)
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
