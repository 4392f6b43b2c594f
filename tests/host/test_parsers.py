"""The parsers on what the files and tools really printed."""

from __future__ import annotations

import pytest

from cudalock.host import parsers
from cudalock.versions import ComputeCapability, DriverVersion
from support.hosts import H200_INFORMATION, H200_PROC


@pytest.mark.parametrize(
    ("text", "version", "kind"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024",
            "550.90.07",
            "proprietary",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.144.03  Release Build  (dvs-builder@U16-I3-D08-1-2)  Mon Dec 30 17:26:13 UTC 2024",
            "550.144.03",
            "open",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build  (buildbrain@mobile-u64-6336)",
            "540.4.0",
            "open",
        ),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  390.157  Wed Oct 12 09:19:07 UTC 2022",
            "390.157",
            "proprietary",
        ),
        (H200_PROC, "580.159.04", "open"),
    ],
)
def test_the_first_line_of_proc_version_names_driver_and_kind(text: str, version: str, kind: str) -> None:
    found = parsers.proc_version(text)
    assert found is not None
    assert (str(found.version), found.kind) == (version, kind)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GCC version:  gcc version 13.2.0 (Ubuntu 13.2.0-23ubuntu4)",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module\nGCC version:  gcc 12.3.0",
    ],
)
def test_a_compiler_version_is_never_taken_for_the_driver(text: str) -> None:
    assert parsers.proc_version(text) is None


def test_gpu_information() -> None:
    found = parsers.gpu_information(H200_INFORMATION)
    assert found["model"] == "NVIDIA H200"
    assert found["gpu uuid"] == "GPU-0a1b2c3d-1111-2222-3333-444455556666"
    assert found["bus location"] == "0000:00:06.0"


def test_a_measured_query_line_of_nvidia_smi() -> None:
    fields = ("name", "driver_version", "compute_cap", "memory.total", "mig.mode.current", "pci.bus_id")
    (gpu,) = parsers.smi_rows("NVIDIA H200, 580.159.04, 9.0, 143771 MiB, Disabled, 00000000:00:06.0\n", fields)
    assert gpu == parsers.SmiGpu(
        name="NVIDIA H200",
        pci_bus_id="0000:00:06.0",
        driver=DriverVersion("580.159.04"),
        compute_capability=ComputeCapability(9, 0),
        memory_bytes=143771 * 1024 * 1024,
        mig_enabled=False,
    )


def test_one_line_is_one_gpu() -> None:
    rows = parsers.smi_rows("NVIDIA GeForce RTX 3090 Ti, 8.6\nNVIDIA GeForce RTX 5090, 12.0", ("name", "compute_cap"))
    assert [str(row.compute_capability) for row in rows] == ["8.6", "12.0"]


def test_fields_that_are_not_supported_are_unknown_and_other_lines_are_no_gpus() -> None:
    text = "Warning: infoROM is corrupted\nNVIDIA GB10, 12.1, [N/A], [N/A]\n\nNVIDIA Orin (nvgpu), [Not Supported], Not Supported, [GPU requires reset]\n"
    first, second = parsers.smi_rows(text, ("name", "compute_cap", "memory.total", "mig.mode.current"))
    assert (first.name, first.compute_capability, first.memory_bytes) == ("NVIDIA GB10", ComputeCapability(12, 1), None)
    assert second == parsers.SmiGpu(name="NVIDIA Orin (nvgpu)")


def test_the_field_that_an_old_nvidia_smi_rejects() -> None:
    assert parsers.rejected_field('Field "compute_cap" is not a valid field to query.\n\n') == "compute_cap"
    assert (
        parsers.rejected_field("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.") is None
    )


def test_mig_instances_belong_to_the_gpu_above_them() -> None:
    text = (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-fcf41002-1)\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-e07a497d-2)\n"
        "  MIG 3g.20gb     Device  1: (UUID: MIG-GPU-fcf41002-1/2/0)\n"
        "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-aa)\n"
    )
    assert parsers.mig_listing(text) == {
        "GPU-fcf41002-1": ("MIG-e07a497d-2", "MIG-GPU-fcf41002-1/2/0"),
        "GPU-aa": (),
    }


def test_the_library_version_of_a_mismatch() -> None:
    text = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.133\n"
    assert parsers.library_version_in_failure(text) == "570.133"
    assert parsers.library_version_in_failure("Failed to initialize NVML: Unknown Error") is None


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("/usr/lib64/libnvidia-ml.so.570.133.20", "570.133.20"),
        ("/usr/lib/libcuda.so.525.60", "525.60"),
        ("/usr/lib/wsl/lib/libnvidia-ml.so.1", None),
        ("/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1.1", None),
    ],
)
def test_a_library_is_named_for_its_driver(path: str, version: str | None) -> None:
    found = parsers.driver_of_library(path)
    assert (str(found) if found else None) == version


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("3b:00.0", "0000:3b:00.0"),
        ("0001:3b:00.0", "0001:3b:00.0"),
        ("nonsense", None),
        (None, None),
    ],
)
def test_pci_addresses_have_one_spelling(text: str | None, expected: str | None) -> None:
    assert parsers.bus_id(text) == expected


def test_the_release_of_jetson_linux() -> None:
    assert parsers.tegra_release("# R36 (release), REVISION: 4.0, GCID: 37537400, BOARD: generic") == "36.4.0"
    assert parsers.tegra_release("") is None


@pytest.mark.parametrize(
    ("number", "expected"), [(13000, "13.0"), (12080, "12.8"), (0, None), ("13000", None), (True, None)]
)
def test_cuda_of_the_driver_api(number: object, expected: str | None) -> None:
    found = parsers.cuda_of(number)
    assert (str(found) if found else None) == expected
