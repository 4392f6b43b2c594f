"""Storms: what counts, what does not, and what is advised."""

from __future__ import annotations

from typing import Any

import pytest

from cudalock.facts import finding_codes
from cudalock.findings import Finding
from cudalock.watch import WatchReport, make_report
from watch.test_causes import ONE, argument, constexpr


def event(number: int = 0, **changes: Any) -> dict[str, Any]:
    arguments = {"x": argument("*fp32", divisible=True), "n": argument(), "BLOCK": constexpr(64)}
    arguments |= changes.pop("arguments", {})
    return {
        "event": "kernel", "action": "compiled", "pid": 1, "time": number, "kernel": "add_k", "module": "m",
        "file": "/m.py", "line": 3, "source": "abc", "arguments": arguments, "options": {"num_warps": 4},
        "target": ["cuda", 90], "device": 0, "seconds": 0.5, **changes,
    }  # fmt: skip


def blocks(count: int, **more: Any) -> list[dict[str, Any]]:
    return [event(n, arguments={"BLOCK": constexpr(n)}, **more) for n in range(count)]


def storm(report: WatchReport) -> Finding:
    (finding,) = report.findings
    assert finding.code == "recompile-storm"
    assert finding.severity == finding_codes()["recompile-storm"].severity == "warning"
    return finding


def test_a_storm_is_one_above_the_threshold() -> None:
    assert make_report(blocks(20)).findings == ()
    finding = storm(make_report(blocks(21)))
    assert finding.message == "kernel add_k was compiled 21 times (threshold 20): 10.5 s"
    assert finding.evidence["causes"] == [{"kind": "constexpr", "argument": "BLOCK", "count": 20}]
    assert finding.cause == "what changed: the constexpr BLOCK (20 times)"
    assert finding.fix == "round BLOCK up to a few values, or pass it as an ordinary argument"


def test_ranks_that_compile_the_same_are_no_storm() -> None:
    events = [item for pid in range(8) for item in blocks(5, pid=pid)]
    report = make_report(events, threshold=5)
    assert report.compiled == 40
    assert report.findings == ()
    assert storm(make_report(blocks(6, pid=1) + blocks(6, pid=2), threshold=5)).evidence["compiled"] == 6


def test_variants_that_are_spread_over_workers_add_up() -> None:
    events = [{**item, "pid": n} for n, item in enumerate(blocks(10))]
    assert storm(make_report(events, threshold=9)).evidence["compiled"] == 10


def test_what_is_loaded_from_disk_is_no_storm() -> None:
    report = make_report(blocks(50, action="loaded"), threshold=5)
    assert (report.compiled, report.loaded, report.findings) == (0, 50, ())


def test_an_autotuner_counts_once_for_each_variant_that_it_tunes() -> None:
    rounds = [
        item | {"arguments": item["arguments"] | {"x": argument(kind)}, "tuned": ["BLOCK", "num_warps"]}
        for kind in ("*fp32", "*fp16", "*bf16")
        for item in blocks(30)
    ]
    assert make_report(rounds, threshold=3).findings == ()
    assert storm(make_report(rounds, threshold=2)).evidence["compiled"] == 3


def test_the_same_variant_again_and_again() -> None:
    finding = storm(make_report([event(n) for n in range(9)], threshold=5))
    assert finding.evidence["causes"] == [{"kind": "again", "argument": None, "count": 8}]
    assert "define the kernel once" in str(finding.fix)


def test_autocast_and_a_capture_are_named() -> None:
    kinds = ["*fp32", "*bf16", "*fp16"]
    events = [
        event(
            n,
            arguments={"x": argument(kinds[n % 3], divisible=True)},
            device=n // 3,
            autocast=None if n % 3 == 0 else "bfloat16",
            capturing=n % 3 == 1,
        )
        for n in range(6)
    ]
    finding = storm(make_report(events, threshold=5))
    assert finding.evidence["autocast"] == ["bfloat16", "off"]
    assert finding.evidence["while_capturing"] == 2
    assert "autocast was bfloat16 and off" in str(finding.cause)
    assert "2 of them while a CUDA graph was being captured" in str(finding.cause)
    assert "run each variant once before the CUDA graph is captured" in str(finding.fix)


@pytest.mark.parametrize(
    ("changed", "advice"),
    [
        ({"n": ONE}, 'do_not_specialize=["n"]'),
        ({"n": argument(divisible=True)}, 'do_not_specialize_on_alignment=["n"]'),
        ({"x": argument("*fp16", divisible=True)}, "pass x in one type"),
    ],
)
def test_the_advice_fits_the_cause(changed: dict[str, Any], advice: str) -> None:
    finding = storm(make_report([event(), event(1, arguments=changed)], threshold=1))
    assert advice in str(finding.fix)


def test_kernels_of_inductor_are_told_apart_by_their_text() -> None:
    """Each graph numbers its kernels anew: one name is many kernels."""
    made = "/tmp/torchinductor_me/aa/cabc.py"
    events = [event(n, kernel="triton_poi_fused_add_0", file=f"{made}{n}", source=str(n)) for n in range(30)]
    report = make_report(events)
    assert (len(report.kernels), report.findings) == (30, ())


def test_a_function_that_torch_compile_gives_up_on() -> None:
    events = [
        {
            "event": "torch-compile",
            "function": "step",
            "file": "/m.py",
            "line": 7,
            "reason": reason,
            "limit": 8,
            "time": 0,
        }
        for reason in [None, *["___check_global_state() against autocast"] * 7]
    ]
    finding = storm(make_report(events))
    assert finding.message == (
        "torch.compile compiled step 8 times, its limit of 8: further calls run without compilation"
    )
    assert finding.cause == "it was compiled again because: ___check_global_state() against autocast"
    assert make_report(events[:7]).findings == ()


def test_events_that_say_little_are_no_crash() -> None:
    report = make_report([{}, {"event": "kernel"}, {"event": "triton", "version": None}, {"event": "unsupported"}])
    assert report.compiled == 0
    assert report.to_json()["processes"] == 1
