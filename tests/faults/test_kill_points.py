"""Killed between any two changes of the disk, one after the other: what was there is there, or it says so."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cudalock.install import incomplete_reason, read_state
from support.fake_index import FakeIndex

KILLER = Path(__file__).with_name("killed_before.py")
OLD, NEW = {"alpha-1.0", "beta-1.0"}, {"alpha-2.0", "beta-1.0"}


@pytest.fixture
def index(fake_index: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeIndex]:
    for version in ("1.0", "2.0"):
        fake_index.add_wheel("alpha", version, requires=["beta"])
    fake_index.add_wheel("beta", "1.0")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with fake_index.serve():
        monkeypatch.setenv("CUDALOCK_INDEX_URL", fake_index.main_url)
        monkeypatch.setenv("CUDALOCK_PYTORCH_INDEX_URL", fake_index.pytorch_url)
        yield fake_index


def run(*command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, *command], capture_output=True, timeout=60, check=False)


def done(*arguments: str) -> None:
    ended = run("-m", "cudalock", *arguments)
    assert ended.returncode == 0, ended.stderr


def killed_everywhere(*arguments: str) -> Iterator[int]:
    """Runs it again and again, killed one change later each time, until it is through."""
    for number in range(1, 500):
        ended = run(str(KILLER), str(number), str(Path.cwd()), *arguments)
        if ended.returncode != -signal.SIGKILL:
            assert ended.returncode == 0, ended.stderr
            assert number > 5, "it changes something, so it must have been killed"
            return
        yield number
    raise AssertionError("it does not come to an end")


def packages(venv: Path) -> set[str]:
    return {path.name.partition(".dist")[0] for path in venv.glob("lib/*/site-packages/*.dist-info")}


def resolve_both() -> None:
    for version in ("1", "2"):
        done("resolve", f"alpha=={version}.0", "--cpu", "-o", f"pylock.v{version}.toml")


def put_back(kept: Path, place: Path) -> None:
    for path in Path().glob("env*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if kept.exists():
        shutil.copytree(kept, place, symlinks=True)


def says_incomplete(venv: Path) -> bool:
    checked = run("-m", "cudalock", "check", "--lock", "pylock.v2.toml", "--venv", str(venv), "--json")
    return checked.returncode in {1, 2} and b"venv-incomplete" in checked.stdout


@pytest.mark.parametrize("before", ["whole", "empty", "absent", "incomplete"])
@pytest.mark.parametrize("how", ["--clear", "--sync"])
def test_installation(index: FakeIndex, tmp_path: Path, before: str, how: str) -> None:
    resolve_both()
    venv, kept, old = Path("env"), tmp_path / "kept", Path("env.cudalock-old")
    if before == "empty":
        kept.mkdir()
    elif before != "absent":
        done("install", "--lock", "pylock.v1.toml", "--venv", "env")
        if before == "incomplete":
            (venv / "cudalock-state.json").rename(venv / "cudalock-incomplete")
        venv.rename(kept)
    for number in killed_everywhere_from(kept, venv, how):
        there, reason = packages(venv), incomplete_reason(venv)
        if before == "whole":
            if venv.exists() and reason is None:
                assert there in (OLD, NEW), number
            else:
                assert says_incomplete(venv), number
            if how == "--clear":
                finished = read_state(venv) is not None and there == NEW
                assert finished or OLD in (there, packages(old)), f"{number}: the old environment is lost"
        elif venv.exists() and reason is None:
            assert there == NEW or (not list(venv.iterdir()) and before == "empty"), number
        done("install", "--lock", "pylock.v2.toml", "--venv", "env", how)
        assert packages(venv) == NEW
        assert read_state(venv) is not None
        assert [path.name for path in Path().glob("env*")] == ["env"], number


def killed_everywhere_from(kept: Path, venv: Path, how: str) -> Iterator[int]:
    put_back(kept, venv)
    for number in killed_everywhere("install", "--lock", "pylock.v2.toml", "--venv", "env", how):
        yield number
        put_back(kept, venv)


def test_lock_and_cache(index: FakeIndex, tmp_path: Path) -> None:
    resolve_both()
    lock, cache = Path("pylock.toml"), Path("cache")
    texts = [Path(f"pylock.v{version}.toml").read_bytes() for version in ("1", "2")]
    lock.write_bytes(texts[0])
    for number in killed_everywhere("resolve", "alpha==2.0", "--cpu", "-o", str(lock), "--cache-dir", str(cache)):
        assert lock.read_bytes() in texts, number
        done("resolve", "alpha==2.0", "--cpu", "-o", "pylock.again.toml", "--cache-dir", str(cache))
        assert Path("pylock.again.toml").read_bytes() == texts[1], number
        shutil.rmtree(cache)
        lock.write_bytes(texts[0])
    assert lock.read_bytes() == texts[1]
