"""Commands killed at random moments, several at once, and interrupted: nothing is half done without saying so.

``CUDALOCK_KILLS=300`` makes the long run of the same tests.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cudalock.install import incomplete_reason
from faults.conftest import World
from faults.misbehaving import stalls, stops_midway
from support.fake_index import FakeIndex

KILLS = int(os.environ.get("CUDALOCK_KILLS", "12"))
TARGET = ("--cpu",)


@pytest.fixture
def index(fake_index: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeIndex]:
    fake_index.add_wheel("alpha", "1.0", requires=["beta"])
    fake_index.add_wheel("alpha", "2.0", requires=["beta"])
    fake_index.add_wheel("beta", "1.0")
    monkeypatch.chdir(tmp_path)
    with fake_index.serve():
        monkeypatch.setenv("CUDALOCK_INDEX_URL", fake_index.main_url)
        monkeypatch.setenv("CUDALOCK_PYTORCH_INDEX_URL", fake_index.pytorch_url)
        yield fake_index


def start(*arguments: str, **environ: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "cudalock", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **environ},
    )  # fmt: skip


def done(*arguments: str, status: int = 0, **environ: str) -> bytes:
    process = start(*arguments, **environ)
    out, err = process.communicate(timeout=60)
    assert process.returncode == status, out + err
    return out


def packages(venv: Path) -> set[str]:
    return {path.name.partition(".dist")[0] for path in venv.glob("lib/*/site-packages/*.dist-info")}


def lifetime(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def killed(process: subprocess.Popen[bytes], after_s: float) -> bool:
    """Whether it was still alive at that moment."""
    time.sleep(after_s)
    alive = process.poll() is None
    process.kill()
    process.communicate()
    return alive


def test_resolve_is_killed(index: FakeIndex, tmp_path: Path) -> None:
    lock, chance = tmp_path / "pylock.toml", random.Random(1)
    texts, span = {}, 0.0
    for version in ("1.0", "2.0"):
        span = lifetime(lambda version=version: done("resolve", f"alpha=={version}", *TARGET))  # type: ignore[misc]
        texts[version] = lock.read_bytes()
    hits = 0
    for number in range(KILLS):
        version = ("1.0", "2.0")[number % 2]
        arguments = ["resolve", f"alpha=={version}", *TARGET]
        if number % 3 == 0:
            arguments += ["--cache-dir", str(tmp_path / f"cache{number}")]
        hits += killed(start(*arguments), chance.uniform(0.3 * span, 1.05 * span))
        assert lock.read_bytes() in texts.values()
    assert hits
    done("resolve", "alpha==1.0", *TARGET)
    assert lock.read_bytes() == texts["1.0"]
    done("resolve", "alpha==2.0", *TARGET, "--offline")  # the cache is whole
    assert lock.read_bytes() == texts["2.0"]


def test_install_is_killed(index: FakeIndex, tmp_path: Path) -> None:
    venv, chance = tmp_path / "env", random.Random(2)
    contents, span = {}, 0.0
    for version in ("1.0", "2.0"):
        done("resolve", f"alpha=={version}", *TARGET, "-o", f"pylock.v{version[0]}.toml")
        command = ("install", "--lock", f"pylock.v{version[0]}.toml", "--venv", "env", "--clear")
        span = lifetime(lambda command=command: done(*command))  # type: ignore[misc]
        contents[version] = packages(venv)
    hits = incomplete = 0
    for number in range(KILLS):
        how = ("--clear", "--sync")[number % 4 == 3]
        lock = f"pylock.v{1 + number % 2}.toml"
        hits += killed(start("install", "--lock", lock, "--venv", "env", how), chance.uniform(0.4 * span, 1.05 * span))
        looks_whole = venv.exists() and incomplete_reason(venv) is None
        if looks_whole:
            assert packages(venv) in contents.values(), f"round {number}: half an environment that does not say so"
        else:
            incomplete += 1
            check = start("check", "--lock", lock, "--venv", "env", "--json")
            out, _ = check.communicate(timeout=60)
            assert check.returncode in {1, 2}
            assert b"venv-incomplete" in out
        if number % 3 == 2:  # the next one mends it, whatever is left and whoever still works there
            other = start("install", "--lock", "pylock.v1.toml", "--venv", "env", "--clear")
            _, err = other.communicate(timeout=60)
            assert other.returncode == 0, err
            assert packages(venv) == contents["1.0"]
    assert hits
    done("install", "--lock", "pylock.v2.toml", "--venv", "env", "--clear")
    assert packages(venv) == contents["2.0"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("env")) == ["env"]
    done("check", "--lock", "pylock.v2.toml", "--venv", "env")


def test_fetch_is_killed(index: FakeIndex, tmp_path: Path) -> None:
    done("resolve", "alpha", *TARGET)
    chance = random.Random(3)
    span = lifetime(lambda: done("fetch", "wheels"))
    whole = {file.filename: file.content for file in index.files}
    for number in range(max(3, KILLS // 3)):
        folder = tmp_path / f"wheels{number}"
        killed(start("fetch", str(folder)), chance.uniform(0.3 * span, 1.05 * span))
        for path in folder.glob("[!.]*.whl") if folder.exists() else ():
            assert path.read_bytes() == whole[path.name]
        done("fetch", str(folder))
        assert {path.name for path in folder.glob("*.whl")} == {
            "alpha-2.0-py3-none-any.whl",
            "beta-1.0-py3-none-any.whl",
        }


def test_kill_between_two_renames(index: FakeIndex, tmp_path: Path) -> None:
    """The one moment at which nothing lies at the environment's place."""
    done("resolve", "alpha==1.0", *TARGET)
    done("install", "--venv", "env")
    (tmp_path / "env").rename(tmp_path / "env.cudalock-old")
    check = start("check", "--venv", "env", "--json")
    out, _ = check.communicate(timeout=60)
    error = json.loads(out)["error"]
    assert (check.returncode, error["code"]) == (2, "venv-incomplete")
    assert "env.cudalock-old" in error["message"]
    assert json.loads(done("install", "--venv", "env", "--json"))["up_to_date"]
    assert not (tmp_path / "env.cudalock-old").exists()


