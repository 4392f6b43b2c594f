"""A healthy environment, made once, of which every test breaks its own copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.doctoring import COMPILER, Patient, make_healthy


@pytest.fixture(scope="session")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Patient:
    if COMPILER is None:
        pytest.skip("no C compiler here to make ELF files with")
    return make_healthy(tmp_path_factory.mktemp("healthy"))


@pytest.fixture
def patient(healthy: Patient, tmp_path: Path) -> Patient:
    """A copy of the healthy environment that a test may spoil."""
    for name in ("venv", "root"):
        shutil.copytree(healthy.folder / name, tmp_path / name, symlinks=True)
    return Patient(tmp_path)
