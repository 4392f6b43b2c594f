from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from cudalock.builds.inspection import inspect_file, inspect_venv, inspect_wheel
from cudalock.errors import AnswerIsNo, UsageError
from cudalock.index import IndexClient, IndexSettings
from cudalock.index.model import PageRef
from support.fake_index import FakeIndex
from support.torch_wheels import MemoryReader, index_file, torch_library, torch_wheel, triton_wheel
from support.wheels import make_sdist, make_wheel

TRUE_CODE = "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
REQUIRES = [
    'nvidia-cuda-runtime-cu12==12.8.90; platform_system == "Linux" and platform_machine == "x86_64"',
    'triton==3.5.1; platform_system == "Linux"',
    'pywin32; platform_system == "Windows"',
    'opt-einsum; extra == "opt-einsum"',
]


def test_a_wheel_of_torch(tmp_path: Path) -> None:
    filename, content = torch_wheel("2.9.1", TRUE_CODE, requires=REQUIRES)
    (tmp_path / filename).write_bytes(content)
    found = inspect_wheel(tmp_path / filename)
    data = json.loads(json.dumps(found.to_json()))
    assert (data["name"], data["version"], data["cuda"], data["size"]) == ("torch", "2.9.1", "12.8", len(content))
    assert data["architectures"] == TRUE_CODE.split()
    assert data["requires"] == ["nvidia-cuda-runtime-cu12==12.8.90", "triton==3.5.1"]
    assert data["tags"] == ["cp312-cp312-manylinux_2_28_x86_64"]
    assert data["table_agrees"] is True
    assert data["triton"].startswith("triton==3.5.1")


def test_tables_that_are_wrong_are_found_out(tmp_path: Path) -> None:
    filename, content = torch_wheel("2.9.1", "sm_90 sm_100", requires=REQUIRES)
    (tmp_path / filename).write_bytes(content)
    assert inspect_wheel(tmp_path / filename).table_agrees is False
    unknown, content = torch_wheel("9.9.1+cu128", "sm_90 sm_100")
    (tmp_path / unknown).write_bytes(content)
    assert inspect_wheel(tmp_path / unknown).table_agrees is None


def test_a_wheel_of_triton(tmp_path: Path) -> None:
    selection = "ptxas_blackwell if arch >= 100 else ptxas"
    filename, content = triton_wheel("3.6.0", "12.8.93", "12.9.86", selection=selection)
    (tmp_path / filename).write_bytes(content)
    found = inspect_wheel(tmp_path / filename)
    assert found.assemblers == {"ptxas": "12.8.93", "ptxas-blackwell": "12.9.86"}
    assert (found.blackwell_from, found.table_agrees, found.cuda) == (100, True, None)


def test_any_other_wheel(tmp_path: Path) -> None:
    filename, content = make_wheel("torchvision", "0.24.1+cu128", requires=["torch==2.9.1"])
    (tmp_path / filename).write_bytes(content)
    found = inspect_wheel(tmp_path / filename)
    assert (str(found.cuda), found.architectures, found.requires) == ("12.8", (), ("torch==2.9.1",))


def test_what_cannot_be_inspected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        inspect_wheel(tmp_path / "torch-2.9.1-cp312-cp312-manylinux_2_28_x86_64.whl")
    odd = tmp_path / "odd.whl"
    odd.write_bytes(make_wheel("demo", "1.0")[1])
    with pytest.raises(UsageError) as caught:
        inspect_wheel(odd)
    assert caught.value.code == "wheel-name-invalid"
    empty = tmp_path / "demo-1.0-py3-none-any.whl"
    buffer = io.BytesIO()
    zipfile.ZipFile(buffer, "w").close()
    empty.write_bytes(buffer.getvalue())
    with pytest.raises(AnswerIsNo) as no_metadata:
        inspect_wheel(empty)
    assert no_metadata.value.code == "wheel-unreadable"
    with pytest.raises(UsageError):
        inspect_file(index_file(make_sdist("torch", "2.9.1")[0]), MemoryReader({}))


