"""A signal that comes while a child process is being started: the child does not outlive it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# The moment is met exactly: the interpreter tells when Popen's constructor returns, before anybody holds its result.
PROGRAM = """
import os, signal, subprocess, sys
from pathlib import Path

folder, pids = Path(sys.argv[1]), []

def interrupt(frame, event, _argument):
    if event == "return" and frame.f_code is subprocess.Popen.__init__.__code__ and not pids:
        pids.append(frame.f_locals["self"].pid)
        os.kill(os.getpid(), signal.SIGINT)
        for _turn in range(100):  # somewhere here its handler runs
            pass

def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"

sleeper = folder / "sleeper"
sleeper.write_text("#!/bin/sh\\nexec sleep 300\\n")
sleeper.chmod(0o755)
ENTRY
def run():
    START
try:
    sys.setprofile(interrupt)
    run()
except KeyboardInterrupt:
    sys.setprofile(None)
    print("interrupted", alive(pids[0]))
else:
    sys.setprofile(None)
    print("went on")
if alive(pids[0]):
    os.kill(pids[0], signal.SIGKILL)
"""
STARTS = {
    "a rung of verify": (
        "from cudalock.verify.children import run_probe",
        "run_probe(sleeper, 'gpu', {}, environ=os.environ, time_limit_s=100)",
    ),
    "the build that is asked for metadata": (
        "from cudalock.install.metadata import PipMetadata; sys.executable = str(sleeper)",
        "PipMetadata(None)._run(folder / 'demo-1.0.tar.gz', folder / 'report.json')",
    ),
    "uv and pip": (
        "from cudalock.install.processes import run_tool; from cudalock.progress import SILENT",
        "run_tool([str(sleeper)], environ=os.environ, reporter=SILENT)",
    ),
    "a probe of the driver": (
        "from cudalock.host.children import LibraryProbe",
        "LibraryProbe('nvml', (str(sleeper),), os.environ, 100.0).answer()",
    ),
    "a watched program": (
        "from cudalock.watch.child import watch_command",
        "watch_command([str(sleeper)])",
    ),
}


@pytest.mark.skipif(sys.platform != "linux", reason="the states of processes are read from /proc")
@pytest.mark.parametrize("start", STARTS)
def test_an_interruption_between_start_and_knowing_of_it(tmp_path: Path, start: str) -> None:
    entry, call = STARTS[start]
    program = PROGRAM.replace("ENTRY", entry).replace("START", call)
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=dict(os.environ),
    )
    assert done.stdout == "interrupted False\n", done.stderr
