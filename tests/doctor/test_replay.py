"""A facts file as evidence: what it names is known, everything else is not."""

from __future__ import annotations

from typing import Any

import pytest

from cudalock.doctor import DoctorReport, evidence_from_facts, make_report, with_reports
from cudalock.host import parse_facts

RTX_5090 = {"name": "NVIDIA GeForce RTX 5090", "compute_capability": "12.0"}
A100 = {"name": "NVIDIA A100-SXM4-80GB", "compute_capability": "8.0"}


def replay(host: dict[str, Any], **environment: Any) -> DoctorReport:
    return make_report(evidence_from_facts(*parse_facts({"schema": 1, "host": host, "environment": environment})))


def codes(report: DoctorReport, severity: str = "error") -> list[str]:
    return [finding.code for finding in report.findings if finding.severity == severity]


def test_nothing_known_nothing_found() -> None:
    report = replay({})
    assert report.findings == ()
    assert any("driver" in step for step in report.next)
    assert any("capability" in step for step in report.next)
    assert any("packages" in step for step in report.next)


def test_the_example_of_the_contract() -> None:
    report = replay(
        {"os": "linux", "machine": "x86_64", "libc": "glibc 2.35", "driver": "570.124.06", "cuda_driver": "12.8",
         "gpus": [{**RTX_5090, "count": 2}], "python": "3.11.9", "container": {"require_cuda": "cuda>=12.8"}},
        packages={"torch": "2.7.0+cu126", "triton": "3.3.0"},
        variables={"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"},
        libraries={"libcuda.so.1": "/usr/lib/x86_64-linux-gnu/libcuda.so.1"},
        tools={"cc": None},
    )  # fmt: skip
    assert codes(report) == ["gpu-not-in-wheel", "host-compiler-missing"]
    assert report.findings[0].fix_verified_by_rules
    assert "2.7.0+cu128" in str(report.findings[0].fix)


@pytest.mark.parametrize("driver", [None, "580.65.06"])
def test_a_finding_needs_its_facts(driver: str | None) -> None:
    """PTX that only a driver could refuse, and an assembler's major, are not judged without a driver."""
    host = {"gpus": [RTX_5090], **({"driver": driver} if driver else {})}
    assert codes(replay(host, packages={"torch": "2.15.0+cu130", "triton": "3.9.0"})) == []


def test_a_label_alone_says_what_no_build_of_it_holds() -> None:
    assert codes(replay({"gpus": [RTX_5090]}, packages={"torch": "cu124"})) == ["gpu-not-in-wheel"]
    assert codes(replay({"gpus": [A100]}, packages={"torch": "cu124"})) == []


def test_a_nightly_is_judged_by_its_neighbours() -> None:
    report = replay({"gpus": [RTX_5090]}, packages={"torch": "2.7.0.dev20250310+cu124"})
    assert report.findings[0].evidence["evidence"] == "inferred"


def test_libraries_of_another_machine() -> None:
    report = replay(
        {"driver": "535.161.08", "gpus": [A100]},
        libraries={"libcuda.so.1": "/opt/conda/lib/libcuda.so.450.80.02"},
        variables={"CONDA_PREFIX": "/opt/conda"},
    )
    assert codes(report) == ["libcuda-shadowed"]


def test_assembler_named_by_its_folder() -> None:
    report = replay(
        {"driver": "580.65.06", "gpus": [RTX_5090]},
        packages={"torch": "2.9.1+cu128", "triton": "3.5.1"},
        variables={"TRITON_PTXAS_PATH": "/usr/local/cuda-12.1/bin/ptxas"},
    )
    assert codes(report) == ["assembler-overridden"]


def test_driver_of_cuda_11_and_triton() -> None:
    """A passenger is no fault until a program met it."""
    packages = {"torch": "2.2.0+cu118", "triton": "2.2.0"}
    host = {"driver": "470.57.02", "gpus": [A100]}
    assert codes(replay(host, packages=packages)) == []
    words = "RuntimeError: Triton Error [CUDA]: device kernel image is invalid"
    report = make_report(
        evidence_from_facts(
            *parse_facts({"schema": 1, "host": host, "environment": {"packages": packages, "errors": [words]}})
        )
    )
    assert codes(report) == ["assembler-newer-than-driver"]
    assert report.findings[0].fix_verified_by_rules


NO_IMAGE = "RuntimeError: CUDA error: no kernel image is available for execution on the device"


@pytest.mark.parametrize(
    ("gpus", "torch", "words", "first"),
    [
        ([RTX_5090], "2.7.0+cu128", NO_IMAGE, "extension-lacks-gpu"),
        ([RTX_5090], "2.7.0+cu126", NO_IMAGE, "gpu-not-in-wheel"),
        # what is not known excludes nothing: another GPU, a build that no table knows, no build at all
        ([RTX_5090, {"name": "NVIDIA GPU"}], "2.7.0+cu128", NO_IMAGE, "gpu-not-in-wheel"),
        ([RTX_5090], "2.9.0.dev20250801+cu128", NO_IMAGE, "gpu-not-in-wheel"),
        ([RTX_5090], None, NO_IMAGE, "gpu-not-in-wheel"),
        # torch's own words are about torch
        (
            [RTX_5090],
            "2.7.0+cu128",
            "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.",
            "gpu-not-in-wheel",
        ),
    ],
)
def test_whose_code_is_missing(gpus: list[Any], torch: str | None, words: str, first: str) -> None:
    packages = {"flash-attn": "2.8.3", **({"torch": torch} if torch else {})}
    facts = {"schema": 1, "host": {"gpus": gpus}, "environment": {"packages": packages, "errors": [words]}}
    finding = make_report(with_reports(evidence_from_facts(*parse_facts(facts)))).findings[0]
    assert finding.code == first
    assert finding.evidence.get("candidates") == (["flash-attn"] if first == "extension-lacks-gpu" else None)


def test_same_facts_same_answer() -> None:
    host, packages = {"driver": "470.57.02", "gpus": [A100, RTX_5090]}, {"torch": "2.9.1", "triton": "3.4.0"}
    assert replay(host, packages=packages) == replay(host, packages=packages)
