"""Whatever the caller does to the streams, names and values: the command's own answer, or a typed error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Cudalock
from cudalock.lock import write_lock
from support.locks import a_lock, linux_target


def shell(command: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    script = command.replace("cudalock", f"{sys.executable} -m cudalock")
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, errors="replace", check=False, cwd=folder,
        env={**os.environ, **environ},
    )  # fmt: skip


def test_no_text_is_read_as_markup(cudalock: Cudalock, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("[/x]", "0[bold]1", "[red]0[/red]"):
        outcome = cudalock("detect", CUDA_VISIBLE_DEVICES=value)
        assert outcome.status == 0
        assert value in outcome.out


def test_a_gpu_may_have_any_name(cudalock: Cudalock, folder: Path) -> None:
    gpu = {"name": "NVIDIA [/bold] X[red]", "compute_capability": "9.0"}
    host = {
        "os": "linux",
        "machine": "x86_64",
        "libc": "glibc 2.35",
        "python": "3.12.1",
        "driver": "580.65.06",
        "gpus": [gpu],
    }
    (folder / "facts.json").write_text(json.dumps({"schema": 1, "host": host}))
    assert gpu["name"] in cudalock("doctor", "--facts", "facts.json").out
    outcome = cudalock("matrix", "--facts", "facts.json", "--offline", "--cache-dir", "none")
    assert outcome.status == 3  # nothing is cached; the name was no trouble
    assert "internal-error" not in outcome.err


@pytest.mark.parametrize("environ", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}])
def test_what_a_stream_cannot_encode_is_escaped(environ: dict[str, str], tmp_path: Path) -> None:
    write_lock(tmp_path / "pylock.toml", a_lock(linux_target("9.0")))
    (tmp_path / "envé日本").mkdir()
    done = shell("cudalock check --venv envé日本", tmp_path, **environ)
    assert done.returncode == 2
    assert "\\u65e5" in done.stderr
    assert "internal-error" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--venv", ""), ("run", "--venv", "", "--", "true"), ("install", "--venv", ""), ("doctor", "--venv", " "),
        ("install", "--venv", "e", "--wheelhouse", ""), ("resolve", "rich", "--gpu", ""), ("kernels", "--dir", ""),
        ("resolve", "rich", "--timeout", "inf"), ("resolve", "rich", "--timeout", "1e10"), ("resolve", "rich", "--timeout", "nan"),
    ],
)  # fmt: skip
def test_a_value_that_switches_something_off_is_refused(cudalock: Cudalock, arguments: tuple[str, ...]) -> None:
    outcome = cudalock(*arguments)
    assert outcome.status == 2
    assert "needed" in outcome.err or "range" in outcome.err


def test_an_empty_variable_is_one_that_is_not_set(cudalock: Cudalock, folder: Path) -> None:
    write_lock(folder / "pylock.toml", a_lock(linux_target("9.0")))
    assert cudalock("check", "--gpu", "9.0", "--driver", "580.65.06", CUDALOCK_VENV="").status == 0


@pytest.mark.parametrize(
    "command",
    ["cudalock --help | true", "cudalock detect | true", "cudalock --version | true", "cudalock detect --json | head -c 1"],
)  # fmt: skip
def test_a_reader_that_has_gone_is_no_fault(command: str, tmp_path: Path) -> None:
    done = shell(f"set -o pipefail; sleep 0.05; {command}; echo $?", tmp_path)
    assert done.stdout.rstrip().endswith("0")
    assert done.stderr == ""


def test_a_reader_of_messages_that_has_gone_does_not_stop_the_work(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "cudalock", "resolve", "nothing-here", "--cpu", "--offline", "--cache-dir", "c"]
    done = subprocess.run(command, stderr=writer, stdout=subprocess.PIPE, check=False, cwd=tmp_path)
    os.close(writer)
    assert done.returncode == 3  # its own answer: nothing is cached


def test_a_full_disk_for_the_version(tmp_path: Path) -> None:
    done = shell("cudalock --version > /dev/full", tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--venv", "N"), ("doctor", "--venv", "N"), ("verify", "--venv", "N"), ("inspect", "N"), ("kernels", "--dir", "N"),
        ("resolve", "rich", "--cpu", "-o", "pylock.N.toml"), ("resolve", "--project", "N", "--cpu"),
        ("install", "--venv", "N"), ("inspect", "https://[x]/torch-2.0-py3-none-any.whl"), ("install", "--venv", "/"),
    ],
)  # fmt: skip
def test_names_that_no_path_can_have(cudalock: Cudalock, folder: Path, arguments: tuple[str, ...]) -> None:
    write_lock(folder / "pylock.toml", a_lock(linux_target("9.0")))
    outcome = cudalock(*(argument.replace("N", "n" * 300) for argument in arguments), "--json")
    assert outcome.status in {1, 2}, outcome.out
    assert outcome.code != "internal-error"


@pytest.mark.parametrize("command", ["detect", "check", "explain x.log", "install --venv e"])
def test_a_working_folder_that_is_gone(command: str, tmp_path: Path) -> None:
    done = shell(f"mkdir g; cd g; rmdir ../g; cudalock {command}", tmp_path)
    assert done.returncode in {0, 2}, done.stderr
    assert "internal-error" not in done.stderr
    assert "Traceback" not in done.stderr
