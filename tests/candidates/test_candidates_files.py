"""Names of files, and which files the target can install."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from cudalock.candidates import FileRules, VersionWish, fitting_files, parse_file_name
from cudalock.candidates.plain import ordered_versions
from cudalock.index.model import IndexFile
from cudalock.requirements.model import Request
from support.memory_index import LINUX, MemoryIndex
from support.world import make_target

DEMO = canonicalize_name("demo-pkg")


@pytest.mark.parametrize(
    ("filename", "version", "build"),
    [
        ("demo_pkg-1.0-py3-none-any.whl", "1.0", (0, "")),
        ("Demo.Pkg-1.0+cu128-cp312-cp312-linux_x86_64.whl", "1.0+cu128", (0, "")),
        ("demo_pkg-1.0-3-py3-none-any.whl", "1.0", (3, "")),
        ("demo_pkg-1.0-12beta-py3-none-any.whl", "1.0", (12, "beta")),
        ("demo-pkg-1.0rc1.tar.gz", "1.0rc1", (0, "")),
        ("demo_pkg-1.0.zip", "1.0", (0, "")),
    ],
)
def test_names_taken_apart(filename: str, version: str, build: tuple[int, str]) -> None:
    name = parse_file_name(filename, DEMO)
    assert name is not None
    assert (str(name.version), name.build) == (version, build)


@pytest.mark.parametrize(
    "filename",
    [
        "other-1.0-py3-none-any.whl",
        "demo_pkg-not.a.version-py3-none-any.whl",
        "demo_pkg-1.0-x3-py3-none-any.whl",
        "demo_pkg-1.0-any.whl",
        "demo_pkg-1.0.exe",
        "demo_pkg-1.0-1-2-py3-none-any.whl",
        "",
    ],
)
def test_names_that_are_none(filename: str) -> None:
    assert parse_file_name(filename, DEMO) is None


def rules(platform: str = "linux-x86_64", python: str = "3.12", **request: object) -> FileRules:
    target = make_target("9.0", driver="580.65.06", platform=platform, python=python)
    return FileRules.of(target, Request(**request))  # type: ignore[arg-type] # fields of Request


def file_of(tags: str, **options: object) -> IndexFile:
    return MemoryIndex().add("demo", "1.0", tags=tags, **options)  # type: ignore[arg-type] # passed on


@pytest.mark.parametrize(
    ("platform", "python", "tags", "fits"),
    [
        ("linux-x86_64", "3.12", LINUX, True),
        ("linux-x86_64", "3.12", "cp312-abi3-manylinux_2_27_x86_64.manylinux_2_28_x86_64", True),
        ("linux-x86_64", "3.13", "cp312-abi3-manylinux_2_28_x86_64", True),
        ("linux-x86_64", "3.11", "cp312-abi3-manylinux_2_28_x86_64", False),
        ("linux-x86_64", "3.13t", "cp313-cp313-manylinux_2_28_x86_64", False),
        ("linux-x86_64", "3.13t", "cp313-cp313t-manylinux_2_28_x86_64", True),
        ("linux-x86_64", "3.12", "cp312-cp312-linux_x86_64", True),
        ("x86_64-musllinux_1_2", "3.12", "cp312-cp312-linux_x86_64", False),
        ("x86_64-musllinux_1_2", "3.12", "cp312-cp312-musllinux_1_1_x86_64", True),
        ("x86_64-manylinux_2_17", "3.12", LINUX, False),
        ("linux-aarch64", "3.12", "cp312-cp312-manylinux2014_aarch64", True),
        ("win-amd64", "3.12", "cp312-cp312-win_amd64", True),
        ("win-amd64", "3.12", LINUX, False),
    ],
)
def test_tags(platform: str, python: str, tags: str, fits: bool) -> None:
    refusal = rules(platform, python).refusal(file_of(tags))
    assert (refusal is None) == fits, refusal


def test_every_refusal_has_a_sentence_with_the_file() -> None:
    cutoff = datetime(2025, 1, 1, tzinfo=UTC)
    strict = rules(exclude_newer=cutoff)
    refused = {
        "no-wheel-for-platform": file_of("cp312-cp312-win_amd64"),
        "no-wheel-for-python": file_of("py3-none-any", requires_python=">=3.13"),
        "source-only": file_of("", sdist=True),
        "too-new": file_of("py3-none-any", uploaded=datetime(2025, 2, 1, tzinfo=UTC)),
        "yanked": file_of("py3-none-any", yanked="bad", uploaded=datetime(2024, 1, 1, tzinfo=UTC)),
    }
    for code, file in refused.items():
        refusal = strict.refusal(file)
        assert refusal is not None
        assert refusal.code == code
        assert file.filename in refusal.sentence
        assert not refusal.sentence.endswith(".")
    assert strict.refusal(refused["yanked"], pinned=True) is None


def test_unreadable_requires_python_is_silent() -> None:
    assert rules().refusal(file_of("py3-none-any", requires_python="three or later")) is None


def wish(text: str, *, prereleases: bool = False, preferred: str | None = None) -> VersionWish:
    version = Version(preferred) if preferred else None
    return VersionWish(specifiers=SpecifierSet(text), prereleases=prereleases, preferred=version)


def test_order_of_versions() -> None:
    versions = [Version(text) for text in ("1.0", "2.0rc1", "1.5", "0.9")]
    assert list(map(str, ordered_versions(versions, wish(""))[0])) == ["1.5", "1.0", "0.9"]
    assert list(map(str, ordered_versions(versions, wish("", preferred="1.0"))[0])) == ["1.0", "1.5", "0.9"]
    assert list(map(str, ordered_versions(versions, wish(">1", preferred="1.0"))[0])) == ["1.5"]
    assert str(ordered_versions(versions, wish("", preferred="2.0rc1"))[0][0]) == "2.0rc1"
    assert str(ordered_versions(versions, wish("", prereleases=True))[0][0]) == "2.0rc1"


def test_prereleases_only_where_no_final_release_fits() -> None:
    index = MemoryIndex()
    pages = {
        Version("1.0"): (index.add("demo", "1.0", tags="cp312-cp312-win_amd64"),),
        Version("2.0rc1"): (index.add("demo", "2.0rc1"),),
    }
    assert [str(version) for version, _file in fitting_files([pages], wish(""), rules())] == ["2.0rc1"]


def test_pins_by_equality_only() -> None:
    assert wish("==1.0").pins(Version("1.0"))
    assert wish("===1.0").pins(Version("1.0"))
    assert not wish("==1.*").pins(Version("1.0"))
    assert not wish(">=1.0").pins(Version("1.0"))
