"""Markers that can be written and not evaluated: an answer for those of packages, a typed error for one's own."""

from __future__ import annotations

import pytest
from packaging.markers import Marker

from cudalock.errors import UsageError
from cudalock.lock.file import parse_text
from cudalock.markers import holds, undefined
from cudalock.requirements import parse_requirement

SENSELESS = [
    "os_name ~= 'posix'",
    "python_version ~= '3'",
    "python_version ~= 'abc'",
    "extra ~= 'x'",
    "extras == 'x'",
    "dependency_groups != 'x'",
    "python_version >= '3' or sys_platform === 'linux'",
]
OF_LOCKS = ["'x' in extras", "'x' in dependency_groups", "'x' not in extras"]
SOUND = ["extra == 'x'", "python_version >= '3.8'", "platform_release >= '5'", "implementation_version < 'abc'"]
FOREIGN = 'lock-version = "1.0"\ncreated-by = "other"\n'
PACKAGE = '[[packages]]\nname = "demo"\nversion = "1.0"\n'
PACKAGE += 'archive = {url = "https://files.example/demo-1.0.zip", hashes = {sha256 = "00"}}\n'


@pytest.mark.parametrize("text", SENSELESS)
def test_a_senseless_comparison_does_not_hold(text: str) -> None:
    assert not holds(Marker(text), {})
    assert undefined(Marker(text))
    assert undefined(Marker(text), lock=True)


def test_names_that_only_locks_have() -> None:
    answers = [holds(Marker(text), {}) for text in OF_LOCKS]
    assert answers == [False, False, True]
    assert all(undefined(Marker(text)) for text in OF_LOCKS)
    assert not any(undefined(Marker(text), lock=True) for text in OF_LOCKS)


@pytest.mark.parametrize("text", SOUND)
def test_what_has_an_answer_is_not_refused(text: str) -> None:
    assert undefined(Marker(text)) is None
    assert undefined(Marker(text), lock=True) is None
    assert undefined(None) is None


def test_a_marker_sees_what_it_is_given() -> None:
    assert holds(None, {})
    assert holds(Marker("sys_platform == 'win32' and extra == 'Fast_Path'"), {"sys_platform": "win32"}, "fast-path")
    assert not holds(Marker("extra == 'x'"), {})


@pytest.mark.parametrize("text", [*SENSELESS, *OF_LOCKS])
def test_requirements_of_ones_own_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_requirement(f"beta; {text}", "requirements.txt:3")
    assert caught.value.code == "requirement-invalid"
    assert caught.value.message.startswith("requirements.txt:3: ")
    assert "cannot be evaluated" in caught.value.message


@pytest.mark.parametrize("text", SENSELESS)
def test_a_lock_that_nobody_can_select_from_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_text(f'{FOREIGN}{PACKAGE}marker = "{text}"\n', "pylock.toml")
    assert caught.value.code == "lock-invalid"
    assert caught.value.details["path"] == "packages[0].marker"
    assert "cannot be evaluated" in caught.value.message


@pytest.mark.parametrize("text", [*SENSELESS, *OF_LOCKS])
def test_environments_of_a_lock_are_refused_likewise(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_text(f'{FOREIGN}environments = ["os_name == \'posix\'", "{text}"]\n{PACKAGE}', "pylock.toml")
    assert caught.value.code == "lock-invalid"
    assert caught.value.details["path"] == "environments[1]"


@pytest.mark.parametrize("text", [*SOUND, *OF_LOCKS])
def test_a_lock_with_sound_markers_is_read(text: str) -> None:
    lock = parse_text(f'{FOREIGN}{PACKAGE}marker = "{text}"\n', "pylock.toml")
    assert str(lock.pylock.packages[0].marker) == str(Marker(text))