def test_incomplete_without_anything_in_it(index: FakeIndex, tmp_path: Path) -> None:
    done("resolve", "alpha==1.0", *TARGET)
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "cudalock-incomplete").write_text("{}")
    check = start("check", "--venv", "env", "--json")
    out, _ = check.communicate(timeout=60)
    assert check.returncode == 1
    assert "venv-incomplete" in [finding["code"] for finding in json.loads(out)["findings"]]
    done("install", "--venv", "env")


def test_several_at_once(index: FakeIndex, tmp_path: Path) -> None:
    """On one lock, one cache and one environment."""
    running = [start("resolve", f"alpha=={1 + number % 2}.0", *TARGET) for number in range(4)]
    for process in running:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, out + err
    assert b"digest" in (tmp_path / "pylock.toml").read_bytes()
    done("resolve", "alpha==2.0", *TARGET)
    running = [start("install", "--venv", "env", "--clear") for _ in range(3)]
    for process in running:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, out + err
    done("check", "--venv", "env")
    assert packages(tmp_path / "env") == {"alpha-2.0", "beta-1.0"}
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("env")) == ["env"]
    running = [start("fetch", "wheels") for _ in range(3)]
    for process in running:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, out + err
    done("install", "--venv", "env2", "--wheelhouse", "wheels")


# -- interruptions


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def has_text(path: Path) -> bool:
    return path.exists() and bool(path.read_text().strip())


def hanging_uv(folder: Path) -> Path:
    """A uv whose ``pip sync`` hangs, with a child of its own, and that hears neither SIGINT nor SIGTERM."""
    from uv import find_uv_bin

    (folder / "bin").mkdir()
    program = folder / "bin" / "uv"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = pip ] || exec {find_uv_bin()} "$@"\n'
        f"trap '' INT TERM\nsleep 300 & echo $! > {folder}/grandchild; echo $$ > {folder}/child; wait\n"
    )
    program.chmod(0o755)
    return program