def test_far_away_in_few_requests(fake_index: FakeIndex, tmp_path: Path) -> None:
    library = torch_library(TRUE_CODE, at=3_000_000, size=9_000_000)
    filename, content = torch_wheel("2.9.1", None, library=library, requires=REQUIRES)
    fake_index.add(filename, content)
    with (
        fake_index.serve(),
        IndexClient(IndexSettings(main_url=fake_index.main_url, pytorch_url=fake_index.pytorch_url)) as client,
    ):
        (file,) = client.page(PageRef("main", index_file(filename).page.project)).files
        found = inspect_file(file, client)
    assert [str(one) for one in found.architectures] == TRUE_CODE.split()
    asked = [request for request in fake_index.requests if filename in request.path]
    assert len(asked) <= 4
    assert found.requests == len(asked)
    assert found.bytes_read is not None
    assert 3_000_000 < found.bytes_read < 4_500_000


def install(site: Path, filename: str, content: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        wheel.extractall(site)
    assert filename.endswith(".whl")


def test_an_environment(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    site.mkdir(parents=True)
    (tmp_path / "pyvenv.cfg").write_text("home = nowhere\n")
    install(site, *torch_wheel("2.11.0", "sm_75 sm_80", requires=REQUIRES))
    (site / "torch" / "version.py").write_text(
        "__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\nhip = None\n"
    )
    install(site, *triton_wheel("3.6.0", "12.8.93", "12.9.86", selection="ptxas_blackwell if arch >= 100"))
    install(site, *make_wheel("nvidia-cublas-cu12", "12.8.4.1"))
    install(site, *make_wheel("requests", "2.0"))
    torch, triton, cublas = inspect_venv(tmp_path)
    assert [one.name for one in (torch, triton, cublas)] == ["torch", "triton", "nvidia-cublas-cu12"]
    assert (str(torch.version), str(torch.cuda)) == ("2.11.0", "13.0")  # torch's own word, not its metadata
    assert [str(one) for one in torch.architectures] == ["sm_75", "sm_80"]
    assert torch.table_agrees is False
    assert triton.assemblers == {"ptxas": "12.8.93", "ptxas-blackwell": "12.9.86"}
    assert triton.table_agrees is True


def test_a_damaged_environment(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    site.mkdir(parents=True)
    (tmp_path / "pyvenv.cfg").write_text("")
    install(site, *make_wheel("triton", "3.6.0"))
    (triton,) = inspect_venv(tmp_path)
    assert (triton.assemblers, triton.blackwell_from) == ({}, None)
    install(site, *make_wheel("torch", "2.9.1"))
    (site / "torch-2.9.1.dist-info" / "METADATA").write_text("Name: torch\nVersion: odd one\n")
    with pytest.raises(UsageError) as caught:
        inspect_venv(tmp_path)
    assert caught.value.code == "venv-invalid"


def test_no_environment(tmp_path: Path) -> None:
    for make in (lambda: None, lambda: (tmp_path / "pyvenv.cfg").write_text("")):
        make()
        with pytest.raises(UsageError) as caught:
            inspect_venv(tmp_path)
        assert caught.value.code == "venv-invalid"


@pytest.mark.live
@pytest.mark.enable_socket
@pytest.mark.parametrize(
    ("version", "cuda", "code"),
    [
        ("2.4.1", "12.1", "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"),
        ("2.9.1", "12.8", "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"),
        ("2.11.0", "13.0", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"),
        ("2.15.0", "13.2", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"),
    ],
)
def test_live(version: str, cuda: str, code: str) -> None:
    """Measured in December 2026: 2-3 requests and 7.5-8.7 MB each."""
    with IndexClient(IndexSettings()) as client:
        page = client.page(PageRef("main", index_file("torch-1.whl").page.project))
        ending = "x86_64.whl"
        (file,) = (
            one
            for one in page.files
            if one.filename.startswith(f"torch-{version}-cp312-cp312-manylinux") and one.filename.endswith(ending)
        )
        found = inspect_file(file, client)
    assert (str(found.cuda), [str(one) for one in found.architectures]) == (cuda, code.split())
    assert found.requests is not None
    assert found.bytes_read is not None
    assert found.requests <= 4
    assert found.bytes_read <= 13_000_000
