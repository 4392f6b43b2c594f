"""Platform and Python: accepted forms, tags against packaging's own, markers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.markers import Marker, default_environment
from packaging.tags import parse_tag, sys_tags

from cudalock.errors import UsageError
from cudalock.host import detect_surroundings
from cudalock.target import Platform, PythonVersion, marker_environment, parse_platform, parse_python, wheel_tags
from cudalock.target.platforms import parse_libc


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("linux-x86_64", Platform("linux", "x86_64")),
        ("linux_amd64", Platform("linux", "x86_64")),
        ("Linux-AArch64", Platform("linux", "aarch64")),
        ("linux-arm64", Platform("linux", "aarch64")),
        ("x86_64-unknown-linux-gnu", Platform("linux", "x86_64")),
        ("x86_64-manylinux_2_28", Platform("linux", "x86_64", ("glibc", (2, 28)))),
        ("manylinux_2_28_x86_64", Platform("linux", "x86_64", ("glibc", (2, 28)))),
        ("aarch64-manylinux_2_35", Platform("linux", "aarch64", ("glibc", (2, 35)))),
        ("manylinux2014_x86_64", Platform("linux", "x86_64", ("glibc", (2, 17)))),
        ("x86_64-manylinux2014", Platform("linux", "x86_64", ("glibc", (2, 17)))),
        ("x86_64-musllinux_1_2", Platform("linux", "x86_64", ("musl", (1, 2)))),
        ("linux-x86_64-musl", Platform("linux", "x86_64", ("musl", (1, 2)))),
        ("x86_64-unknown-linux-musl", Platform("linux", "x86_64", ("musl", (1, 2)))),
        ("win-amd64", Platform("windows", "x86_64")),
        ("win_amd64", Platform("windows", "x86_64")),
        ("windows-x86_64", Platform("windows", "x86_64")),
        ("win-arm64", Platform("windows", "aarch64")),
        ("x86_64-pc-windows-msvc", Platform("windows", "x86_64")),
    ],
)
def test_platforms_in_the_forms_people_write(text: str, expected: Platform) -> None:
    assert parse_platform(text) == expected


@pytest.mark.parametrize("text", ["linux-x86_64", "linux-aarch64", "win-amd64"])
def test_the_name_in_a_lock_reads_back(text: str) -> None:
    assert str(parse_platform(text)) == text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("macosx-arm64", "platform-unsupported"),
        ("aarch64-apple-darwin", "platform-unsupported"),
        ("linux-ppc64le", "platform-unknown"),
        ("linux", "platform-unknown"),
        ("x86_64", "platform-unknown"),
        ("linux-x86_64-aarch64", "platform-unknown"),
        ("x86_64-manylinux_2_999", "platform-unknown"),
        ("x86_64-manylinux_9_1", "platform-unknown"),
        ("", "platform-unknown"),
    ],
)
def test_platforms_that_are_refused(text: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_platform(text)
    assert caught.value.code == code
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3.12", (PythonVersion(3, 12), None)),
        ("3.12.4", (PythonVersion(3, 12), 4)),
        ("3.14t", (PythonVersion(3, 14, free_threaded=True), None)),
        ("3.14.0t", (PythonVersion(3, 14, free_threaded=True), 0)),
        ("python3.13", (PythonVersion(3, 13), None)),
        ("cpython-3.11", (PythonVersion(3, 11), None)),
    ],
)
def test_pythons_in_the_forms_people_write(text: str, expected: tuple[PythonVersion, int | None]) -> None:
    assert parse_python(text) == expected


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("cp312", "--python 3.12"),
        ("314t", "--python 3.14t"),
        ("3.12t", "--python 3.12"),
        ("2.7", "3.12"),
        ("three", "3.12"),
        ("3", "3.12"),
    ],
)
def test_pythons_that_are_refused_say_what_was_meant(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_python(text)
    assert caught.value.code == "python-invalid"
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "expected"), [("glibc-2.28", ("glibc", (2, 28))), ("musl 1.2", ("musl", (1, 2))), ("2.28", None)]
)
def test_libc(text: str, expected: object) -> None:
    assert parse_libc(text) == expected


def running_platform() -> Platform:
    host = detect_surroundings()
    assert host.os in ("linux", "windows")
    assert host.machine is not None
    return Platform(host.os, host.machine, host.libc)


def test_tags_of_the_running_interpreter_are_packagings_own_in_order() -> None:
    python, _ = parse_python(detect_surroundings().python or "")
    assert list(wheel_tags(running_platform(), python)) == list(sys_tags())


@pytest.mark.parametrize("name", ["python3.12", "python3.13"])
def test_tags_of_another_interpreter_are_its_own(name: str) -> None:
    # a version manager keeps its interpreters side by side; what is on the search path may be only a stand-in
    beside = sorted(Path(sys.base_prefix).parent.glob(f"{name.removeprefix('python')}*/bin/{name}"))
    python = str(beside[-1]) if beside else shutil.which(name)
    if python is None:
        pytest.skip(f"{name} is not installed")
    import packaging

    folder = packaging.__path__[0].removesuffix("packaging")
    script = f"import sys, json; sys.path.append({folder!r}); import packaging.tags as t; print(json.dumps([str(x) for x in t.sys_tags()]))"
    shown = subprocess.run([python, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)
    if shown.returncode:
        pytest.skip(f"{name} does not start")
    wanted, _ = parse_python(name)
    assert [str(tag) for tag in wheel_tags(running_platform(), wanted)] == json.loads(shown.stdout)


def accepted(wheel_tag: str, platform: Platform, python: PythonVersion) -> bool:
    return bool(parse_tag(wheel_tag) & set(wheel_tags(platform, python)))


@pytest.mark.parametrize(
    ("tag", "platform", "python", "expected"),
    [
        ("cp312-cp312-manylinux_2_28_x86_64", "x86_64-manylinux_2_28", "3.12", True),
        ("cp312-cp312-manylinux_2_34_x86_64", "x86_64-manylinux_2_28", "3.12", False),
        ("cp312-cp312-manylinux1_x86_64", "x86_64-manylinux_2_28", "3.12", True),
        ("cp312-cp312-linux_x86_64", "x86_64-manylinux_2_28", "3.12", True),
        ("cp39-abi3-manylinux2014_x86_64", "x86_64-manylinux_2_28", "3.12", True),
        ("cp39-abi3-manylinux2014_x86_64", "x86_64-manylinux_2_28", "3.14t", False),
        ("cp314-cp314t-manylinux_2_28_x86_64", "x86_64-manylinux_2_28", "3.14t", True),
        ("cp314-cp314-manylinux_2_28_x86_64", "x86_64-manylinux_2_28", "3.14t", False),
        ("py3-none-any", "x86_64-manylinux_2_28", "3.14t", True),
        ("py3-none-manylinux_2_27_x86_64", "x86_64-manylinux_2_28", "3.12", True),
        ("cp312-cp312-manylinux_2_28_aarch64", "aarch64-manylinux_2_35", "3.12", True),
        ("cp312-cp312-manylinux1_aarch64", "aarch64-manylinux_2_35", "3.12", False),
        ("cp312-cp312-manylinux_2_28_x86_64", "aarch64-manylinux_2_35", "3.12", False),
        ("cp312-cp312-win_amd64", "win-amd64", "3.12", True),
        ("cp312-cp312-win_amd64", "win-arm64", "3.12", False),
        ("cp312-cp312-musllinux_1_1_x86_64", "x86_64-musllinux_1_2", "3.12", True),
        ("cp312-cp312-manylinux_2_17_x86_64", "x86_64-musllinux_1_2", "3.12", False),
    ],
)
def test_which_wheels_a_target_accepts(tag: str, platform: str, python: str, expected: bool) -> None:
    assert accepted(tag, parse_platform(platform), parse_python(python)[0]) is expected


def test_the_marker_environment_of_the_running_interpreter_is_packagings_own() -> None:
    python, micro = parse_python(detect_surroundings().python or "")
    ours = dict(marker_environment(running_platform(), python, micro))
    theirs = dict(default_environment())
    for uncertain in ("platform_release", "platform_version"):
        assert ours.pop(uncertain) == ""
        del theirs[uncertain]
    if sys.version_info.releaselevel == "final":
        assert ours == theirs


@pytest.mark.parametrize(
    ("marker", "platform", "expected"),
    [
        ("platform_system == 'Linux' and platform_machine == 'x86_64'", "linux-x86_64", True),
        ("platform_machine == 'aarch64'", "linux-aarch64", True),
        ("platform_machine == 'AMD64' and os_name == 'nt'", "win-amd64", True),
        ("sys_platform == 'win32'", "linux-x86_64", False),
        ("python_version < '3.13' and implementation_name == 'cpython'", "linux-x86_64", True),
        ("python_full_version >= '3.12.1'", "linux-x86_64", False),
        ("platform_release >= '20.9.0' and sys_platform == 'darwin'", "linux-x86_64", False),
    ],
)
def test_markers_see_the_target(marker: str, platform: str, expected: bool) -> None:
    environment = marker_environment(parse_platform(platform), PythonVersion(3, 12))
    assert Marker(marker).evaluate(dict(environment)) is expected
