from __future__ import annotations

import pytest

from cudalock.compat.architecture import judge_architecture, serving_architecture
from cudalock.target.model import TargetGpu
from cudalock.versions import Architecture, ComputeCapability, CudaVersion


def serves(architectures: str, gpu: str, cuda: str = "12.8", libcuda: str | None = None) -> str | None:
    found = serving_architecture(
        tuple(Architecture.parse(word) for word in architectures.split()),
        ComputeCapability.parse(gpu),
        CudaVersion.parse(cuda),
        CudaVersion.parse(libcuda or cuda),
    )
    return str(found.architecture) if found.architecture else None


@pytest.mark.parametrize(
    ("architectures", "gpu", "expected"),
    [
        ("sm_80 sm_86 sm_90", "8.9", "sm_86"),
        ("sm_80 sm_90", "8.6", "sm_80"),
        ("sm_86", "8.0", None),
        ("sm_75 sm_80", "9.0", None),
        ("sm_90a", "9.0", "sm_90a"),
        ("sm_90 sm_90a", "9.0", "sm_90a"),
        ("sm_120a", "12.1", None),
        ("sm_120", "12.1", "sm_120"),
        ("sm_120f", "12.1", "sm_120f"),
        ("sm_121f", "12.0", None),
        ("sm_100f", "10.3", "sm_100f"),
        ("sm_103f", "10.0", None),
        ("sm_100f", "12.0", None),
        ("sm_100", "12.0", None),
        ("sm_110", "10.1", "sm_110"),
        ("sm_101", "11.0", "sm_101"),
        ("sm_101a", "11.0", "sm_101a"),
        ("sm_100", "10.1", None),
        ("sm_50 sm_52", "5.3", None),
        ("sm_60 sm_61", "6.2", None),
        ("sm_70", "7.2", None),
        ("sm_72", "7.5", None),
        ("sm_87", "8.9", None),
        ("sm_87", "8.7", "sm_87"),
    ],
)
def test_machine_code(architectures: str, gpu: str, expected: str | None) -> None:
    assert serves(architectures, gpu) == expected


def test_orin_takes_server_code_from_cuda_13_2_on() -> None:
    assert serves("sm_80 sm_86", "8.7", "13.0") is None
    assert serves("sm_80 sm_86", "8.7", "13.2") == "sm_86"
    assert serves("sm_80 sm_87", "8.7", "12.6") == "sm_87"


def test_ptx_is_second_to_machine_code() -> None:
    assert serves("sm_80 compute_86", "8.6") == "sm_80"
    assert serves("sm_80 compute_80 compute_90", "12.0") == "compute_90"
    assert serves("compute_90", "8.9") is None
    assert serves("compute_90a", "10.0") is None
    assert serves("compute_90a", "9.0") == "compute_90a"
    assert serves("compute_100f", "10.3") == "compute_100f"


@pytest.mark.parametrize(
    ("toolkit", "driver", "taken"),
    [
        ("13.0", "13.0", True),  # measured: driver 580 takes PTX ISA 9.0
        ("13.1", "13.0", False),  # and refuses 9.1, 9.3 and 9.4 with error 222
        ("13.4", "13.0", False),
        ("12.6", "12.5", True),  # one PTX ISA for both
        ("12.8", "12.6", False),
        ("12.8", "13.2", True),
        ("15.1", "15.0", False),  # beyond the tables: by the number
        ("15.0", "15.1", True),
    ],
)
def test_the_driver_must_know_the_ptx(toolkit: str, driver: str, taken: bool) -> None:
    assert (serves("compute_75", "9.0", toolkit, driver) == "compute_75") is taken


def test_reasons_tell_missing_code_from_ptx_that_is_too_new() -> None:
    gpu = TargetGpu(compute_capability=ComputeCapability(12, 0), name="RTX 5090")
    code = (Architecture.parse("sm_90"),)
    _, refusals, _ = judge_architecture(code, CudaVersion(12, 8), gpu, CudaVersion(12, 8))
    assert [reason.code for reason in refusals] == ["gpu-not-in-wheel"]
    assert "RTX 5090 (12.0)" in refusals[0].sentence
    assert refusals[0].facts["architectures"] == ["sm_90"]
    ptx = (*code, Architecture.parse("compute_90"))
    _, refusals, _ = judge_architecture(ptx, CudaVersion(13, 2), gpu, CudaVersion(13, 0))
    assert [reason.code for reason in refusals] == ["ptx-newer-than-driver"]
    serving, refusals, notes = judge_architecture(ptx, CudaVersion(12, 8), gpu, CudaVersion(13, 0))
    assert (str(serving.architecture), refusals) == ("compute_90", ())
    assert [note.code for note in notes] == ["gpu-only-by-ptx"]
