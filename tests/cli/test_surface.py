"""What every command has in common."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

import cudalock.host  # noqa: F401 - replaced in one test
from cli.conftest import Cudalock
from cudalock import __version__
from cudalock.cli.main import _COMMANDS, cli


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_explains_itself_and_answers_json(cudalock: Cudalock, name: str) -> None:
    outcome = cudalock(name, "--help")
    assert outcome.status == 0
    for option in ("--json", "--verbose", "--quiet"):
        assert option in outcome.out


@pytest.mark.parametrize("name", _COMMANDS)
def test_one_option_has_one_environment_variable(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for parameter in command.params:
        if isinstance(parameter, click.Option) and "--help" not in parameter.opts:
            long_name = next(opt for opt in parameter.opts if opt.startswith("--"))
            assert parameter.envvar == "CUDALOCK_" + long_name[2:].replace("-", "_").upper()
            assert parameter.help, f"{name} {long_name} has no help"


def test_version() -> None:
    done = subprocess.run([sys.executable, "-m", "cudalock", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"cudalock {__version__}\n"


def test_the_version_needs_no_heavy_import() -> None:
    code = "import sys; sys.argv = ['cudalock', '--version']\nfrom cudalock.__main__ import main\n"
    code += "try: main()\nexcept SystemExit: pass\nprint(*sorted({m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split("\n")[1].split())
    assert not loaded & {"click", "rich", "httpx", "hishel", "resolvelib", "packaging", "pip"}


def test_no_command_prints_help_and_exits_2(cudalock: Cudalock) -> None:
    outcome = cudalock()
    assert outcome.status == 2
    assert "Commands:" in outcome.err


def test_detect_on_a_machine_without_gpu_is_an_answer(cudalock: Cudalock) -> None:
    outcome = cudalock("detect", "--json")
    assert outcome.status == 0
    assert outcome.json["host"]["os"] == "linux"
    assert outcome.json["host"]["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}")


def test_a_bug_is_reported_as_one(cudalock: Cudalock, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(sys.modules["cudalock.host"], "detect", broken)
    outcome = cudalock("detect", "--json")
    assert (outcome.status, outcome.code) == (70, "internal-error")
    assert "boom" in outcome.json["error"]["message"]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_harm_nothing(closed: str, tmp_path: Path) -> None:
    command = f"{sys.executable} -m cudalock matrix --no-target --offline --cache-dir none {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 3, done.stderr  # nothing is cached, and that is all that there is to say
    command = f"{sys.executable} -m cudalock detect --json {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("{") == (">&-" not in closed.replace("2>&-", ""))
