"""The command line as a user runs it: in a folder of its own, against an index on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cudalock.cli.main import run
from support.fake_index import FakeIndex

LIBTORCH = "torch/lib/libtorch_python.so"


@dataclass(frozen=True)
class Outcome:
    """What a command line gave: exit status and both streams."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """stdout as the one JSON object that it must be."""
        document: dict[str, Any] = json.loads(self.out)
        assert document["schema"] == 1
        return document

    @property
    def code(self) -> str:
        """The code of the error."""
        code: str = self.json["error"]["code"]
        assert self.json["error"]["message"]
        return code


Cudalock = Callable[..., Outcome]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of the command."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def cudalock(folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cudalock:
    """Runs a command line in ``folder``; keyword arguments are environment variables."""

    def call(*arguments: str | Path, **environ: str) -> Outcome:
        assert Path.cwd() == folder
        capfd.readouterr()
        with monkeypatch.context() as patch:
            for name, value in environ.items():
                patch.setenv(name, value)
            status = run([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return Outcome(status, out, err)

    return call


def torch_files(architectures: str) -> Mapping[str, bytes]:
    """The part of a torch wheel that says which GPUs it holds code for, amid other bytes."""
    return {
        "torch/__init__.py": b"",
        LIBTORCH: b"\x7fELF" + b"\x00" * 500 + architectures.encode() + b"\x00" + b"\x01\x02" * 300,
    }


@pytest.fixture
def index(fake_index: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeIndex]:
    """A served index with a plain project, a torch that the tables know, and one that they don't know."""
    fake_index.add_wheel("alpha", "1.0", requires=["beta>=1"])
    fake_index.add_wheel("alpha", "1.1", requires=["beta>=1"])
    fake_index.add_wheel("beta", "1.0")
    fake_index.add_wheel("beta", "2.0")
    fake_index.add_wheel(
        "torch",
        "99.0",
        python_tag="cp312",
        abi="cp312",
        platform="manylinux_2_28_x86_64",
        files=torch_files("sm_75 sm_80 sm_90 sm_120"),
        requires=["beta", 'cuda-toolkit==13.0.2; platform_system == "Linux"', "triton==3.6.0"],
    )
    fake_index.add_wheel("cuda-toolkit", "13.0.2")
    fake_index.add_wheel(
        "triton", "3.6.0", python_tag="cp312", abi="cp312", platform="manylinux_2_27_x86_64.manylinux_2_28_x86_64"
    )
    with fake_index.serve():
        monkeypatch.setenv("CUDALOCK_INDEX_URL", fake_index.main_url)
        monkeypatch.setenv("CUDALOCK_PYTORCH_INDEX_URL", fake_index.pytorch_url)
        yield fake_index
