"""Runs one rung of the probe in a child process with a time limit, and ends it with everything that it started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cudalock.host.starting import started

__all__ = ["ProbeAnswer", "PROBE", "probe_environment", "run_probe"]

PROBE = Path(__file__).with_name("probe.py")
_MARK = "cudalock-rung:"
_GRACE_S = 2.0
_TAIL = 4000  # characters of a child's stderr that are kept

# Each of these would let a rung pass without what it is to prove.
_IGNORED = ("TRITON_INTERPRET", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "TRITON_KERNEL_OVERRIDE")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswer:
    """How a child ended. ``error`` holds the traceback, or what a dead child left on stderr."""

    outcome: str
    detail: str
    seconds: float
    data: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


def probe_environment(environ: Mapping[str, str], cache: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment of a rung with fresh caches below ``cache``, and the variables left out to stay honest."""
    left_out = tuple(name for name in _IGNORED if environ.get(name))
    kept = {key: value for key, value in environ.items() if key not in _IGNORED}
    kept |= {
        "TRITON_CACHE_DIR": str(cache / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no pool of workers for one small kernel
        "PYTHONIOENCODING": "utf-8",
    }
    return kept, left_out


def run_probe(
    python: Path,
    rung: str,
    spec: Mapping[str, Any],
    *,
    environ: Mapping[str, str],
    time_limit_s: float,
    isolated: bool = True,
) -> ProbeAnswer:
    """Runs ``rung`` with the interpreter ``python``; never raises for what happens in the child.

    ``isolated`` keeps PYTHONPATH and the user's site-packages out, as is right for a virtual environment. Output goes
    to temporary files, not pipes: a grandchild that outlives its parent cannot hold us up.
    """
    command = [str(python), *(["-I"] if isolated else []), "-X", "faulthandler", str(PROBE), rung]
    command.append(json.dumps({**spec, "timeout": time_limit_s}))
    started_at = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        timed_out = False
        try:
            with started(
                command,
                _end_group,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=dict(environ),
                cwd=tempfile.gettempdir(),
                start_new_session=True,
            ) as process:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=time_limit_s)
                timed_out = process.returncode is None
                _end_group(process)
        except OSError as fault:
            return ProbeAnswer(
                outcome="failed", detail=f"{python} does not start: {fault}", seconds=0.0, error=str(fault)
            )
        seconds = time.monotonic() - started_at
        said, complained = _text(out), _text(err)
    if timed_out:
        return ProbeAnswer(
            outcome="timeout",
            detail=f"no end after {time_limit_s:g} s{_where(complained)}",
            seconds=seconds,
            error=complained[-_TAIL:],
        )
    return _answer(said, complained, process.returncode, seconds)


def _answer(said: str, complained: str, status: int, seconds: float) -> ProbeAnswer:
    lines = [line for line in said.splitlines() if line.startswith(_MARK)]
    if not lines:
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        last = next((line for line in reversed(complained.splitlines()) if _telling(line)), "")
        return ProbeAnswer(
            outcome="crashed",
            detail=f"the process died ({how}){': ' + last.strip() if last else ''}",
            seconds=seconds,
            error=complained[-_TAIL:],
        )
    answer = json.loads(lines[-1].removeprefix(_MARK))
    error = answer.get("error", "")
    if error:
        error += "\n" + complained[-_TAIL:]
    return ProbeAnswer(
        outcome=answer["outcome"], detail=answer["detail"], seconds=seconds, data=answer.get("data", {}), error=error
    )


def _telling(line: str) -> bool:
    """Whether a line of stderr says something: not empty and not part of a stack trace."""
    return bool(line.strip()) and not line.startswith((" ", "Extension modules:", "Current thread", "Thread 0x"))


def _where(complained: str) -> str:
    """Where the stack trace that the probe wrote just before the end says it hung."""
    frames = [line.strip() for line in complained.splitlines() if line.startswith("  File ")]
    own = [frame for frame in frames if PROBE.name in frame]
    return f", in {own[0].rpartition(' in ')[2]}" if own else ""


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends the child and all that it started; one that hangs in the kernel (a lost GPU) is left behind."""
    if sys.platform == "win32":
        if process.poll() is None:
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False)
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_GRACE_S)


def _text(file: Any) -> str:
    file.seek(0)
    return bytes(file.read()).decode("utf-8", "replace")
