"""Real environments, made by the real uv and pip from a served index of small wheels."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from cudalock.errors import AnswerIsNo, ToolError, UsageError
from cudalock.install import InstallOptions, InstallReport, fetch, hosts, incomplete_reason, install, read_state
from cudalock.lock.environment import read_environment
from cudalock.lock.file import read_lock
from cudalock.progress import Reporter
from support.fake_index import FakeIndex
from support.installing import write_lock_of
from support.wheels import make_sdist, make_wheel

Installer = Literal["uv", "pip"]
both = pytest.mark.parametrize("installer", ["uv", pytest.param("pip", marks=pytest.mark.slow)])


@pytest.fixture
def index(fake_index: FakeIndex) -> Iterator[FakeIndex]:
    with fake_index.serve():
        yield fake_index


@pytest.fixture
def lock(index: FakeIndex, tmp_path: Path) -> Path:
    """Of ``demo 1.0`` and ``other 2.0``."""
    return write_lock_of(
        index, tmp_path / "pylock.toml", index.add_wheel("demo", "1.0"), index.add_wheel("other", "2.0")
    )


def contents(venv: Path) -> dict[str, str]:
    return {str(name): several[0].version for name, several in read_environment(venv).packages.items()}


def another_venv(path: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True)
    return path


class Listener(Reporter):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def output(self, line: str) -> None:
        self.lines.append(line)


@both
def test_a_lock_becomes_an_environment(lock: Path, tmp_path: Path, installer: Installer) -> None:
    heard = Listener()
    venv = tmp_path / "env"
    report = install(lock, venv, options=InstallOptions(installer=installer), reporter=heard)
    assert contents(venv) == {"demo": "1.0", "other": "2.0"}
    assert report.created and not report.up_to_date
    assert report.added == {"demo": "1.0", "other": "2.0"}
    assert report.hosts == ("127.0.0.1",)
    assert report.installer is not None and report.installer.startswith(installer)
    assert incomplete_reason(venv) is None
    state = read_state(venv)
    assert state is not None and state.packages == {"demo": "1.0", "other": "2.0"}
    assert state.lock_digest == read_lock(lock).digest
    assert any("demo" in line for line in heard.lines)
    done = subprocess.run(
        [str(venv / "bin" / "python"), "-c", "import demo; print(demo.__version__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "1.0"


def test_equal_contents_leave_nothing_to_do(lock: Path, index: FakeIndex, tmp_path: Path) -> None:
    venv = tmp_path / "env"
    install(lock, venv)
    before = len(index.requests)
    report = install(lock, venv)
    assert report == InstallReport(
        venv=venv, python=f"{sys.version_info.major}.{sys.version_info.minor}", up_to_date=True, hosts=("127.0.0.1",)
    )
    assert len(index.requests) == before


@both
def test_sync_changes_adds_and_removes(index: FakeIndex, lock: Path, tmp_path: Path, installer: Installer) -> None:
    options = InstallOptions(installer=installer, sync=True)
    venv = tmp_path / "env"
    install(lock, venv, options=options)
    write_lock_of(index, lock, index.add_wheel("demo", "1.1"), index.add_wheel("third", "3.0"))
    with pytest.raises(UsageError) as caught:
        install(lock, venv, options=InstallOptions(installer=installer))
    assert caught.value.code == "venv-exists"
    assert contents(venv) == {"demo": "1.0", "other": "2.0"}
    report = install(lock, venv, options=options)
    assert not report.created
    assert (report.added, report.changed, report.removed) == (
        {"third": "3.0"},
        {"demo": ("1.0", "1.1")},
        {"other": "2.0"},
    )
    assert contents(venv) == {"demo": "1.1", "third": "3.0"}


def test_another_tools_environment_is_kept_without_leave(lock: Path, tmp_path: Path) -> None:
    venv = another_venv(tmp_path / "env")
    with pytest.raises(UsageError) as caught:
        install(lock, venv)
    assert caught.value.code == "venv-exists"
    assert "not made by cudalock" in caught.value.message
    assert contents(venv) == {}
    install(lock, venv, options=InstallOptions(sync=True))
    assert contents(venv) == {"demo": "1.0", "other": "2.0"}


def test_clear_replaces(lock: Path, tmp_path: Path) -> None:
    venv = another_venv(tmp_path / "env")
    (venv / "mine").write_text("old")
    report = install(lock, venv, options=InstallOptions(clear=True))
    assert report.created
    assert not (venv / "mine").exists()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir() and path.name.startswith("env")) == ["env"]


@both
def test_a_failure_brings_the_old_environment_back(index: FakeIndex, tmp_path: Path, installer: Installer) -> None:
    good = write_lock_of(index, tmp_path / "pylock.toml", index.add_wheel("demo", "1.0"))
    bad = write_lock_of(index, tmp_path / "pylock.bad.toml", index.add_wheel("other", "2.0"), sha256="0" * 64)
    venv = tmp_path / "env"
    install(good, venv)
    with pytest.raises(ToolError) as caught:
        install(bad, venv, options=InstallOptions(clear=True, installer=installer))
    assert caught.value.exit_status == 4
    assert caught.value.code == f"{installer}-failed"
    assert "0000000" in caught.value.message  # the tool's own words name both hashes
    assert contents(venv) == {"demo": "1.0"}
    assert incomplete_reason(venv) is None
    assert [path.name for path in tmp_path.iterdir() if "cudalock" in path.name] == []


def test_a_failure_of_a_fresh_one_is_marked_and_mended_by_the_next(
    index: FakeIndex, lock: Path, tmp_path: Path
) -> None:
    venv = tmp_path / "env"
    index.misbehave("/files/demo", 404)
    with pytest.raises(ToolError) as caught:
        install(lock, venv)
    assert "404" in caught.value.message
    assert incomplete_reason(venv) is not None
    assert read_state(venv) is None
    assert read_environment(venv).incomplete  # what `check` looks at
    install(lock, venv)
    assert contents(venv) == {"demo": "1.0", "other": "2.0"}
    assert incomplete_reason(venv) is None


def test_a_failing_sync_leaves_the_mark(index: FakeIndex, lock: Path, tmp_path: Path) -> None:
    venv = another_venv(tmp_path / "env")
    index.misbehave("/files/demo", 404)
    with pytest.raises(ToolError):
        install(lock, venv, options=InstallOptions(sync=True))
    assert incomplete_reason(venv) is not None
    with pytest.raises(UsageError) as caught:
        install(lock, venv)
    assert caught.value.code == "venv-incomplete"
    install(lock, venv, options=InstallOptions(sync=True))
    assert incomplete_reason(venv) is None


def test_killed_while_replacing_the_old_one_still_comes_back(
    index: FakeIndex, lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kill leaves: the new one begun, the old one beside it. The next failure restores, the next success clears."""
    venv = tmp_path / "env"
    install(lock, venv)
    venv.rename(tmp_path / "env.cudalock-old")
    venv.mkdir()
    (venv / "cudalock-incomplete").write_text("{}")
    index.misbehave("/files/", 404, 404)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "fresh-cache"))
    with pytest.raises(ToolError):
        install(lock, venv)
    assert contents(venv) == {"demo": "1.0", "other": "2.0"}
    assert incomplete_reason(venv) is None


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_place_that_is_no_environment_is_left_alone(lock: Path, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "file":
        place.write_text("mine")
    else:
        place.mkdir()
        (place / "mine").write_text("mine")
    for options in (InstallOptions(), InstallOptions(clear=True), InstallOptions(sync=True)):
        with pytest.raises(UsageError) as caught:
            install(lock, place, options=options)
        assert caught.value.code == ("venv-is-file" if kind == "file" else "venv-not-a-venv")
    assert (place if kind == "file" else place / "mine").read_text() == "mine"


def test_a_python_that_is_not_there_is_said_at_once(index: FakeIndex, tmp_path: Path) -> None:
    lock = write_lock_of(index, tmp_path / "pylock.toml", index.add_wheel("demo", "1.0"), python=(3, 99))
    with pytest.raises(UsageError) as caught:
        install(lock, tmp_path / "env")
    assert caught.value.code == "python-not-found"
    assert "3.99" in caught.value.message
    assert caught.value.hint is not None and "--python" in caught.value.hint
    assert not (tmp_path / "env").exists()
    assert index.requests == []


def test_another_python_than_the_locks_is_refused(index: FakeIndex, tmp_path: Path) -> None:
    lock = write_lock_of(index, tmp_path / "pylock.toml", index.add_wheel("demo", "1.0"), python=(3, 99))
    with pytest.raises(UsageError) as caught:
        install(lock, tmp_path / "env", options=InstallOptions(python=sys.executable))
    assert caught.value.code == "python-mismatch"


def test_a_lock_for_another_platform_is_refused(index: FakeIndex, lock: Path, tmp_path: Path) -> None:
    text = re.sub(r"sys_platform == (\\?.)linux", r"sys_platform == \1win32", lock.read_text())
    assert "win32" in text
    lock.write_text(text)
    with pytest.raises(AnswerIsNo) as caught:
        install(lock, tmp_path / "env", options=InstallOptions(force=True))
    assert caught.value.code == "lock-not-for-this-machine"
    assert not (tmp_path / "env").exists()


def test_an_edited_lock_needs_force(lock: Path, tmp_path: Path) -> None:
    lock.write_text(lock.read_text().replace('version = "2.0"', 'version = "2.0"\nrequires-python = ">=3.0"'))
    with pytest.raises(UsageError) as caught:
        install(lock, tmp_path / "env")
    assert caught.value.code == "lock-digest-mismatch"
    install(lock, tmp_path / "env", options=InstallOptions(force=True))
    assert contents(tmp_path / "env") == {"demo": "1.0", "other": "2.0"}


def real_uv() -> str:
    from uv import find_uv_bin

    return str(find_uv_bin())


def fake_uv(folder: Path, script: str) -> Path:
    program = folder / "uv"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("script", "code"),
    [("echo 'uv 0.1.2'", "uv-too-old"), ("echo broken >&2; exit 3", "uv-failed"), (None, "uv-missing")],
)
def test_a_uv_that_cannot_be_used(lock: Path, tmp_path: Path, script: str | None, code: str) -> None:
    program = fake_uv(tmp_path, script) if script is not None else tmp_path / "nothing"
    with pytest.raises(ToolError) as caught:
        install(lock, tmp_path / "env", options=InstallOptions(uv=program))
    assert caught.value.code == code
    assert not (tmp_path / "env").exists()


