"""``cudalock kernels`` on a machine without GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Cudalock, cudalock, folder  # noqa: F401 - fixtures
from kernels.test_remove import installed
from support.kernel_caches import add_kernel, snapshot


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    monkeypatch.setenv("CUDALOCK_VENV", str(installed(tmp_path / "venv", "triton==3.6.0")))
    return tmp_path / "cache"


def test_list_names_each_and_why_it_is_stale(cudalock: Cudalock, cache: Path) -> None:  # noqa: F811
    add_kernel(cache, "3.6.0", 90)
    add_kernel(cache, "3.3.1", 80)
    outcome = cudalock("kernels", "--json")
    assert outcome.status == 0
    (found,) = outcome.json["caches"]
    assert {entry["triton"]: entry["stale"] for entry in found["entries"]} == {
        "3.6.0": None,
        "3.3.1": "made by triton 3.3.1, here is 3.6.0",
    }
    assert outcome.json["environment"]["triton"] == "3.6.0"
    text = cudalock("kernels", "list").out
    assert "sm_90" in text
    assert "usable" in text


def test_prune_is_a_dry_run_unless_told_otherwise(cudalock: Cudalock, cache: Path) -> None:  # noqa: F811
    keep = add_kernel(cache, "3.6.0", 90)
    add_kernel(cache, "3.3.1", 80)
    before = snapshot(cache)
    outcome = cudalock("kernels", "prune")
    assert outcome.status == 0
    assert "would remove 1 entry" in outcome.out
    assert "--yes" in outcome.err
    assert snapshot(cache) == before
    outcome = cudalock("kernels", "prune", "--yes", "--json")
    assert [it["outcome"] for it in outcome.json["removals"]] == ["removed"]
    assert outcome.json["dry_run"] is False
    assert [path.name for path in cache.iterdir()] == [keep.name]


def test_clear_takes_a_cache_by_name(cudalock: Cudalock, tmp_path: Path) -> None:  # noqa: F811
    add_kernel(tmp_path / "mine", "3.6.0", 90)
    hint = f"`cudalock kernels clear --dir {tmp_path / 'mine'} --yes`"
    assert hint in cudalock("kernels", "clear", "--dir", tmp_path / "mine").err
    assert cudalock("kernels", "clear", "--dir", tmp_path / "mine", "--yes").status == 0
    assert snapshot(tmp_path / "mine") == set()
    assert cudalock("kernels", "clear", "--dir", tmp_path / "none", "--yes", "--json").code == "kernel-cache-missing"
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").touch()
    assert cudalock("kernels", "clear", "--dir", tmp_path / "letters", "--yes", "--json").code == "not-a-kernel-cache"
    assert (tmp_path / "letters" / "a.txt").exists()


def test_no_cache_is_an_answer(cudalock: Cudalock, cache: Path) -> None:  # noqa: F811
    outcome = cudalock("kernels")
    assert (outcome.status, "there is no kernel cache" in outcome.out) == (0, True)
    assert not cache.exists()
