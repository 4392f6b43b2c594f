"""Files without end, wherever a file is named: a typed error, in bounded memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Cudalock
from cudalock.files import read_file


def test_what_is_larger_than_such_files_are_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000)
    assert read_file(path, most=1000) == b"x" * 1000
    with pytest.raises(OSError, match="larger"):
        read_file(path, most=999)


@pytest.mark.parametrize(
    ("arguments", "link", "code"),
    [
        (("resolve", "-r", "/dev/zero", "--cpu"), None, "requirements-file-unreadable"),
        (("check", "--lock", "pylock.z.toml"), "pylock.z.toml", "lock-unreadable"),
        (("doctor", "--facts", "/dev/zero"), None, "facts-not-found"),
        (("resolve", "--project", ".", "--cpu"), "pyproject.toml", "project-invalid"),
    ],
)
def test_a_device_without_end_is_refused(
    cudalock: Cudalock, folder: Path, arguments: tuple[str, ...], link: str | None, code: str
) -> None:
    if link is not None:
        (folder / link).symlink_to("/dev/zero")
    outcome = cudalock(*arguments, "--json")
    assert outcome.status == 2
    assert code in outcome.out
    assert "larger than 67,108,864 bytes" in outcome.out
