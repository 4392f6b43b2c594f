"""What an installation does not start, or gets ready while uv works, is no different for that."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from uv import find_uv_bin

from cudalock.errors import UsageError
from cudalock.install import InstallOptions, install
from cudalock.install.python import _ask, _ourselves, find_interpreter
from cudalock.install.uv import _installed_version, find_uv
from cudalock.lock.owned import damaged_files
from cudalock.progress import SILENT
from support.fake_index import FakeIndex
from support.installing import write_lock_of

BASE = Path(getattr(sys, "_base_executable", sys.executable)).resolve()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every interpreter is asked")
def test_our_own_interpreter_is_known_as_it_would_describe_itself() -> None:
    asked, known = _ask(BASE), _ourselves(BASE)
    assert asked is not None and known is not None
    assert (known.version, known.free_threaded) == (asked.version, asked.free_threaded)
    assert known.path.samefile(asked.path)


def test_another_program_is_not_taken_for_our_interpreter(tmp_path: Path) -> None:
    copied = Path(shutil.copy(BASE, tmp_path / "python"))
    assert _ourselves(copied) is None
    assert _ourselves(tmp_path / "missing") is None
    assert find_interpreter(None, None).version == ".".join(map(str, sys.version_info[:3]))


def test_uv_is_as_new_as_its_distribution_says() -> None:
    said = subprocess.run([find_uv_bin(), "--version"], capture_output=True, text=True, check=True).stdout
    assert f"uv {_installed_version(Path(find_uv_bin()))} " in said.replace("\n", " ")
    assert f"{find_uv(SILENT).name} " in said.replace("\n", " ")


def test_a_uv_that_the_distribution_did_not_bring_is_asked_itself(tmp_path: Path) -> None:
    other = tmp_path / "uv"
    other.write_text("#!/bin/sh\necho uv 7.8.9\n")
    other.chmod(0o755)
    assert _installed_version(other) is None
    assert find_uv(SILENT, program=other).name == "uv 7.8.9"


@pytest.mark.parametrize("before", ["nothing", "an environment to clear", "an environment to synchronise"])
def test_a_broken_pip_configuration_changes_nothing(
    fake_index: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    venv = tmp_path / "env"
    with fake_index.serve():
        lock = write_lock_of(fake_index, tmp_path / "pylock.toml", fake_index.add_wheel("demo", "1.0"))
        if before != "nothing":
            install(lock, venv)
            lock = write_lock_of(fake_index, tmp_path / "pylock.toml", fake_index.add_wheel("demo", "2.0"))
        there = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
        broken = tmp_path.parent / f"{tmp_path.name}.conf"
        broken.write_text("[global\nindex-url")
        monkeypatch.setenv("PIP_CONFIG_FILE", str(broken))
        options = InstallOptions(clear="clear" in before, sync="synchronise" in before)
        with pytest.raises(UsageError) as caught:
            install(lock, venv, options=options)
        assert caught.value.code == "pip-configuration-invalid"
        assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == there


@pytest.mark.parametrize(
    "name", ["demo/plain.py", "demo/with,comma.py", 'demo/with"quote.py', "../../share/demo.txt", "demo/äöü.py"]
)
def test_every_form_of_a_record_is_understood(tmp_path: Path, name: str) -> None:
    site = tmp_path / "lib" / "python" / "site-packages"
    dist_info = site / "demo-1.0.dist-info"
    dist_info.mkdir(parents=True)
    file = site / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("whole")
    with (dist_info / "RECORD").open("w", newline="", encoding="utf-8") as record:
        rows = [("demo/gone.pyc", "sha256=x", "9"), ("../../bin/demo", "sha256=x", "9"), (name, "sha256=x", "5")]
        csv.writer(record).writerows([*rows, ("demo/unhashed.py", "", ""), ("demo-1.0.dist-info/RECORD", "", "")])
    owner = canonicalize_name("demo")
    assert damaged_files(site, {owner: (dist_info,)}, {}) == {}
    file.write_text("cut")
    assert damaged_files(site, {owner: (dist_info,)}, {}) == {owner: (name,)}
    assert damaged_files(site, {owner: (dist_info,)}, {name: 3}) == {}