def test_uv_that_claims_success_is_not_believed(lock: Path, tmp_path: Path) -> None:
    program = fake_uv(tmp_path, f'[ "$1" = pip ] && exit 0\nexec {real_uv()} "$@"')
    with pytest.raises(ToolError) as caught:
        install(lock, tmp_path / "env", options=InstallOptions(uv=program))
    assert caught.value.code == "install-differs"
    assert incomplete_reason(tmp_path / "env") is not None


def test_an_interruption_ends_uv_and_brings_the_old_environment_back(
    index: FakeIndex, lock: Path, tmp_path: Path
) -> None:
    venv = tmp_path / "env"
    install(lock, venv)
    program = fake_uv(
        tmp_path, f'[ "$1" = pip ] && {{ echo $$ > {tmp_path}/pid; exec sleep 300; }}\nexec {real_uv()} "$@"'
    )
    code = (
        "from pathlib import Path; from cudalock.install import install, InstallOptions\n"
        f"install(Path({str(lock)!r}), Path({str(venv)!r}), options=InstallOptions(clear=True, uv=Path({str(program)!r})))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip()):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    assert incomplete_reason(venv) is not None  # what `check` sees at this moment
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert b"KeyboardInterrupt" in said
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    assert contents(venv) == {"demo": "1.0", "other": "2.0"}
    assert incomplete_reason(venv) is None


@both
def test_a_wheelhouse_is_enough(index: FakeIndex, lock: Path, tmp_path: Path, installer: Installer) -> None:
    house = tmp_path / "house"
    report = fetch(lock, house)
    assert report.fetched == ("demo-1.0-py3-none-any.whl", "other-2.0-py3-none-any.whl")
    assert sorted(path.name for path in house.iterdir()) == [*report.fetched, "pylock.toml"]
    again = fetch(lock, house)
    assert (again.fetched, again.present) == ((), report.fetched)
    before = len(index.requests)
    done = install(
        house / "pylock.toml", tmp_path / "env", options=InstallOptions(installer=installer, wheelhouse=house)
    )
    assert contents(tmp_path / "env") == {"demo": "1.0", "other": "2.0"}
    assert done.hosts == ()
    assert len(index.requests) == before


def test_a_wheelhouse_that_lacks_a_file_is_said_before_anything_is_touched(lock: Path, tmp_path: Path) -> None:
    house = tmp_path / "house"
    fetch(lock, house)
    (house / "demo-1.0-py3-none-any.whl").unlink()
    with pytest.raises(UsageError) as caught:
        install(lock, tmp_path / "env", options=InstallOptions(wheelhouse=house))
    assert caught.value.code == "wheelhouse-incomplete"
    assert "demo-1.0-py3-none-any.whl" in caught.value.message
    assert not (tmp_path / "env").exists()


def test_a_changed_file_in_the_wheelhouse_is_refused(lock: Path, tmp_path: Path) -> None:
    house = tmp_path / "house"
    fetch(lock, house)
    wheel = house / "demo-1.0-py3-none-any.whl"
    wheel.write_bytes(make_wheel("demo", "1.0", files={"demo.py": b"evil = True"})[1])
    with pytest.raises(UsageError) as caught:
        install(lock, tmp_path / "env", options=InstallOptions(wheelhouse=house))
    assert caught.value.code == "locked-file-damaged"
    assert str(wheel) in caught.value.message
    assert "cudalock fetch" in (caught.value.hint or "")
    assert not (tmp_path / "env").exists()
    assert fetch(lock, house).fetched == ("demo-1.0-py3-none-any.whl",)  # mended by the next fetch


def flipped(content: bytes) -> bytes:
    """With the same size, and one bit of the first member's content changed."""
    return content[:60] + bytes([content[60] ^ 1]) + content[61:]


@both
def test_a_wheel_that_was_damaged_without_changing_its_size_is_named(
    lock: Path, tmp_path: Path, installer: Installer
) -> None:
    house = tmp_path / "house"
    fetch(lock, house)
    wheel = house / "demo-1.0-py3-none-any.whl"
    wheel.write_bytes(flipped(wheel.read_bytes()))
    with pytest.raises(UsageError) as caught:
        install(lock, tmp_path / "env", options=InstallOptions(wheelhouse=house, installer=installer))
    assert caught.value.code == "locked-file-damaged"
    assert str(wheel) in caught.value.message and "sha256" in caught.value.message


@both
@pytest.mark.parametrize("how", ["cut", "flipped", "no archive"])
def test_a_wheel_that_was_locked_damaged_is_named_with_another_way_out(
    index: FakeIndex, tmp_path: Path, installer: Installer, how: str
) -> None:
    name, content = make_wheel("demo", "1.0")
    bad = {"cut": content[: len(content) // 2], "flipped": flipped(content), "no archive": b"<html></html>"}[how]
    lock = write_lock_of(index, tmp_path / "pylock.toml", index.add(name, bad))
    fetch(lock, tmp_path / "house")
    with pytest.raises(UsageError) as caught:
        install(lock, tmp_path / "env", options=InstallOptions(wheelhouse=tmp_path / "house", installer=installer))
    assert caught.value.code == "locked-file-damaged"
    assert name in caught.value.message and "locked like that" in caught.value.message
    assert "resolve anew" in (caught.value.hint or "")


def test_fetch_refuses_other_content(index: FakeIndex, tmp_path: Path) -> None:
    from cudalock.errors import TransportError

    lock = write_lock_of(index, tmp_path / "pylock.toml", index.add_wheel("demo", "1.0"), sha256="1" * 64)
    with pytest.raises(TransportError) as caught:
        fetch(lock, tmp_path / "house")
    assert caught.value.code == "index-hash-conflict"
    assert list((tmp_path / "house").iterdir()) == []


BACKEND = b"""
import os, zipfile
def get_requires_for_build_wheel(settings=None): return []
def build_wheel(folder, settings=None, metadata=None):
    import torch
    name = "ext-1.0-py3-none-any.whl"
    text = f"arch = {os.environ.get('TORCH_CUDA_ARCH_LIST')!r}; torch = {torch.__version__!r}\\n"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as z:
        z.writestr("ext.py", text)
        z.writestr("ext-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: ext\\nVersion: 1.0\\n")
        z.writestr("ext-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        z.writestr("ext-1.0.dist-info/RECORD", "")
    return name
"""


@both
def test_a_source_is_built_after_torch_is_in(
    index: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installer: Installer
) -> None:
    torch = index.add_wheel("torch", "2.9.0")
    system = b'[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "ext"\nversion = "1.0"\n'
    name, content = make_sdist(
        "ext", "1.0", requires=["torch"], files={"pyproject.toml": system, "backend.py": BACKEND}
    )
    lock = write_lock_of(index, tmp_path / "pylock.toml", torch, index.add(name, content))
    text = lock.read_text()
    if "dependencies" not in text:  # as build_lock writes them where resolution knows them
        text = text.replace(
            'name = "ext"\nversion = "1.0"\n', 'name = "ext"\nversion = "1.0"\ndependencies = [{name = "torch"}]\n'
        )
    lock.write_text(text)
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9.0")
    install(lock, tmp_path / "env", options=InstallOptions(installer=installer, force=True))
    done = subprocess.run(
        [str(tmp_path / "env" / "bin" / "python"), "-c", "import ext; print(ext.arch, ext.torch)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["9.0", "2.9.0"]


def test_hosts_are_those_of_the_files(lock: Path) -> None:
    assert hosts(read_lock(lock).pylock) == ("127.0.0.1",)


def test_the_state_is_readable_by_others(lock: Path, tmp_path: Path) -> None:
    install(lock, tmp_path / "env")
    said = json.loads((tmp_path / "env" / "cudalock-state.json").read_text())
    assert said["schema"] == 1
    assert said["packages"] == {"demo": "1.0", "other": "2.0"}
