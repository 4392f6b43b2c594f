"""Many targets in one run: what an earlier target's answer serves for is what would have been found anew, to the word."""

from __future__ import annotations

from functools import cache

import pytest
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from cudalock.compat import Mode, Policy
from cudalock.errors import CudalockError
from cudalock.lock import build_lock, complete_hashes
from cudalock.requirements.model import AskedRequirement, Request
from cudalock.resolve import Earlier, Resolution, ResolveOptions, resolve
from cudalock.target import Target, TargetOptions, build_target
from faithful.reader import FaithfulReader

CARDS = ("5.0", "7.0", "7.5", "8.0", "8.9", "9.0", "10.0", "12.0")
MIXED = (("7.0", "10.0"), ("7.5", "9.0"), ("6.1", "12.0"))
DRIVERS = ("470.256.02", "525.147.05", "535.161.08", "550.54.15", "570.86.16", "580.65.06", "590.44.01", "610.43")
REQUESTS = {
    "torch": ("torch",),
    "vision": ("torch", "torchvision", "torchaudio"),
    "pinned": ("torch==2.6.*", "xformers"),
    "older": ("torch<2.9", "triton"),
    "label": ("torch==2.7.1+cu126",),
    "plain": ("numpy", "filelock"),
    "needs-8.0": ("flash-attn", "torch"),
}
POLICIES = {
    "default": Policy(),
    "forward": Policy(modes=frozenset(Mode)),
    "cuda": Policy(cuda="12.8"),
    "without-triton": Policy(without_triton=True),
}


@cache
def targets(python: str = "3.12", platform: str = "linux-x86_64") -> tuple[Target, ...]:
    found = []
    for gpus in [(card,) for card in CARDS] + list(MIXED):
        for driver in DRIVERS:
            try:
                found.append(build_target(TargetOptions(gpus=gpus, driver=driver, python=python, platform=platform)))
            except CudalockError as error:
                if error.code != "driver-does-not-drive-gpu":
                    raise
    return tuple(found)


def request(*texts: str) -> Request:
    return Request(
        requirements=tuple(AskedRequirement(requirement=Requirement(text), origin="argument") for text in texts)
    )


def answer(
    asked: Request, target: Target, reader: FaithfulReader, policy: Policy, pytorch: str, preferred: dict[str, str],
    earlier: Earlier | None,
) -> Resolution | tuple[str, str]:  # fmt: skip
    kept: dict[NormalizedName, Version] = {canonicalize_name(name): Version(text) for name, text in preferred.items()}
    options = ResolveOptions(pytorch=pytorch)  # type: ignore[arg-type] # one of three words
    try:
        return resolve(asked, target, reader, policy=policy, preferred=kept, options=options, earlier=earlier)
    except CudalockError as error:
        return error.code, error.message


@pytest.mark.slow
@pytest.mark.parametrize("pytorch", ["auto", "never"])
@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("policy", POLICIES)
def test_an_answer_that_serves_again_is_the_answer(name: str, policy: str, pytorch: str) -> None:
    asked, chosen = request(*REQUESTS[name]), POLICIES[policy]
    for preferred in ({}, {"torch": "2.6.0"}) if policy == "default" else ({},):
        reader, earlier, answered = FaithfulReader(), Earlier(), 0
        for target in targets():
            alone = answer(asked, target, FaithfulReader(), chosen, pytorch, preferred, None)
            again = answer(asked, target, reader, chosen, pytorch, preferred, earlier)
            assert again == alone, target
            answered += isinstance(alone, Resolution)
        assert len(earlier) <= max(answered, 1)
        if answered > 40:
            assert len(earlier) < answered / 2, "hardly any answer served again"


def test_targets_of_other_pythons_platforms_and_requests_are_kept_apart() -> None:
    reader, earlier = FaithfulReader(), Earlier()
    kinds = [("3.12", "linux-x86_64"), ("3.11", "linux-x86_64"), ("3.12", "linux-aarch64"), ("3.12", "win-amd64")]
    for texts in (("torch",), ("torch<2.9",)):
        for python, platform in kinds:
            options = TargetOptions(gpus=("9.0",), driver="580.65.06", python=python, platform=platform)
            target = build_target(options)
            for policy in (Policy(), Policy(cuda="12.8")):
                alone = answer(request(*texts), target, FaithfulReader(), policy, "auto", {}, None)
                assert answer(request(*texts), target, reader, policy, "auto", {}, earlier) == alone


def test_locks_are_the_same_to_the_byte() -> None:
    asked, reader, earlier = request("torch", "torchvision"), FaithfulReader(), Earlier()
    for target in targets()[-30:]:
        locks = []
        for before in (None, earlier):
            found = answer(asked, target, reader, Policy(), "auto", {}, before)
            if isinstance(found, Resolution):
                locks.append(build_lock(complete_hashes(found, reader), target, asked, Policy()).text)
        assert len(set(locks)) <= 1


def test_nothing_is_kept_of_a_run_without_the_pytorch_index() -> None:
    earlier = Earlier()
    target = build_target(TargetOptions(gpus=("9.0",), driver="580.65.06", python="3.12", platform="linux-x86_64"))
    found = answer(request("torch"), target, FaithfulReader(pytorch_reachable=False), Policy(), "auto", {}, earlier)
    assert isinstance(found, Resolution)
    assert [warning.code for warning in found.warnings] == ["pytorch-index-unreachable"]
    assert len(earlier) == 0
