"""A lock beside what is asked now, and beside another lock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from packaging.requirements import Requirement

from cudalock.compat.model import Mode, Policy
from cudalock.lock import build_lock, diff_locks, outdated, preferred_pins, recorded_policy, recorded_request
from cudalock.lock.model import Lock
from cudalock.requirements import parse_exclude_newer
from cudalock.requirements.model import AskedRequirement, Request
from cudalock.resolve.model import Resolution
from cudalock.target.model import Target
from support.locks import a_lock, asked, linux_target, pin, request

H100 = linux_target("9.0")


def made(wanted: Request, policy: Policy | None = None, target: Target = H100) -> Lock:
    pins = (
        pin("direct-3-py3-none-any.whl"),
        pin("numpy-2.1-py3-none-any.whl"),
        pin("torch-2.9+cu128-py3-none-any.whl", requires=["numpy"]),
    )
    return build_lock(Resolution(pins=pins), target, wanted, policy or Policy())


FULL = Request(
    requirements=asked("torch>=2.8", "numpy", "direct @ https://files.example/direct-3-py3-none-any.whl"),
    constraints=asked("numpy<3"),
    extras=("vision",),
    groups=("test",),
    exclude_newer=parse_exclude_newer("2026-01-31"),
)


def test_a_lock_is_what_it_was_made_for() -> None:
    lock = made(FULL)
    assert outdated(lock, FULL, H100, Policy()) == []
    assert outdated(lock, FULL, None) == []
    assert outdated(lock, recorded_request(lock), H100, recorded_policy(lock)) == []


def test_spelling_and_order_do_not_matter() -> None:
    respelled = replace(
        FULL,
        requirements=asked(
            "numpy", "Torch >= 2.8", "direct @ https://me:secret@files.example/direct-3-py3-none-any.whl", "numpy"
        ),
    )
    assert outdated(made(FULL), respelled, H100) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"requirements": asked("torch>=2.8", "numpy")}, "requirement `direct @"),
        ({"requirements": (*FULL.requirements, *asked("sympy"))}, "requirement `sympy` is asked for"),
        ({"requirements": (*FULL.requirements, *asked("sympy"))}, "`sympy` (argument) is not in the lock"),
        (
            {"requirements": (*FULL.requirements, *asked("torch>=2.10"))},
            "torch 2.9+cu128 does not satisfy `torch>=2.10`",
        ),
        ({"constraints": ()}, "constraint `numpy<3` is no longer asked for"),
        ({"constraints": asked("numpy<2")}, "numpy 2.1 does not satisfy `numpy<2`"),
        ({"extras": ()}, "extra `vision` is no longer asked for"),
        ({"groups": ("docs", "test")}, "group `docs` is asked for"),
        ({"exclude_newer": None}, "--exclude-newer is not set, and was 2026-02-01T00:00:00Z"),
        ({"allow_build": frozenset({"flash-attn"})}, "--allow-build name `flash-attn`"),
    ],
)
def test_other_inputs_make_it_outdated(change: dict[str, Any], said: str) -> None:
    reasons = outdated(made(FULL), replace(FULL, **change), H100)
    assert any(said in reason for reason in reasons), reasons


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (Policy(cuda="12.6"), "--cuda is 12.6, and was not set"),
        (Policy(modes=frozenset({Mode.NATIVE})), "--compat is native, and was not set"),
        (Policy(without_triton=True), "--without-triton is set, and was not set"),
    ],
)
def test_other_choices_make_it_outdated(policy: Policy, said: str) -> None:
    (reason,) = outdated(made(FULL), FULL, H100, policy)
    assert said in reason
    lock = made(FULL, policy)
    assert recorded_policy(lock) == policy
    assert outdated(lock, FULL, H100) == []


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (linux_target("9.0", "12.0"), "the GPUs are 9.0, 12.0, and the lock was made for 9.0"),
        (linux_target("9.0", driver="570.124.06"), "the driver is 570.124.06, and the lock was made for 580.65.06"),
        (linux_target("9.0", python=(3, 13)), "Python is 3.13, and the lock was made for 3.12"),
        (
            linux_target("9.0", machine="aarch64"),
            "the platform is linux-aarch64, and the lock was made for linux-x86_64",
        ),
        (linux_target(driver=None, cpu=True), "the lock was made for GPUs, and CPU is asked for"),
    ],
)
def test_another_target_makes_it_outdated(target: Target, said: str) -> None:
    reasons = outdated(made(FULL), FULL, target)
    assert any(said in reason for reason in reasons), reasons


def test_markers_are_those_of_the_target() -> None:
    elsewhere = replace(FULL, requirements=(*FULL.requirements, *asked("sympy; sys_platform == 'win32'")))
    lock = made(elsewhere)
    assert outdated(lock, elsewhere, H100) == []


def test_pre_releases_and_labels_satisfy() -> None:
    assert outdated(made(request("torch==2.9", "numpy>=2.1rc1")), request("torch==2.9", "numpy>=2.1rc1"), H100) == []


def test_a_foreign_or_edited_lock_is_outdated() -> None:
    lock = made(FULL)
    assert outdated(replace(lock, ours=False), FULL, H100) == ["the lock was not made by cudalock"]
    assert outdated(replace(lock, digest_ok=False), FULL, H100) == ["the lock was changed after cudalock wrote it"]


def test_a_missing_dependency_is_found() -> None:
    lock = made(FULL)
    packages = [package for package in lock.pylock.packages if package.name != "numpy"]
    torn = replace(lock, pylock=replace(lock.pylock, packages=packages))
    assert "torch needs numpy, which is not in the lock" in outdated(torn, FULL, H100)


def test_pins_to_keep_are_all_but_direct_addresses() -> None:
    assert {name: str(version) for name, version in preferred_pins(made(FULL)).items()} == {
        "numpy": "2.1",
        "torch": "2.9+cu128",
    }


def test_what_came_from_the_project_is_recorded_as_such() -> None:
    own = Request(requirements=(AskedRequirement(requirement=Requirement("torch"), origin="pyproject.toml extra gpu"),))
    assert made(own).inputs["project"] is True
    assert "project" not in made(FULL).inputs


# --- differences


def test_a_first_lock_adds_everything() -> None:
    diff = diff_locks(None, made(FULL))
    assert [name for name, _ in diff.added] == ["direct", "numpy", "torch"]
    assert not diff.empty
    assert diff_locks(made(FULL), made(FULL)).empty


def test_versions_files_and_triple_are_compared() -> None:
    old = a_lock(linux_target("9.0"))
    new = a_lock(linux_target("9.0"), torch="2.9.1+cu126", cuda="12.6", triton="3.6.0")
    diff = diff_locks(old, new)
    assert [(item.name, item.before, item.after) for item in diff.changed] == [
        ("torch", "2.9.1+cu128", "2.9.1+cu126"),
        ("triton", "3.5.1", "3.6.0"),
    ]
    assert diff.triple_before != diff.triple_after
    assert diff.to_json()["triple_changed"] is True
    gone = diff_locks(new, a_lock(linux_target("9.0"), torch="2.9.1+cu126", cuda="12.6", triton=None))
    assert gone.removed == (("triton", "3.6.0"),)


def test_a_rebuilt_file_of_the_same_version_is_a_change() -> None:
    one, other = (
        build_lock(Resolution(pins=(pin("a-1-py3-none-any.whl", sha256=digest * 32),)), H100, request("a"), Policy())
        for digest in ("aa", "bb")
    )
    (change,) = diff_locks(one, other).changed
    assert change.before == change.after == "1"
