from __future__ import annotations

from dataclasses import replace

from cudalock.compat.judging import judge
from cudalock.compat.model import Policy
from cudalock.compat.remedy import Remedy, refusals_by_fact, remedies, unlocked_by_driver
from cudalock.target.model import Target
from support.judging import linux_target, torch_options


def offered(target: Target, pin: str = "", policy: Policy | None = None) -> dict[str, Remedy]:
    found = remedies(torch_options(pin), target, policy or Policy(), asked=f"torch{pin}" if pin else "")
    return {remedy.kind: remedy for remedy in reversed(found)}


def test_blackwell_on_570_with_a_pin() -> None:
    found = offered(linux_target("570.86.16", "12.0"), "==2.13.0")
    assert found["pin"].admits == "2.11.0+cu128"
    assert "torch==2.13.0" in found["pin"].sentence
    assert found["without-triton"].admits == "2.13.0+cu129"
    assert found["without-triton"].option == "--without-triton"
    assert found["assembler"].option == "TRITON_PTXAS_BLACKWELL_PATH"
    assert found["assembler"].facts["ptxas"] == "12.9"
    assert found["driver"].facts["driver"] == "580.65.06"
    assert found["driver"].admits == "2.13.0"
    assert found["driver"].to_json()["verified_by_rules"] is True


def test_cheapest_first() -> None:
    kinds = [one.kind for one in remedies(torch_options("==2.13.0"), linux_target("570.86.16", "12.0"), Policy())]
    assert kinds == sorted(kinds, key=["pin", "without-triton", "assembler", "forward", "driver", "gpus"].index)


def test_pin_too_old_for_the_gpu_names_the_first_release_that_is_not() -> None:
    found = offered(linux_target("580.65.06", "12.0"), "==2.5.1")
    assert found["pin"].facts["first"] == "2.7.0+cu128"
    assert "driver" not in found  # no driver puts code into a wheel


def test_no_new_driver_for_a_gpu_that_it_drops() -> None:
    found = offered(linux_target("570.86.16", "7.0"), ">=2.15")
    assert "driver" not in found
    assert found["pin"].admits == "2.14.1+cu126"


def test_a_driver_that_dropped_the_gpu_is_answered_with_the_last_that_did_not() -> None:
    found = offered(linux_target("610.43.02", "7.0"))
    assert found["driver"].facts["driver"].startswith("580.")
    assert found["driver"].admits == "2.14.1+cu126"


def test_which_gpus_go_together() -> None:
    target = linux_target("580", "6.1", "8.6", "12.0")
    found = [one for one in remedies(torch_options(), target, Policy()) if one.kind == "gpus"]
    assert [one.facts["gpus"] for one in found] == [["6.1", "8.6"], ["8.6", "12.0"]]


def test_forward_compatibility_is_offered_to_data_centre_gpus_only() -> None:
    server = linux_target("570.86.16", "9.0", forward_compatible=True)
    assert offered(server, ">=2.15")["forward"].facts["package"] == "cuda-compat-13-0"
    gaming = linux_target("570.86.16", "9.0", forward_compatible=False)
    assert "forward" not in offered(gaming, ">=2.15")


def test_an_override_must_know_all_gpus_and_need_one_variable() -> None:
    thor = replace(linux_target("580.00", "11.0", cuda="12.9"), jetson=True)
    assert "assembler" not in offered(thor, "==2.13.0")


def test_what_a_newer_driver_would_unlock() -> None:
    target = linux_target("570.86.16", "12.0")
    chosen = next(one.build for one in torch_options() if str(one.build.version) == "2.11.0+cu128")
    unlocked = unlocked_by_driver(torch_options(), target, Policy(), chosen)
    assert unlocked is not None
    assert (unlocked.facts["driver"], unlocked.admits) == ("580.65.06", "2.15.0+cu130")
    newest = next(one.build for one in torch_options() if str(one.build.version) == "2.15.0")
    assert unlocked_by_driver(torch_options(), target, Policy(), newest) is None


def test_the_facts_that_clash_most_come_first() -> None:
    target = linux_target("570.86.16", "12.0")
    verdicts = [
        judge(one.build, target, triton=one.triton, policy=Policy()) for one in torch_options("==2.13.0") if one.wanted
    ]
    assert refusals_by_fact(verdicts)[0].code == "assembler-newer-than-driver"
    assert {reason.code for reason in refusals_by_fact(verdicts)} == {
        "assembler-newer-than-driver",
        "driver-too-old",
        "gpu-not-in-wheel",
    }


def test_nothing_helps_is_an_answer() -> None:
    assert remedies(torch_options(), linux_target("390.157", "2.1"), Policy()) == ()
