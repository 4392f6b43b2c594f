from __future__ import annotations

from dataclasses import replace

import pytest

from cudalock.compat.judging import judge, judge_without_triton, preference
from cudalock.compat.model import Mode, Policy
from cudalock.compat.remedy import best_admitted
from cudalock.target.model import Target, TargetGpu
from cudalock.versions import ComputeCapability
from support.judging import linux_target, make_build, make_triton, torch_options


def choose(target: Target, pin: str = "", policy: Policy | None = None) -> tuple[str, str] | None:
    wanted = [option for option in torch_options(pin) if option.wanted]
    best = best_admitted(wanted, target, policy or Policy())
    return None if best is None else (str(best[0].build.version), str(best[0].build.cuda))


@pytest.mark.parametrize(
    ("driver", "gpus", "pin", "expected"),
    [
        ("580", "7.0", "<2.15", ("2.14.1+cu126", "12.6")),
        ("580", "7.0", "", ("2.14.1+cu126", "12.6")),
        ("535.161.08", "8.9", "", ("2.14.1+cu126", "12.6")),
        ("580", "6.1", "", ("2.14.1+cu126", "12.6")),
        ("570.86.16", "12.0", "", ("2.11.0+cu128", "12.8")),
        ("570.86.16", "12.0", "==2.13.0", None),
        ("570", "9.0", "", ("2.14.1+cu126", "12.6")),
        ("610.43", "12.0", "", ("2.15.0", "13.2")),
        ("580", "7.0 10.0", "", ("2.10.0", "12.8")),
        ("580", "6.1 12.0", "", None),
        ("535.161.08", "8.0", "==2.6.0", ("2.6.0", "12.4")),
        ("580", "9.0", "==2.9.1", ("2.9.1", "12.8")),
        ("450.80.02", "8.0", "", ("2.7.1+cu118", "11.8")),
    ],
)
def test_choice_from_the_tables(driver: str, gpus: str, pin: str, expected: tuple[str, str] | None) -> None:
    assert choose(linux_target(driver, *gpus.split()), pin) == expected


def test_order_of_builds_by_the_documented_examples() -> None:
    builds = [
        make_build("2.15.0", "13.2", "sm_90"),
        make_build("2.15.0+cu130", "13.0", "sm_90", source="pytorch"),
        make_build("2.15.0+cu134", "13.4", "sm_90", source="pytorch"),
        make_build("2.15.0+cu126", "12.6", "sm_90", source="pytorch"),
        make_build("2.15.0+cu128", "12.8", "sm_90", source="pytorch"),
        make_build("2.15.0+cu132", "13.2", "sm_90", source="pytorch"),
    ]

    def order(driver: str) -> list[str]:
        target = linux_target(driver, "9.0")
        verdicts = [(build, judge_without_triton(build, target, Policy())) for build in builds]
        admitted = [(build, verdict) for build, verdict in verdicts if verdict.admitted]
        return [str(b.version) for b, _ in sorted(admitted, key=lambda one: preference(one[0], one[1], target))]

    assert order("580") == ["2.15.0+cu130", "2.15.0", "2.15.0+cu132", "2.15.0+cu134", "2.15.0+cu128", "2.15.0+cu126"]
    assert order("595.58.03")[:2] == ["2.15.0", "2.15.0+cu132"]
    assert order("615.31")[:2] == ["2.15.0", "2.15.0+cu134"]
    assert order("575.57.08") == ["2.15.0+cu128", "2.15.0+cu126"]
    assert order("560.35.05") == ["2.15.0+cu126", "2.15.0+cu128"]
    assert order("535.161.08") == ["2.15.0+cu126", "2.15.0+cu128"]  # both by minor-version: the nearest first


def test_main_by_minor_compatibility_comes_before_an_older_major() -> None:
    target = linux_target("535.161.08", "8.0")
    main = make_build("2.6.0", "12.4", "sm_80")
    old = make_build("2.6.0+cu118", "11.8", "sm_80", source="pytorch")
    keys = [preference(one, judge_without_triton(one, target, Policy()), target) for one in (main, old)]
    assert keys[0] < keys[1]


