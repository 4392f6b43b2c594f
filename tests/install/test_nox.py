"""``cudalock.nox`` in a real nox run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fake_index import FakeIndex
from support.installing import write_lock_of

pytestmark = pytest.mark.slow

NOXFILE = """
import nox
from cudalock.nox import install

@nox.session(venv_backend="uv")
def tests(session):
    install(session, "pylock.toml")
    session.run("python", "-c", "import demo, sys; print('demo', demo.__version__, 'in', sys.prefix)")
"""


@pytest.fixture
def index(fake_index: FakeIndex) -> Iterator[FakeIndex]:
    with fake_index.serve():
        yield fake_index


def run_nox(folder: Path, noxfile: str = NOXFILE) -> subprocess.CompletedProcess[str]:
    (folder / "noxfile.py").write_text(noxfile)
    return subprocess.run(
        [sys.executable, "-m", "nox", "-s", "tests"], cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_session_gets_exactly_the_lock(index: FakeIndex, tmp_path: Path) -> None:
    write_lock_of(index, tmp_path / "pylock.toml", index.add_wheel("demo", "1.0"))
    done = run_nox(tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"demo 1.0 in {tmp_path / '.nox' / 'tests'}" in done.stdout


def test_a_lock_that_cannot_be_installed_fails_the_session(index: FakeIndex, tmp_path: Path) -> None:
    write_lock_of(index, tmp_path / "pylock.toml", index.add_wheel("demo", "1.0"), sha256="0" * 64)
    done = run_nox(tmp_path)
    assert done.returncode == 1
    assert "uv-failed" in done.stderr + done.stdout
    assert "demo 1.0 in" not in done.stdout


@pytest.mark.parametrize("how", ['venv_backend="none"', "python=False"])
def test_a_session_without_an_environment_is_told_what_it_needs(tmp_path: Path, how: str) -> None:
    done = run_nox(tmp_path, NOXFILE.replace('venv_backend="uv"', how))
    assert done.returncode == 1
    assert "environment of its own" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_something_else_than_the_session_is_told_what_is_needed(tmp_path: Path) -> None:
    from cudalock.errors import UsageError
    from cudalock.nox import install

    for wrong in (None, "pylock.toml", tmp_path):
        with pytest.raises(UsageError) as caught:
            install(wrong)  # type: ignore[arg-type]
        assert caught.value.code == "nox-session-invalid"
        assert "@nox.session" in (caught.value.hint or "")
