"""The doctor on a machine with a GPU: a healthy environment is clean, and five injected faults are each found first.

CUDALOCK_TEST_VENV names a virtual environment with torch and triton. It is never changed: every fault is injected into
a copy whose large files are hard links, and only whole files are replaced in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from uv import find_uv_bin

from cudalock.doctor import DoctorReport, collect, make_report
from cudalock.lock import read_lock
from cudalock.verify import verify
from support.doctoring import library, needs_compiler

pytestmark = [pytest.mark.gpu, pytest.mark.slow, needs_compiler]

# Read before the fixtures clean the environment.
VENV = os.environ.get("CUDALOCK_TEST_VENV")
LOCK = os.environ.get("CUDALOCK_TEST_LOCK")
ENVIRON = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}


@pytest.fixture
def venv(tmp_path: Path) -> Iterator[Path]:
    """A copy of the environment; files are linked, so that gigabytes cost nothing."""
    if VENV is None:
        pytest.skip("CUDALOCK_TEST_VENV names no environment")
    copy = Path(VENV).resolve().parent / f".doctor-{tmp_path.name}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(VENV, copy, symlinks=True, copy_function=os.link)
    yield copy
    shutil.rmtree(copy, ignore_errors=True)


def site(venv: Path) -> Path:
    (folder,) = (venv / "lib").glob("python*/site-packages")
    return folder


def rewrite(path: Path, content: str) -> None:
    """A new file in the place of a hard link: the original stays as it is."""
    path.unlink()
    path.write_text(content, encoding="utf-8")


def examine(venv: Path, **variables: str) -> DoctorReport:
    report = make_report(collect(venv=venv, environ={**ENVIRON, **variables}))
    for finding in report.findings:
        print(finding.severity, finding.code, finding.message)
    return report


def first_error(report: DoctorReport) -> str | None:
    return next((finding.code for finding in report.findings if finding.severity == "error"), None)


def metadata_of(venv: Path, name: str) -> Path:
    (info,) = site(venv).glob(f"{name}-*.dist-info")
    return info


def verify_fails(venv: Path, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> bool:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return not verify(venv).passed


def test_healthy(venv: Path) -> None:
    started = time.monotonic()
    report = examine(venv)
    assert time.monotonic() - started < 10
    assert [finding.code for finding in report.findings if finding.severity != "info"] == []
    assert report.examined["torch_cuda"]


def test_triton_replaced(venv: Path) -> None:
    info = metadata_of(venv, "triton")
    text = (info / "METADATA").read_text()
    version = info.name.removeprefix("triton-").removesuffix(".dist-info")
    rewrite(info / "METADATA", text.replace(f"Version: {version}", "Version: 3.1.0"))
    info.rename(info.with_name("triton-3.1.0.dist-info"))
    assert first_error(examine(venv)) == "triton-off-pin"


@pytest.mark.parametrize("kind", ["stub", "cudnn"])
def test_search_path(venv: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "stub":
        folder = tmp_path / "cuda/lib64/stubs"
        library(
            folder / "libcuda.so.1",
            source="int cuInit(unsigned f) { return 34; } int cuDriverGetVersion(int *v) { return 34; }",
        )
        expected = "libcuda-stub-loaded"
    else:
        folder = tmp_path / "cudnn/lib"
        # torch finds libcudnn.so.9 by its RPATH, which comes first; that opens its parts by name, and gets these
        for path in sorted((site(venv) / "nvidia").glob("*/lib/libcudnn*.so.9")):
            library(folder / f"{path.name}.1.0", soname=path.name)
            (folder / path.name).symlink_to(f"{path.name}.1.0")
        expected = "cudnn-mixed"
    search = os.pathsep.join(part for part in (str(folder), ENVIRON.get("LD_LIBRARY_PATH")) if part)
    assert first_error(examine(venv, LD_LIBRARY_PATH=search)) == expected
    if kind == "stub":
        assert verify_fails(venv, {"LD_LIBRARY_PATH": search}, monkeypatch)


def test_old_assembler(venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that tells an old release, and refuses as the old assembler would."""
    script = tmp_path / "ptxas"
    script.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'Cuda compilation tools, release 11.0, V11.0.194' && exit 0\n"
        "echo \"ptxas fatal   : Value 'sm_90a' is not defined for option 'gpu-name'\" >&2; exit 255\n"
    )
    script.chmod(0o755)
    report = examine(venv, TRITON_PTXAS_PATH=str(script))
    assert first_error(report) == "assembler-overridden"
    assert verify_fails(venv, {"TRITON_PTXAS_PATH": str(script), "TRITON_CACHE_DIR": str(tmp_path / "c")}, monkeypatch)


def test_cpu_metadata(venv: Path) -> None:
    info = metadata_of(venv, "torch")
    version = info.name.removeprefix("torch-").removesuffix(".dist-info")
    public = version.partition("+")[0]
    text = (info / "METADATA").read_text()
    rewrite(info / "METADATA", text.replace(f"Version: {version}", f"Version: {public}+cpu"))
    info.rename(info.with_name(f"torch-{public}+cpu.dist-info"))
    assert first_error(examine(venv)) == "torch-is-cpu-build"


def test_removed_cuda_wheel(venv: Path) -> None:
    names = sorted(path.name.partition("-")[0] for path in site(venv).glob("nvidia_cudnn_cu*.dist-info"))
    subprocess.run([find_uv_bin(), "pip", "uninstall", "--python", str(venv), names[0].replace("_", "-")], check=True)
    report = examine(venv)
    assert first_error(report) == "missing-nvidia-dependency"
    if LOCK is None:
        pytest.skip("CUDALOCK_TEST_LOCK names no lock")
    # the machine may have a cuDNN of its own that torch finds instead: then every kernel runs, and only the lock tells
    assert not verify(venv, lock=read_lock(Path(LOCK))).passed
