"""``cudalock explain`` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

NO_IMAGE = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"


def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cudalock", "explain", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def test_standard_input() -> None:
    for arguments in ([], ["-"]):
        done = run("--json", *arguments, text=NO_IMAGE)
        answer = json.loads(done.stdout)
        assert done.returncode == 1
        assert (answer["schema"], answer["unknown"], answer["first_stage"]) == (1, False, "run")
        assert answer["first_line"] == "<stdin>:1"
        assert [finding["code"] for finding in answer["findings"]] == ["gpu-not-in-wheel"]


def test_files_for_people(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("all is well\n" + NO_IMAGE)
    done = run(str(tmp_path / "a.log"))
    assert done.returncode == 1
    assert "gpu-not-in-wheel" in done.stdout
    assert "a.log:2" in done.stdout
    assert "fix:" in done.stdout


def test_an_unknown_text_is_said_to_be_unknown() -> None:
    done = run(text="KeyError: 'x'\n")
    assert done.returncode == 0
    assert "unknown" in done.stdout
    assert "cudalock detect --json" in done.stdout


def test_a_missing_file_is_an_error_of_usage(tmp_path: Path) -> None:
    for place in (tmp_path / "none.log", tmp_path):
        done = run("--json", str(place))
        assert done.returncode == 2
        assert json.loads(done.stdout)["error"]["code"] == "log-unreadable"
