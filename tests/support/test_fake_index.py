"""The fake index and the wheels are real enough for uv and pip."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.fake_index import FakeIndex

UV = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}") or "uv"


@pytest.fixture
def filled(fake_index: FakeIndex) -> FakeIndex:
    fake_index.add_wheel("demo", "1.0", requires=["part[fast]>=1"])
    fake_index.add_wheel("part", "1.5", extras={"fast": ["extra-part"]}, build="2")
    fake_index.add_wheel("extra-part", "3.0", yanked=False)
    fake_index.add_wheel("torch", "2.9.0+cu128", label="cu128")
    return fake_index


@pytest.mark.parametrize("installer", ["uv", "pip"])
@pytest.mark.parametrize("json", [True, False])
def test_real_installers_resolve_and_install(filled: FakeIndex, tmp_path: Path, installer: str, json: bool) -> None:
    filled.json = json
    target = tmp_path / "site"
    command = [UV, "pip", "install", "--python", sys.executable]
    if installer == "pip":
        command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    with filled.serve():
        for project, url in (("demo", filled.main_url), ("torch", filled.pytorch_url + "/cu128")):
            subprocess.run(
                [*command, "--no-cache-dir", "--target", target, "--index-url", url, project],
                check=True, capture_output=True, text=True, timeout=120,
            )  # fmt: skip
    found = sorted(path.name for path in target.glob("*.dist-info"))
    assert found == [
        "demo-1.0.dist-info",
        "extra_part-3.0.dist-info",
        "part-1.5.dist-info",
        "torch-2.9.0+cu128.dist-info",
    ]