def test_a_cpu_build_is_never_an_answer_for_gpus() -> None:
    cpu = make_build("2.9.0", None, "")
    verdict = judge(cpu, linux_target("580", "9.0"), triton=None, policy=Policy())
    assert [reason.code for reason in verdict.refusals] == ["torch-is-cpu-build"]
    asked = replace(linux_target("580"), cpu=True, driver=None, cuda_driver=None)
    assert judge(cpu, asked, triton=None, policy=Policy()).admitted
    assert not judge(make_build("2.9.0", "12.8", "sm_90"), asked, triton=None, policy=Policy()).admitted


def test_a_target_without_gpus_admits_nothing() -> None:
    verdict = judge(make_build("2.9.0", "12.8", "sm_90"), linux_target("580"), triton=None, policy=Policy())
    assert [reason.code for reason in verdict.refusals] == ["target-unknown"]


@pytest.mark.parametrize(("asked", "admitted"), [("12.8", True), ("cu128", True), ("12.6", False)])
def test_named_cuda(asked: str, admitted: bool) -> None:
    build = make_build("2.9.0", "12.8", "sm_90")
    verdict = judge(build, linux_target("580", "9.0"), triton=None, policy=Policy(cuda=asked))
    assert verdict.admitted is admitted
    assert [reason.rule for reason in verdict.refusals] == ([] if admitted else ["choice"])


def test_every_refusal_is_given_and_once() -> None:
    build = make_build("2.13.0", "13.0", "sm_80 sm_90", triton="==3.7.1")
    target = linux_target("570.86.16", "12.0", "12.0", "8.6")
    verdict = judge(build, target, triton=make_triton("3.7.1", "12.8", "13.1", 100), policy=Policy())
    assert sorted(reason.code for reason in verdict.refusals) == [
        "assembler-newer-than-driver",
        "driver-too-old",
        "gpu-not-in-wheel",
    ]
    assert verdict.mode is None
    for reason in verdict.refusals:
        assert "\n" not in reason.sentence
        assert not reason.sentence.endswith(".")
        assert reason.to_json()["message"] == reason.sentence


def test_lowest_driver_of_each_gpu() -> None:
    build = make_build("2.14.1+cu126", "12.6", "sm_60 sm_80 compute_90", source="pytorch", triton="~=3.8.0")
    triton = make_triton("3.8.0", "12.9", "13.3", 100)
    verdict = judge(build, linux_target("580.65.06", "12.0", "6.1", "8.6"), triton=triton, policy=Policy())
    assert verdict.admitted
    assert [(str(one.gpu), one.serves, one.by_ptx, str(one.driver_min)) for one in verdict.gpus] == [
        ("6.1", "sm_60", False, "525.60.13"),
        ("8.6", "sm_80", False, "525.60.13"),
        ("12.0", "compute_90", True, "580.65.06"),
    ]
    waived = judge(build, linux_target("580", "12.0"), triton=triton, policy=Policy(without_triton=True))
    first = waived.gpus[0].driver_min
    assert first is not None
    assert first.branch == 570  # no older one drives it


def test_forward_is_one_library_for_all_gpus() -> None:
    build = make_build("2.13.0", "13.0", "sm_80 sm_90", triton="==3.7.1")
    triton = make_triton("3.7.1", "12.8", "13.1", 100)
    policy = Policy(modes=frozenset(Mode))
    server = TargetGpu(compute_capability=ComputeCapability(9, 0), forward_compatible=True)
    gaming = TargetGpu(compute_capability=ComputeCapability(8, 6), forward_compatible=False)
    alone = replace(linux_target("570.86.16"), gpus=(server,))
    verdict = judge(build, alone, triton=triton, policy=policy)
    assert (verdict.mode, verdict.admitted) == (Mode.FORWARD, True)
    assert str(verdict.gpus[0].driver_min).startswith("535")
    both = judge(build, replace(alone, gpus=(server, gaming)), triton=triton, policy=policy)
    assert {reason.code for reason in both.refusals} == {"compat-on-geforce"}


def test_no_triton_required_is_said() -> None:
    build = make_build("2.5.1", "12.4", "sm_90")
    verdict = judge(build, linux_target("580", "9.0"), triton=None, policy=Policy())
    assert verdict.admitted
    assert [note.code for note in verdict.notes] == ["triton-missing"]
    assert verdict.gpus[0].triton == "none"
    assert judge_without_triton(build, linux_target("580", "9.0"), Policy()).notes == ()
