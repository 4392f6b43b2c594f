"""`cudalock resolve` end to end: lock, pins, checks, targets."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Cudalock
from support.fake_index import FakeIndex

H100 = ("--gpu", "H100", "--driver", "580.65.06", "--python", "3.12", "--platform", "linux-x86_64")
PLAIN = ("--cpu", "--python", "3.12", "--platform", "linux-x86_64")


def test_a_lock_with_a_triple(cudalock: Cudalock, index: FakeIndex, folder: Path) -> None:
    outcome = cudalock("resolve", "torch", *H100, "--json")
    assert outcome.status == 0, outcome.err
    answer = outcome.json
    assert answer["triple"] == {"torch": "99.0", "triton": "3.6.0", "cuda": "13.0", "source": "main"}
    assert answer["compat"] == "native"
    assert {package["name"] for package in answer["packages"]} == {"beta", "cuda-toolkit", "torch", "triton"}
    assert answer["lock"] == "pylock.toml"
    assert (folder / "pylock.toml").is_file()
    assert answer["target"]["origin"]["gpus"] == "flag"


def test_two_runs_give_the_same_bytes(cudalock: Cudalock, index: FakeIndex, folder: Path) -> None:
    assert cudalock("resolve", "torch", "alpha", *H100, "-o", "pylock.a.toml").status == 0
    assert cudalock("resolve", "alpha", "torch", *H100, "-o", "pylock.b.toml").status == 0
    assert (folder / "pylock.a.toml").read_bytes() == (folder / "pylock.b.toml").read_bytes()


def test_requirements_that_do_not_lead_to_torch_are_locked_without_a_triple(
    cudalock: Cudalock, index: FakeIndex
) -> None:
    answer = cudalock("resolve", "alpha", *PLAIN, "--json").json
    assert answer["triple"] is None
    assert [package["version"] for package in answer["packages"]] == ["1.1", "2.0"]


def test_pins_stay_until_they_are_let_go(cudalock: Cudalock, index: FakeIndex) -> None:
    assert cudalock("resolve", "alpha", *PLAIN).status == 0
    index.add_wheel("alpha", "1.2")
    index.add_wheel("beta", "3.0")
    kept = cudalock("resolve", "--json").json
    assert [package["version"] for package in kept["packages"]] == ["1.1", "2.0"]
    assert not kept["written"]
    one = cudalock("resolve", "--upgrade-package", "beta", "--json").json
    assert one["changes"]["changed"] == [{"name": "beta", "before": "2.0", "after": "3.0"}]
    every = cudalock("resolve", "--upgrade", "--json").json
    assert {change["name"] for change in every["changes"]["changed"] + every["changes"]["removed"]} == {"alpha", "beta"}


def test_check_says_whether_the_lock_is_still_what_is_asked_for(cudalock: Cudalock, index: FakeIndex) -> None:
    assert cudalock("resolve", "alpha", *PLAIN).status == 0
    before = len(index.requests)
    assert cudalock("resolve", "alpha", *PLAIN, "--check").status == 0
    changed = cudalock("resolve", "alpha<1.1", *PLAIN, "--check", "--json")
    assert changed.status == 1
    assert changed.code == "lock-outdated"
    assert len(index.requests) == before, "--check needs no index"


def test_two_targets_from_one_fetch(cudalock: Cudalock, index: FakeIndex, folder: Path) -> None:
    (folder / "pyproject.toml").write_text(
        """
