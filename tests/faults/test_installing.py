"""Faults while uv downloads and installs: the old environment comes back, and the error says which file and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from cudalock.install import incomplete_reason
from faults.conftest import Cudalock, World
from faults.misbehaving import Fault, flipped, html_with_200, loops, resets_midway, short_body, stalls, status
from support.wheels import make_wheel

BETA = "/files/beta-1.0-py3-none-any.whl"


@pytest.fixture
def installed(cudalock: Cudalock, world: World, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment of an earlier lock, and now a lock that needs more."""
    monkeypatch.setenv("UV_HTTP_RETRIES", "1")
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "1")
    assert cudalock("resolve", "gamma", "--cpu").status == 0
    assert cudalock("install", "--venv", ".venv").status == 0
    assert cudalock("resolve", "alpha", "--cpu").status == 0
    monkeypatch.setenv("UV_CACHE_DIR", str(world.folder.parent / "another-uv-cache"))
    return world.folder / ".venv"


def packages(venv: Path) -> list[str]:
    return sorted(path.name for path in venv.glob("lib/*/site-packages/*.dist-info"))


@pytest.mark.parametrize(
    "fault",
    [status(404), status(403), status(500), short_body, resets_midway, flipped, html_with_200, loops, stalls(3)],
    ids=["404", "403", "500", "short body", "reset midway", "other bytes", "HTML with 200", "redirect loop", "stall"],
)
def test_fault_that_stays(cudalock: Cudalock, world: World, installed: Path, fault: Fault) -> None:
    world.proxy.order(BETA, fault, always=True)
    outcome = cudalock("install", "--venv", ".venv", "--clear", "--json")
    assert (outcome.status, outcome.code) == (4, "uv-failed"), outcome.out
    error = outcome.json["error"]
    assert "beta" in error["message"]
    assert error["hint"], error["message"]
    assert packages(installed) == ["gamma-1.0.dist-info"]
    assert incomplete_reason(installed) is None
    assert [path.name for path in world.folder.iterdir() if path.name.startswith(".venv")] == [".venv"]
    world.proxy.obey()
    assert cudalock("install", "--venv", ".venv", "--clear").status == 0, "its cache is not spoilt"


def test_fault_that_passes(cudalock: Cudalock, world: World, installed: Path) -> None:
    world.proxy.order(BETA, status(503))
    assert cudalock("install", "--venv", ".venv", "--clear").status == 0
    assert len(packages(installed)) == 3


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_file_replaced_between_resolve_and_install(
    cudalock: Cudalock, world: World, installed: Path, installer: str
) -> None:
    world.index.files[1].content = make_wheel("beta", "1.0", files={"beta.py": b"evil = True"})[1]
    outcome = cudalock("install", "--venv", ".venv", "--clear", "--installer", installer, "--json")
    assert (outcome.status, outcome.code) == (4, f"{installer}-failed")
    assert packages(installed) == ["gamma-1.0.dist-info"]
    assert not list(installed.rglob("beta*"))


def test_nothing_is_resolved(cudalock: Cudalock, world: World) -> None:
    """A lock that lacks a dependency stays so: no page of an index is asked for, and what is missing is not fetched."""
    assert cudalock("resolve", "alpha", "--cpu").status == 0
    lock = world.folder / "pylock.toml"
    head, *parts = lock.read_text().split("[[packages]]\n")
    kept = [part for part in parts if not part.startswith('name = "beta"')]
    assert len(kept) == len(parts) - 1
    lock.write_text("[[packages]]\n".join([head, *kept]))
    world.proxy.asked.clear()
    outcome = cudalock("install", "--venv", ".venv", "--force", "--json")
    assert outcome.status == 0, outcome.out
    assert outcome.json["added"] == {"alpha": "1.0", "gamma": "1.0"}
    assert world.proxy.asked and all(target.startswith("/files/") for target in world.proxy.asked)


def test_uv_that_is_not_told_of_overrides(cudalock: Cudalock, world: World) -> None:
    """Settings of uv and pip that would put something else into the environment have no effect."""
    assert cudalock("resolve", "alpha", "--cpu").status == 0
    world.index.add_wheel("evil", "1.0")
    (world.folder / "evil.txt").write_text("evil==1.0\n")
    outcome = cudalock(
        "install", "--venv", ".venv", "--json",
        UV_CONSTRAINT="evil.txt", UV_OVERRIDE="evil.txt", UV_NO_VERIFY_HASHES="1", UV_TARGET="elsewhere",
        PIP_REQUIREMENT="evil.txt", PYTHONPATH="elsewhere",
    )  # fmt: skip
    assert outcome.status == 0, outcome.out
    assert sorted(outcome.json["added"]) == ["alpha", "beta", "gamma"]
    assert not (world.folder / "elsewhere").exists()
