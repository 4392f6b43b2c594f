"""The ladder in real environments. What stands in for torch there is a few lines that behave as broken ones do."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cudalock.errors import UsageError
from cudalock.lock.model import Lock
from cudalock.verify import RUNGS, Rung, VerifyReport, verify
from cudalock.versions import ComputeCapability
from support.locks import a_lock, linux_target

HANGS = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
pathlib.Path(__file__).with_name("child").write_text(str(child.pid))
time.sleep(300)
"""
CRASHES = "import os; os.abort()"
FOR_CPU = """
__version__ = "2.13.0+cpu"
class version: cuda = None
"""
WITHOUT_DRIVER = """
__version__ = "2.9.1+cu128"
class version: cuda = "12.8"
class cuda:
    @staticmethod
    def init(): raise RuntimeError("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU")
"""


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    path = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True)
    return path


def put(venv: Path, name: str, source: str = "", *, version: str | None = None, requires: str = "") -> Path:
    """A package in the environment; with ``version`` also its metadata."""
    (site,) = venv.glob("lib/python*/site-packages")
    (site / name).mkdir()
    (site / name / "__init__.py").write_text(source)
    if version is not None:
        info = site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}\n")
        (info / "RECORD").write_text("")
    return site / name


def outcomes(report: VerifyReport) -> dict[str, str]:
    return {rung.name: rung.outcome for rung in report.rungs}


def only(report: VerifyReport) -> str:
    (finding,) = report.findings
    return finding.code


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    return False


def test_a_hanging_rung_is_ended_with_all_that_it_started(venv: Path) -> None:
    torch = put(venv, "torch", HANGS)
    begun = time.monotonic()
    report = verify(venv, time_limit_s=3)
    assert time.monotonic() - begun < 20
    assert outcomes(report)["import"] == "timeout"
    assert "rung_import" in report.rungs[0].detail
    assert only(report) == "gpu-test-hung"
    assert not report.passed
    assert not is_alive(int((torch / "child").read_text()))


def test_a_crash_is_one_rungs_and_told(venv: Path) -> None:
    put(venv, "torch", CRASHES)
    report = verify(venv)
    assert outcomes(report)["import"] == "crashed"
    assert "SIGABRT" in report.rungs[0].detail
    assert only(report) == "gpu-test-crashed"


def test_without_torch_the_rest_is_skipped(venv: Path) -> None:
    told: list[Rung] = []
    report = verify(venv, on_rung=told.append)
    assert tuple(told) == report.rungs
    assert outcomes(report) == {"import": "failed"} | dict.fromkeys(RUNGS[2:], "skipped")
    assert not report.passed and not report.proven


def test_a_cpu_build_is_named(venv: Path) -> None:
    put(venv, "torch", FOR_CPU, version="2.13.0+cpu")
    report = verify(venv)
    assert only(report) == "torch-is-cpu-build"
    assert "2.13.0+cpu" in report.rungs[0].detail


def test_without_a_gpu_the_answer_is_no_and_says_what_could_not_be_done(venv: Path) -> None:
    put(venv, "torch", WITHOUT_DRIVER, version="2.9.1+cu128")
    report = verify(venv)
    assert outcomes(report)["gpu"] == "failed"
    assert only(report) == "driver-not-found"
    skipped = [rung for rung in report.rungs if rung.outcome == "skipped"]
    assert [rung.name for rung in skipped] == list(RUNGS[3:])
    assert {rung.detail for rung in skipped} == {"it needs a GPU"}
    assert not report.passed and not report.proven


def test_a_triton_that_torch_requires_is_missed(venv: Path) -> None:
    put(
        venv,
        "torch",
        WITHOUT_DRIVER,
        version="2.9.1",
        requires='Requires-Dist: triton==3.5.1; python_version >= "3.9"\n',
    )
    report = verify(venv)
    assert only(report) == "triton-missing"
    assert outcomes(report)["import"] == "failed"


@pytest.fixture
def lock() -> Lock:
    return a_lock(linux_target("9.0", python=sys.version_info[:2]))


def fill(venv: Path, *, triton: str) -> None:
    put(venv, "torch", WITHOUT_DRIVER, version="2.9.1+cu128")
    put(venv, "triton", "__version__ = '3.5.1'", version=triton)
    put(venv, "sympy", version="1.14.0")
    put(venv, "mpmath", version="1.3.0")


def test_versions_are_compared_with_the_lock(venv: Path, lock: Lock) -> None:
    fill(venv, triton="3.5.1")
    report = verify(venv, lock=lock)
    assert report.rungs[0].name == "lock"
    assert report.rungs[0].outcome == "passed"


