"""Where an environment may lie, and that nothing which was there is lost: links, volumes, leftovers, the user's own files."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cudalock.errors import ToolError, UsageError
from cudalock.install import InstallOptions, fetch, incomplete_reason, install, read_state
from cudalock.install.venv import what_is_left
from cudalock.lock.environment import read_environment
from support.fake_index import FakeIndex
from support.installing import write_lock_of

CLEAR, SYNC = InstallOptions(clear=True), InstallOptions(sync=True)


@pytest.fixture
def index(fake_index: FakeIndex) -> Iterator[FakeIndex]:
    with fake_index.serve():
        yield fake_index


@pytest.fixture
def lock(index: FakeIndex, tmp_path: Path) -> Path:
    return write_lock_of(index, tmp_path / "pylock.toml", index.add_wheel("demo", "1.0"))


@pytest.fixture
def other(index: FakeIndex, tmp_path: Path) -> Path:
    return write_lock_of(index, tmp_path / "pylock.other.toml", index.add_wheel("other", "2.0"))


@pytest.fixture
def bad(index: FakeIndex, tmp_path: Path) -> Path:
    """A lock whose one file is not what it says."""
    return write_lock_of(index, tmp_path / "pylock.bad.toml", index.add_wheel("bad", "2.0"), sha256="0" * 64)


def contents(venv: Path) -> set[str]:
    return {str(name) for name in read_environment(venv).packages}


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if ".cudalock-" in path.name)


def test_without_an_interpreter_nothing_is_synchronised_and_nothing_lost(lock: Path, tmp_path: Path) -> None:
    venv = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (venv / "precious.py").write_text("years of work")
    for path in (venv / "bin").glob("python*"):
        path.unlink()
    (venv / "bin" / "python").symlink_to("/gone/python3")
    for _ in range(2):
        with pytest.raises(ToolError) as caught:
            install(lock, venv, options=SYNC)
        assert caught.value.code == "python-broken"
        assert (venv / "precious.py").read_text() == "years of work"


def test_what_a_failed_sync_left_is_put_aside_like_any_other(lock: Path, bad: Path, tmp_path: Path) -> None:
    venv = tmp_path / "env"
    install(lock, venv)
    (venv / "mine.txt").write_text("kept")
    for options in (SYNC, CLEAR):
        with pytest.raises(ToolError):
            install(bad, venv, options=options)
        assert (venv / "mine.txt").read_text() == "kept"
        assert contents(venv) == {"demo"}
        assert incomplete_reason(venv) is not None
    install(lock, venv, options=CLEAR)
    assert incomplete_reason(venv) is None
    assert leftovers(tmp_path) == []


def test_a_link_stays_a_link(lock: Path, other: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    real, link = tmp_path / "disk" / "real", tmp_path / "link"
    install(lock, real)
    link.symlink_to(real)
    for one, options in ((other, CLEAR), (lock, SYNC), (other, CLEAR)):
        install(one, link, options=options)
        assert link.is_symlink()
        assert contents(real) == contents(link)
    (real / "cudalock-state.json").rename(real / "cudalock-incomplete")
    install(lock, link)
    assert link.is_symlink()
    assert contents(real) == {"demo"}
    assert leftovers(tmp_path) == leftovers(tmp_path / "disk") == []


def test_a_volume_that_cannot_be_renamed_is_made_use_of(
    lock: Path, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system refuses to rename or remove a folder on which something is mounted."""
    venv, rename, rmdir = tmp_path / "env", Path.rename, Path.rmdir
    venv.mkdir()

    def movable(path: Path) -> Path:
        if path == venv:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
        return path

    monkeypatch.setattr(Path, "rename", lambda self, target: rename(movable(self), target))
    monkeypatch.setattr(Path, "rmdir", lambda self: rmdir(movable(self)))
    for options in (InstallOptions(), CLEAR):
        with pytest.raises(ToolError):
            install(bad, venv, options=options)
        assert incomplete_reason(venv) is not None
    install(lock, venv)
    assert contents(venv) == {"demo"}
    with pytest.raises(UsageError) as caught:
        install(bad, venv, options=CLEAR)
    assert caught.value.code == "venv-not-movable"
    assert contents(venv) == {"demo"}


