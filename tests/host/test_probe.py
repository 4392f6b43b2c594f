"""The probe script against libraries that answer as NVIDIA's do, compiled here and found by the loader."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cudalock.host import Host, detect
from cudalock.host.children import default_commands
from support.hosts import write_tree

SOURCE = Path(__file__).parents[1] / "support" / "fake_driver.c"


@pytest.fixture(scope="module")
def driver_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    real = folder / "libnvidia-ml.so.580.65.06"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", str(real), str(SOURCE)], check=True)
    shutil.copy(real, folder / "libcuda.so.580.65.06")
    (folder / "libnvidia-ml.so.1").symlink_to(real.name)
    (folder / "libcuda.so.1").symlink_to("libcuda.so.580.65.06")
    return folder


def run(driver_folder: Path, tmp_path: Path, mode: str = "", *, thorough: bool = False, rungs: str = "") -> Host:
    environ = {"LD_LIBRARY_PATH": str(driver_folder), "FAKE_DRIVER": mode, "CUDALOCK_PROBES": rungs}
    commands = replace(default_commands(environ), nvidia_smi=None)
    return detect(root=write_tree(tmp_path, {"dev/nvidia0": ""}), environ=environ, commands=commands, thorough=thorough)


def test_nvml_tells_everything(driver_folder: Path, tmp_path: Path) -> None:
    host = run(driver_folder, tmp_path)
    first, second = host.gpus
    assert (str(host.driver), str(host.cuda_driver), host.origin["cuda_driver"]) == ("580.65.06", "13.0", "nvml")
    assert (first.name, first.uuid, str(first.compute_capability)) == (
        "NVIDIA A100-SXM4-40GB",
        "GPU-aaaaaaaa-0000-0000-0000-000000000001",
        "8.0",
    )
    assert (first.pci_bus_id, first.pci_device_id, first.memory_bytes) == ("0000:3b:00.0", "20b0", 42949672960)
    assert (first.mig_enabled, first.mig_devices) == (True, ("MIG-cccccccc-0000-0000-0000-000000000003",))
    assert (str(second.compute_capability), second.memory_bytes, second.mig_enabled) == ("12.1", None, None)
    assert host.cuda_library == str(driver_folder.resolve() / "libcuda.so.580.65.06")
    assert [probe.name for probe in host.probes] == ["nvml"]


def test_libcuda_tells_what_it_can(driver_folder: Path, tmp_path: Path) -> None:
    host = run(driver_folder, tmp_path, rungs="libcuda")
    first, second = host.gpus
    assert (host.driver, str(host.cuda_driver)) == (None, "13.0")
    assert (first.uuid, first.cuda_index) == ("GPU-aaaaaaaa-0000-0000-0000-000000000001", 1)
    assert (second.name, str(second.compute_capability), second.cuda_index) == ("NVIDIA GB10", "12.1", 0)


def test_a_mismatch_is_told_with_its_code_and_both_versions(driver_folder: Path, tmp_path: Path) -> None:
    write_tree(tmp_path, {"sys/module/nvidia/version": "570.133.20\n"})
    host = run(driver_folder, tmp_path, "mismatch", rungs="nvml,sysfs")
    (nvml, *_) = host.probes
    assert (nvml.answered, nvml.error_code, nvml.error) == (False, 18, "Driver/library version mismatch")
    assert (str(host.driver), str(host.driver_library)) == ("570.133.20", "580.65.06")


def test_a_crash_of_nvml_leaves_libcuda(driver_folder: Path, tmp_path: Path) -> None:
    host = run(driver_folder, tmp_path, "crash")
    assert [(probe.name, probe.answered) for probe in host.probes] == [("nvml", False), ("libcuda", True)]
    assert [str(gpu.compute_capability) for gpu in host.gpus] == ["8.0", "12.1"]


def test_a_lost_gpu_is_listed_with_the_reason(driver_folder: Path, tmp_path: Path) -> None:
    host = run(driver_folder, tmp_path, "lost")
    assert (len(host.gpus), host.gpus[2].error) == (3, "GPU is lost")


def test_a_stub_is_recognised(driver_folder: Path, tmp_path: Path) -> None:
    host = run(driver_folder, tmp_path, "stub", rungs="libcuda")
    assert (host.cuda_library_error, host.gpus) == ("CUDA driver is a stub library", ())
    assert host.probes[0].error_code == 34


def test_initialising_shows_error_804(driver_folder: Path, tmp_path: Path) -> None:
    host = run(driver_folder, tmp_path, "compat", thorough=True)
    outcome = next(probe for probe in host.probes if probe.name == "libcuda")
    assert (outcome.error_code, outcome.answered) == (804, False)
    assert [str(gpu.compute_capability) for gpu in host.gpus] == ["8.0", "12.1"], "as NVML told"


def test_no_library_at_all_is_told(tmp_path: Path) -> None:
    environ = {"LD_LIBRARY_PATH": "", "CUDALOCK_PROBES": "nvml,libcuda"}
    host = detect(
        root=write_tree(tmp_path, {"dev/nvidia0": ""}),
        environ=environ,
        commands=replace(default_commands(environ), nvidia_smi=None),
    )
    if any(probe.answered for probe in host.probes):
        pytest.skip("this machine has a driver")
    assert [probe.error_code for probe in host.probes] == [12, None]
    assert "libcuda.so.1" in (host.cuda_library_error or "")
