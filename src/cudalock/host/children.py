"""Runs what may hang or crash, the probe script and nvidia-smi, in child processes with a time limit."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cudalock.host.model import ProbeCommands, ProbeOutcome
from cudalock.host.parsers import SmiGpu, mig_listing, rejected_field, smi_rows

if TYPE_CHECKING:
    import subprocess

__all__ = ["LibraryAnswer", "LibraryProbe", "SmiAnswer", "ask_nvidia_smi", "default_commands"]

_SMI_FIELDS = ("name", "uuid", "pci.bus_id", "driver_version", "memory.total", "mig.mode.current", "compute_cap")
_SCRIPT = Path(__file__).with_name("probe.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryAnswer:
    """What NVML or libcuda said, as far as it came.

    ``listed`` is True if the list of GPUs is complete; ``library`` and ``cuda_library`` are the files that the
    loader chose; ``gpus`` are the raw objects of the probe script.
    """

    outcome: ProbeOutcome
    timed_out: bool = False
    listed: bool = False
    driver: str | None = None
    cuda_driver: int | None = None
    library: str | None = None
    cuda_library: str | None = None
    cuda_library_error: str | None = None
    gpus: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiAnswer:
    """What nvidia-smi said; ``mig`` maps the UUID of a GPU to those of its MIG instances."""

    outcome: ProbeOutcome
    gpus: tuple[SmiGpu, ...] = ()
    mig: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def default_commands(environ: Mapping[str, str]) -> ProbeCommands:
    """The real ones: this interpreter on the probe script, isolated, and the nvidia-smi of the search path."""
    import importlib.util
    import shutil

    pynvml = importlib.util.find_spec("pynvml")
    # -S: site-packages are not needed, and reading their .pth files costs as much as the probe itself.
    script = (sys.executable, "-I", "-S", str(_SCRIPT))
    smi = shutil.which("nvidia-smi", path=environ.get("PATH", "")) or shutil.which("/usr/lib/wsl/lib/nvidia-smi")
    return ProbeCommands(
        nvml=(*script, "nvml", pynvml.origin) if pynvml and pynvml.origin else None,
        libcuda=(*script, "libcuda"),
        nvidia_smi=(smi,) if smi else None,
    )


class LibraryProbe:
    """The probe script, started at once; :meth:`answer` waits for it, so other files can be read meanwhile."""

    def __init__(self, name: str, command: tuple[str, ...], environ: Mapping[str, str], time_limit_s: float) -> None:
        """Starts the process; whatever goes wrong is told by :meth:`answer`."""
        self._name = name
        self._limit = time_limit_s
        self._started = time.monotonic()
        self._process = _Process(command, environ)

    def answer(self) -> LibraryAnswer:
        """Waits until the time limit, kills what still runs, and reads the lines that were printed until then."""
        remaining = self._limit - (time.monotonic() - self._started)
        finished = self._process.finish(max(remaining, 0.05))
        said: dict[str, Any] = {}
        gpus: list[Mapping[str, Any]] = []
        for answer in _json_lines(finished.stdout):
            if isinstance(gpu := answer.get("gpu"), dict):
                gpus.append(gpu)
            else:
                said |= answer
        failure, code = _failure(finished, said.get("error"), self._limit)
        library_error = said.get("cuda_library_error")
        if failure is None and not said.get("listed") and isinstance(library_error, dict):
            failure, code = _failure(finished, library_error, self._limit)
        return LibraryAnswer(
            outcome=ProbeOutcome(
                name=self._name,
                answered=bool(said.get("listed")),
                seconds=time.monotonic() - self._started,
                error=failure,
                error_code=code,
            ),
            timed_out=finished.timed_out,
            listed=bool(said.get("listed")),
            driver=said.get("driver"),
            cuda_driver=said.get("cuda_driver"),
            library=said.get("library"),
            cuda_library=said.get("cuda_library"),
            cuda_library_error=library_error.get("text") if isinstance(library_error, dict) else None,
            gpus=tuple(gpus),
        )


def ask_nvidia_smi(command: tuple[str, ...], environ: Mapping[str, str], time_limit_s: float) -> SmiAnswer:
    """Queries nvidia-smi by fields, never by its banner; a field that it does not know is dropped and asked again.

    Errors arrive on its stdout, so the exit status decides what the text is.
    """
    started = time.monotonic()

    def outcome(*, answered: bool, error: str | None = None, code: int | None = None) -> ProbeOutcome:
        seconds = time.monotonic() - started
        return ProbeOutcome(name="nvidia-smi", answered=answered, seconds=seconds, error=error, error_code=code)

    fields: tuple[str, ...] = _SMI_FIELDS
    while True:
        query = (f"--query-gpu={','.join(fields)}", "--format=csv,noheader")
        finished = _Process((*command, *query), environ).finish(time_limit_s)
        if finished.timed_out or finished.status == 0:
            break
        unknown = rejected_field(finished.stdout)
        if unknown not in fields:
            break
        fields = tuple(field for field in fields if field != unknown)
    if finished.timed_out or finished.status != 0:
        failure, _ = _failure(finished, None, time_limit_s)
        text = " ".join(finished.stdout.split()) or failure
        return SmiAnswer(outcome=outcome(answered=False, error=text, code=finished.status))
    gpus = smi_rows(finished.stdout, fields)
    mig: Mapping[str, tuple[str, ...]] = {}
    if any(gpu.mig_enabled for gpu in gpus):
        listing = _Process((*command, "-L"), environ).finish(time_limit_s)
        mig = mig_listing(listing.stdout) if listing.status == 0 else {}
    return SmiAnswer(outcome=outcome(answered=True), gpus=gpus, mig=mig)


class _Finished(NamedTuple):
    stdout: str
    stderr: str
    status: int | None
    timed_out: bool = False


class _Process:
    """A child whose output is collected; one that cannot even be killed is left behind rather than waited for."""

    def __init__(self, command: tuple[str, ...], environ: Mapping[str, str]) -> None:
        import subprocess

        from cudalock.host.starting import interruptions_held_back

        self._failure = ""
        self._process: subprocess.Popen[str] | None = None
        try:
            with interruptions_held_back():
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    encoding="utf-8",
                    errors="replace",
                    env=dict(environ),
                )
        except OSError as error:
            self._failure = str(error)
        except BaseException:
            if self._process is not None:
                _end(self._process)
            raise

    def finish(self, time_limit_s: float) -> _Finished:
        import subprocess

        process = self._process
        if process is None:
            return _Finished("", self._failure, None)
        try:
            stdout, stderr = process.communicate(timeout=time_limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            try:
                stdout, stderr = process.communicate(timeout=0.5)
            except subprocess.TimeoutExpired:  # stuck in the kernel (a lost GPU): nothing can end it
                return _Finished("", "", None, timed_out=True)
            return _Finished(stdout, stderr, process.returncode, timed_out=True)
        except BaseException:
            _end(process)
            raise
        return _Finished(stdout, stderr, process.returncode)


def _end(process: subprocess.Popen[str]) -> None:
    import subprocess

    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)


def _json_lines(text: str) -> list[dict[str, Any]]:
    answers = []
    for line in text.splitlines():
        try:
            answer = json.loads(line)
        except ValueError:  # a line cut short by a crash, or chatter of a library
            continue
        if isinstance(answer, dict):
            answers.append(answer)
    return answers


def _failure(finished: _Finished, said: object, limit_s: float) -> tuple[str | None, int | None]:
    """The failure in words and as the library's own code."""
    if isinstance(said, dict):
        code = said.get("code")
        return str(said.get("text")), code if isinstance(code, int) else None
    if finished.timed_out:
        return f"no answer within {limit_s:g} s", None
    if finished.status is None:
        return finished.stderr or "could not be started", None
    if finished.status < 0:
        return f"crashed (signal {-finished.status})", None
    if finished.status > 0:
        lines = finished.stderr.strip().splitlines()
        return lines[-1] if lines else f"exit status {finished.status}", None
    return None, None