def test_a_replaced_triton_is_named_first(venv: Path, lock: Lock) -> None:
    fill(venv, triton="3.6.0")
    report = verify(venv, lock=lock)
    assert (report.rungs[0].name, report.rungs[0].outcome) == ("lock", "failed")
    assert report.findings[0].code == "triton-off-pin"
    assert "3.6.0" in report.rungs[0].detail


def test_only_the_lock_and_the_assembler_are_asked_with_architectures(venv: Path, lock: Lock) -> None:
    fill(venv, triton="3.5.1")
    report = verify(venv, lock=lock, archs=(ComputeCapability(9, 0),))
    assert [rung.name for rung in report.rungs] == ["lock", "cross-compile 9.0"]
    assert report.rungs[1].outcome == "failed"  # the stand-in compiles nothing
    assert not report.proven


def test_without_triton_nothing_is_compiled_for_other_gpus(venv: Path) -> None:
    fill(venv, triton="3.5.1")
    archs = (ComputeCapability(9, 0), ComputeCapability(12, 0))
    report = verify(venv, archs=archs, without_triton=True)
    assert outcomes(report) == {"cross-compile 9.0": "skipped", "cross-compile 12.0": "skipped"}
    bare = a_lock(linux_target("9.0", python=sys.version_info[:2]), triton=None)
    report = verify(venv, lock=bare, archs=archs)
    assert outcomes(report)["cross-compile 9.0"] == "skipped"
    assert report.rungs[-1].detail == "the lock has no triton"
    assert "triton-missing" not in {finding.code for finding in report.findings}


@pytest.mark.parametrize("variable", ["TRITON_INTERPRET", "TORCHDYNAMO_DISABLE"])
def test_variables_that_would_prove_nothing_do_not_reach_the_test(
    venv: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    put(venv, "torch", f"import os\nraise ImportError('saw ' + repr(os.environ.get({variable!r})))")
    monkeypatch.setenv(variable, "1")
    assert "saw None" in verify(venv).rungs[0].detail


def test_an_overridden_assembler_is_a_warning(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/opt/ptxas")
    report = verify(venv)
    assert [finding.code for finding in report.findings if finding.severity == "warning"] == ["assembler-overridden"]


def test_an_interpreter_can_be_named_itself(venv: Path) -> None:
    put(venv, "torch", FOR_CPU, version="2.13.0+cpu")
    assert only(verify(venv / "bin" / "python")) == "torch-is-cpu-build"


@pytest.mark.parametrize("triton", ["3.5.1", None])
def test_without_torch_and_without_a_lock_it_says_that_torch_is_absent(venv: Path, triton: str | None) -> None:
    if triton is not None:
        (put(venv, "triton", f"__version__ = {triton!r}\n", version=triton) / "language.py").write_text("")
    report = verify(venv)
    assert only(report) == "torch-missing"
    (finding,) = report.findings
    assert "torch is not installed" in finding.message and "lock" not in finding.message
    assert ("triton 3.5.1 is there and imports" in finding.message) == (triton is not None)
    assert "--arch" in (finding.fix or "")
    assert {rung.name for rung in report.rungs if rung.outcome == "skipped"} == set(RUNGS) - {"lock", "import"}


def test_a_torch_that_lacks_another_module_is_not_called_absent(venv: Path) -> None:
    put(venv, "torch", "import typing_extensions_that_is_not_there", version="2.9.1")
    assert only(verify(venv)) != "torch-missing"


@pytest.mark.parametrize(("make", "code"), [(False, "venv-missing"), (True, "venv-invalid")])
def test_no_interpreter_to_test_with(tmp_path: Path, make: bool, code: str) -> None:
    path = tmp_path / "nothing"
    if make:
        path.mkdir()
    with pytest.raises(UsageError) as caught:
        verify(path)
    assert caught.value.code == code


def test_the_probe_needs_nothing_of_ours() -> None:
    """Run alone, from another folder, by an interpreter without site-packages."""
    from cudalock.verify import children

    done = subprocess.run(
        [sys.executable, "-I", "-S", str(children.PROBE), "import"],
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
        env={},
    )
    assert "No module named 'torch'" in done.stdout


def test_the_probe_keeps_to_the_syntax_of_python_3_9() -> None:
    import ast

    from cudalock.verify import children

    ast.parse(children.PROBE.read_text(), feature_version=(3, 9))


def test_libcuda_is_asked_without_torch() -> None:
    """The facts that name a fault exactly are there on every machine, with or without a driver."""
    from cudalock.verify.probe import driver_facts

    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        assert "libcuda" in driver_facts()
    else:
        assert "cuInit" in driver_facts()
    assert driver_facts()["CUDA_VISIBLE_DEVICES"] == os.environ.get("CUDA_VISIBLE_DEVICES")
