"""Runs a program with the hook in each of its Python processes, and reads what they wrote."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from cudalock.errors import ToolError
from cudalock.host.starting import started
from cudalock.watch import hook
from cudalock.watch.model import THRESHOLD, WatchReport
from cudalock.watch.report import make_report, read_events

__all__ = ["hooked_environment", "watch_command"]

_GRACE_S = 3.0

_SITE = '''\
"""Starts cudalock's hook, then whatever sitecustomize the environment has of its own."""
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
try:
    import _cudalock_hook

    _cudalock_hook.start(_here)
except Exception:
    pass
finally:
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    _spec = PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p) != _here])
    if _spec is not None and _spec.loader is not None:
        _module = module_from_spec(_spec)
        sys.modules["sitecustomize"] = _module
        _spec.loader.exec_module(_module)
'''


def hooked_environment(directory: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which each Python writes its events into ``directory``; makes the files for it there."""
    shutil.copyfile(hook.__file__, directory / "_cudalock_hook.py")
    (directory / "sitecustomize.py").write_text(_SITE, encoding="utf-8")
    own = environ.get("PYTHONPATH")
    return {**environ, "PYTHONPATH": os.pathsep.join([str(directory), *([own] if own else [])])}


def watch_command(
    command: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    threshold: int = THRESHOLD,
    stdout: Any = None,
) -> tuple[int, WatchReport]:
    """Runs ``command`` to its end and reports what Triton compiled in it.

    A Python that ignores PYTHONPATH (``-I``, ``-E``, ``-S``) is not seen; the report's ``processes`` tells.

    Args:
        command: program and arguments.
        environ: for the program; default: this process's.
        threshold: compilations of one kernel above which it is a storm.
        stdout: for the program, as :class:`subprocess.Popen` takes it.

    Returns:
        The program's exit status (128 + N if signal N ended it) and the report.

    Raises:
        ToolError: ``program-not-found`` or ``program-not-started``.
    """
    variables = dict(os.environ if environ is None else environ)
    with tempfile.TemporaryDirectory(prefix="cudalock-watch-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        status = _run(command, hooked_environment(directory, variables), stdout)
        return status, make_report(read_events(directory), threshold=threshold)


def _run(command: Sequence[str], environ: Mapping[str, str], stdout: Any) -> int:
    program = shutil.which(command[0], path=environ.get("PATH"))
    if program is None:
        raise ToolError(
            "program-not-found",
            f"there is no program {command[0]!r}",
            hint="check the name, or give the environment that has it with --venv DIR",
        )
    try:
        with (
            started([program, *command[1:]], _end, env=dict(environ), stdout=stdout) as process,
            _passing_signals_to(process),
        ):
            status = process.wait()
    except OSError as error:
        raise ToolError(
            "program-not-started", f"{program} does not start: {error.strerror or error}", hint="check the file"
        ) from error
    return 128 - status if status < 0 else status


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()


@contextmanager
def _passing_signals_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """The terminal's interrupt reaches the program by itself; what is sent to us alone is passed on."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    passed = (
        [signal.SIGTERM] if sys.platform == "win32" else [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]
    )
    before: dict[int, Any] = {}
    try:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
        before.update({number: signal.signal(number, pass_on) for number in passed})
    except ValueError:
        pass  # not the main thread: signals are somebody else's
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
