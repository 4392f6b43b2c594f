"""uv and pip take the very file that is written: dry and for real, from an index on loopback."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from uv import find_uv_bin

from cudalock.compat.model import Policy
from cudalock.lock import build_lock, drift_findings, read_environment, read_lock, write_lock
from cudalock.requirements import read_request
from cudalock.resolve.model import Pin, Resolution
from support.fake_index import FakeFile, FakeIndex
from support.locks import linux_target, pin
from support.wheels import make_wheel

HERE = linux_target("9.0", python=sys.version_info[:2], machine=os.uname().machine)


@dataclass(frozen=True)
class Installation:
    """A lock of packages on a running index, and an empty environment."""

    lock: Path
    venv: Path
    base: str

    def uv(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run([find_uv_bin(), "pip", *arguments, "--python", str(self.venv)])

    def pip(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run([sys.executable, "-m", "pip", "--python", str(self.venv), "install", *arguments])


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def pinned(index: FakeIndex, file: FakeFile, **more: Any) -> Pin:
    made = pin(
        file.filename,
        url=index.host + quote(file.path),
        sha256=hashlib.sha256(file.content).hexdigest(),
        index="main" if file.label is None else "pytorch",
        label=file.label,
        **more,
    )
    return replace(made, file=replace(made.file, size=len(file.content)))


@pytest.fixture
def installation(fake_index: FakeIndex, tmp_path: Path) -> Iterator[Installation]:
    demo = fake_index.add_wheel("demo", "1.0", requires=["helper", "native"], requires_python=">=3.9")
    helper = fake_index.add_wheel("helper", "2.0+cu128", label="cu128")
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    native = fake_index.add_wheel(
        "native", "1.5", python_tag=tag, abi=tag, platform=f"manylinux_2_17_{HERE.platform.machine}"
    )
    direct = fake_index.add_wheel("direct", "3.0")
    with fake_index.serve() as base:
        pins = [
            pinned(fake_index, demo, requires=["helper", "native"], requires_python=">=3.9"),
            pinned(fake_index, direct),
            pinned(fake_index, helper),
            pinned(fake_index, native),
        ]
        request = read_request(["demo", f"direct @ {base}{direct.path}"])
        urls = {"main": fake_index.main_url, "pytorch": fake_index.pytorch_url}
        lock = build_lock(Resolution(pins=tuple(pins)), HERE, request, Policy(), index_urls=urls)
        path = tmp_path / "pylock.toml"
        write_lock(path, lock)
        made = run([find_uv_bin(), "venv", "--no-project", "--python", sys.executable, str(tmp_path / "venv")])
        assert made.returncode == 0, made.stderr
        yield Installation(lock=path, venv=tmp_path / "venv", base=base)


ALL = ("demo", "direct", "helper", "native")


def test_uv_accepts_it_dry(installation: Installation) -> None:
    for arguments in (["sync", "--require-hashes", str(installation.lock)], ["install", "-r", str(installation.lock)]):
        done = installation.uv(*arguments, "--dry-run")
        assert done.returncode == 0, done.stderr
        for name in ALL:
            assert f"+ {name}" in done.stderr


def test_uv_installs_it_and_the_environment_then_equals_the_lock(installation: Installation) -> None:
    lock = read_lock(installation.lock)
    assert [finding.severity for finding in drift_findings(lock, read_environment(installation.venv))] == ["error"]
    done = installation.uv("sync", str(installation.lock))
    assert done.returncode == 0, done.stderr
    assert drift_findings(lock, read_environment(installation.venv)) == ()


@pytest.mark.slow
def test_pip_accepts_it_dry_and_installs_it(installation: Installation) -> None:
    dry = installation.pip("--dry-run", "-r", str(installation.lock))
    assert dry.returncode == 0, dry.stderr
    for name in ALL:
        assert f"{name}-" in dry.stdout.splitlines()[-1]
    done = installation.pip("-r", str(installation.lock))
    assert done.returncode == 0, done.stderr
    assert drift_findings(read_lock(installation.lock), read_environment(installation.venv)) == ()


def test_uv_and_pip_refuse_a_file_that_is_not_the_locked_one(installation: Installation, fake_index: FakeIndex) -> None:
    for file in fake_index.files:
        name, version, python_tag, abi, platform = file.filename.removesuffix(".whl").split("-")
        _, file.content = make_wheel(
            name, version, python_tag=python_tag, abi=abi, platform=platform, files={f"{name}/__init__.py": b"other = 1\n"}
        )  # fmt: skip
    for done in (installation.uv("sync", str(installation.lock)), installation.pip("-r", str(installation.lock))):
        assert done.returncode != 0
        said = done.stderr.lower()  # uv looks at the size first
        assert "size mismatch" in said or "do not match the hashes" in said


def test_uv_and_pip_refuse_another_python(installation: Installation) -> None:
    """The lock's own conditions do that, without cudalock."""
    text = installation.lock.read_text()
    other = f"=={sys.version_info.major}.{sys.version_info.minor + 1}.*"
    installation.lock.write_text(text.replace(f"=={sys.version_info.major}.{sys.version_info.minor}.*", other))
    for done in (
        installation.uv("sync", "--dry-run", str(installation.lock)),
        installation.pip("--dry-run", "-r", str(installation.lock)),
    ):
        assert done.returncode != 0
        assert "python" in done.stderr.lower()


def test_uv_and_pip_refuse_another_platform(installation: Installation) -> None:
    text = installation.lock.read_text()
    assert 'sys_platform == \\"linux\\"' in text
    installation.lock.write_text(text.replace('sys_platform == \\"linux\\"', 'sys_platform == \\"win32\\"'))
    for done in (
        installation.uv("sync", "--dry-run", str(installation.lock)),
        installation.pip("--dry-run", "-r", str(installation.lock)),
    ):
        assert done.returncode != 0
        assert "environment" in done.stderr.lower()
