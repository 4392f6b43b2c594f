from __future__ import annotations

import importlib.metadata
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.metadata import parse_email
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from cudalock.errors import TransportError
from cudalock.index.metadata import MAX_METADATA_BYTES, parse_metadata
from support.errors import code_of
from support.wheels import make_metadata


def requires(line: str) -> Requirement:
    (requirement,) = parse_metadata(make_metadata("demo", "1.0", requires=[line]), "demo").requires
    return requirement


def test_reads_what_resolution_needs() -> None:
    content = make_metadata(
        "Demo.Thing", "1.0", requires=["torch>=2", 'tomli; python_version < "3.11"'], extras={"Fast_Path": ["numba"]},
        requires_python=">=3.9",
    )  # fmt: skip
    found = parse_metadata(content, "demo")
    assert (found.name, found.version) == ("demo-thing", Version("1.0"))
    assert found.requires_python == SpecifierSet(">=3.9")
    assert [str(line) for line in found.requires] == [
        "torch>=2", 'tomli; python_version < "3.11"', 'numba; extra == "fast-path"',
    ]  # fmt: skip
    assert found.extras == {"fast-path"}


def test_agrees_with_packaging_on_every_installed_distribution() -> None:
    checked = 0
    for distribution in importlib.metadata.distributions():
        path = (
            Path(str(distribution.locate_file(""))) / f"{distribution.name}-{distribution.version}.dist-info/METADATA"
        )
        if not path.is_file():
            continue
        content = path.read_bytes()
        raw, _ = parse_email(content)
        found = parse_metadata(content, distribution.name)
        assert found.name == canonicalize_name(raw["name"])
        assert found.version == Version(raw["version"])
        assert found.requires == tuple(Requirement(line) for line in raw.get("requires_dist", []))
        assert found.extras == {canonicalize_name(extra) for extra in raw.get("provides_extra", [])}
        assert found.requires_python == SpecifierSet(raw.get("requires_python", ""))
        checked += 1
    assert checked > 10


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("name (>=1)", "name>=1"),
        ("name (>=1,<2) ; python_version<'3'", 'name<2,>=1; python_version < "3"'),
        ("name[extra] (==1.*)", "name[extra]==1.*"),
        ("name>=1.*", "name>=1"),
        ("name>=1,", "name>=1"),
        ("name>=1 <2", "name<2,>=1"),
        ("name ()", "name"),
        (
            "name @ https://files.example/name-1.0-py3-none-any.whl",
            "name @ https://files.example/name-1.0-py3-none-any.whl",
        ),
    ],
)
def test_old_forms_are_understood(line: str, expected: str) -> None:
    assert requires(line) == Requirement(expected)


def test_description_is_not_read() -> None:
    content = make_metadata("demo", "1.0") + b"\nRequires-Dist: evil\n" + b"x" * 100_000
    assert parse_metadata(content, "demo").requires == ()


def test_folded_and_foreign_line_ends() -> None:
    content = b"Metadata-Version: 2.1\r\nName: demo\r\nVersion: 1.0\r\nRequires-Dist: torch\r\n  >=2\r\n\r\nbody"
    assert parse_metadata(content, "demo").requires == (Requirement("torch>=2"),)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"Name: demo\n",
        b"Name: demo\nVersion: not a version\n",
        b"Name: ../demo\nVersion: 1.0\n",
        b"Name: demo\nVersion: 1.0\nRequires-Dist: a b c d\n",
        b"Name: demo\nVersion: 1.0\nRequires-Python: what\n",
        b"Name: demo\nVersion: 1.0\n" + b"Requires-Dist: a\n" * 30_000,
        b"x" * (MAX_METADATA_BYTES + 1),
        b"Name: demo\nVersion: " + b"1" * 5000 + b".x!y\n",
    ],
    ids=[
        "empty",
        "no version",
        "bad version",
        "bad name",
        "bad requirement",
        "bad python",
        "too many",
        "too large",
        "long",
    ],
)
def test_what_cannot_be_understood_names_the_file(content: bytes) -> None:
    with pytest.raises(TransportError) as caught:
        parse_metadata(content, "demo-1.0-py3-none-any.whl")
    assert caught.value.code == "index-invalid-metadata"
    assert "demo-1.0-py3-none-any.whl" in caught.value.message
    assert len(caught.value.message) < 600


def test_dynamic_fields() -> None:
    promised = make_metadata("demo", "1.0", overrides={"Metadata-Version": "2.2", "Dynamic": "Requires-Dist"})
    assert parse_metadata(promised, "demo").dynamic == {"requires-dist"}
    assert "requires-dist" in parse_metadata(make_metadata("demo", "1.0"), "demo").dynamic


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.text(max_size=80))
def test_any_bytes_give_metadata_or_a_typed_error(raw: bytes, line: str) -> None:
    for content in (raw, b"Name: demo\nVersion: 1.0\nRequires-Dist: " + line.encode("utf-8", "replace") + b"\n"):
        assert code_of(partial(parse_metadata, content, "demo")) in {None, "index-invalid-metadata"}
