"""Disks that are full, read-only or damaged, clocks that are wrong, outputs that cannot be written."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cudalock.install import fetch, install
from faults.conftest import Cudalock, World
from support.errors import code_of
from support.wheels import make_wheel

TARGET = ("--cpu", "--python", "3.12", "--platform", "linux-x86_64")
RESOLVE = ("resolve", "alpha", *TARGET)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place)], check=False, capture_output=True
    )
    if done.returncode != 0:
        pytest.skip("mounting a small file system needs rights that this user has not")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def filled(place: Path, *, leave: int = 0) -> None:
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(b"x" * 4096)
        except OSError:
            pass
    os.truncate(ballast, ballast.stat().st_size - leave)


def test_full_disk_for_the_lock(cudalock: Cudalock, world: World, small_disk: Path) -> None:
    lock = small_disk / "pylock.toml"
    assert cudalock("resolve", "beta", *TARGET, "--output", lock).status == 0
    before = lock.read_bytes()
    filled(small_disk)
    outcome = cudalock(*RESOLVE, "--output", lock, "--json")
    assert (outcome.status, outcome.code) == (2, "lock-unwritable")
    assert lock.read_bytes() == before
    assert sorted(path.name for path in small_disk.iterdir()) == ["ballast", "pylock.toml"]


def test_full_disk_for_the_cache_is_no_fault(cudalock: Cudalock, world: World, small_disk: Path) -> None:
    filled(small_disk)
    outcome = cudalock(*RESOLVE, "-v", "--cache-dir", small_disk / "cache")
    assert outcome.status == 0
    assert "cache could not be written" in outcome.err


def test_full_disk_for_downloads(cudalock: Cudalock, world: World, small_disk: Path) -> None:
    assert cudalock(*RESOLVE).status == 0
    outcome = cudalock("fetch", small_disk / "wheels", "--json")
    assert (outcome.status, outcome.code) == (2, "disk-write-failed")
    assert "gamma" in outcome.json["error"]["message"]
    assert outcome.json["error"]["hint"]
    whole = {file.filename: file.content for file in world.index.files}
    for path in (small_disk / "wheels").iterdir():
        assert path.read_bytes() == whole[path.name], "what is there is complete"


@pytest.mark.parametrize("leave", [0, 60_000], ids=["full", "nearly full"])
def test_full_disk_for_the_environment(cudalock: Cudalock, world: World, small_disk: Path, leave: int) -> None:
    assert cudalock("resolve", "alpha", "--cpu").status == 0
    filled(small_disk, leave=leave)
    outcome = cudalock("install", "--venv", small_disk / "env", "--json")
    assert outcome.status in {2, 4}, outcome.out
    assert outcome.code in {"disk-write-failed", "uv-failed"}
    assert outcome.json["error"]["hint"]
    if (small_disk / "env").exists():
        assert cudalock("check", "--venv", small_disk / "env").status != 0
    (small_disk / "ballast").unlink()


def test_full_temporary_folder(
    cudalock: Cudalock, world: World, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only an index without ranges needs one."""
    world.index.ranges = "none"
    filled(small_disk)
    monkeypatch.setattr("tempfile.tempdir", str(small_disk))
    outcome = cudalock(*RESOLVE, "--json")
    assert (outcome.status, outcome.code) == (2, "disk-write-failed")
    assert "TMPDIR" in outcome.json["error"]["hint"]


