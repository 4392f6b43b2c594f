"""The script that refreshes the tables: what it merges and writes, without an index."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from packaging.version import Version

from cudalock.facts.loader import data_directories
from cudalock.versions import Architecture

FOLDER = data_directories()[-1]


@pytest.fixture(scope="module")
def update() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cudalock_update_data", FOLDER / "update.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_rendering_the_table_gives_it_back_byte_for_byte(update: ModuleType) -> None:
    text = (FOLDER / "torch.toml").read_text(encoding="utf-8")
    assert update.render_torch(update.parse_torch(text)) == text


def test_nothing_measured_changes_nothing(update: ModuleType) -> None:
    text = (FOLDER / "torch.toml").read_text(encoding="utf-8")
    assert update.render_torch(update.merge_releases(update.parse_torch(text), {}, Version)) == text


def test_new_release_is_added_in_order(update: ModuleType) -> None:
    table = update.parse_torch((FOLDER / "torch.toml").read_text(encoding="utf-8"))
    measured = [
        update.Measured(place="main", platform="win-amd64", cuda="cpu", code=""),
        update.Measured(
            place="main", platform="linux-x86_64", cuda="14.0", code="80 90", triton="~=4.0.0", triton_python="<3.17"
        ),
    ]
    merged = update.merge_releases(table, {"9.9.0": measured}, Version)
    release = tomllib.loads(update.render_torch(merged))["release"][-1]
    assert release["version"] == "9.9.0"
    assert release["triton"] == "~=4.0.0"
    assert release["triton_python"] == "<3.17"
    assert release["triton_on"] == {"linux-x86_64": ["main", "labels"]}
    assert release["builds"] == [
        ["main", "linux-x86_64", "14.0", "80 90", "wheel", "BINARY"],
        ["main", "win-amd64", "cpu", "", "wheel", "CPU"],
    ]
    assert len(merged.releases) == len(table.releases) + 1


def test_measured_build_replaces_an_inferred_one_and_keeps_the_others(update: ModuleType) -> None:
    table = update.parse_torch((FOLDER / "torch.toml").read_text(encoding="utf-8"))
    before = next(release for release in table.releases if release["version"] == "2.7.1")
    measured = update.Measured(place="cu118", platform="linux-x86_64", cuda="11.8", code="37 50 90")
    after = update.merge_release(before, "2.7.1", [measured])
    assert ["cu118", "linux-x86_64", "11.8", "37 50 90", "wheel", "BINARY"] in after["builds"]
    assert len(after["builds"]) == len(before["builds"])
    assert after["triton"] == before["triton"]


def test_merging_twice_is_merging_once(update: ModuleType) -> None:
    measured = [update.Measured(place="main", platform="linux-aarch64", cuda="14.0", code="90", triton="==4.0")]
    once = update.merge_release(None, "9.9.0", measured)
    assert update.merge_release(once, "9.9.0", measured) == once


def test_short_form_of_architectures(update: ModuleType) -> None:
    found = [Architecture.parse(text) for text in ("compute_120", "sm_120", "sm_90a", "sm_75")]
    assert update.short_code(found) == "75 90a 120 ptx120"


def test_lines_for_triton(update: ModuleType) -> None:
    text = (FOLDER / "triton.toml").read_text(encoding="utf-8")
    one = update.triton_line("4.0.0", {"ptxas": "13.1.80"}, None)
    two = update.triton_line("4.1.0", {"ptxas": "13.1.80", "ptxas-blackwell": "14.0.5"}, 90)
    rows = tomllib.loads(update.add_lines(text, "triton", [one, two]))["triton"]
    assert rows[-2] == {"versions": ["4.0.0"], "ptxas": "13.1.80", "source": "WHEEL"}
    assert rows[-1]["ptxas_blackwell"] == "14.0.5"
    assert rows[-1]["blackwell_from"] == 90
    assert update.add_lines(text, "triton", []) == text


@pytest.mark.parametrize(
    ("marker", "bound"),
    [
        ('sys_platform == "linux" and python_version < "3.16"', "<3.16"),
        ("python_full_version<'3.15'", "<3.15"),
        ('platform_system == "Linux"', None),
    ],
)
def test_bound_on_python(update: ModuleType, marker: str, bound: str | None) -> None:
    assert update.python_bound(marker) == bound


def test_diff_names_the_table(update: ModuleType) -> None:
    assert update.diff(FOLDER / "torch.toml", "a\n", "b\n").startswith("--- a/data/torch.toml\n+++ b/data/torch.toml\n")
    assert update.diff(FOLDER / "torch.toml", "a\n", "a\n") == ""


@pytest.mark.live
def test_release_that_was_taken_out_comes_back_from_the_index(
    update: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("torch", "triton"):
        text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    table = update.parse_torch((tmp_path / "torch.toml").read_text(encoding="utf-8"))
    taken = table.releases.pop()
    (tmp_path / "torch.toml").write_text(update.render_torch(table), encoding="utf-8")
    assert update.main(["--write"], folder=tmp_path) == 0
    back = next(
        release
        for release in update.parse_torch((tmp_path / "torch.toml").read_text(encoding="utf-8")).releases
        if release["version"] == taken["version"]
    )
    assert [build for build in taken["builds"] if build[0] == "main"] == back["builds"][:3]
    assert f'+version = "{taken["version"]}"' in capsys.readouterr().out
