"""Single requirements, names and dates: what is taken, and what is said where it is not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from cudalock.errors import UsageError
from cudalock.requirements import normalized_names, parse_exclude_newer, parse_requirement


@pytest.mark.parametrize(
    "text",
    [
        "torch",
        " torch >= 2.8 ",
        "transformers[torch,accelerate]>=4.50,<5; python_version >= '3.10'",
        "demo @ https://files.example/demo-1.0-py3-none-any.whl",
        "demo @ https://files.example/demo-1.0%2Bcu128-py3-none-any.whl#sha256=00",
        "demo @ file:///srv/wheels/demo-1.0-py3-none-any.whl ; sys_platform == 'linux'",
    ],
)
def test_a_requirement_is_taken_as_packaging_reads_it(text: str) -> None:
    assert parse_requirement(text, "argument") == Requirement(text.strip())


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("torch=>2", "requirement-invalid"),
        ("torch==", "requirement-invalid"),
        ("", "requirement-invalid"),
        ("two words", "requirement-invalid"),
        ("torch; python_versio > '3'", "requirement-invalid"),
        ("torch>=banana", "requirement-invalid"),
        ("demo @ git+https://git.example/demo", "requirement-is-vcs"),
        ("git+ssh://git@git.example/demo.git", "requirement-is-vcs"),
        ("https://files.example/demo-1.0-py3-none-any.whl", "requirement-is-path"),
        ("./demo-1.0-py3-none-any.whl", "requirement-is-path"),
        ("demo-1.0-py3-none-any.whl", "requirement-is-path"),
        ("demo-1.0.tar.gz", "requirement-is-path"),
        ("../project", "requirement-is-path"),
        ("https://[", "requirement-is-path"),
        ("demo @ https://files.example/demo-1.0.tar.gz", "requirement-url-invalid"),
        ("demo @ ftp://files.example/demo-1.0-py3-none-any.whl", "requirement-url-invalid"),
        ("demo @ wheels/demo-1.0-py3-none-any.whl", "requirement-url-invalid"),
    ],
)
def test_what_is_no_requirement_is_refused_with_a_next_step(text: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_requirement(text, "reqs/base.txt:7")
    error = caught.value
    assert error.code == code
    assert error.message.startswith("reqs/base.txt:7: ")
    assert error.hint
    assert error.details["file"] == "reqs/base.txt"
    assert error.details["line"] == 7


def test_the_hint_for_a_wheel_is_what_to_write(tmp_path: Path) -> None:
    wheel = tmp_path / "Demo_Pkg-1.0-py3-none-any.whl"
    with pytest.raises(UsageError) as caught:
        parse_requirement(str(wheel), "argument")
    assert caught.value.hint == f"write `demo-pkg @ {wheel.as_uri()}`"
    written = str(caught.value.hint).removeprefix("write `").removesuffix("`")
    assert parse_requirement(written, "argument").url == wheel.as_uri()


def test_a_constraint_has_no_extras() -> None:
    with pytest.raises(UsageError, match="a constraint cannot have extras") as caught:
        parse_requirement("demo[all]<2", "limits.txt:1", constraint=True)
    assert caught.value.code == "requirement-invalid"
    assert parse_requirement("demo<2", "limits.txt:1", constraint=True) == Requirement("demo<2")


@given(st.text(max_size=60))
def test_any_text_gives_a_requirement_or_a_typed_error(text: str) -> None:
    try:
        requirement = parse_requirement(text, "argument")
    except UsageError:
        return
    assert Requirement(str(requirement)) == requirement


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", datetime(2026, 2, 1, tzinfo=UTC)),  # that day is included
        ("20261231", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("2026-01-31 12:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_dates_and_times_are_read_in_utc(text: str, moment: datetime) -> None:
    assert parse_exclude_newer(text) == moment
    assert parse_exclude_newer(text).tzinfo is UTC


@pytest.mark.parametrize("text", ["yesterday", "", "2026-13-01", "2026-02-30", "31.01.2026", "9999-12-31"])
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_exclude_newer(text)
    assert caught.value.code == "exclude-newer-invalid"


def test_names_are_normalised_and_may_be_listed() -> None:
    assert normalized_names(["Flash_Attn, xformers", "flash-attn"], "--allow-build") == {"flash-attn", "xformers"}


@pytest.mark.parametrize("text", ["flash-attn==2", "-x", "a b"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        normalized_names([text], "--allow-build")
    assert caught.value.code == "name-invalid"
    assert "--allow-build" in caught.value.message
