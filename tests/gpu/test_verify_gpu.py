"""The GPU compile test on a GPU. CUDALOCK_TEST_PYTHON names the Python of an environment with torch and triton.

Without it the Python that runs the tests is taken.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cudalock.verify import RUNGS, VerifyReport, verify
from cudalock.versions import ComputeCapability

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

# Read before the fixtures clean the environment.
PYTHON = Path(os.environ.get("CUDALOCK_TEST_PYTHON") or sys.executable)


@pytest.fixture(scope="module")
def report() -> VerifyReport:
    return verify(PYTHON)


def describe(report: VerifyReport) -> str:
    lines = [
        f"{rung.name:20} {rung.outcome:8} {rung.seconds:6.1f} s  {rung.detail}  {dict(rung.data)}"
        for rung in report.rungs
    ]
    return "\n".join([*lines, *(f"{finding.code}: {finding.message}" for finding in report.findings)])


def test_every_rung_passes(report: VerifyReport) -> None:
    print(describe(report))
    assert [rung.name for rung in report.rungs] == list(RUNGS[1:])
    assert {rung.outcome for rung in report.rungs} == {"passed"}, describe(report)
    assert report.passed
    assert report.proven


def test_every_visible_gpu_took_part(report: VerifyReport) -> None:
    rungs = {rung.name: rung for rung in report.rungs}
    assert rungs["triton-kernel"].data["ran_on"] == [f"cuda:{gpu['index']}" for gpu in rungs["gpu"].data["gpus"]]


def test_the_fused_attention_kernels_were_compared(report: VerifyReport) -> None:
    (rung,) = [rung for rung in report.rungs if rung.name == "attention"]
    assert {"flash_attention", "efficient_attention", "math"} <= set(rung.data["relative_errors"]), describe(report)


def test_hidden_gpus_make_the_answer_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    hidden = verify(PYTHON)
    assert not hidden.passed
    assert not hidden.proven
    (finding,) = hidden.findings
    assert finding.code == "no-gpu-visible", describe(hidden)
    assert "CUDA_VISIBLE_DEVICES is empty" in finding.message
    assert [rung.name for rung in hidden.rungs if rung.outcome == "skipped"] == list(RUNGS[3:])


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Triton builds its launcher with a C compiler at the first kernel."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    broken = verify(PYTHON)
    errors = [finding.code for finding in broken.findings if finding.severity == "error"]
    assert errors == ["host-compiler-missing"], describe(broken)


def test_an_assembler_that_does_not_know_the_gpu_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stand-in that answers as an old ptxas does."""
    old = tmp_path / "ptxas"
    old.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo "Cuda compilation tools, release 12.0, V12.0.76"; exit 0; fi\n'
        'for a in "$@"; do case $a in --gpu-name=*) n=${a#--gpu-name=};; esac; done\n'
        "echo \"ptxas fatal   : Value '$n' is not defined for option 'gpu-name'\" >&2; exit 255\n"
    )
    old.chmod(0o755)
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(old))
    monkeypatch.setenv("TRITON_PTXAS_BLACKWELL_PATH", str(old))
    broken = verify(PYTHON)
    codes = [finding.code for finding in broken.findings]
    assert codes == ["assembler-overridden", "assembler-does-not-know-gpu"], describe(broken)


def test_cross_compilation_needs_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = verify(PYTHON, archs=(ComputeCapability(9, 0), ComputeCapability(12, 0)))
    assert done.passed, describe(done)
    assert not done.proven


def test_the_command_exits_0() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cudalock", "verify", "--venv", str(PYTHON), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"proven": true' in done.stdout