[tool.cudalock.targets.hopper]
gpu = ["H100"]
driver = "580.65.06"
python = "3.12"
platform = "linux-x86_64"
[tool.cudalock.targets.ada]
gpu = ["L4"]
driver = "580.65.06"
python = "3.12"
platform = "linux-x86_64"
"""
    )
    outcome = cudalock("resolve", "torch", "--target", "hopper", "--target", "ada", "--json")
    assert outcome.status == 0, outcome.err
    assert [lock["lock"] for lock in outcome.json["locks"]] == ["pylock.hopper.toml", "pylock.ada.toml"]
    assert (folder / "pylock.hopper.toml").is_file()
    assert (folder / "pylock.ada.toml").is_file()
    pages = index.paths(containing="/simple/torch/")
    assert len(pages) == 1, "the second target is answered from what the first fetched"


def test_environment_and_configuration_stand_below_flags(cudalock: Cudalock, index: FakeIndex, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.cudalock]\ngpu = ["L4"]\ndriver = "580.65.06"\npython = "3.12"\n')
    from_config = cudalock("resolve", "torch", "--platform", "linux-x86_64", "--json").json["target"]
    assert from_config["gpus"] == ["8.9"]
    from_environment = cudalock(
        "resolve", "torch", "--platform", "linux-x86_64", "--json", CUDALOCK_GPU="A100;H100"
    ).json["target"]
    assert from_environment["gpus"] == ["8.0", "9.0"]
    assert from_environment["origin"]["gpus"] == "environment"
    from_flag = cudalock(
        "resolve", "torch", "--platform", "linux-x86_64", "--json", "--gpu", "T4", CUDALOCK_GPU="A100;H100"
    ).json["target"]
    assert from_flag["gpus"] == ["7.5"]


def test_pips_constraint_holds_and_is_shown(
    cudalock: Cudalock, index: FakeIndex, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "limits.txt").write_text("alpha<1.1\n")
    outcome = cudalock("resolve", "alpha", *PLAIN, PIP_CONSTRAINT=str(folder / "limits.txt"))
    assert outcome.status == 0
    assert "pip's constraint counts as -c" in outcome.err
    assert 'version = "1.0"' in (folder / "pylock.toml").read_text()


def test_results_go_to_stdout_and_the_rest_to_stderr(cudalock: Cudalock, index: FakeIndex) -> None:
    outcome = cudalock("resolve", "torch", *H100)
    assert outcome.out.startswith("torch 99.0  triton 3.6.0  CUDA 13.0")
    assert "resolving torch" in outcome.err
    assert cudalock("resolve", "torch", *H100, "-qq").err == ""


def test_without_the_pytorch_index_the_best_answer_of_the_main_index(
    cudalock: Cudalock, index: FakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    # driver 535 admits no CUDA 13 build; the PyTorch index would have one with CUDA 12, but it is not there to be asked
    index.add_wheel(
        "torch", "2.14.1", python_tag="cp312", abi="cp312", platform="manylinux_2_28_x86_64",
        requires=['cuda-toolkit==13.0.2; platform_system == "Linux"', "triton==3.8.0"],
    )  # fmt: skip
    monkeypatch.setenv("CUDALOCK_PYTORCH_INDEX_URL", "http://127.0.0.1:9/whl")
    target = ("--gpu", "H100", "--driver", "535.161.08", "--python", "3.12", "--platform", "linux-x86_64")
    refused = cudalock("resolve", "torch", *target, "--json")
    assert refused.status == 3
    assert refused.code == "index-unreachable"
    assert "--pytorch-index-url" in refused.json["error"]["hint"]


def test_a_kept_pin_is_said_when_another_driver_would_admit_a_newer_torch(
    cudalock: Cudalock, index: FakeIndex, folder: Path
) -> None:
    index.add_wheel(
        "torch", "2.10.0", python_tag="cp312", abi="cp312", platform="manylinux_2_28_x86_64",
        requires=['nvidia-cuda-runtime-cu12==12.8.90; platform_system == "Linux"', "triton==3.6.0"],
    )  # fmt: skip
    index.add_wheel(
        "torch", "2.14.1", python_tag="cp312", abi="cp312", platform="manylinux_2_28_x86_64",
        requires=['cuda-toolkit==13.0.2; platform_system == "Linux"', "triton==3.6.0"],
    )  # fmt: skip
    index.add_wheel("nvidia-cuda-runtime-cu12", "12.8.90")
    (folder / "limits.txt").write_text("torch<99\n")
    common = ("resolve", "torch", "-c", "limits.txt", "--gpu", "H100", "--python", "3.12", "--platform", "linux-x86_64")
    assert cudalock(*common, "--driver", "570.86.16", "--no-pytorch-index").status == 0
    outcome = cudalock(*common, "--driver", "580.65.06", "--no-pytorch-index", "--json")
    assert outcome.json["triple"]["torch"] == "2.10.0"
    assert any("--upgrade-package torch moves torch to 2.14.1" in text for text in outcome.json["held_back"])


def test_what_comes_from_the_existing_lock_is_said(cudalock: Cudalock, index: FakeIndex) -> None:
    assert cudalock("resolve", "alpha", "--cpu", "--python", "3.12", "--platform", "linux-aarch64").status == 0
    outcome = cudalock("resolve", "alpha", "--python", "3.13")
    assert outcome.status == 0
    assert "come from the existing lock" in outcome.err
    assert "platform" in outcome.err


def test_check_without_a_lock_says_just_that(cudalock: Cudalock, folder: Path) -> None:
    outcome = cudalock("resolve", "alpha", "--check", "--json")  # there is no GPU here, and that is not the point
    assert (outcome.status, outcome.code) == (2, "lock-missing")
    (folder / "pylock.toml").write_text('lock-version = "1.0"\ncreated-by = "somebody"\npackages = []\n')
    assert cudalock("resolve", "alpha", "--cpu", "--check", "--json").code == "lock-not-ours"