@pytest.mark.parametrize("command", [("--help",), ("detect", "--json"), ("check", "--json"), ("check",)])
def test_output_that_is_full(folder: Path, command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cudalock", *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode not in {0, 1, 70}
    assert "Traceback" not in done.stderr


def test_largest_file_that_may_be_written(world: World, cudalock: Cudalock) -> None:
    """A quota on files, as batch systems set it."""
    assert cudalock(*RESOLVE).status == 0
    code = "import sys; from cudalock.cli.main import run; sys.exit(run(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "fetch", "wheels", "--json"],
        capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
    )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    assert "disk-write-failed" in done.stdout
    assert not list((world.folder / "wheels").glob("*gamma*"))
    assert not list((world.folder / "wheels").glob(".*"))


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "garbage"])
def test_damaged_cache(cudalock: Cudalock, world: World, tmp_path: Path, damage: str) -> None:
    cache = tmp_path / "cache"
    assert cudalock(*RESOLVE, "--cache-dir", cache).status == 0
    before = (world.folder / "pylock.toml").read_bytes()
    entries = [path for path in cache.rglob("*") if path.is_file()]
    assert len(entries) >= 5
    for path in entries:
        content = path.read_bytes()
        damaged = {
            "truncate": content[: len(content) // 2],
            "flip": content[:-3] + bytes([content[-3] ^ 1]) + content[-2:],
            "empty": b"",
            "garbage": b'{"key": [[[[' + os.urandom(300),
        }[damage]
        path.write_bytes(damaged)
    (world.folder / "pylock.toml").unlink()
    assert cudalock(*RESOLVE, "--cache-dir", cache).status == 0
    assert (world.folder / "pylock.toml").read_bytes() == before


def test_cache_of_another_user(cudalock: Cudalock, world: World, tmp_path: Path) -> None:
    """A cache that is a file, and folders in it that are files, count as no cache."""
    (tmp_path / "cache").write_text("mine")
    assert cudalock(*RESOLVE, "--cache-dir", tmp_path / "cache").status in {0, 2}
    cache = tmp_path / "real"
    assert cudalock(*RESOLVE, "--cache-dir", cache).status == 0
    for folder in [path for path in cache.glob("*/*") if path.is_dir()]:
        shutil.rmtree(folder)
        folder.write_text("mine")
    assert cudalock(*RESOLVE, "--cache-dir", cache, "--upgrade").status == 0


@pytest.fixture
def read_only_disk(small_disk: Path) -> Path:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    return small_disk


def test_read_only_places(cudalock: Cudalock, world: World, read_only_disk: Path) -> None:
    assert cudalock(*RESOLVE, "--cache-dir", read_only_disk / "cache").status == 0
    outcome = cudalock(*RESOLVE, "--output", read_only_disk / "pylock.toml", "--json")
    assert (outcome.status, outcome.code) == (2, "lock-unwritable")
    assert cudalock("fetch", read_only_disk / "wheels", "--json").code == "disk-write-failed"
    assert cudalock("resolve", "alpha", "--cpu").status == 0
    outcome = cudalock("install", "--venv", read_only_disk / "env", "--json")
    assert (outcome.status, outcome.code) == (2, "disk-write-failed")


@pytest.mark.parametrize("seconds", [-400_000_000, 400_000_000], ids=["past", "future"])
def test_clock_that_is_wrong(
    cudalock: Cudalock, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """What the index has now is found whatever the clock said when the cache was written."""
    import time

    world.index.cache_control = "max-age=600"
    true = time.time
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: true() + seconds)
        assert cudalock(*RESOLVE, "--cache-dir", tmp_path / "cache").status == 0
    name, content = make_wheel("alpha", "2.0")
    world.index.add(name, content)
    outcome = cudalock(*RESOLVE, "--cache-dir", tmp_path / "cache", "--upgrade", "--json")
    assert {one["name"]: one["version"] for one in outcome.json["packages"]} == {"alpha": "2.0"}


def test_library_tells_of_the_disk_as_the_command_line_does(
    cudalock: Cudalock, world: World, read_only_disk: Path
) -> None:
    assert cudalock("resolve", "alpha", "--cpu").status == 0
    lock = world.folder / "pylock.toml"
    for action in (lambda: install(lock, read_only_disk / "env"), lambda: fetch(lock, read_only_disk / "wheels")):
        assert code_of(action) == "disk-write-failed"
