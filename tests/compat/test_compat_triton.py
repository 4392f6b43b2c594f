from __future__ import annotations

import pytest
from packaging.version import Version

from cudalock.builds.assembler import known_triton
from cudalock.compat.model import Policy
from cudalock.compat.triton import TritonAnswer, assembler_target, judge_triton, triton_verdict
from cudalock.target.model import TargetGpu
from cudalock.versions import ComputeCapability, CudaVersion
from support.judging import linux_target, make_triton


def ask(version: str, gpu: str, libcuda: str, policy: Policy | None = None) -> TritonAnswer:
    release = known_triton(Version(version))
    assert release is not None
    kind = TargetGpu(compute_capability=ComputeCapability.parse(gpu))
    return judge_triton(release, kind, CudaVersion.parse(libcuda), policy or Policy())


def codes(answer: TritonAnswer) -> list[str]:
    return [reason.code for reason in answer.refusals]


@pytest.mark.parametrize(
    ("version", "gpu", "assembler"),
    [
        ("3.3.1", "9.0", "ptxas 12.4"),
        ("3.3.1", "10.0", "ptxas-blackwell 12.8"),
        ("3.5.1", "12.0", "ptxas 12.8"),
        ("3.6.0", "12.0", "ptxas-blackwell 12.9"),
        ("3.8.0", "9.0", "ptxas 12.9"),
        ("3.9.0", "9.0", "ptxas-blackwell 13.4"),
        ("3.9.0", "8.9", "ptxas 12.9"),
    ],
)
def test_which_assembler(version: str, gpu: str, assembler: str) -> None:
    assert ask(version, gpu, "13.5").text == assembler


# Cross-compilations run without a GPU, CPython 3.11: what each release made machine code for, and what it did not.
@pytest.mark.parametrize(
    ("version", "compiled", "failed"),
    [
        ("3.2.0", "7.0 7.5 8.0 8.6 8.9 9.0", "10.0 10.3 11.0 12.0 12.1"),
        ("3.3.1", "7.0 7.5 8.0 8.6 8.9 9.0 10.0 12.0", "10.3 11.0 12.1"),
        ("3.4.0", "7.0 7.5 8.0 8.6 8.9 9.0 10.0 12.0", "10.3 11.0 12.1"),
        ("3.5.1", "7.0 7.5 8.0 8.6 8.9 9.0 10.0 12.0", "10.3 11.0 12.1"),
        ("3.6.0", "7.0 7.5 8.0 8.6 8.9 9.0 10.0 10.3 12.0 12.1", "11.0"),
        ("3.7.1", "7.0 7.5 8.0 8.6 8.9 9.0 10.0 10.3 11.0 12.0 12.1", ""),
        ("3.8.0", "7.0 7.5 8.0 8.6 8.9 9.0 10.0 10.3 11.0 12.0 12.1", ""),
        ("3.9.0", "7.0 7.5 8.0 8.6 8.9 9.0 10.0 10.3 11.0 12.0 12.1", ""),
    ],
)
def test_agrees_with_the_cross_compilations(version: str, compiled: str, failed: str) -> None:
    assert [gpu for gpu in compiled.split() if codes(ask(version, gpu, "13.5"))] == []
    for gpu in failed.split():
        assert codes(ask(version, gpu, "13.5")) == ["assembler-does-not-know-gpu"]


def test_what_the_assembler_is_asked_for() -> None:
    asked = [
        assembler_target(Version(version), ComputeCapability.parse(gpu))
        for version, gpu in [
            ("3.2.0", "9.0"),
            ("3.2.0", "10.0"),
            ("3.6.0", "11.0"),
            ("3.6.0", "8.9"),
            ("3.9.0", "12.1"),
        ]
    ]
    assert asked == ["sm_90a", "sm_100", "sm_110a", "sm_89", "sm_121a"]
    assert "sm_110a" in ask("3.6.0", "11.0", "13.0").refusals[0].sentence


def test_the_assemblers_major_must_not_exceed_the_drivers() -> None:
    refused = ask("3.7.1", "12.0", "12.8")
    assert codes(refused) == ["assembler-newer-than-driver"]
    assert refused.refusals[0].facts["evidence"] == "inferred"
    assert codes(ask("3.6.0", "12.0", "12.8")) == []
    assert codes(ask("3.7.1", "9.0", "12.8")) == []  # below the threshold ptxas 12.8 does the work
    assert codes(ask("3.9.0", "9.0", "12.9")) == ["assembler-newer-than-driver"]


def test_an_older_minor_of_the_driver_is_no_hindrance() -> None:
    assert codes(ask("3.8.0", "8.0", "12.0")) == []


@pytest.mark.parametrize(
    ("gpu", "libcuda", "because"),
    [("6.1", "13.0", "capability"), ("8.0", "11.4", "driver"), ("3.7", "11.4", "capability")],
)
def test_passengers(gpu: str, libcuda: str, because: str) -> None:
    answer = ask("3.9.0", gpu, libcuda)
    assert (answer.text, answer.refusals, answer.needs_major) == ("passenger", (), None)
    assert [(note.code, note.facts["because"]) for note in answer.notes] == [("gpu-below-triton", because)]


def test_7_0_and_7_5_are_below_the_stated_minimum_but_no_passengers() -> None:
    for gpu in ("7.0", "7.5"):
        answer = ask("3.8.0", gpu, "13.0")
        assert [note.code for note in answer.notes] == ["triton-below-stated-minimum"]
        assert answer.needs_major == 12
    assert ask("3.8.0", "8.0", "13.0").notes == ()
    assert ask("3.2.0", "7.0", "13.0").notes == ()  # its README still said 7.0


def test_waived_rule_refuses_nothing_and_says_what_it_would_have_refused() -> None:
    answer = ask("3.7.1", "12.0", "12.8", Policy(without_triton=True))
    assert (answer.refusals, answer.needs_major) == ((), None)
    assert [note.code for note in answer.notes] == ["assembler-newer-than-driver"]
    assert answer.notes[0].facts["waived"] is True


def test_a_toolkit_beyond_the_tables_is_believed() -> None:
    release = make_triton("9.9", "19.0")
    kind = TargetGpu(compute_capability=ComputeCapability(15, 0))
    assert judge_triton(release, kind, CudaVersion(19, 0), Policy()).refusals == ()


def test_whole_target() -> None:
    release = known_triton(Version("3.7.1"))
    assert release is not None
    verdicts, refusals = triton_verdict(release, linux_target("570.86.16", "12.0", "8.6", "6.1"), Policy())
    assert [(str(one.gpu), one.triton) for one in verdicts] == [
        ("6.1", "passenger"),
        ("8.6", "ptxas 12.8"),
        ("12.0", "ptxas-blackwell 13.1"),
    ]
    assert [str(one.driver_min) for one in verdicts] == ["None", "525.60.13", "580.65.06"]
    assert [reason.code for reason in refusals] == ["assembler-newer-than-driver"]
