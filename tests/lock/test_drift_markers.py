"""Markers of another tool's lock see the environment's Python, not the one that runs cudalock."""

from __future__ import annotations

from pathlib import Path

import pytest

from cudalock.lock import read_environment
from cudalock.lock.drift import drift_findings, to_reinstall
from cudalock.lock.file import parse_text
from cudalock.lock.model import Lock

UV = "implementation = CPython\nuv = 0.9\nversion_info = {}\n"
STDLIB = "home = /usr/bin\nversion = {}\nexecutable = /usr/bin/python3\n"
ARCHIVE = 'archive = {url = "https://files.example/demo-1.0.zip", hashes = {sha256 = "00"}}\n'


def a_foreign_lock(*markers: str) -> Lock:
    """One package for each marker: demo 1.0, demo 2.0 and so on."""
    packages = [
        f'[[packages]]\nname = "demo"\nversion = "{number}.0"\nmarker = "{marker}"\n{ARCHIVE}'
        for number, marker in enumerate(markers, start=1)
    ]
    return parse_text('lock-version = "1.0"\ncreated-by = "other"\n' + "".join(packages), "pylock.toml")


def environment(folder: Path, configuration: str, *, demo: str | None = None, python: str = "3.12") -> Path:
    site = folder / "lib" / f"python{python}" / "site-packages"
    site.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(configuration)
    if demo is not None:
        info = site / f"demo-{demo}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: demo\nVersion: {demo}\n")
        (info / "RECORD").write_text("")
    return folder


def found(lock: Lock, venv: Path) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity) for finding in drift_findings(lock, read_environment(venv))]


MISSING = [("lock-drift", "error")]
BEYOND = [("lock-drift", "warning")]

CASES = [
    (UV, "3.9.7", "python_full_version >= '3.9.8'", False),
    (UV, "3.9.8", "python_full_version >= '3.9.8'", True),
    (UV, "3.9.8", "python_full_version < '3.9.8'", False),
    (STDLIB, "3.9.8", "python_full_version == '3.9.8'", True),
    (UV, "3.16.1", "python_full_version >= '3.16'", True),
    (UV, "3.16.1", "python_version >= '3.16' and implementation_version >= '3.16.1'", True),
    (UV, "3.16.1.final.0", "python_full_version == '3.16.1'", True),
    (UV, "3.16.0.candidate.2", "python_full_version == '3.16.0rc2'", True),
    (UV, "3.16.0rc2", "python_full_version >= '3.16.0'", False),
    (UV, "3.16.0+", "python_full_version >= '3.16.0'", True),
    (UV, "3.16.1", "implementation_name == 'cpython' and platform_python_implementation == 'CPython'", True),
    (STDLIB, "3.16.1", "platform_python_implementation == 'CPython'", True),
    (UV.replace("CPython", "PyPy"), "3.11.1", "implementation_name == 'pypy'", True),
    (UV.replace("CPython", "PyPy"), "3.11.1", "platform_python_implementation == 'PyPy'", True),
    (UV.replace("CPython", "GraalVM"), "3.11.1", "implementation_name == 'cpython'", False),
    # what is known decides where all that is possible agrees
    (STDLIB, "3.16", "python_full_version >= '3.15.2'", True),
    (STDLIB, "3.16", "python_full_version < '3.15.2'", False),
    (STDLIB, "3.16", "python_version == '3.16'", True),
    (STDLIB, "3.16", "sys_platform == 'win32' and python_full_version >= '3.16.2'", False),
    (STDLIB, "", "implementation_name == 'cpython'", True),
    (STDLIB, "", "python_version >= '3.1'", True),
    (STDLIB.replace("python3", "pypy3"), "3.11.1", "python_full_version == '3.11.1'", True),
    (UV, "3.12.1", "extra == 'x'", False),
    (UV, "3.12.1", "'x' in extras or 'y' in dependency_groups", False),
]  # fmt: skip


@pytest.mark.parametrize(("configuration", "version", "marker", "wanted"), CASES)
def test_a_package_belongs_or_does_not(
    tmp_path: Path, configuration: str, version: str, marker: str, wanted: bool
) -> None:
    lock = a_foreign_lock(marker)
    text = configuration.format(version)
    assert found(lock, environment(tmp_path / "without", text)) == (MISSING if wanted else [])
    assert found(lock, environment(tmp_path / "with", text, demo="1.0")) == ([] if wanted else BEYOND)


UNDECIDED = [
    (STDLIB, "3.16", "python_full_version >= '3.16.2'"),
    (STDLIB, "3.16", "python_full_version == '3.16.0rc1'"),
    (STDLIB, "3.16.x", "python_full_version < '3.16.1'"),
    (STDLIB, "", "python_version >= '3.12'"),
    ("home = /usr/bin\n", "", "python_full_version < '3.12'"),
    (STDLIB.replace("python3", "pypy3"), "3.11.1", "implementation_name == 'cpython'"),
    (STDLIB.replace("python3", "graalpy"), "3.11.1", "platform_python_implementation != 'CPython'"),
]


@pytest.mark.parametrize(("configuration", "version", "marker"), UNDECIDED)
def test_what_the_environment_does_not_say_is_not_made_up(
    tmp_path: Path, configuration: str, version: str, marker: str
) -> None:
    """The package may be there and may be not; another version of it is in any case not the lock's."""
    lock = a_foreign_lock(marker)
    text = configuration.format(version)
    assert found(lock, environment(tmp_path / "without", text)) == []
    assert found(lock, environment(tmp_path / "with", text, demo="1.0")) == []
    assert found(lock, environment(tmp_path / "other", text, demo="7.0")) == BEYOND


def test_of_two_versions_the_one_that_is_there_may_be_the_right_one(tmp_path: Path) -> None:
    lock = a_foreign_lock("python_full_version < '3.16.2'", "python_full_version >= '3.16.2'")
    for number, version in enumerate(("1.0", "2.0")):
        assert found(lock, environment(tmp_path / str(number), STDLIB.format("3.16"), demo=version)) == []
    known = environment(tmp_path / "known", STDLIB.format("3.16.2"), demo="1.0")
    assert found(lock, known) == MISSING  # as one that is there in another version


def test_a_package_that_may_be_there_is_whole_if_it_is(tmp_path: Path) -> None:
    lock = a_foreign_lock("python_full_version >= '3.16.2'")
    venv = environment(tmp_path, STDLIB.format("3.16"), demo="1.0")
    next(venv.rglob("RECORD")).unlink()
    assert found(lock, venv) == MISSING
    assert to_reinstall(lock, read_environment(venv)) == {"demo"}
