"""Faults of recorded machines, found by the real probes' machinery, and healthy machines about which nothing is said."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

import pytest

from cudalock.doctor import DoctorReport
from support.doctoring import Patient, library, needs_compiler, torch_files
from support.hosts import write_tree
from support.torch_wheels import triton_wheel

pytestmark = needs_compiler

RTX_4090 = ("NVIDIA GeForce RTX 4090", (8, 9))


def above_info(report: DoctorReport) -> list[tuple[str, str]]:
    return [(finding.severity, finding.code) for finding in report.findings if finding.severity != "info"]


def infos(report: DoctorReport) -> set[str]:
    return {finding.code for finding in report.findings if finding.severity == "info"}


def test_driver_below_the_floor(patient: Patient) -> None:
    patient.gpu("NVIDIA A100-SXM4-80GB", (8, 0), driver="470.57.02", cuda=11040)
    report = patient.examine()
    assert report.findings[0].code == "driver-too-old"
    assert report.findings[0].evidence["driver_min"] == "525.60.13"
    assert report.findings[0].fix_verified_by_rules
    assert "525.60.13" in str(report.findings[0].fix)


def test_driver_and_library_of_different_releases(patient: Patient) -> None:
    patient.nvml_error = {"code": 18, "text": "Driver/library version mismatch"}
    report = patient.examine()
    assert report.findings[0].code == "driver-library-mismatch"
    assert {one["code"] for one in report.findings[0].evidence["consequences"]} == {"nvml-unavailable"}


@pytest.mark.parametrize(
    ("code", "words", "finding"),
    [
        (804, "forward compatibility was attempted on non supported HW", "compat-on-geforce"),
        (803, "system has unsupported display driver / cuda driver combination", "driver-library-mismatch"),
        (802, "system not yet initialized", "fabric-manager-mismatch"),
        (34, "CUDA driver is a stub library", "libcuda-stub-loaded"),
    ],
)
def test_what_initialising_cuda_says(patient: Patient, code: int, words: str, finding: str) -> None:
    patient.gpu(*RTX_4090)
    patient.libcuda = ({"cuda_driver": 13000}, {"error": {"code": code, "text": words}})
    assert patient.examine().findings[0].code == finding


def test_container_that_lost_its_gpu(patient: Patient) -> None:
    patient.nvml_error = {"code": 999, "text": "Unknown Error"}
    assert patient.examine().findings[0].code == "container-lost-gpu"


def test_compat_library_on_geforce(patient: Patient) -> None:
    patient.gpu(*RTX_4090, driver="550.163.01", cuda=12080)
    folder = "usr/local/cuda-12.8/compat"
    library(patient.root / folder / "libcuda.so.570.124.06", soname="libcuda.so.1")
    patient.nvml = (*patient.nvml, {"cuda_library": f"/{folder}/libcuda.so.570.124.06"})
    report = patient.examine()
    assert report.findings[0].code == "compat-on-geforce"


def test_compat_library_on_a_data_centre_gpu_is_only_noted(patient: Patient) -> None:
    patient.gpu("NVIDIA A100-SXM4-80GB", (8, 0), driver="550.163.01", cuda=12080)
    folder = "usr/local/cuda-12.8/compat"
    library(patient.root / folder / "libcuda.so.570.124.06", soname="libcuda.so.1")
    (patient.root / folder / "libcuda.so.1").symlink_to("libcuda.so.570.124.06")
    patient.variables["LD_LIBRARY_PATH"] = f"/{folder}"
    patient.nvml = (*patient.nvml, {"cuda_library": f"/{folder}/libcuda.so.570.124.06"})
    report = patient.examine()
    assert above_info(report) == []
    assert "compat-library-in-use" in infos(report)


def test_open_module_with_an_old_gpu(patient: Patient) -> None:
    patient.gpu("Tesla V100-SXM2-16GB", (7, 0), driver="580.65.06")
    open_module = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
    write_tree(patient.root, {"proc/driver/nvidia/version": open_module})
    assert patient.examine().findings[0].code == "open-module-on-old-gpu"


def test_gpu_that_the_driver_dropped(patient: Patient) -> None:
    patient.gpu("Tesla V100-SXM2-16GB", (7, 0), driver="590.48.01", cuda=13010)
    finding = patient.examine().findings[0]
    assert (finding.code, finding.severity) == ("architecture-end-of-life", "error")
    assert "580" in str(finding.fix)


def test_no_driver_although_torch_wants_cuda(patient: Patient) -> None:
    shutil.rmtree(patient.root)
    patient.root.mkdir()
    patient.no_driver = True
    assert patient.examine().findings[0].code == "driver-not-found"


def test_gpu_without_a_driver(patient: Patient) -> None:
    shutil.rmtree(patient.root / "sys/module")
    shutil.rmtree(patient.root / "proc")
    patient.no_driver = True
    finding = patient.examine().findings[0]
    assert finding.code == "driver-not-found"
    assert "2335" in finding.message or "H200" in finding.message


def test_driver_packages_in_an_image(patient: Patient) -> None:
    write_tree(patient.root, {".dockerenv": "", "var/lib/dpkg/info/libnvidia-compute-535:amd64.list": ""})
    report = patient.examine()
    assert above_info(report) == [("warning", "driver-package-in-container")]


def test_container_that_requires_a_newer_cuda(patient: Patient) -> None:
    patient.gpu(*RTX_4090, driver="535.161.08", cuda=12020)
    patient.uninstall("torch", "triton", "torchvision")
    patient.variables["NVIDIA_REQUIRE_CUDA"] = "cuda>=12.8 brand=tesla,driver>=535,driver<536"
    finding = patient.examine().findings[0]
    assert (finding.code, finding.evidence["require_cuda"]) == ("container-requires-newer-cuda", "cuda>=12.8")
    patient.variables["NVIDIA_DISABLE_REQUIRE"] = "1"
    assert above_info(patient.examine()) == []


def test_container_whose_requirement_a_branch_meets(patient: Patient) -> None:
    patient.gpu("NVIDIA A100-SXM4-80GB", (8, 0), driver="535.161.08", cuda=12020)
    patient.variables["NVIDIA_REQUIRE_CUDA"] = "cuda>=12.8 brand=tesla,driver>=535,driver<536"
    assert "container-requires-newer-cuda" not in infos(patient.examine())


def test_torch_that_could_only_run_by_ptx_of_a_newer_cuda(patient: Patient) -> None:
    """Error 222: the build holds no machine code for the GPU, and the driver does not read its PTX."""
    patient.install("torch", "2.9.1+cu128", torch_files(patient.folder / "ptx", architectures="sm_80 compute_80"))
    patient.uninstall("triton")
    patient.gpu("NVIDIA H100 PCIe", (9, 0), driver="550.144.03", cuda=12040)
    finding = patient.examine().findings[0]
    assert (finding.code, finding.severity) == ("ptx-newer-than-driver", "error")
    patient.gpu("NVIDIA H100 PCIe", (9, 0), driver="570.124.06", cuda=12080)
    assert "ptx-newer-than-driver" not in {one.code for one in patient.examine().findings}


@pytest.mark.parametrize("filesystem", ["nfs4", "lustre", "fuse.sshfs"])
def test_cache_on_a_network_file_system(patient: Patient, filesystem: str) -> None:
    mounts = f"rootfs / ext4 rw 0 0\nserver:/home {patient.folder} {filesystem} rw,relatime 0 0\n"
    write_tree(patient.root, {"proc/mounts": mounts})
    finding = patient.examine().findings[0]
    assert (finding.code, finding.evidence["filesystem"]) == ("triton-cache-on-network-filesystem", filesystem)


def test_cache_that_may_not_be_executed(patient: Patient) -> None:
    mounts = f"rootfs / ext4 rw 0 0\ntmpfs {patient.folder} tmpfs rw,noexec 0 0\n"
    write_tree(patient.root, {"proc/mounts": mounts})
    finding = patient.examine().findings[0]
    assert finding.code == "triton-cache-unwritable"
    assert "noexec" in finding.message


# --- healthy machines: nothing above info


def test_cache_on_a_local_disk(patient: Patient) -> None:
    write_tree(patient.root, {"proc/mounts": f"rootfs / ext4 rw 0 0\n/dev/nvme0n1 {patient.folder} xfs rw 0 0\n"})
    assert above_info(patient.examine()) == []


def test_gb10_with_torchs_warning_of_the_highest_capability(patient: Patient) -> None:
    """Its machine code of 12.0 runs on 12.1; the warning that 12.1 is above the maximum says nothing else."""
    patient.gpu("NVIDIA GB10", (12, 1), driver="580.95.05", cuda=13000)
    _, content = triton_wheel("3.7.1", "13.0.88")
    wheel = patient.folder / "triton-3.7.1-py3-none-any.whl"
    wheel.write_bytes(content)
    patient.install_file(wheel)
    metadata = next(patient.site.glob("torch-2*.dist-info")) / "METADATA"
    metadata.write_text(metadata.read_text().replace("triton==3.5.1", "triton==3.7.1"))
    warning = (
        "UserWarning: \n    Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.\n"
        "    Minimum and Maximum cuda capability supported by this version of PyTorch is\n    (8.0) - (12.0)"
    )
    assert above_info(patient.examine(warning)) == []


def test_h200(patient: Patient) -> None:
    assert above_info(patient.examine()) == []


def test_machine_code_of_8_6_on_an_rtx_4090(patient: Patient) -> None:
    patient.gpu(*RTX_4090)
    assert above_info(patient.examine()) == []


def test_cuda_12_8_wheels_on_a_13_0_driver(patient: Patient) -> None:
    patient.gpu("NVIDIA GeForce RTX 5090", (12, 0), driver="580.65.06", cuda=13000)
    assert above_info(patient.examine()) == []


def test_minor_version_compatibility(patient: Patient) -> None:
    patient.gpu(*RTX_4090, driver="535.161.08", cuda=12020)
    report = patient.examine()
    assert above_info(report) == []
    assert "minor-compat-in-use" in infos(report)


def test_search_path_that_shadows_nothing(patient: Patient) -> None:
    (patient.root / "usr/local/cuda/lib64").mkdir(parents=True)
    library(patient.root / "usr/local/cuda/lib64/libnpp.so.12")
    patient.variables["LD_LIBRARY_PATH"] = "/usr/local/cuda/lib64:/usr/local/nvidia/lib64"
    assert above_info(patient.examine()) == []


def test_search_path_with_the_same_release(patient: Patient) -> None:
    library(patient.root / "opt/cudnn/libcudnn.so.9.10.2", soname="libcudnn.so.9")
    (patient.root / "opt/cudnn/libcudnn.so.9").symlink_to("libcudnn.so.9.10.2")
    patient.variables["LD_LIBRARY_PATH"] = "/opt/cudnn"
    assert above_info(patient.examine()) == []


def test_the_drivers_own_folder_on_the_search_path(patient: Patient) -> None:
    patient.variables["LD_LIBRARY_PATH"] = "/usr/lib64"
    assert above_info(patient.examine()) == []


def test_mig_and_mixed_gpus(patient: Patient) -> None:
    patient.gpus([("NVIDIA A100-SXM4-80GB", (8, 0)), ("NVIDIA H200", (9, 0))], mig_enabled=True)
    report = patient.examine()
    assert above_info(report) == []
    assert {"mig-one-instance-visible", "mixed-architectures"} <= infos(report)


def test_mixed_gpus_of_which_one_is_not_served(patient: Patient) -> None:
    patient.gpus([("NVIDIA H200", (9, 0)), ("Tesla P100-PCIE-16GB", (6, 0))], driver="550.163.01", cuda=12040)
    finding = patient.examine().findings[0]
    assert (finding.code, finding.evidence["gpu"]) == ("gpu-not-in-wheel", "6.0")


@pytest.mark.parametrize("device_order", [None, "PCI_BUS_ID"])
def test_hidden_gpus_are_not_judged(patient: Patient, device_order: str | None) -> None:
    patient.gpus([("NVIDIA H200", (9, 0)), ("Tesla P100-PCIE-16GB", (6, 0))], driver="550.163.01", cuda=12040)
    patient.variables |= {"CUDA_VISIBLE_DEVICES": "0"} | ({"CUDA_DEVICE_ORDER": device_order} if device_order else {})
    codes = [code for _, code in above_info(patient.examine())]
    # in CUDA's own order, number 0 could be either of them
    assert codes == ([] if device_order else ["gpu-not-in-wheel"])


def test_a_cpu_build_on_a_machine_without_gpu(patient: Patient) -> None:
    shutil.rmtree(patient.root)
    patient.root.mkdir()
    patient.no_driver = True
    patient.install("torch", "2.9.1+cpu", torch_files(patient.folder / "cpu", cuda=None))
    patient.uninstall("triton", "torchvision")
    report = patient.examine()
    assert above_info(report) == []
    assert "target-unknown" in infos(report)


def test_the_environment_is_not_changed(patient: Patient) -> None:
    def listing() -> Mapping[str, Any]:
        return {str(path): path.lstat().st_mtime_ns for path in sorted(patient.venv.rglob("*"))}

    before = listing()
    patient.examine()
    assert listing() == before