@pytest.mark.parametrize("what", ["lock", "wheelhouse", "working folder"])
def test_what_is_needed_does_not_lie_in_what_is_replaced(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    venv, options = tmp_path / "env", CLEAR
    install(lock, venv)
    wanted = lock
    if what == "lock":
        wanted = venv / "pylock.toml"
        wanted.write_bytes(lock.read_bytes().replace(b'"1.0"', b'"1.0" ', 1))
    elif what == "wheelhouse":
        fetch(lock, venv / "wheels")
        options = InstallOptions(clear=True, wheelhouse=venv / "wheels")
    else:
        monkeypatch.chdir(venv / "bin")
    with pytest.raises(UsageError) as caught:
        install(wanted, venv, options=options)
    assert caught.value.code == "venv-in-use"
    assert contents(venv) == {"demo"}
    assert wanted.exists()


def test_cudalocks_own_environment_is_left_alone(lock: Path) -> None:
    for options in (CLEAR, SYNC):
        with pytest.raises(UsageError) as caught:
            install(lock, Path(sys.prefix), options=options)
        assert caught.value.code == "venv-in-use"


def test_an_old_environment_that_was_replaced_does_not_come_back(lock: Path, other: Path, tmp_path: Path) -> None:
    """Killed after the new one was whole: what was left to do is done by the next installation."""
    venv, old = tmp_path / "env", tmp_path / "env.cudalock-old"
    install(lock, venv)
    venv.rename(old)
    install(other, tmp_path / "fresh")
    (tmp_path / "fresh").rename(venv)
    (tmp_path / "env.cudalock-old.cudalock-trash").mkdir()
    assert read_state(venv) is not None
    assert "is complete" in what_is_left(venv)
    install(other, venv)
    assert leftovers(tmp_path) == []
    assert contents(venv) == {"other"}


def test_what_is_left_is_said_as_it_is(lock: Path, tmp_path: Path) -> None:
    venv = tmp_path / "env"
    assert "nothing was left" in what_is_left(venv)
    install(lock, venv)
    assert "as it was" in what_is_left(venv)
    venv.rename(tmp_path / "env.cudalock-old")
    assert "env.cudalock-old" in what_is_left(venv)


def test_a_link_or_file_under_our_own_names_leads_nowhere(lock: Path, other: Path, tmp_path: Path) -> None:
    venv, mine = tmp_path / "env", tmp_path / "mine"
    mine.mkdir()
    (tmp_path / "env.cudalock-new").symlink_to(mine)
    install(lock, venv)
    assert list(mine.iterdir()) == []
    (tmp_path / "env.cudalock-old").write_text("a file")
    install(other, venv, options=CLEAR)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("mark", ["dangling", "deep"])
def test_a_mark_that_cannot_be_read_is_a_mark(lock: Path, tmp_path: Path, mark: str) -> None:
    venv = tmp_path / "env"
    install(lock, venv)
    if mark == "dangling":
        (venv / "cudalock-incomplete").symlink_to("/gone")
    else:
        (venv / "cudalock-incomplete").write_text("[" * 100_000)
        (venv / "cudalock-state.json").write_text("[" * 100_000)
    assert incomplete_reason(venv) is not None
    assert read_state(venv) is None
    install(lock, venv)
    assert incomplete_reason(venv) is None


def test_several_at_once_where_not_even_the_folder_is_there(lock: Path, tmp_path: Path) -> None:
    command = "from pathlib import Path; import sys; from cudalock.install import install; install(Path(sys.argv[1]), Path(sys.argv[2]))"
    for round_ in range(3):
        venv = tmp_path / f"deep{round_}" / "a" / "env"
        running = [
            subprocess.Popen([sys.executable, "-c", command, str(lock), str(venv)], stderr=subprocess.PIPE)
            for _ in range(4)
        ]
        for process in running:
            _, err = process.communicate(timeout=60)
            assert process.returncode == 0, err
        assert contents(venv) == {"demo"}
        assert [path.name for path in venv.parent.iterdir()] == ["env"]


def test_a_refusal_leaves_no_folders(lock: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        install(lock, tmp_path / "deep" / "a" / "env", options=InstallOptions(python="/gone/python3"))
    assert not (tmp_path / "deep").exists()
