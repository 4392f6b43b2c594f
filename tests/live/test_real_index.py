"""The main job against the package index that pip is configured for. Nothing here knows its name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from uv import find_uv_bin

pytestmark = [pytest.mark.live, pytest.mark.slow]

H100 = ("--gpu", "H100", "--driver", "580.65.06", "--python", "3.12", "--platform", "linux-x86_64")


def cudalock(folder: Path, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "cudalock", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live")


def test_a_triple_for_an_h100(folder: Path) -> None:
    answer = json.loads(cudalock(folder, "resolve", "torch", *H100, "--json").stdout)
    assert answer["triple"]["torch"]
    assert answer["triple"]["triton"]
    assert answer["triple"]["cuda"].startswith("13.")
    assert answer["compat"] in {"native", "minor"}
    assert len(answer["packages"]) > 20
    first = (folder / "pylock.toml").read_bytes()
    (folder / "pylock.toml").unlink()
    cudalock(folder, "resolve", "torch", *H100)
    assert (folder / "pylock.toml").read_bytes() == first


def test_uv_takes_the_lock_as_it_is(tmp_path: Path) -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    cudalock(tmp_path, "resolve", "torch", "--gpu", "H100", "--driver", "580.65.06", "--python", here)
    uv = find_uv_bin()
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "env")], check=True)
    done = subprocess.run(
        [uv, "pip", "sync", "--dry-run", "--python", str(tmp_path / "env"), "pylock.toml"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "+ torch==" in done.stderr
    assert "+ triton==" in done.stderr


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_something_small_is_really_installed(tmp_path: Path, installer: str) -> None:
    cudalock(tmp_path, "resolve", "tomli-w", "packaging", "--cpu")
    cudalock(tmp_path, "install", "--venv", ".venv", "--installer", installer)
    checked = cudalock(tmp_path, "check", "--venv", ".venv")
    assert "nothing wrong" in checked.stdout
    python = next((tmp_path / ".venv").glob("bin/python"))
    subprocess.run([python, "-c", "import tomli_w, packaging"], check=True)


@pytest.mark.parametrize("command", ["uv", "pip"])
def test_uv_and_pip_install_from_the_lock_themselves(tmp_path: Path, command: str) -> None:
    cudalock(tmp_path, "resolve", "tomli-w", "--cpu")
    environment = tmp_path / "env"
    uv = find_uv_bin()
    subprocess.run([uv, "venv", "--quiet", "--seed", "--python", sys.executable, str(environment)], check=True)
    python = environment / "bin" / "python"
    if command == "uv":
        arguments = [uv, "pip", "install", "--python", str(python), "-r", "pylock.toml"]
    else:
        arguments = [sys.executable, "-m", "pip", "--python", str(python), "install", "-r", "pylock.toml"]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run([python, "-c", "import tomli_w"], check=True)


def test_a_fetched_folder_installs(tmp_path: Path) -> None:
    cudalock(tmp_path, "resolve", "tomli-w", "--cpu")
    cudalock(tmp_path, "fetch", "wheels")
    cudalock(tmp_path, "install", "--wheelhouse", "wheels", "--venv", ".venv")
    cudalock(tmp_path, "check", "--venv", ".venv")
