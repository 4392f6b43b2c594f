"""Where each attribute of a target comes from, and what is refused or said on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from cudalock import facts
from cudalock.config import TargetTable
from cudalock.errors import AnswerIsNo, CudalockError, UsageError
from cudalock.host import Gpu, Host, parse_facts
from cudalock.target import PythonVersion, Target, TargetOptions, build_target, needs_host_gpus, with_gpus
from cudalock.versions import ComputeCapability, CudaVersion, DriverVersion

DRIVER = DriverVersion("550.90.07")


@dataclass(frozen=True)
class Recorded:
    platform: str = "linux-x86_64"
    python: str = "3.13"
    libc: str | None = "glibc-2.31"
    driver: DriverVersion | None = DRIVER
    gpus: tuple[ComputeCapability, ...] = (ComputeCapability(8, 0),)
    cpu: bool = False


BARE = Host(os="linux", machine="x86_64", libc=("glibc", (2, 36)), python="3.11.7", gpus_known=True)


def machine(*gpus: Mapping[str, Any], **attributes: Any) -> Host:
    """A machine as a facts file would tell it, with the platform of :data:`BARE`."""
    document = {"os": "linux", "machine": "x86_64", "libc": "glibc 2.36", "python": "3.11.7", "gpus": list(gpus)}
    host, _ = parse_facts({"schema": 1, "host": document | attributes})
    return host


A100 = {"name": "NVIDIA A100-SXM4-40GB", "compute_capability": "8.0", "uuid": "GPU-a100"}
B200 = {"name": "NVIDIA B200", "compute_capability": "10.0", "uuid": "GPU-b200"}
V100 = {"name": "Tesla V100-SXM2-16GB", "compute_capability": "7.0", "uuid": "GPU-v100"}


def build(
    host: Host = BARE,
    lock: Recorded | None = None,
    default: TargetTable | None = None,
    targets: Mapping[str, TargetTable] | None = None,
    **options: Any,
) -> Target:
    return build_target(TargetOptions(**options), host=host, lock=lock, default=default, targets=targets)


def refused(code: str, **arguments: Any) -> CudalockError:
    with pytest.raises(CudalockError) as caught:
        build(**arguments)
    assert caught.value.code == code
    assert caught.value.hint
    return caught.value


def test_flags_say_it_all_and_the_host_is_not_asked() -> None:
    def host() -> Host:
        raise AssertionError("the host was asked")

    target = build_target(
        TargetOptions(gpus=("H100",), driver="580.65.06", python="3.12", platform="x86_64-manylinux_2_28"), host=host
    )
    assert (str(target.platform), target.platform.libc, str(target.python)) == (
        "linux-x86_64",
        ("glibc", (2, 28)),
        "3.12",
    )
    assert (target.driver, target.cuda_driver) == (DriverVersion("580.65.06"), CudaVersion(13, 0))
    assert target.capabilities == (ComputeCapability(9, 0),)
    assert target.gpus[0].forward_compatible is True
    assert set(target.origin.values()) == {"flag"}
    assert target.notes == ()


def test_linux_alone_means_an_old_glibc_and_says_so() -> None:
    target = build(gpus=("H100",), driver="580.65.06", platform="linux-x86_64")
    assert target.platform.libc == ("glibc", (2, 28))
    assert any("glibc 2.28" in note for note in target.notes)


def test_the_host_is_the_last_source() -> None:
    target = build(machine(A100, A100, driver="550.90.07", cuda_driver="12.4"))
    (gpu,) = target.gpus
    assert (str(gpu.compute_capability), gpu.count, gpu.forward_compatible) == ("8.0", 2, True)
    assert (target.driver, target.cuda_driver, target.python) == (
        DriverVersion("550.90.07"),
        CudaVersion(12, 4),
        PythonVersion(3, 11),
    )
    assert target.marker_environment["python_full_version"] == "3.11.7"
    assert set(target.origin.values()) == {"host"}


def test_the_lock_comes_before_the_host() -> None:
    target = build(machine(B200, driver="580.65.06"), lock=Recorded())
    assert (target.capabilities, str(target.driver), target.platform.libc, str(target.python)) == (
        (ComputeCapability(8, 0),),
        "550.90.07",
        ("glibc", (2, 31)),
        "3.13",
    )
    assert set(target.origin.values()) == {"lock"}
    assert target.notes == ()


def test_the_configuration_comes_before_the_lock_and_flags_before_both() -> None:
    default = TargetTable(driver="570.124.06", python="3.12")
    target = build(lock=Recorded(), default=default, python="3.14t")
    assert (target.origin["driver"], target.origin["python"], target.origin["gpus"]) == ("config", "flag", "lock")
    assert str(target.python) == "3.14t"


def test_a_facts_file_comes_before_configuration_and_lock() -> None:
    default = TargetTable(gpus=("V100",), driver="550.90.07", python="3.12")
    target = build(machine(B200, driver="580.65.06"), lock=Recorded(), default=default, facts="facts.json")
    assert target.capabilities == (ComputeCapability(10, 0),)
    assert set(target.origin.values()) == {"facts"}


def test_facts_that_say_less_are_completed_from_below_or_refused() -> None:
    partial, _ = parse_facts({"host": {"gpus": [{"name": "RTX 4090"}], "driver": "550.90.07"}})
    target = build(partial, facts="f", default=TargetTable(platform="linux-x86_64", python="3.12"))
    assert (target.origin["gpus"], target.origin["platform"]) == ("facts", "config")
    assert target.capabilities == (ComputeCapability(8, 9),), "by its product name"
    error = refused("target-incomplete", host=partial, facts="f")
    assert error.details["missing"] == "platform"
    error = refused("target-incomplete", host=partial, facts="f", platform="linux-x86_64")
    assert error.details["missing"] == "python"


def test_a_named_target_is_read_from_the_configuration() -> None:
    cluster = TargetTable(
        name="cluster", gpus=("H100", "sm_80"), driver="570.124.06", python="3.12", platform="linux-x86_64"
    )
    target = build(targets={"cluster": cluster}, name="cluster")
    assert (target.name, target.capabilities) == ("cluster", (ComputeCapability(8, 0), ComputeCapability(9, 0)))
    error = refused("target-name-unknown", targets={"cluster": cluster}, name="clutser")
    assert "cluster" in (error.hint or "")


def test_environment_variables_are_named_as_the_origin() -> None:
    target = build(gpus=("H100",), driver="580.65.06", origins={"driver": "environment"})
    assert (target.origin["driver"], target.origin["gpus"]) == ("environment", "flag")


@pytest.mark.parametrize("source", ["lock", "default", "host"])
def test_a_driver_never_comes_from_below_the_gpus(source: str) -> None:
    sources: dict[str, dict[str, Any]] = {
        "lock": {"lock": Recorded()},
        "default": {"default": TargetTable(driver="550.90.07")},
        "host": {"host": machine(A100, driver="550.90.07")},
    }
    arguments = sources[source]
    target = build(gpus=("GTX 1080",), **arguments)
    assert target.driver == facts.newest_driver_for([ComputeCapability(6, 1)], "linux")
    assert target.driver is not None
    assert target.driver.branch == 580
    assert target.origin["driver"] == "default"
    assert any(str(target.driver) in note and "assumed" in note for note in target.notes)


def test_a_default_target_may_complete_a_named_one() -> None:
    target = build(
        targets={"x": TargetTable(name="x", python="3.12")},
        default=TargetTable(gpus=("H100",), driver="570.124.06"),
        name="x",
    )
    assert (str(target.driver), str(target.python)) == ("570.124.06", "3.12")


def test_a_driver_alone_is_a_question_about_the_machine_itself() -> None:
    target = build(machine(V100, driver="550.90.07", cuda_driver="12.4"), driver="580.65.06")
    assert (target.origin["gpus"], target.origin["driver"], target.cuda_driver) == ("host", "flag", CudaVersion(13, 0))


def test_no_gpu_and_no_facts_names_the_three_ways_on() -> None:
    error = refused("target-unknown")
    assert error.exit_status == 2
    for way in ("--gpu", "--driver", "--target", "--cpu"):
        assert way in (error.hint or "")


def test_a_machine_whose_gpus_are_all_hidden() -> None:
    error = refused("target-unknown", host=machine(A100, driver="550.90.07", visible_devices=""))
    assert "CUDA_VISIBLE_DEVICES" in error.message


def test_a_gpu_without_a_driver_is_not_guessed_at() -> None:
    error = refused("target-unknown", host=machine(A100))
    assert error.details["missing"] == "driver"


def test_a_driver_known_by_its_cuda_version_alone_is_taken_at_its_lowest() -> None:
    target = build(machine(A100, cuda_driver="12.8"))
    assert (target.driver, target.cuda_driver) == (facts.driver_native(CudaVersion(12, 8), "linux"), CudaVersion(12, 8))
    assert (target.forward_active, target.origin["driver"]) == (False, "host")
    assert any("CUDA 12.8" in note for note in target.notes)


def test_cpu_is_asked_for_by_name() -> None:
    target = build(machine(A100, driver="550.90.07"), cpu=True)
    assert (target.cpu, target.gpus, target.driver, target.cuda_driver) == (True, (), None, None)
    assert build(lock=Recorded(cpu=True, gpus=(), driver=None)).origin["cpu"] == "lock"
    assert build(lock=Recorded(cpu=True, gpus=(), driver=None), gpus=("H100",)).cpu is False
    refused("options-conflict", cpu=True, gpus=("H100",))
    refused("options-conflict", cpu=True, driver="580.65.06")


@pytest.mark.parametrize(
    ("gpu", "code", "said"),
    [
        ("RTX 4O90", "gpu-unknown", "4090"),
        ("GT 730", "gpu-ambiguous", "3.5"),
        ("9.9", "gpu-unknown", "8.9"),
        ("", "gpu-unknown", ""),
    ],
)
def test_gpus_that_are_refused(gpu: str, code: str, said: str) -> None:
    assert said in (refused(code, gpus=(gpu,)).hint or "")


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        ("13.0", "580.65.06"),
        ("12.8", "--driver 570"),
        ("abc", "nvidia-smi"),
        ("535.161.08.1", "nvidia-smi"),
        ("99999", "nvidia-smi"),
        ("cu128", "CUDA 12.8"),
    ],
)
def test_drivers_that_are_refused_say_what_was_meant(driver: str, said: str) -> None:
    assert said in (refused("driver-invalid", gpus=("H100",), driver=driver).hint or "")


def test_a_branch_alone_means_its_newest_driver() -> None:
    target = build(gpus=("H100",), driver="580")
    assert target.driver is not None
    assert target.driver >= DriverVersion("580.65.06")
    assert target.driver.branch == 580
    assert any("580" in note and "branch" in note for note in target.notes)


@pytest.mark.parametrize(
    ("gpu", "driver", "better"),
    [("GTX 1080", "590.48.01", "580"), ("RTX 5090", "535.161.08", "--driver"), ("K80", "580.65.06", "470")],
)
def test_a_driver_that_does_not_drive_the_gpu(gpu: str, driver: str, better: str) -> None:
    error = refused("driver-does-not-drive-gpu", gpus=(gpu,), driver=driver)
    assert isinstance(error, UsageError)
    assert better in (error.hint or "")


def test_a_driver_older_than_the_first_that_lists_the_product_is_worth_a_note() -> None:
    target = build(gpus=("RTX 5050",), driver="570.133.20")
    assert any("575.64.03" in note for note in target.notes)
    assert build(gpus=("RTX 5050",), driver="575.64.03").notes == ()


def test_gpus_that_no_driver_drives_together() -> None:
    error = refused("driver-does-not-drive-gpu", gpus=("K80", "RTX 5090"))
    assert "one by one" in (error.hint or "")


def test_a_machine_with_a_driver_too_new_for_one_gpu_is_a_no_and_a_note_for_doctor() -> None:
    host = machine(V100, B200, driver="590.48.01")
    error = refused("driver-does-not-drive-gpu", host=host)
    assert isinstance(error, AnswerIsNo)
    lenient = build_target(TargetOptions(), host=host, strict=False)
    assert any("does not drive" in note for note in lenient.notes)
    assert len(lenient.gpus) == 2


def test_volta_and_blackwell_meet_on_580() -> None:
    target = build(gpus=("V100", "B200"))
    assert target.driver is not None
    assert target.driver.branch == 580


@pytest.mark.parametrize(
    ("visible", "order", "expected"),
    [
        (None, None, ["7.0", "8.0", "10.0"]),
        ("GPU-b2,GPU-v", None, ["7.0", "10.0"]),
        ("1", "PCI_BUS_ID", ["10.0"]),
        ("1,7,0", "PCI_BUS_ID", ["10.0"]),
        ("1,-1,0", "PCI_BUS_ID", ["10.0"]),
        ("GPU-", None, []),
        ("1", None, ["7.0", "8.0", "10.0"]),
    ],
)
def test_visible_devices_are_honoured_and_said(visible: str | None, order: str | None, expected: list[str]) -> None:
    host = machine(A100, B200, V100, driver="580.65.06", visible_devices=visible, device_order=order)
    if not expected:
        refused("target-unknown", host=host)
        return
    target = build(host)
    assert [str(capability) for capability in target.capabilities] == expected
    assert any("CUDA_VISIBLE_DEVICES" in note for note in target.notes) is (visible is not None)


def test_cudas_own_numbers_count_where_they_are_known() -> None:
    host = machine(A100 | {"cuda_index": 1}, B200 | {"cuda_index": 0}, driver="580.65.06", visible_devices="0")
    assert build(host).capabilities == (ComputeCapability(10, 0),)


def test_mig_is_said_and_its_uuids_count() -> None:
    parted = A100 | {"mig_enabled": True, "mig_devices": ["MIG-1", "MIG-2"]}
    host = machine(parted, B200, driver="580.65.06", visible_devices="MIG-2")
    target = build(host)
    assert target.capabilities == (ComputeCapability(8, 0),)
    assert any("MIG" in note and "GPU 0" in note for note in target.notes)


def test_wsl_counts_in_windows_drivers() -> None:
    gpu = {"name": "NVIDIA GeForce RTX 5090", "compute_capability": "12.0"}
    target = build(machine(gpu, driver="573.24", wsl=True))
    assert (target.wsl, target.cuda_driver, str(target.platform)) == (True, CudaVersion(12, 8), "linux-x86_64")
    assert any("Windows" in note for note in target.notes)


def test_windows() -> None:
    target = build(gpus=("RTX 5090",), driver="573.24", platform="win-amd64", python="3.12")
    assert (target.cuda_driver, target.platform.libc) == (CudaVersion(12, 8), None)


def test_a_jetson_is_not_on_the_ladder_of_drivers() -> None:
    board = {"name": "Orin (nvgpu)", "compute_capability": "8.7"}
    target = build(machine(board, machine="aarch64", driver="540.4.0", cuda_driver="12.6", jetson=True))
    assert (target.jetson, target.cuda_driver, str(target.platform)) == (True, CudaVersion(12, 6), "linux-aarch64")
    named = build(gpus=("Jetson AGX Orin",), driver="540.4.0", platform="linux-aarch64")
    assert (named.jetson, named.cuda_driver) == (True, CudaVersion(12, 6))
    refused("options-conflict", gpus=("Jetson AGX Orin",), platform="linux-x86_64")


def test_forward_compatibility_in_use_is_taken_from_the_host() -> None:
    by_folder = machine(
        A100, driver="550.90.07", cuda_driver="13.0", compat_library="/usr/local/cuda-13.0/compat/libcuda.so.580.65.06"
    )
    by_version = machine(A100, driver="550.90.07", cuda_driver="13.0")
    native = machine(A100, driver="550.90.07", cuda_driver="12.4")
    for host in (by_folder, by_version):
        target = build(host)
        assert (target.forward_active, target.cuda_driver) == (True, CudaVersion(13, 0))
        assert any("cuda-compat" in note for note in target.notes)
    assert build(native).forward_active is False
    changed = build(by_folder, driver="550.127.05")
    assert (changed.forward_active, changed.cuda_driver) == (False, CudaVersion(12, 4))


def test_a_driver_newer_than_all_known_ones_is_believed() -> None:
    host = machine(B200, driver="999.10.01", cuda_driver="15.0")
    target = build(host)
    assert (target.forward_active, target.cuda_driver) == (False, CudaVersion(15, 0))


def test_a_capability_that_no_probe_could_tell_is_asked_for() -> None:
    host = replace(machine(driver="580.65.06"), gpus=(Gpu(index=0, name="Graphics Device"),))
    refused("gpu-unknown", host=host)


def test_an_ambiguous_product_in_facts_lists_its_choices() -> None:
    host, _ = parse_facts(
        {
            "host": {
                "os": "linux",
                "machine": "x86_64",
                "python": "3.12",
                "driver": "470.256.02",
                "gpus": [{"name": "GT 730"}],
            }
        }
    )
    error = refused("gpu-ambiguous", host=host, facts="f")
    assert error.details["choices"] == ["3.0", "3.5"]


def test_macos_hosts_must_name_the_platform() -> None:
    mac = Host(os="darwin", machine="aarch64", python="3.12.4", gpus_known=True)
    refused("platform-unsupported", host=mac, gpus=("H100",), driver="580.65.06")
    assert str(build(mac, gpus=("H100",), driver="580.65.06", platform="linux-x86_64").python) == "3.12"


def test_the_running_micro_version_completes_a_lock_made_here() -> None:
    target = build_target(TargetOptions(), host=BARE, surroundings=BARE, lock=Recorded(python="3.11"))
    assert target.marker_environment["python_full_version"] == "3.11.7"
    other = build_target(TargetOptions(), host=BARE, surroundings=BARE, lock=Recorded(python="3.13"))
    assert other.marker_environment["python_full_version"] == "3.13.0"


def test_whether_the_host_must_be_probed() -> None:
    assert needs_host_gpus(TargetOptions()) is True
    assert needs_host_gpus(TargetOptions(driver="580")) is True
    assert needs_host_gpus(TargetOptions(gpus=("H100",))) is False
    assert needs_host_gpus(TargetOptions(cpu=True)) is False
    assert needs_host_gpus(TargetOptions(), lock=Recorded()) is False


def test_what_if_questions() -> None:
    target = build(gpus=("H100",), driver="580.65.06")
    changed = with_gpus(target, [ComputeCapability(8, 0), ComputeCapability(7, 5), ComputeCapability(8, 0)])
    assert (changed.capabilities, changed.driver) == ((ComputeCapability(7, 5), ComputeCapability(8, 0)), target.driver)
    newer = with_gpus(target, target.capabilities, DriverVersion("570.124.06"))
    assert (newer.cuda_driver, newer.tags) == (CudaVersion(12, 8), target.tags)
