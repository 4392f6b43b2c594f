"""The faithful indexes are what they claim: the same over HTTP as without, with the PyTorch index's habits, and usable by uv."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cudalock.builds import architectures_in
from cudalock.compat.model import Policy
from cudalock.index import IndexClient, IndexSettings
from cudalock.index.model import IndexFile, PageRef
from cudalock.requirements.model import AskedRequirement, Request
from cudalock.resolve import ResolveOptions, resolve
from cudalock.target import TargetOptions, build_target
from faithful.data import FaithfulData
from faithful.reader import FaithfulReader
from faithful.serve import FaithfulIndexes


@pytest.fixture(scope="module")
def indexes() -> FaithfulIndexes:
    return FaithfulIndexes()


@pytest.fixture
def client(indexes: FaithfulIndexes) -> Iterator[IndexClient]:
    indexes.log.clear()
    settings = IndexSettings(main_url="https://main.example/simple/", retries=0)
    with IndexClient(settings, environ={}, transport=httpx.WSGITransport(app=indexes)) as ready:
        yield ready


def files(
    client: IndexClient | FaithfulReader, index: str, project: str, label: str | None = None
) -> dict[str, IndexFile]:
    return {file.filename: file for file in client.page(PageRef(index, canonicalize_name(project), label)).files}


@pytest.mark.parametrize(
    ("index", "project", "label"),
    [
        ("main", "torch", None), ("main", "nvidia-nccl-cu12", None), ("main", "flash-attn", None),
        ("pytorch", "torch", "cu126"), ("pytorch", "torch", "cu118"), ("pytorch", "torchvision", "cu128"),
        ("pytorch", "torch", None), ("pytorch", "triton", "cu130"), ("pytorch", "no-such-project", "cu126"),
    ],
)  # fmt: skip
def test_http_and_direct_reader_say_the_same(client: IndexClient, index: str, project: str, label: str | None) -> None:
    ref = PageRef(index, canonicalize_name(project), label)
    direct, over_http = FaithfulReader().page(ref), client.page(ref)
    assert over_http.found == direct.found
    assert {(f.filename, f.url, f.sha256, f.upload_time, f.requires_python) for f in over_http.files} == {
        (f.filename, f.url, f.sha256, f.upload_time, f.requires_python) for f in direct.files
    }


def test_metadata_is_the_same_by_sidecar_and_from_the_wheel(client: IndexClient) -> None:
    names = {
        "torch-2.11.0+cu128-cp312-cp312-manylinux_2_28_x86_64.whl": True,
        "torch-2.2.0+cu118-cp311-cp311-linux_x86_64.whl": False,
    }
    for name, announced in names.items():
        label = name.split("+")[1].split("-")[0]
        over_http, direct = (
            files(client, "pytorch", "torch", label)[name],
            files(FaithfulReader(), "pytorch", "torch", label)[name],
        )
        assert (over_http.metadata is not None) == announced
        assert client.metadata(over_http) == FaithfulReader().metadata(direct)


def test_a_sidecar_that_is_not_what_was_announced_gives_way_to_the_wheel(
    client: IndexClient, indexes: FaithfulIndexes
) -> None:
    file = files(client, "pytorch", "torchaudio", "cu128")[
        "torchaudio-2.11.0+cu128-cp310-cp310-manylinux_2_28_x86_64.whl"
    ]
    assert client.metadata(file).requires == ()
    paths = [asked.path for asked in indexes.log]
    assert any(path.endswith(".whl.metadata") for path in paths)
    assert any(path.endswith(".whl") for path in paths)


def test_quirks_are_there() -> None:
    reader = FaithfulReader()
    torch = files(reader, "pytorch", "torch", "cu126")
    assert {file.sha256 is None for file in torch.values()} == {True, False}
    hosts = {file.url.split("/")[2] for file in torch.values()}
    assert hosts == {"download.pytorch.org", "download-r2.pytorch.org"}
    assert all("%2B" in file.url for name, file in torch.items() if "+" in name)
    root = {name for name in files(reader, "pytorch", "triton", "cu126") if name.startswith("triton-3.6.0")}
    assert root and root <= set(files(reader, "pytorch", "triton", "cu130")), "root files are on every label's page"
    bare = "torchvision-0.24.0-cp312-cp312-manylinux_2_28_aarch64.whl"
    hashes = {files(reader, "pytorch", "torchvision", label)[bare].sha256 for label in ("cu126", "cu128", "cu130")}
    assert len(hashes | {files(reader, "main", "torchvision")[bare].sha256}) == 4, "one name, four different files"
    assert not reader.page(PageRef("pytorch", canonicalize_name("cuda-pathfinder"), "cu134")).found
    assert files(reader, "pytorch", "numpy", "cu126") and files(reader, "pytorch", "markupsafe", "cu118"), (
        "foreign projects"
    )


def test_what_torch_reports_lies_in_the_wheel(client: IndexClient) -> None:
    file = files(client, "pytorch", "torch", "cu118")["torch-2.7.1+cu118-cp311-cp311-manylinux_2_28_x86_64.whl"]
    with client.open(file) as stream:
        found = architectures_in(stream)
    assert {str(architecture) for architecture in found} == {
        "sm_37", "sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90",
    }  # fmt: skip


def test_every_made_up_file_names_its_source() -> None:
    data = FaithfulData.load()
    made = [row for pages in data.pytorch.values() for rows in pages.values() for row in rows if row.assumed]
    recorded = [row for pages in data.pytorch.values() for rows in pages.values() for row in rows if row.recorded]
    assert {row.version for row in made} >= {"2.14.1+cu126", "2.15.0+cu130", "2.12.1+cu132", "2.3.1+cu118"}
    assert not {row.path for row in made} & {row.path for row in recorded}
    assert len(recorded) > 2500


def test_every_requirement_can_be_met_by_the_main_index() -> None:
    data = FaithfulData.load()
    versions = {project: {row.version for row in rows} for project, rows in data.main.items()}
    missing = {
        f"{entry.name}: {text}"
        for entry in data.metadata
        for text in entry.requires
        if not (requirement := Requirement(text)).marker or "extra" not in str(requirement.marker)
        if not any(
            requirement.specifier.contains(version, prereleases=True)
            for version in versions.get(canonicalize_name(requirement.name), ())
        )
    }
    assert not missing


def test_the_real_client_resolves_and_asks_the_pytorch_index_for_nothing_foreign(
    client: IndexClient, indexes: FaithfulIndexes
) -> None:
    target = build_target(TargetOptions(gpus=("V100",), driver="580.95.05", python="3.12", platform="linux-x86_64"))
    asked = AskedRequirement(requirement=Requirement("torch"), origin="argument")
    resolution = resolve(Request(requirements=(asked,)), target, client, policy=Policy(), options=ResolveOptions())
    assert resolution.triple is not None
    assert str(resolution.triple.torch) == "2.14.1+cu126"
    family = {
        "torch",
        "torchvision",
        "torchaudio",
        "torchcodec",
        "torchao",
        "xformers",
        "triton",
        "pytorch-triton",
        None,
    }
    assert {entry.project for entry in indexes.log if entry.index == "pytorch"} <= family


@pytest.mark.slow
def test_uv_finds_the_same_closure_of_the_main_index() -> None:
    indexes = FaithfulIndexes()
    command = [
        str(Path(sys.executable).with_name("uv")), "pip", "compile", "-", "--no-cache", "--no-header", "--no-annotate", "--quiet",
        "--python-version", "3.12", "--python-platform", "x86_64-manylinux_2_28", "--no-python-downloads",
    ]  # fmt: skip
    with indexes.serve() as base:
        done = subprocess.run(
            [*command, "--index-url", f"{base}/simple/"],
            input="torch==2.15.0\n",
            capture_output=True,
            text=True,
            check=True,
        )
    pins = dict(line.split("==") for line in done.stdout.split())
    target = build_target(TargetOptions(gpus=("H100",), driver="610.43.02", python="3.12", platform="linux-x86_64"))
    asked = AskedRequirement(requirement=Requirement("torch==2.15.0"), origin="argument")
    options = ResolveOptions(pytorch="never")
    resolution = resolve(Request(requirements=(asked,)), target, FaithfulReader(), policy=Policy(), options=options)
    assert {str(pin.name): str(pin.version) for pin in resolution.pins} == pins
