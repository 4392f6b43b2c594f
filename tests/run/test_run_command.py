"""``cudalock run``: the program starts only if the lock fits, and then cudalock is gone."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cudalock.lock import write_lock
from support.locks import a_lock, linux_target

MACHINE = os.uname().machine
VERSION = sys.version_info[:2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a lock for this machine and one for another."""
    other = "x86_64" if MACHINE == "aarch64" else "aarch64"
    write_lock(tmp_path / "pylock.toml", a_lock(linux_target("9.0", python=VERSION, machine=MACHINE)))
    write_lock(tmp_path / "pylock.other.toml", a_lock(linux_target("9.0", python=VERSION, machine=other)))
    return tmp_path


def cudalock(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cudalock", *arguments],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_status_and_the_streams_are_the_programs(folder: Path) -> None:
    done = cudalock(folder, "run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


def test_a_signal_is_the_programs(folder: Path) -> None:
    assert cudalock(folder, "run", "--", "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM


def test_it_becomes_the_program(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "cudalock", "run", "--", "sh", "-c", "echo $$"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        out, _ = process.communicate()
    assert int(out) == process.pid


def test_options_of_the_program_are_its_own(folder: Path) -> None:
    program = "import sys; print(sys.argv[1:])"
    done = cudalock(folder, "run", sys.executable, "-c", program, "--json", "--lock", "x", "--", "-h")
    assert done.stdout == "['--json', '--lock', 'x', '--', '-h']\n"


def test_a_mismatch_stops_it_before_it_starts(folder: Path) -> None:
    program = ["--lock", "pylock.other.toml", "--", "touch", "started"]
    done = cudalock(folder, "run", *program)
    assert (done.returncode, done.stdout) == (1, "")
    assert "[lock-not-for-this-machine]" in done.stderr
    done = cudalock(folder, "run", "--json", *program)
    assert done.returncode == 1
    assert [finding["code"] for finding in json.loads(done.stdout)["findings"]] == ["lock-not-for-this-machine"]
    assert not (folder / "started").exists()


def test_an_environment_is_entered_and_compared(folder: Path) -> None:
    """An empty one is not what the lock says; with a lock of nothing it runs, with its own Python first."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
    done = cudalock(folder, "run", "--venv", "env", "--", "touch", "started")
    assert done.returncode == 1
    assert "lock-drift" in done.stderr or "torch-not-from-lock" in done.stderr
    assert not (folder / "started").exists()
    (folder / "pylock.toml").write_text('lock-version = "1.0"\ncreated-by = "somebody"\npackages = []\n')
    show = "import os, sys; print(sys.prefix); print(os.environ['VIRTUAL_ENV']); print('PYTHONHOME' in os.environ)"
    done = cudalock(folder, "run", "--venv", "env", "--", "python", "-c", show)
    assert done.stdout.splitlines() == [str(folder / "env"), str(folder / "env"), "False"], done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["--", "no-such-program"], 4, "program-not-found"),
        (["--lock", "pylock.none.toml", "--", "true"], 2, "lock-missing"),
        (["--venv", "none", "--", "true"], 2, "venv-missing"),
        ([], 2, "usage"),
        (["--", ""], 2, "usage"),
    ],
)
def test_bad_input_is_named(folder: Path, arguments: list[str], status: int, code: str) -> None:
    done = cudalock(folder, "run", *arguments)
    assert done.returncode == status
    assert f"[{code}]" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_no_program_is_named(folder: Path) -> None:
    (folder / "broken").write_bytes(b"\x7fELF but no more")
    (folder / "broken").chmod(0o755)
    done = cudalock(folder, "run", "--", "./broken")
    assert (done.returncode, "[program-not-started]" in done.stderr) == (4, True)


def test_the_check_costs_less_than_a_fifth_of_a_second(folder: Path) -> None:
    """In processor time beyond the start of the command line; the least of several, as the machine is shared."""

    def seconds(*arguments: str) -> float:
        best = 99.0
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            assert cudalock(folder, *arguments).returncode == 0
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best = min(best, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
        return best

    assert seconds("run", "--", "true") - seconds("run", "--help") < 0.2
