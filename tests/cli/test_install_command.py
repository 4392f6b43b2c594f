"""`cudalock install` and `check` end to end, with the real uv and pip, on a machine without a GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli.conftest import Cudalock
from support.fake_index import FakeIndex

HERE = ("--cpu",)


@pytest.fixture
def lock(cudalock: Cudalock, index: FakeIndex, folder: Path) -> Path:
    assert cudalock("resolve", "alpha", *HERE).status == 0
    return folder / "pylock.toml"


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_what_is_locked_is_installed(cudalock: Cudalock, lock: Path, folder: Path, installer: str) -> None:
    outcome = cudalock("install", "--venv", ".venv", "--installer", installer, "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.json["added"] == {"alpha": "1.1", "beta": "2.0"}
    assert not outcome.json["gpu_proven"]
    assert cudalock("check", "--venv", ".venv").status == 0
    again = cudalock("install", "--venv", ".venv", "--installer", installer, "--json")
    assert again.json["up_to_date"]


def test_offline_without_the_files_says_how_to_get_them(cudalock: Cudalock, lock: Path, folder: Path) -> None:
    outcome = cudalock("install", "--venv", ".venv", "--offline", "--json", UV_CACHE_DIR=str(folder / "uv"))
    assert outcome.status == 4
    assert "cudalock fetch" in outcome.json["error"]["hint"]


def test_of_a_lock_without_torch_nobody_is_told_to_prove_a_gpu(cudalock: Cudalock, lock: Path) -> None:
    assert "GPU" not in cudalock("install", "--venv", ".venv").out


def test_an_environment_that_drifted_fails_check(cudalock: Cudalock, lock: Path, folder: Path) -> None:
    assert cudalock("install", "--venv", ".venv").status == 0
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    metadata = folder / ".venv" / "lib" / version / "site-packages" / "beta-2.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 2.0", "Version: 2.1"))
    outcome = cudalock("check", "--venv", ".venv", "--json")
    assert outcome.status == 1
    assert [finding["code"] for finding in outcome.json["findings"] if finding["severity"] == "error"] == ["lock-drift"]


def test_a_lock_for_another_platform_is_refused_before_any_download(
    cudalock: Cudalock, index: FakeIndex, folder: Path
) -> None:
    other = ("--platform", "linux-aarch64", "--cpu")
    assert cudalock("resolve", "alpha", *other).status == 0
    before = len(index.requests)
    outcome = cudalock("install", "--venv", ".venv", "--json")
    assert outcome.status == 1
    assert outcome.code == "lock-not-for-this-machine"
    assert len(index.requests) == before
    assert not (folder / ".venv").exists()


def test_an_existing_environment_is_not_replaced_without_clear(cudalock: Cudalock, lock: Path, folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "thesis.txt").write_text("years of work")
    outcome = cudalock("install", "--venv", "data", "--json")
    assert outcome.status == 2
    assert (folder / "data" / "thesis.txt").read_text() == "years of work"


def test_hosts_can_be_restricted(cudalock: Cudalock, lock: Path, folder: Path) -> None:
    refused = cudalock("install", "--venv", ".venv", "--allowed-hosts", "files.example", "--json")
    assert (refused.status, refused.code) == (2, "host-not-allowed")
    assert not (folder / ".venv").exists()
    assert cudalock("install", "--venv", ".venv", "--allowed-hosts", "127.0.0.1", "--json").status == 0


def test_fetched_files_install_without_the_index(
    cudalock: Cudalock, index: FakeIndex, lock: Path, folder: Path
) -> None:
    fetched = cudalock("fetch", "wheels", "--json")
    assert fetched.status == 0
    assert len(fetched.json["fetched"]) == 2
    before = len(index.requests)
    outcome = cudalock("install", "--wheelhouse", "wheels", "--venv", ".venv", "--json")
    assert outcome.status == 0, outcome.err
    assert len(index.requests) == before
    assert cudalock("check", "--venv", ".venv").status == 0
