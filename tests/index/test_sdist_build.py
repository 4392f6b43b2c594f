"""What a source distribution says of its build."""

from __future__ import annotations

import io

import pytest

from cudalock.index.metadata import parse_metadata
from cudalock.index.sdist import read_sdist_metadata
from support.wheels import make_sdist


@pytest.mark.parametrize(
    ("project", "wanted"),
    [
        (b'[build-system]\nrequires = ["ninja>=1.11", "torch"]\n', ["ninja>=1.11", "torch"]),
        (b'[build-system]\nrequires = []\nbuild-backend = "backend"\n', []),
        (b'[project]\nname = "demo"\n', ["setuptools", "wheel"]),
        (None, ["setuptools", "wheel"]),
        (b"not toml [", ["setuptools", "wheel"]),
        (b"build-system = 3\n", ["setuptools", "wheel"]),
        (b'[build-system]\nrequires = "ninja"\n', ["setuptools", "wheel"]),
        (b'[build-system]\nrequires = ["??", 3, "a @ https://files.example/a-1.0.zip", "b\\nName: c"]\n', []),
    ],
)
def test_what_a_build_requires(project: bytes | None, wanted: list[str]) -> None:
    files = {"setup.py": b""} | ({"pyproject.toml": project} if project is not None else {})
    filename, content = make_sdist("demo", "1.0", requires=["dep"], files=files)
    found = parse_metadata(read_sdist_metadata(io.BytesIO(content), filename), filename)
    assert [str(requirement) for requirement in found.build_requires] == wanted
    assert [str(requirement) for requirement in found.requires] == ["dep"]
    assert found.name == "demo"


def test_a_wheel_says_nothing_of_it() -> None:
    assert parse_metadata(b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n", "demo").build_requires == ()