RUN = (
    "import sys; from cudalock.cli.main import run; from cudalock.install import uv;"
    "uv._beside_us = lambda: None; sys.exit(run(sys.argv[1:]))"
)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("existing", [True, False], ids=["replacing", "fresh"])
def test_interrupted_installation(
    index: FakeIndex, tmp_path: Path, number: signal.Signals, status: int, existing: bool
) -> None:
    """uv and what it started end too; what is left is said, and is the truth."""
    done("resolve", "alpha==1.0", *TARGET)
    if existing:
        done("install", "--venv", "env")
    program = hanging_uv(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "install", "--venv", "env", *(["--clear"] if existing else [])],
        stderr=subprocess.PIPE, env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}, text=True,
    )  # fmt: skip
    wait_for(lambda: process.poll() is not None or has_text(tmp_path / "child"))
    assert process.poll() is None, process.communicate()
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == status, said
    for name in ("child", "grandchild"):
        pid = int((tmp_path / name).read_text())
        wait_for(lambda pid=pid: gone(pid))  # type: ignore[misc]
    if existing:
        assert "env is as it was" in said
        assert packages(tmp_path / "env") == {"alpha-1.0", "beta-1.0"}
        done("check", "--venv", "env")
    else:
        assert "incomplete" in said
        assert incomplete_reason(tmp_path / "env") is not None
        done("install", "--venv", "env")
        done("check", "--venv", "env")


def test_installation_waits_for_what_a_killed_one_left_behind(index: FakeIndex, tmp_path: Path) -> None:
    """SIGKILL cannot end uv with us: the next installation lets it finish first, and says so."""
    done("resolve", "alpha==1.0", *TARGET)
    program = hanging_uv(tmp_path)
    environ = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    first = subprocess.Popen([sys.executable, "-c", RUN, "install", "--venv", "env"], env={**os.environ, **environ})
    wait_for(lambda: has_text(tmp_path / "child"))
    first.kill()
    first.wait()
    second = subprocess.Popen(
        [sys.executable, "-m", "cudalock", "install", "--venv", "env"], stderr=subprocess.PIPE, text=True
    )
    assert second.stderr is not None
    assert "waiting for it to end" in iter_until(second.stderr, "waiting")
    assert second.poll() is None
    for name in ("child", "grandchild"):
        os.kill(int((tmp_path / name).read_text()), signal.SIGKILL)
    assert second.wait(30) == 0
    second.stderr.close()
    done("check", "--venv", "env")


def iter_until(stream: object, word: str) -> str:
    said = ""
    for line in stream:  # type: ignore[attr-defined]
        said += line
        if word in line:
            break
    return said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("command", "part"),
    [(("resolve", "alpha", *TARGET, "--upgrade"), "/simple/"), (("fetch", "wheels"), "/files/")],
    ids=["resolve", "fetch"],
)
def test_interrupted_while_a_server_stalls(
    world: World, number: signal.Signals, command: tuple[str, ...], part: str
) -> None:
    """It ends at once, whatever the server does, and leaves nothing."""
    done("resolve", "alpha", *TARGET)
    before = world.listing()
    world.proxy.asked.clear()
    for _ in range(20):
        world.proxy.order(part, stalls(8) if part == "/simple/" else stops_midway)
    process = start(*command, CUDALOCK_TIMEOUT="20", CUDALOCK_CACHE_DIR=str(world.folder.parent / "fresh"))
    wait_for(lambda: world.proxy.count(part))
    time.sleep(0.2)
    began = time.monotonic()
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number, err
    assert time.monotonic() - began < 4
    assert b"Traceback" not in err
    if part == "/simple/":
        assert b"pylock.toml is as before" in err
    whole = {f"wheels/{file.filename}": file.content for file in world.index.files}
    assert {name: content for name, content in world.listing().items() if whole.get(name) != content} == before
