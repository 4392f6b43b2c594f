"""The configuration file: where it is found, what it may hold, and how each fault is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from cudalock.config import ProjectConfig, SourceTable, TargetTable, find_pyproject, read_config
from cudalock.errors import UsageError

FULL = """
[project]
name = "demo"

[tool.cudalock]
gpu = ["RTX 4090"]
driver = "535.161.08"
compat = "native"
index-url = "https://packages.example/simple"
pytorch-index-url = "https://mirror.example/whl"
allowed-hosts = ["files.example"]
exclude-newer = 2026-11-01
timeout = 20
extra = "train"
target = "cluster"

[tool.cudalock.targets.cluster]
gpu = "H100"
driver = "570.124.06"
python = "3.12"
platform = "linux-x86_64"

[tool.cudalock.targets.ci]
cpu = true

[tool.cudalock.sources.internal]
url = "https://internal.example/simple"
projects = ["Our.Kernels", "our_kernels", "tools"]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_text(text)
    return path


def test_everything_it_may_say(tmp_path: Path) -> None:
    path = write(tmp_path, FULL)
    config = read_config(tmp_path)
    assert config.path == path.resolve()
    assert config.target == TargetTable(gpus=("RTX 4090",), driver="535.161.08")
    assert config.targets["cluster"] == TargetTable(
        name="cluster", gpus=("H100",), driver="570.124.06", python="3.12", platform="linux-x86_64"
    )
    assert config.targets["ci"] == TargetTable(name="ci", cpu=True)
    assert config.sources == {
        "internal": SourceTable(url="https://internal.example/simple", projects=("our-kernels", "tools"))
    }
    assert (config.index_url, config.pytorch_index_url) == (
        "https://packages.example/simple",
        "https://mirror.example/whl",
    )
    assert config.allowed_hosts == ("files.example",)
    assert dict(config.defaults) == {
        "compat": "native",
        "index-url": "https://packages.example/simple",
        "pytorch-index-url": "https://mirror.example/whl",
        "allowed-hosts": ("files.example",),
        "exclude-newer": "2026-11-01",
        "timeout": 20.0,
        "extra": ("train",),
        "target": ("cluster",),
    }


def test_the_nearest_file_upward_counts(tmp_path: Path) -> None:
    outer = write(tmp_path, "[tool.cudalock]\ncuda = '12.8'\n")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert find_pyproject(inner) == outer.resolve()
    nearer = write(tmp_path / "a", "[project]\nname = 'x'\n")
    assert find_pyproject(inner) == nearer.resolve()
    assert read_config(inner) == ProjectConfig(path=nearer.resolve())


def test_no_file_is_an_empty_configuration(tmp_path: Path) -> None:
    if find_pyproject(tmp_path) is None:
        assert read_config(tmp_path) == ProjectConfig()
    assert read_config(path=write(tmp_path, "")).defaults == {}


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [
        ("[tool.cudalock]\ncompact = 'native'", "tool.cudalock.compact", "compat"),
        ("[tool.cudalock]\nindex_url = 'https://a.example'", "tool.cudalock.index_url", "index-url"),
        ("[tool.cudalock]\nzzzz = 1", "tool.cudalock.zzzz", "known are"),
        ("[tool.cudalock]\ncompat = 'natve'", "tool.cudalock.compat", ""),
        ("[tool.cudalock]\npython = 3.12", "tool.cudalock.python", ""),
        ("[tool.cudalock]\noffline = 'yes'", "tool.cudalock.offline", ""),
        ("[tool.cudalock]\ntimeout = 0", "tool.cudalock.timeout", ""),
        ("[tool.cudalock]\nretries = true", "tool.cudalock.retries", ""),
        ("[tool.cudalock]\ngpu = [1]", "tool.cudalock.gpu", ""),
        ("[tool.cudalock]\nindex-url = 'packages.example'", "tool.cudalock.index-url", ""),
        ("[tool.cudalock]\ntargets = 1", "tool.cudalock.targets", ""),
        ("[tool]\ncudalock = 'x'", "tool.cudalock", ""),
        ("[tool.cudalock.targets.a]\ngpus = ['H100']", "tool.cudalock.targets.a.gpus", "gpu"),
        ("[tool.cudalock.targets.'a.b']\ngpu = 'H100'", "tool.cudalock.targets.a.b", "rename"),
        ("[tool.cudalock.targets.a]\ngpu = 'H100'\ncpu = true", "tool.cudalock.targets.a", "remove"),
        ("[tool.cudalock.sources.a]\nurl = 'https://a.example'", "tool.cudalock.sources.a.projects", "add projects"),
        ("[tool.cudalock.sources.a]\nprojects = ['x']", "tool.cudalock.sources.a.url", "add url"),
        (
            "[tool.cudalock.sources.main]\nurl = 'https://a.example'\nprojects = ['x']",
            "tool.cudalock.sources.main",
            "another",
        ),
    ],
)
def test_faults_name_file_and_key(tmp_path: Path, text: str, key: str, hint: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_config(tmp_path)
    error = caught.value
    assert error.code == "config-invalid"
    assert error.details == {"file": str(path.resolve()), "key": key}
    assert str(path.resolve()) in error.message
    assert hint in (error.hint or "")


def test_toml_faults_name_the_line(tmp_path: Path) -> None:
    path = write(tmp_path, "[tool.cudalock]\n\ncompat = \n")
    with pytest.raises(UsageError) as caught:
        read_config(tmp_path)
    assert caught.value.code == "config-not-toml"
    assert caught.value.details["line"] == 3
    assert f"{path.resolve()}:3" in caught.value.message


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError) as caught:
        read_config(tmp_path)
    assert caught.value.code == "config-not-toml"
