"""Everything that is asked for in one request."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cudalock.errors import UsageError
from cudalock.requirements import Request, read_request


def test_all_sources_come_together(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("sympy\n")
    (tmp_path / "limits.txt").write_text("numpy<3\n")
    (tmp_path / "site.txt").write_text("torch<3\n")
    (tmp_path / "pyproject.toml").write_text("[project]\nname='x'\ndependencies=['numpy']\n")
    request = read_request(
        ["torch>=2.8"],
        requirement_files=[tmp_path / "more.txt"],
        constraint_files=[str(tmp_path / "limits.txt")],
        configured_constraints=[tmp_path / "site.txt"],
        project=tmp_path,
        exclude_newer="2026-01-31",
        allow_build=["Flash_Attn"],
        upgrade_packages=["Torch"],
        prerelease=["triton"],
    )
    assert [str(asked.requirement) for asked in request.requirements] == ["torch>=2.8", "sympy", "numpy"]
    assert [asked.origin.rsplit("/", 1)[-1] for asked in request.constraints] == [
        "limits.txt:1",
        "pip's configuration (site.txt):1",
    ]
    assert request.exclude_newer == datetime(2026, 2, 1, tzinfo=UTC)
    assert request.allow_build == {"flash-attn"}
    assert request.upgrade_packages == {"torch"}
    assert request.prerelease == {"triton"}
    assert not request.upgrade


def test_nothing_asked_is_an_empty_request() -> None:
    assert read_request() == Request()


def test_faults_of_arguments_and_files_come_together(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("a b\n")
    with pytest.raises(UsageError) as caught:
        read_request(["torch=>2", "fine"], requirement_files=[tmp_path / "more.txt"])
    assert [item["origin"] for item in caught.value.details["faults"]] == ["argument", f"{tmp_path / 'more.txt'}:1"]


def test_a_file_given_as_an_argument_gets_the_option_it_lacks() -> None:
    for name in ("./requirements.txt", "requirements.txt", "reqs.in"):
        with pytest.raises(UsageError) as caught:
            read_request([name])
        assert caught.value.hint == f"to read a file of requirements, write `-r {name}`"


def test_an_address_for_a_file_is_refused_without_its_password() -> None:
    with pytest.raises(UsageError) as caught:
        read_request(requirement_files=["https://me:secret@files.example/reqs.txt"])
    assert caught.value.code == "requirements-file-is-url"
    assert "download it" in (caught.value.hint or "")
    assert "secret" not in str(caught.value.to_json())
