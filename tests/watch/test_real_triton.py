"""Real releases of Triton, compiling without a GPU: the hook, the causes and the caches that they leave."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.version import Version

from cudalock.kernels import KernelEnvironment, prune, read_caches
from cudalock.versions import ComputeCapability
from cudalock.watch import WatchReport, watch_command
from support.watched import REAL_KERNEL

pytestmark = [pytest.mark.live, pytest.mark.slow]

LAYOUTS = {"3.0.0": "sha256", "3.2.0": "base64", "3.3.1": "base32", "3.6.0": "base32"}
PROGRAM = (
    "from kernel import Tensor, compile_for\n"
    "aligned, loose = Tensor('float32'), Tensor('float32', 4)\n"
    "compile_for(aligned, 16, 64)\n"
    "compile_for(Tensor('float16'), 16, 64)\n"
    "compile_for(loose, 16, 64)\n"
    "compile_for(aligned, 7, 64)\n"
    "compile_for(aligned, 1, 64)\n"
    "compile_for(aligned, 16, 128)\n"
    "compile_for(aligned, 16, 64, num_warps=8)\n"
    "compile_for(aligned, 32, 64)\n"
)
CAUSES = [
    ["first None"], ["dtype x"], ["divisibility x"], ["divisibility n"], ["equal-to-1 n"], ["constexpr BLOCK"],
    ["option num_warps"],
]  # fmt: skip


@pytest.fixture(scope="module", params=LAYOUTS)
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A release, and the folder that it is installed in."""
    version: str = request.param
    if sys.version_info >= (3, 13) and Version(version) < Version("3.2"):
        pytest.skip(f"triton {version} has no wheel for this Python")
    folder = tmp_path_factory.mktemp(f"triton-{version}")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), f"triton=={version}"]
    subprocess.run(command, check=True)
    (folder / "kernel.py").write_text(REAL_KERNEL)
    return version, folder


def run(real: tuple[str, Path], cache: Path) -> WatchReport:
    environment = {**os.environ, "PYTHONPATH": str(real[1]), "TRITON_CACHE_DIR": str(cache)}
    status, report = watch_command([sys.executable, "-c", PROGRAM], environ=environment, threshold=6)
    assert status == 0
    return report


def test_each_cause_is_named_and_the_cache_is_understood(real: tuple[str, Path], tmp_path: Path) -> None:
    version = Version(real[0])
    report = run(real, tmp_path)
    assert report.tritons == (real[0],)
    assert report.unsupported == ()
    (kernel,) = report.kernels
    assert [[f"{c.kind} {c.argument}" for c in it.causes] for it in kernel.compilations] == CAUSES
    assert [finding.evidence["compiled"] for finding in report.findings] == [7]

    again = run(real, tmp_path)
    assert (again.compiled, again.loaded, again.findings) == (0, 7, ())

    caches = read_caches(folders=[tmp_path])
    entries = caches[0].entries
    assert {(entry.layout, entry.architecture, entry.fault, entry.name) for entry in entries} == {
        (LAYOUTS[real[0]], "sm_80", None, "add_k")
    }
    assert {entry.triton for entry in entries} == {real[0] if version >= Version("3.3") else None}
    later = max(entry.modified for entry in entries) + 3600
    here = KernelEnvironment(triton=version, gpus=frozenset({ComputeCapability(8, 0)}))
    assert prune(caches, here, now=later) == ()
    elsewhere = KernelEnvironment(triton=version, gpus=frozenset({ComputeCapability(9, 0)}))
    assert len(prune(caches, elsewhere, now=later)) == 7
    newer = KernelEnvironment(triton=Version("3.9.0"), gpus=here.gpus)
    assert [it.outcome for it in prune(caches, newer, delete=True, now=later)] == ["removed"] * 7
    assert run(real, tmp_path).compiled == 7
