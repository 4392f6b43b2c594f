"""Facts files: round trip, hand-written parts, and every fault named with its path."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from cudalock.errors import UsageError
from cudalock.host import ProbeCommands, detect, host_to_json, parse_facts, read_facts
from cudalock.progress import Level, Reporter
from cudalock.versions import ComputeCapability, CudaVersion, DriverVersion
from support.hosts import H200_NVML, H200_TREE, JETSON_TREE, WSL_TREE, answering, write_tree

DESIGN_EXAMPLE = {
    "schema": 1,
    "host": {
        "os": "linux",
        "machine": "x86_64",
        "libc": "glibc 2.35",
        "driver": "570.124.06",
        "cuda_driver": "12.8",
        "gpus": [{"name": "NVIDIA GeForce RTX 5090", "compute_capability": "12.0", "count": 2}],
        "python": "3.11.9",
        "container": {"require_cuda": "cuda>=12.8"},
        "wsl": False,
    },
    "environment": {
        "packages": {"torch": "2.7.0+cu126", "triton": "3.3.0"},
        "variables": {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"},
        "libraries": {"libcuda.so.1": "/usr/lib/x86_64-linux-gnu/libcuda.so.1"},
        "tools": {"cc": None},
        "files": {},
        "errors": ["text of what was printed"],
    },
}


class Notes(Reporter):
    def __init__(self) -> None:
        self.heard: list[tuple[Level, str]] = []

    def message(self, level: Level, text: str, *, code: str | None = None) -> None:
        self.heard.append((level, text))


@pytest.mark.parametrize("tree", [H200_TREE, WSL_TREE, JETSON_TREE, {}], ids=["h200", "wsl", "jetson", "bare"])
@pytest.mark.parametrize("nvml", [None, H200_NVML], ids=["files", "nvml"])
def test_a_detected_host_survives_the_round_trip(tmp_path: Path, tree: Any, nvml: Any) -> None:
    commands = ProbeCommands(nvml=answering(nvml) if nvml else None)
    host = detect(root=write_tree(tmp_path, tree), environ={"CUDA_VISIBLE_DEVICES": ""}, commands=commands)
    document = json.loads(json.dumps({"schema": 1, "host": host_to_json(host)}))
    again, environment = parse_facts(document)
    assert host_to_json(again) == document["host"]
    assert again.gpus == host.gpus
    assert (again.driver, again.cuda_driver, again.libc, again.origin) == (
        host.driver,
        host.cuda_driver,
        host.libc,
        host.origin,
    )
    assert environment == {}


def test_the_example_of_the_design(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(DESIGN_EXAMPLE))
    notes = Notes()
    host, environment = read_facts(path, reporter=notes)
    assert (host.driver, host.cuda_driver) == (DriverVersion("570.124.06"), CudaVersion(12, 8))
    assert [(gpu.index, gpu.compute_capability) for gpu in host.gpus] == [
        (0, ComputeCapability(12, 0)),
        (1, ComputeCapability(12, 0)),
    ]
    assert host.libc == ("glibc", (2, 35))
    assert host.origin["driver"] == "facts"
    assert environment["tools"] == {"cc": None}
    assert environment["errors"] == ["text of what was printed"]
    assert notes.heard == []


def test_absent_is_unknown_and_empty_is_none() -> None:
    unknown, _ = parse_facts({"host": {"driver": "580.65.06", "python": None}})
    none, _ = parse_facts({"schema": 1, "host": {"gpus": []}})
    assert (unknown.gpus_known, unknown.os, unknown.python) == (False, None, None)
    assert (none.gpus_known, none.gpus) == (True, ())


def test_facts_come_from_standard_input_too() -> None:
    host, _ = read_facts("-", stdin=io.StringIO('{"host": {"machine": "AMD64"}}'))
    assert host.machine == "x86_64"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("glibc 2.35", ("glibc", (2, 35))),
        ("glibc-2.17", ("glibc", (2, 17))),
        ("musl 1.2.4", ("musl", (1, 2))),
        ("musl", ("musl", (1, 2))),
    ],
)
def test_forms_of_the_c_library(text: str, expected: object) -> None:
    assert parse_facts({"host": {"libc": text}})[0].libc == expected


def test_unknown_keys_are_noted_and_ignored() -> None:
    notes = Notes()
    parse_facts({"schema": 1, "host": {"gpus": [{"name": "A100", "colour": "green"}]}, "more": 1}, reporter=notes)
    assert [level for level, _ in notes.heard] == ["note", "note"]
    assert any("host.gpus[0].colour" in text for _, text in notes.heard)


def test_every_fault_is_listed_with_its_path() -> None:
    document = {
        "schema": 1,
        "host": {
            "os": "Ubuntu",
            "driver": 570,
            "libc": "2.35",
            "gpus": [{"compute_capability": "twelve"}, {"count": 0, "name": "A100"}, "A100", {}],
            "wsl": "no",
            "python": "2.7",
            "container": {"kind": 1},
        },
        "environment": {"packages": {"torch": 2}, "errors": "text", "variables": []},
    }
    with pytest.raises(UsageError) as caught:
        parse_facts(document, name="facts.json")
    assert caught.value.code == "facts-invalid"
    assert {fault["path"] for fault in caught.value.details["faults"]} == {
        "host.os",
        "host.driver",
        "host.libc",
        "host.gpus[0].compute_capability",
        "host.gpus[1].count",
        "host.gpus[2]",
        "host.gpus[3]",
        "host.wsl",
        "host.python",
        "host.container.kind",
        "environment.packages.torch",
        "environment.errors",
        "environment.variables",
    }


@pytest.mark.parametrize("document", [[], "text", 3, {"host": []}, {"schema": "1"}, {"schema": True}, {"schema": 0}])
def test_documents_of_another_shape_are_refused(document: Any) -> None:
    with pytest.raises(UsageError) as caught:
        parse_facts(document)
    assert caught.value.code == "facts-invalid"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "facts-not-json"),
        ("", "facts-not-json"),
        ('{"schema": 2}', "facts-newer-schema"),
        ("[" * 100000, "facts-not-json"),
    ],
)
def test_files_that_are_no_facts(tmp_path: Path, text: str, code: str) -> None:
    path = tmp_path / "facts.json"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_facts(path)
    assert caught.value.code == code
    assert caught.value.hint


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_facts(tmp_path / "none.json")
    assert caught.value.code == "facts-not-found"
