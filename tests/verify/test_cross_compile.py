"""The real triton 3.6.0 on a machine that needs no GPU: its assembler knows 9.0 and 12.0 and not 11.0."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cudalock.verify import verify
from cudalock.versions import ComputeCapability

pytestmark = [pytest.mark.live, pytest.mark.slow]

TRITON = "triton==3.6.0"


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds just triton; CUDALOCK_TEST_WHEELS names a folder that keeps the wheel (190 MB)."""
    path = tmp_path_factory.mktemp("triton") / "env"
    wheels = Path(os.environ.get("CUDALOCK_TEST_WHEELS") or tmp_path_factory.mktemp("wheels"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True)
    pip = [sys.executable, "-m", "pip"]
    if not list(wheels.glob("triton-3.6.0-*.whl")):
        subprocess.run([*pip, "download", "--no-deps", "--dest", str(wheels), TRITON], check=True)
    python = str(path / "bin" / "python")
    subprocess.run(
        [*pip, "--python", python, "install", "--no-deps", "--no-index", "--find-links", str(wheels), TRITON],
        check=True,
    )
    return path


def test_architectures_that_the_assembler_knows(venv: Path) -> None:
    report = verify(venv, archs=(ComputeCapability(9, 0), ComputeCapability(12, 0)))
    assert report.passed
    assert not report.proven
    assert [rung.data["target"] for rung in report.rungs] == ["sm_90a", "sm_120a"]
    assert report.findings == ()


def test_an_architecture_that_it_does_not_know(venv: Path) -> None:
    report = verify(venv, archs=(ComputeCapability(11, 0),))
    assert not report.passed
    (rung,) = report.rungs
    assert rung.detail == "ptxas-blackwell fatal   : Value 'sm_110a' is not defined for option 'gpu-name'"
    (finding,) = report.findings
    assert finding.code == "assembler-does-not-know-gpu"
    assert rung.detail in finding.message


def test_the_command_says_it_too(venv: Path) -> None:
    command = [sys.executable, "-m", "cudalock", "verify", "--venv", str(venv)]
    passed = subprocess.run([*command, "--arch", "9.0", "--arch", "12.0"], capture_output=True, text=True, check=False)
    assert passed.returncode == 0, passed.stderr
    failed = subprocess.run([*command, "--arch", "11.0"], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "Value 'sm_110a' is not defined for option 'gpu-name'" in failed.stdout + failed.stderr
    assert "assembler-does-not-know-gpu" in failed.stdout + failed.stderr
