"""What is said when there is no answer: who wants what, and why a package has no file."""

from __future__ import annotations

import pytest
from packaging.utils import canonicalize_name

from cudalock.errors import AnswerIsNo
from cudalock.index.model import PageRef
from support.memory_index import LINUX
from support.torch_world import stock
from support.world import World, make_target


def refusal(world: World, *requirements: str, **changes: object) -> AnswerIsNo:
    with pytest.raises(AnswerIsNo) as error:
        world(*requirements, **changes)  # type: ignore[arg-type] # passed on as it is
    return error.value


def test_unknown_package_with_near_matches(world: World) -> None:
    error = refusal(world, "torchvison")
    assert error.code == "package-not-found"
    assert "torchvison" in error.message
    assert "torchvision" in (error.hint or "")


def test_unknown_package_that_another_requires(world: World) -> None:
    world.index.add("demo", "1.0", "ghost>=2")
    error = refusal(world, "demo")
    assert error.code == "index-dependency-missing"
    assert error.details["cause"] == "package-not-found"
    assert "demo 1.0 requires ghost>=2" in error.message


def test_no_wheel_for_the_python_names_those_that_have_one(world: World) -> None:
    for python in ("cp39-cp39", "cp310-cp310", "cp313-cp313t"):
        world.index.add("demo", "1.0", tags=f"{python}-manylinux_2_17_x86_64")
    error = refusal(world, "demo")
    assert error.code == "no-wheel-for-python"
    assert error.details["pythons"] == ["3.9", "3.10", "3.13t"]
    assert "3.9, 3.10, 3.13t" in error.message


def test_requires_python_that_excludes_the_target(world: World) -> None:
    world.index.add("demo", "1.0", requires_python=">=3.13")
    assert refusal(world, "demo").code == "no-wheel-for-python"


@pytest.mark.parametrize(
    ("tags", "platform", "code"),
    [
        ("cp312-cp312-manylinux_2_34_x86_64", "linux-x86_64", "glibc-too-old"),
        ("cp312-cp312-manylinux_2_17_x86_64", "x86_64-musllinux_1_2", "musl-unsupported"),
        ("cp312-cp312-win_amd64", "linux-x86_64", "no-wheel-for-platform"),
        ("cp312-cp312-manylinux_2_17_x86_64", "linux-aarch64", "no-wheel-for-platform"),
    ],
)
def test_no_wheel_for_the_platform(world: World, tags: str, platform: str, code: str) -> None:
    world.index.add("demo", "1.0", tags=tags)
    target = make_target("9.0", driver="580.65.06", platform=platform)
    error = refusal(world, "demo", target=target)
    assert error.code == code
    assert error.hint


def test_a_pinned_version_without_a_wheel_where_others_have_one(world: World) -> None:
    world.index.add("demo", "1.0", tags="cp39-cp39-manylinux_2_17_x86_64")
    world.index.add("demo", "2.0", tags=LINUX)
    error = refusal(world, "demo==1.0")
    assert error.code == "no-wheel-for-python"
    assert "demo==1.0" in error.message


def test_no_such_version_tells_the_newest(world: World) -> None:
    for version in ("1.0", "1.1", "1.2"):
        world.index.add("demo", version)
    error = refusal(world, "demo>=2")
    assert error.code == "requirements-conflict"
    assert error.details["newest"] == ["1.2", "1.1", "1.0"]
    assert "1.2" in (error.hint or "")


def test_conflict_reads_as_who_wants_what(world: World) -> None:
    world.index.add("left", "1.0", "shared<2")
    world.index.add("right", "1.0", "shared>=2")
    for version in ("1.0", "2.0"):
        world.index.add("shared", version)
    error = refusal(world, "left", "right==1.0")
    assert error.code == "requirements-conflict"
    assert "left 1.0 requires shared<2" in error.message
    assert "right 1.0 requires shared>=2" in error.message
    assert "right==1.0" in (error.hint or "")
    assert error.details["conflicts"] == [
        {
            "package": "shared",
            "wanted": [{"by": "right 1.0", "requirement": "shared>=2"}, {"by": "left 1.0", "requirement": "shared<2"}],
        }
    ]


def test_conflict_of_two_requirements_of_the_user(world: World) -> None:
    for version in ("1.0", "2.0"):
        world.index.add("demo", version)
    error = refusal(world, "demo<2", "demo>=2")
    assert "the command line asks for demo<2" in error.message
    assert "the command line asks for demo>=2" in error.message


def test_conflict_names_the_constraint(world: World) -> None:
    world.index.add("demo", "1.0", "dep>=2")
    for version in ("1.0", "2.0"):
        world.index.add("dep", version)
    error = refusal(world, "demo", constraints=["dep<2"])
    assert "constraints.txt:1" in error.message
    assert "dep" in error.message


def test_many_versions_that_all_conflict_are_told_shortly(world: World) -> None:
    for number in range(1, 30):
        world.index.add("demo", f"1.{number}", f"dep=={number}")
        world.index.add("dep", str(number))
    world.index.add("dep", "99")
    error = refusal(world, "demo", "dep==99")
    assert len(error.message) < 600
    assert "demo 1.29 requires dep==29" in error.message


def test_metadata_that_excludes_the_python_is_told(world: World) -> None:
    world.index.add("demo", "1.0", overrides={"Requires-Python": "<3.12"})
    error = refusal(world, "demo")
    assert error.code == "requirements-conflict"
    assert "requires Python <3.12" in error.message


def test_triton_alone_is_judged_too(world: World) -> None:
    stock(world.index)
    target = make_target("12.0", driver="570.86.16")
    assert [str(pin.version) for pin in world("triton", target=target).pins] == ["3.6.0"]
    error = refusal(world, "triton==3.9.0", target=target)
    assert error.code == "no-admissible-build"
    assert "3.9.0" in error.message
    assert "3.6.0" in (error.hint or "")


def test_torch_for_a_python_that_has_none(world: World) -> None:
    stock(world.index)
    error = refusal(world, "torch", target=make_target("9.0", driver="580.65.06", python="3.9"))
    assert error.code == "no-wheel-for-python"
    assert error.details["pythons"] == ["3.12"]


def test_companion_and_torch_that_do_not_go_together(world: World) -> None:
    stock(world.index)
    world.index.add("torchvision", "0.24.1", "torch==2.9.1", tags=LINUX)
    error = refusal(world, "torch==2.15.0", "torchvision==0.24.1")
    assert error.code == "requirements-conflict"
    assert "torchvision 0.24.1 requires torch==2.9.1" in error.message
    assert "torch==2.15.0" in error.message


def test_a_missing_dependency_of_every_build_is_told_in_seconds(world: World) -> None:
    """Backtracking over unrelated packages would take hours; the first conflict says what is wrong."""
    stock(world.index)
    del world.index.files[PageRef("main", canonicalize_name("filelock"))]
    for name in ("alpha", "beta", "gamma", "delta"):
        for number in range(12):
            world.index.add(name, f"1.{number}")
    error = refusal(world, "torch", "alpha", "beta", "gamma", "delta")
    assert error.code == "index-dependency-missing"
    assert "filelock" in error.message
