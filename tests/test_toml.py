"""Reading TOML: what no other tool would take, or nothing could show, is refused in words."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from cudalock.config import read_config
from cudalock.errors import UsageError
from cudalock.index.metadata import parse_metadata
from cudalock.index.sdist import read_sdist_metadata
from cudalock.lock.canonical import digest_of
from cudalock.lock.file import parse_text
from cudalock.requirements import read_request
from cudalock.toml import NotTomlError, parse_toml
from support.locks import a_lock, linux_target
from support.wheels import make_metadata, make_sdist

HUGE = "0x" + "f" * 5000
LOCK = str(a_lock(linux_target("9.0")).text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"a = {HUGE}", "the integer of 'a' is larger than TOML's 64 bits"),
        (f"a = -9223372036854775809\nb = {HUGE}", "64 bits"),
        (f"a = [1, [{HUGE}]]", "an integer in a list is larger"),
        (f"[[a.b]]\nc = {{d = 0b{'1' * 64}}}", "'d'"),
        ("a = 9223372036854775808", "64 bits"),
        ("a = " + "9" * 5000, "a number without end"),
        ("a = " + "[" * 100_000, "nested"),
        ("a = \n", "line 1"),
    ],
)
def test_what_cannot_be_used_is_said(text: str, said: str) -> None:
    with pytest.raises(NotTomlError) as caught:
        parse_toml(text)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 300


def test_the_line_of_a_fault_is_known() -> None:
    with pytest.raises(NotTomlError) as caught:
        parse_toml("a = 1\nb = \n")
    assert caught.value.line == 2


def test_all_64_bits_are_taken() -> None:
    text = f"a = {2**63 - 1}\nb = [-{2**63}, true]\nc = 0x7fff_ffff_ffff_ffff\n"
    assert parse_toml(text) == {"a": 2**63 - 1, "b": [-(2**63), True], "c": 2**63 - 1}


@pytest.mark.parametrize(
    "text",
    [
        LOCK.replace("schema = 1", f"schema = {HUGE}"),
        LOCK.replace("schema = 1", f"schema = 1\nzzz = {HUGE}"),
        LOCK.replace('lock-version = "1.0"', f"lock-version = {HUGE}"),
        f"lock-version = {HUGE}\ncreated-by = 'x'\npackages = []\n",
        f"lock-version = '1.0'\ncreated-by = 'x'\npackages = []\n[tool.other]\nx = {HUGE}\n",
    ],
)
def test_a_lock_with_a_number_that_nobody_can_print(text: str) -> None:
    assert text != LOCK
    with pytest.raises(UsageError) as caught:
        parse_text(text, "pylock.toml")
    assert caught.value.code == "lock-not-toml"
    assert "64 bits" in caught.value.message
    json.dumps(caught.value.to_json())


def test_a_lock_within_them_has_a_digest() -> None:
    assert digest_of(parse_toml(f"a = {2**63 - 1}")).startswith("sha256:")


@pytest.mark.parametrize("key", ["timeout", "retries", "driver", "python", "gpu", "cpu", "compat", "nonsense"])
def test_a_configuration_with_such_a_number(tmp_path: Path, key: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.cudalock]\n{key} = {HUGE}\n")
    with pytest.raises(UsageError) as caught:
        read_config(tmp_path)
    assert caught.value.code == "config-not-toml"
    assert f"'{key}'" in caught.value.message
    json.dumps(caught.value.to_json())


@pytest.mark.parametrize("text", [f"[project]\ndynamic = [{HUGE}]\n", f"[build-system]\nrequires = [{HUGE}]\n"])
def test_a_source_distribution_with_such_a_number_is_read_without_it(text: str) -> None:
    old = make_metadata("demo", "1.0", requires=["dep"], overrides={"Metadata-Version": "2.1"})
    filename, content = make_sdist("demo", "1.0", pkg_info=old, files={"pyproject.toml": text.encode()})
    found = parse_metadata(read_sdist_metadata(io.BytesIO(content), filename), filename)
    assert [str(requirement) for requirement in found.build_requires] == ["setuptools", "wheel"]
    assert "requires-dist" in found.dynamic


def test_a_project_with_such_a_number(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[project]\nname = 'demo'\ndependencies = [{HUGE}]\n")
    with pytest.raises(UsageError) as caught:
        read_request(project=tmp_path)
    assert caught.value.code == "project-invalid"
