from __future__ import annotations

from dataclasses import replace

import pytest

from cudalock.compat.driver import drives, judge_driver, lowest_driver, reaches
from cudalock.compat.model import Mode, Policy
from cudalock.target.model import Target, TargetGpu
from cudalock.versions import ComputeCapability, CudaVersion, DriverVersion
from support.judging import linux_target

FORWARD = Policy(modes=frozenset(Mode))


def answer(cuda: str, target: Target, policy: Policy | None = None) -> tuple[Mode | None, list[str]]:
    found = judge_driver(CudaVersion.parse(cuda), target, target.gpus[0], policy or Policy())
    assert (found.mode is None) == bool(found.refusals)
    return found.mode, [reason.code for reason in found.refusals + found.notes]


@pytest.mark.parametrize(
    ("cuda", "driver", "mode"),
    [
        ("12.8", "570.86.16", Mode.NATIVE),
        ("12.9", "570.86.16", Mode.MINOR),
        ("12.6", "580.65.06", Mode.NATIVE),
        ("13.0", "580.65.06", Mode.NATIVE),
        ("13.2", "580.65.06", Mode.MINOR),
        ("13.0", "575.57.08", None),
        ("13.0", "580.10", None),  # below the floor although the branch is right
        ("12.1", "525.60.13", Mode.MINOR),
        ("12.0", "525.60.11", None),
        ("11.8", "450.80.02", Mode.MINOR),
        ("11.8", "450.51.05", None),
        ("11.8", "535.161.08", Mode.NATIVE),
        ("13.0", "580", Mode.NATIVE),  # a bare branch means that branch as it is today
        ("13.4", "615.31", Mode.NATIVE),
    ],
)
def test_floor_and_mode_on_linux(cuda: str, driver: str, mode: Mode | None) -> None:
    assert answer(cuda, linux_target(driver, "8.0"))[0] is mode


@pytest.mark.parametrize(
    ("cuda", "driver", "mode"),
    [
        ("12.8", "528.33", Mode.MINOR),
        ("12.8", "527.41", None),
        ("11.8", "452.39", Mode.MINOR),
        ("13.0", "580.88", Mode.NATIVE),
    ],
)
@pytest.mark.parametrize("wsl", [True, False])
def test_windows_and_wsl_count_in_windows_numbers(cuda: str, driver: str, mode: Mode | None, wsl: bool) -> None:
    target = linux_target(driver, "8.0")
    os = target.platform if wsl else replace(target.platform, os="windows")
    assert answer(cuda, replace(target, platform=os, wsl=wsl, cuda_driver=None))[0] is mode


def test_too_old_names_the_floor() -> None:
    target = linux_target("570.86.16", "12.0")
    found = judge_driver(CudaVersion(13, 0), target, target.gpus[0], Policy())
    assert [reason.code for reason in found.refusals] == ["driver-too-old"]
    assert "580.65.06" in found.refusals[0].sentence
    assert found.refusals[0].facts["driver_min"] == "580.65.06"
    assert not found.refusals[0].sentence.endswith(".")


def test_minor_mode_is_said_and_can_be_ruled_out() -> None:
    target = linux_target("570.86.16", "8.0")
    assert answer("12.9", target) == (Mode.MINOR, ["minor-compat-in-use"])
    assert answer("12.9", target, Policy(modes=frozenset({Mode.NATIVE}))) == (None, ["requirements-conflict"])
    assert answer("12.8", target, Policy(modes=frozenset({Mode.NATIVE})))[0] is Mode.NATIVE


def test_forward_only_on_request_and_only_where_the_gpu_may_be_lifted() -> None:
    data_centre = linux_target("570.86.16", "9.0", forward_compatible=True)
    assert answer("13.0", data_centre)[0] is None
    assert answer("13.0", data_centre, FORWARD) == (Mode.FORWARD, ["compat-library-in-use"])
    unknown = linux_target("570.86.16", "9.0")
    assert answer("13.0", unknown, FORWARD)[0] is Mode.FORWARD
    geforce = linux_target("570.86.16", "8.9", forward_compatible=False)
    assert answer("13.0", geforce, FORWARD) == (None, ["compat-on-geforce"])


def test_forward_needs_a_package_for_the_driver_branch() -> None:
    target = linux_target("470.256.02", "8.0", forward_compatible=True)
    assert answer("13.0", target, FORWARD) == (None, ["driver-too-old"])


def test_an_active_library_lifts_without_being_asked_for() -> None:
    lifted = linux_target("535.161.08", "9.0", cuda="13.0", forward_compatible=True, forward_active=True)
    assert answer("13.0", lifted) == (Mode.FORWARD, ["compat-library-in-use"])
    assert answer("12.6", lifted)[0] is Mode.MINOR
    assert answer("13.0", lifted, Policy(modes=frozenset({Mode.NATIVE})))[0] is None
    geforce = linux_target("535.161.08", "8.9", cuda="13.0", forward_compatible=False, forward_active=True)
    assert answer("13.0", geforce) == (None, ["compat-on-geforce"])


def test_jetson_counts_by_the_cuda_that_its_driver_offers() -> None:
    thor = linux_target("580.00", "11.0", cuda="13.0", jetson=True)
    assert answer("13.0", thor)[0] is Mode.NATIVE
    orin = linux_target("540.4.0", "8.7", cuda="12.6", jetson=True)
    assert answer("12.6", orin)[0] is Mode.NATIVE
    assert answer("12.8", orin)[0] is Mode.MINOR
    assert answer("13.0", orin) == (None, ["driver-too-old"])
    assert answer("12.6", replace(orin, driver=None))[0] is Mode.NATIVE


def test_a_driver_that_no_longer_drives_a_gpu_is_no_use() -> None:
    assert answer("12.6", linux_target("610.43.02", "7.0")) == (None, ["architecture-end-of-life"])
    assert answer("12.6", linux_target("580.159.04", "7.0"))[0] is Mode.NATIVE
    assert answer("12.6", linux_target("535.161.08", "12.0")) == (None, ["driver-too-old"])


def test_windows_branches_span_several_numbers() -> None:
    volta = TargetGpu(compute_capability=ComputeCapability(7, 0))
    assert drives(DriverVersion("582.10"), volta, "windows") == "yes"
    assert drives(DriverVersion("610.10"), volta, "windows") == "dropped"


def test_unknown_driver_is_refused_not_guessed() -> None:
    target = replace(linux_target("580.65.06", "9.0"), driver=None, cuda_driver=None)
    assert answer("12.8", target) == (None, ["target-unknown"])


def test_lowest_driver_before_minor_version_compatibility() -> None:
    lowest = lowest_driver(CudaVersion(10, 2), "linux")
    assert lowest is not None
    assert reaches(DriverVersion("440.33"), lowest)
    assert not reaches(DriverVersion("418.87"), lowest)
